"""Weights whose squares overflow are named, by every door; nothing leaks a RuntimeWarning."""

import warnings

import numpy as np
import pytest

import spikepool as sp

MODEL = sp.SequenceModel(20, 30, 40, np.eye(3), 1.0)
CORPUS = (np.arange(15).reshape(5, 3) % 8, 8)
DOORS = {
    "predict": MODEL.predict,
    "exact": lambda w: MODEL.predict(w, exact=True, rng=0),
    "simulate": lambda w: MODEL.simulate(w, trials=2, rng=0),
    "ridge": MODEL.ridge_accuracy,
    "fluctuations": MODEL.fluctuations,
    "gains": lambda w: sp.gains(w, np.eye(3)),
    "tokens": lambda w: sp.predict_tokens(*CORPUS, w, np.array([1, -1] * 4), 1.0, 4),
    "a row for each sequence": lambda w: MODEL.predict(np.tile(w, (40, 1)), exact=True, rng=0),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("size", [1e51, 1e200, 1e308])
def test_weights_too_large_are_named(door, size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(sp.WeightsError, match="at most"):
            DOORS[door]([size, -size, 1.0])


def test_gaps_between_close_atoms_leak_no_warning():
    """Next to a pole both sums of the gap criterion are infinite."""
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            base = np.exp(rng.normal(0, 1, 3))
            values = (base[:, None] * (1 + 1e-13 * rng.standard_normal((3, 4)))).ravel()
            pieces = sp.GeneralizedLaw([1.0, 2.0], sp.AtomicLaw(np.abs(values)), 3.0).intervals()
            assert np.all(np.diff(pieces.ravel()) > 0)
