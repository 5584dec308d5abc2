"""The closed form over arrays: every number of single predictions, and the gradient by differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import spikepool as sp
from spikepool.errors import DomainError
from spikepool.theory.closed_form import predict_arrays
from spikepool.theory.spikes import alignment_slope, total_alignment
from spikepool.theory.uncentred import leading_threshold

D = 300
R = sp.prefix_correlation(10, 3)


@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("centered", [True, False])
def test_every_number_of_single_predictions(table, centered):
    weights = [sp.mean_weights(10), sp.causal_weights(10), sp.optimal_weights(R)]
    for w, mu, V, N in itertools.product(weights, (0.0, 0.6, 1.1, 2.5), (200, 600), (150, 900)):
        model = sp.SequenceModel(d=D, V=V, N=N, R=R, mu=mu, table=table, centered=centered)
        expected = model.predict(w)
        alpha, kappa = model.gains(w)
        found = predict_arrays(
            mu=mu, alpha=alpha, kappa=kappa, delta=D / V, gamma=D / N, centered=centered, table=table
        )
        for name in ("alignment", "eigenvalue", "edge", "detectable", "mu_population", "mu_sample"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12), name
        signal = next((o for o in expected.outliers if o.kind in ("signal", "classes")), None)
        assert (signal is not None and signal.kind == "signal") == expected.detectable
        if signal is not None:
            assert found.signal_eigenvalue == pytest.approx(signal.eigenvalue, rel=1e-12)
            assert found.signal_alignment == pytest.approx(signal.alignment, rel=1e-12)
        else:
            assert np.isnan(found.signal_eigenvalue)
        assert found.mu_leading == pytest.approx(leading_threshold(model, alpha, kappa), rel=1e-12)


def test_shapes_broadcast():
    found = predict_arrays(mu=np.linspace(0, 3, 5)[:, None], alpha=[0.2, 0.5, 1.0], kappa=0.1, delta=0.6, gamma=0.5)
    assert all(np.shape(values) == (5, 3) for values in found)
    assert predict_arrays(mu=1.0, alpha=0.0, kappa=0.1, delta=0.6, gamma=0.5).mu_sample == np.inf


def test_what_is_refused():
    with pytest.raises(DomainError, match="kappa must be above 0"):
        predict_arrays(mu=1.0, alpha=0.2, kappa=0.0, delta=0.5, gamma=0.5)
    with pytest.raises(DomainError, match="mu must be at least 0"):
        predict_arrays(mu=-1.0, alpha=0.2, kappa=0.1, delta=0.5, gamma=0.5)


def test_slope_in_the_excess():
    x = np.array([1.5, 2.0, 5.0, 40.0])
    numeric = (total_alignment(x + 1e-6, 0.6, 0.5) - total_alignment(x - 1e-6, 0.6, 0.5)) / 2e-6
    np.testing.assert_allclose(alignment_slope(x, 0.6, 0.5), numeric, rtol=1e-6)
    assert alignment_slope(0.3, 0.6, 0.5) == 0


def test_arguments_are_given_by_name():
    with pytest.raises(TypeError):
        predict_arrays(1.0, 0.2, 0.1, 0.5, 0.5)
