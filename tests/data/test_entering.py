"""Arrays of every library enter through one function; sequences of different lengths become tokens and a mask."""

import sys
import types

import numpy as np
import pandas as pd
import pytest

import spikepool as sp
from spikepool.data.in_memory import DeviceNote, as_array, padded
from spikepool.errors import InvalidInputError, ShapeError

RNG = np.random.default_rng(0)
N, T, D = 90, 5, 8
Y = np.arange(N) % 2
TOKENS = RNG.normal(size=(N, T, D)).astype(np.float32) + 0.8 * (2 * Y - 1)[:, None, None]
FEATURES = TOKENS.mean(axis=1)
LENGTHS = 1 + np.arange(N) % T


class FakeTensor:
    """What the library uses of a torch tensor; `bits` are those of bfloat16."""

    def __init__(self, values, dtype="torch.float32", device="cpu", attached=True):
        self._values, self.dtype, self._attached = values, dtype, attached
        self.device = types.SimpleNamespace(type=device)
        self.shape = values.shape

    def detach(self):
        return FakeTensor(self._values, self.dtype, self.device.type, attached=False)

    def cpu(self):
        return FakeTensor(self._values, self.dtype, "cpu", self._attached)

    def float(self):
        return FakeTensor(self._values.astype(np.float32), "torch.float32", self.device.type, self._attached)

    def __array__(self, *arguments, **options):
        raise TypeError("can't convert tensor to numpy")

    def __len__(self):
        return len(self._values)

    def numpy(self):
        if self._attached or self.device.type != "cpu" or self.dtype != "torch.float32":
            raise TypeError("can't convert tensor to numpy")
        return self._values


FakeTensor.__module__ = "torch"


def tensors():
    yield "float32 that requires grad", FakeTensor
    yield "bfloat16", lambda x: FakeTensor(x, "torch.bfloat16")
    yield "8-bit float", lambda x: FakeTensor(x, "torch.float8_e4m3fnuz")
    torch = sys.modules.get("torch")
    if torch is not None:
        yield "torch", lambda x: torch.tensor(x, requires_grad=True)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "make"), list(tensors()))
@pytest.mark.filterwarnings("ignore")
def test_tensors_are_read_by_every_door(name, make):
    assert sp.diagnose(make(FEATURES)).verdict == sp.diagnose(FEATURES).verdict
    found, expected = (sp.forecast(C, Y, n=[200]).accuracy for C in (make(FEATURES), FEATURES))
    np.testing.assert_allclose(found, expected, rtol=1e-7)  # the memory of a copy may be aligned differently
    pooled = sp.SpectralPooling("mean").fit(make(TOKENS)).transform(make(TOKENS))
    np.testing.assert_allclose(pooled, TOKENS.mean(axis=1), rtol=1e-5, atol=1e-6)
    classifier = sp.LearnedPoolingClassifier(pooling="mean").fit(make(TOKENS), Y)
    assert classifier.score(make(TOKENS), Y) > 0.8
    E = RNG.normal(size=(300, 40)).astype(np.float32)
    assert sp.TableSpectrum(null_draws=0).fit(make(E)).n_outliers_ == 0


def test_a_tensor_elsewhere_is_copied_with_a_note():
    with pytest.warns(DeviceNote, match="copied from cuda"):
        assert as_array(FakeTensor(FEATURES, device="cuda")).shape == FEATURES.shape


def test_data_frames_lists_and_other_arrays():
    assert as_array(pd.DataFrame(FEATURES)).shape == FEATURES.shape
    assert as_array(FEATURES.tolist()).shape == FEATURES.shape


@pytest.mark.parametrize("bad", [{"a": 1}, {1, 2}, (x for x in FEATURES), None, 3.5, "absent.npy", object()])
def test_what_is_no_array_is_refused_by_name(bad):
    for door in (
        sp.diagnose,
        lambda C: sp.forecast(C, Y),
        sp.SpectralPooling().fit,
        lambda X: sp.LearnedPoolingClassifier().fit(X, Y),
        sp.TableSpectrum().fit,
        lambda X: sp.report(X, Y),
    ):
        with pytest.raises(InvalidInputError):
            door(bad)


@pytest.mark.parametrize("labels", [["a", 1] * (N // 2), {"a": 1}, {1, 2}, (y for y in Y), None, 5])
def test_labels_that_are_none_are_refused_by_name(labels):
    for door in (
        lambda y: sp.forecast(FEATURES, y),
        lambda y: sp.report(TOKENS, y) if y is not None else sp.forecast(FEATURES, y),
    ):
        with pytest.raises(InvalidInputError):
            door(labels)


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [list, lambda rows: np.array([*rows, None], dtype=object)[:-1], tuple])
@pytest.mark.filterwarnings("ignore")
def test_sequences_of_different_lengths_are_padded_and_masked(wrap):
    ragged = wrap([row[:length] for row, length in zip(TOKENS, LENGTHS, strict=True)])
    X, mask = padded(ragged)
    np.testing.assert_array_equal(mask, np.arange(T) < LENGTHS[:, None])
    np.testing.assert_array_equal(X[mask], TOKENS[mask])
    means = np.array([row[:length].mean(axis=0) for row, length in zip(TOKENS, LENGTHS, strict=True)])
    np.testing.assert_allclose(sp.SpectralPooling("mean").fit(ragged).transform(ragged), means, rtol=1e-5, atol=1e-6)
    fitted = sp.LearnedPoolingClassifier(pooling="mean").fit(ragged, Y)
    np.testing.assert_array_equal(fitted.predict(ragged), fitted.predict(X, mask=mask))
    assert sp.report(ragged, Y).trust.result is not None


def test_masks_of_sequences_of_different_lengths():
    ragged = [row[:length] for row, length in zip(TOKENS, LENGTHS, strict=True)]
    hidden = [np.arange(length) > 0 if length > 1 else np.ones(1, bool) for length in LENGTHS]
    _, mask = padded(ragged, hidden)
    assert mask.sum() == sum(m.sum() for m in hidden)
    with pytest.raises(ShapeError):
        padded(ragged, [m[:-1] for m in hidden])
    with pytest.raises(ShapeError):
        padded([*ragged[:3], np.ones((2, D + 1))])
    tensors = [FakeTensor(row, "torch.bfloat16") for row in ragged]
    np.testing.assert_allclose(padded(tensors)[0], padded(ragged)[0])
