"""Identities that the prediction of every problem of the table must satisfy, without any simulation."""

import mpmath as mp
import numpy as np
import pytest
from problems import BY_NAME
from references import paper_alignment

from spikepool.theory import spikes


@pytest.fixture(params=BY_NAME)
def problem(request):
    return BY_NAME[request.param]


@pytest.fixture
def prediction(problem):
    return problem.model.predict(problem.weights)


def test_bulk_law(problem, prediction):
    law, model = prediction.bulk, problem.model
    largest = max(model.delta, model.gamma)
    assert law.atom == pytest.approx(max(0.0, 1 - 1 / largest) if largest > 1 else 0.0)
    assert prediction.edge == pytest.approx(law.support()[1], rel=1e-9)
    assert law.cdf(prediction.edge) == pytest.approx(1.0, abs=1e-8)
    assert law.mean() == pytest.approx(prediction.kappa, rel=1e-10)
    assert law.moment(2) == pytest.approx(prediction.kappa**2 * (1 + model.delta + model.gamma), rel=1e-10)


def test_place_is_as_named(problem, prediction):
    relative = problem.model.mu / prediction.mu_sample if prediction.mu_sample else np.inf
    if problem.place == "critical":
        assert relative == pytest.approx(1.0)
        assert prediction.alignment == pytest.approx(0.0, abs=1e-6)
    elif problem.place == "edge":
        assert relative < 1
        assert prediction.outliers == ()
        assert prediction.eigenvalue == prediction.edge
    else:
        assert relative > 1
        assert prediction.detectable
        assert prediction.outliers[0].kind == ("mean" if problem.place == "second" else "signal")


def test_outliers(problem, prediction):
    model = problem.model
    for outlier in prediction.outliers:
        assert outlier.eigenvalue >= prediction.edge
        assert 0 <= outlier.alignment <= outlier.population_alignment <= 1
        if problem.place == "critical":
            assert outlier.eigenvalue == pytest.approx(prediction.edge, rel=1e-12)
            continue
        theta = model.signal_strength(problem.weights) if outlier.kind == "signal" else model.mean_strength
        x = spikes.excess_from_eigenvalue(outlier.eigenvalue, model.delta, model.gamma, prediction.kappa)
        assert x == pytest.approx(theta / prediction.kappa - model.delta, rel=1e-9)


def test_signal_outlier_is_the_papers_implicit_route(problem, prediction):
    """The paper's Theorems 2 to 4 in 40 digits, with theta and purity of a sampled table put in."""
    if prediction.signal is None or problem.place == "critical":
        assert problem.place in ("edge", "critical")
        return
    model = problem.model
    theta = model.signal_strength(problem.weights)
    value, alignment = paper_alignment(theta, mp.mpf(model.d) / model.V, mp.mpf(model.d) / model.N, prediction.kappa)
    assert prediction.signal.eigenvalue == pytest.approx(float(value), rel=1e-10)
    assert prediction.signal.alignment == pytest.approx(float(alignment) * model.purity, rel=1e-9)


def test_limits_do_not_depend_on_the_size(problem, prediction):
    doubled = problem.at(2 * problem.model.d)
    again = doubled.model.predict(doubled.weights)
    assert again.eigenvalue == pytest.approx(prediction.eigenvalue, rel=1e-9)
    assert again.alignment == pytest.approx(prediction.alignment, abs=1e-7)
    assert all(b < a for a, b in zip(problem.bias(), doubled.bias(), strict=True))
