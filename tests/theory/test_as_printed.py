"""The printed formulas: equal to the closed form where they hold, and to the paper's own numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spikepool.errors import DomainError, InvalidInputError, NonFiniteError
from spikepool.laws.free_product import FreeProductLaw
from spikepool.theory import spikes
from spikepool.theory.as_printed import (
    published_alignment,
    published_edge,
    published_outlier,
    published_thresholds,
)

RATIO = st.floats(0.05, 4.0)
GAIN = st.floats(0.05, 5.0)


@settings(max_examples=150, deadline=None)
@given(RATIO, RATIO, GAIN, GAIN, st.floats(1.01, 30.0))
def test_the_paper_route_gives_the_closed_form(delta, gamma, alpha, kappa, distance):
    """Cubic, companion and implicit derivative, against rational functions of one variable."""
    x = distance * float(spikes.critical_excess(delta, gamma))
    mu = np.sqrt(kappa * (x + delta) / alpha)
    assert published_edge(delta, gamma, kappa) == pytest.approx(spikes.bulk_edge(delta, gamma, kappa), rel=1e-9)
    critical = np.sqrt(kappa * spikes.sample_threshold(delta, gamma) / alpha)
    thresholds = published_thresholds(alpha, kappa, delta, gamma)
    assert thresholds.sample == pytest.approx(critical, rel=1e-6)
    assert thresholds.population == pytest.approx(np.sqrt(kappa * (delta + np.sqrt(delta)) / alpha), rel=1e-12)
    assert thresholds.population < thresholds.sample
    outlier = published_outlier(mu, alpha, kappa, delta, gamma)
    assert outlier == pytest.approx(spikes.sample_outlier(x, delta, gamma, kappa), rel=1e-8)
    alignment = published_alignment(mu, alpha, kappa, delta, gamma)
    assert alignment == pytest.approx(spikes.total_alignment(x, delta, gamma), abs=1e-7)


@pytest.mark.parametrize(("delta", "gamma", "kappa", "alpha"), [(0.625, 0.5, 0.1, 0.16), (1.5, 2.0, 0.3, 0.5)])
def test_the_smaller_root_solves_the_companion_equation(delta, gamma, kappa, alpha):
    """Theorem 3 defines the outlier by m̲(lambda) = −1/beta: the smaller root does, the larger does not."""
    mu = 3.0
    rho = alpha * mu**2 / kappa
    beta = kappa * rho * (rho - delta + 1) / (rho - delta)
    law = FreeProductLaw(delta, gamma, kappa)

    def companion(z):
        return -(1 - gamma) / z + gamma * law.stieltjes(z).real

    smaller = published_outlier(mu, alpha, kappa, delta, gamma)
    larger = published_outlier(mu, alpha, kappa, delta, gamma, root="larger")
    assert companion(smaller) == pytest.approx(-1 / beta, rel=1e-8)
    assert abs(companion(larger) * beta + 1) > 0.1
    assert larger > smaller > published_edge(delta, gamma, kappa)


def test_numbers_quoted_in_the_paper():
    """Figure 3 of the paper, mean pooling: 1.17 is the smaller root; the printed statement would give 9.41."""
    arguments = (2.5, 0.16, 0.1, 0.625, 0.5)
    assert published_outlier(*arguments) == pytest.approx(1.17, abs=0.005)
    assert published_outlier(*arguments, root="larger") == pytest.approx(9.41, abs=0.005)


def test_infinite_vocabulary_gives_pauls_formula():
    """delta -> 0 at kappa = 1: lambda = beta(1+gamma/(beta−1)) and the overlap of Paul (2007)."""
    delta, gamma, mu = 1e-7, 0.5, 2.0
    beta = 1 + mu**2
    assert published_outlier(mu, 1.0, 1.0, delta, gamma) == pytest.approx(beta * (1 + gamma / (beta - 1)), rel=1e-5)
    overlap = (1 - gamma / (beta - 1) ** 2) / (1 + gamma / (beta - 1))
    assert published_alignment(mu, 1.0, 1.0, delta, gamma) == pytest.approx(overlap, abs=1e-5)


def test_zero_below_the_threshold_and_continuous_above():
    critical = published_thresholds(0.16, 0.1, 0.625, 0.5).sample
    mu = critical * np.array([0.0, 0.5, 0.999999, 1.000001, 1.001])
    values = published_alignment(mu, 0.16, 0.1, 0.625, 0.5)
    assert np.all(values[:3] == 0)
    assert 0 < values[3] < 1e-4 < values[4]
    edge = published_edge(0.625, 0.5, 0.1)
    assert np.all(published_outlier(mu[:3], 0.16, 0.1, 0.625, 0.5) == edge)


def test_broadcasting():
    mu, delta = np.linspace(0, 3, 7), np.array([[0.2], [1.0], [2.0]])
    table = published_alignment(mu, 0.16, 0.1, delta, 0.5)
    assert table.shape == (3, 7)
    assert table[1, 5] == published_alignment(mu[5], 0.16, 0.1, 1.0, 0.5)


def test_the_printed_edge_loses_its_digits_where_the_closed_form_does_not():
    """At gamma = 1e-10 the printed expression divides rounding errors by 12 delta gamma."""
    truth = (1 + np.sqrt(0.5)) ** 2  # Marchenko-Pastur edge, the limit
    assert spikes.bulk_edge(0.5, 1e-10) == pytest.approx(truth, rel=1e-6)
    assert abs(published_edge(0.5, 1e-10) / truth - 1) > 0.1


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: published_edge(0.0, 0.5), DomainError),
        (lambda: published_edge(0.5, -1.0), DomainError),
        (lambda: published_alignment(-1.0, 1.0, 1.0, 0.5, 0.5), DomainError),
        (lambda: published_alignment(np.nan, 1.0, 1.0, 0.5, 0.5), NonFiniteError),
        (lambda: published_thresholds(0.0, 1.0, 0.5, 0.5), DomainError),
        (lambda: published_outlier(1.0, 1.0, 1.0, 0.5, 0.5, root="both"), InvalidInputError),
    ],
)
def test_invalid_input_is_named(call, error):
    with pytest.raises(error):
        call()
