"""Every weight of two checkpoints: against the definition, names that differ, weights that cannot be compared."""

import json

import numpy as np
import pytest

import spikepool as sp
from spikepool.tables.checkpoints import pair_names

safetensors_numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model, and the same after training: one weight moved, one of another shape, one constant, one alone each."""
    folder = tmp_path_factory.mktemp("checkpoints")
    rng = np.random.default_rng(0)

    def noise(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    a = {
        "wte.weight": noise(120, 40) + 4 * np.outer(rng.standard_normal(120), np.eye(40)[0]).astype(np.float32) + 2,
        "h.0.up.weight": noise(40, 90),
        "h.0.key.weight": noise(40, 40),
        "h.0.small.weight": noise(8, 6),
        "h.0.constant.weight": np.ones((50, 40), dtype=np.float32),
        "h.0.bias": noise(40),
        "old.weight": noise(60, 50),
    }
    b = {name: value + np.float32(0.05) * noise(*value.shape) for name, value in a.items() if name != "old.weight"}
    b["h.0.key.weight"] = noise(48, 40)
    b["new.weight"] = noise(30, 30)
    safetensors_numpy.save_file(a, folder / "a.safetensors")
    safetensors_numpy.save_file(b, folder / "b.safetensors")
    return folder, a, b


@pytest.fixture(scope="module")
def found(models):
    folder = models[0]
    return sp.compare_checkpoints(folder / "a.safetensors", folder / "b.safetensors")


def angles(A, B, k):
    """Principal angles of the leading right singular spaces of centred matrices, by scipy."""
    from scipy.linalg import subspace_angles

    spaces = [np.linalg.svd(M - M.mean(axis=0), full_matrices=False)[2][:k].T for M in (A, B)]
    return subspace_angles(*spaces)


def test_against_the_definition(models, found):
    _, a, b = models
    weights = {w.name: w for w in found.weights}
    assert list(weights) == sorted(set(a) & set(b))
    for name in ("wte.weight", "h.0.up.weight", "h.0.small.weight", "h.0.constant.weight", "h.0.bias"):
        A, B = a[name].astype(float), b[name].astype(float)
        assert weights[name].drift == pytest.approx(np.linalg.norm(B - A) / np.linalg.norm(A), rel=1e-12)
        assert weights[name].norm_ratio == pytest.approx(np.linalg.norm(B) / np.linalg.norm(A), rel=1e-12)
    for name in ("wte.weight", "h.0.up.weight"):
        A, B = (m[name].astype(float).T if name == "h.0.up.weight" else m[name].astype(float) for m in (a, b))
        space = weights[name].space
        assert space.k == 10
        expected = angles(A, B, 10)
        assert np.radians(space.largest_angle) == pytest.approx(expected.max(), rel=1e-6)
        assert weights[name].overlap == pytest.approx(np.mean(np.cos(expected) ** 2))
        fits = [sp.TableSpectrum(null_draws=0, repetitions=0).fit(M) for M in (A, B)]
        assert weights[name].outliers == tuple(fit.n_outliers_ for fit in fits)
    assert weights["wte.weight"].outliers == (1, 1)


def test_what_cannot_be_compared_is_said(found):
    weights = {w.name: w for w in found.weights}
    other = weights["h.0.key.weight"]
    assert other.shapes == ((40, 40), (48, 40))
    assert other.drift is None
    assert other.overlap == pytest.approx(0.25, abs=0.15), "unrelated spaces of 10 in 40 coordinates"
    assert weights["h.0.small.weight"].outliers == (None, None)
    assert weights["h.0.small.weight"].space.k == 2
    assert "30 nonzero eigenvalues" in weights["h.0.small.weight"].notes[0]
    assert weights["h.0.constant.weight"].outliers[0] is None
    assert (found.only_first, found.only_second) == (("old.weight",), ("new.weight",))
    text = found.summary()
    for words in ("Only in the first: old.weight", "Only in the second: new.weight", "40 x 40 → 48 x 40"):
        assert words in text
        assert words in found._repr_html_()
    back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [w["name"] for w in back["weights"]] == [w.name for w in found.weights]


def test_a_checkpoint_equals_itself(models):
    path = models[0] / "a.safetensors"
    found = sp.compare_checkpoints(path, path)
    assert found.only_first == found.only_second == ()
    for weight in found.weights:
        assert weight.drift == 0
        assert weight.outliers[0] == weight.outliers[1]
        assert all(o.coordinates == pytest.approx(1) for o in weight.overlaps)


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        (["a", "b"], ["b", "c"], [("b", "b")]),
        (["a.w", "b.w"], ["m.a.w", "m.b.w"], [("a.w", "m.a.w"), ("b.w", "m.b.w")]),
        (["m.x.a", "m.x.b", "head"], ["a", "b", "head"], [("m.x.a", "a"), ("m.x.b", "b"), ("head", "head")]),
        (["one.npy"], ["two.npy"], [("one.npy", "two.npy")]),
        (["a", "b"], ["c", "d"], []),
    ],
)
def test_names_are_paired(first, second, pairs):
    assert pair_names(first, second) == pairs


def test_rows_of_an_embedding_are_matched_by_token(models, tmp_path):
    _, a, _ = models
    order = np.random.default_rng(2).permutation(120)[:100]
    for name, rows in (("first", np.arange(120)), ("second", order)):
        (tmp_path / name).mkdir()
        weight = np.ascontiguousarray(a["wte.weight"][rows])
        safetensors_numpy.save_file({"wte.weight": weight}, tmp_path / name / "model.safetensors")
        (tmp_path / name / "vocab.txt").write_text("\n".join(f"t{i}" for i in rows))
    (weight,) = sp.compare_checkpoints(tmp_path / "first", tmp_path / "second").weights
    assert all(o.tokens == pytest.approx(1, abs=1e-5) for o in weight.overlaps)


def test_bad_checkpoints_are_named(models, tmp_path):
    safetensors_numpy.save_file({"another": np.ones(4, dtype=np.float32)}, tmp_path / "flat.safetensors")
    with pytest.raises(sp.TableFormatError, match="in common"):
        sp.compare_checkpoints(models[0] / "a.safetensors", tmp_path / "flat.safetensors")
    other = {"x": np.ones((4, 4), dtype=np.float32), "y": np.ones((4, 4), dtype=np.float32)}
    safetensors_numpy.save_file(other, tmp_path / "other.safetensors")
    with pytest.raises(sp.TableFormatError, match="in common"):
        sp.compare_checkpoints(models[0] / "a.safetensors", tmp_path / "other.safetensors")


def test_the_picture_shows_every_weight(found):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    drift, angle = found.plot().axes
    assert [label.get_text() for label in drift.get_yticklabels()] == [w.name for w in found.weights]
    assert [bar.get_width() for bar in drift.patches] == [100 * (w.drift or 0) for w in found.weights]
    assert list(angle.lines[0].get_xdata()) == [w.space.largest_angle for w in found.weights if w.space]
