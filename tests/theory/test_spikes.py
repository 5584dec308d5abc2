"""The x-map against the paper's implicit route, its inverse, and its limits."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from references import paper_alignment, paper_edge

import spikepool as sp
from spikepool.theory import spikes

RATIOS = [1e-12, 1e-6, 0.1, 0.625, 1.0, 3.0, 1e3]
ratio = st.one_of(st.just(0.0), st.just(1.0), st.floats(-12, 3).map(lambda e: 10.0**e))


@pytest.mark.parametrize(("delta", "gamma"), list(itertools.product(RATIOS, RATIOS)))
def test_x_map_is_the_papers_implicit_route(delta, gamma):
    kappa = 0.3
    star = spikes.critical_excess(delta, gamma)
    for factor in (1.01, 1.5, 4.0, 100.0):
        x = star * factor
        theta = kappa * (x + delta)
        x = spikes.spike_excess(theta, delta, kappa)  # the x that belongs to the rounded theta
        with mp.workdps(60):
            # feed the paper's route the theta that belongs exactly to x, so that only the formulas are compared
            eigenvalue, alignment = paper_alignment(mp.mpf(kappa) * (mp.mpf(x) + mp.mpf(delta)), delta, gamma, kappa)
        assert spikes.sample_outlier(x, delta, gamma, kappa) == pytest.approx(float(eigenvalue), rel=1e-12)
        assert spikes.total_alignment(x, delta, gamma) == pytest.approx(float(alignment), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("delta", "gamma"), list(itertools.product([0.05, 0.3, 0.625, 1.0, 2.0], repeat=2)))
def test_edge_is_the_papers_where_that_is_stable(delta, gamma):
    assert spikes.bulk_edge(delta, gamma) == pytest.approx(paper_edge(delta, gamma), rel=1e-12)
    assert spikes.bulk_edge(delta, gamma, 0.2) == pytest.approx(sp.FreeProductLaw(delta, gamma, 0.2).support()[1])


def test_edge_survives_where_the_papers_expression_does_not():
    # the limit is the Marchenko-Pastur edge (1 + sqrt(.5))²
    assert spikes.bulk_edge(0.5, 1e-10) == pytest.approx((1 + np.sqrt(0.5)) ** 2, rel=1e-9)
    assert abs(paper_edge(0.5, 1e-10) - 2.914) > 1


@pytest.mark.slow
@given(delta=ratio, gamma=ratio)
def test_critical_excess_solves_its_cubic(delta, gamma):
    x = spikes.critical_excess(delta, gamma)
    q, r0 = delta * gamma, delta + gamma + delta * gamma
    assert x >= max(np.sqrt(delta), np.sqrt(gamma)) * (1 - 1e-14)
    assert abs(x**3 - r0 * x - 2 * q) <= 1e-14 * (x**3 + r0 * x + 2 * q)


@given(delta=ratio, gamma=ratio, factor=st.floats(-6, 6).map(lambda e: 1 + 10.0**e))
def test_factors_multiply_to_the_total(delta, gamma, factor):
    x = max(spikes.critical_excess(delta, gamma), 1e-9) * factor
    population, sample = spikes.population_alignment(x, delta), spikes.sample_alignment(x, delta, gamma)
    total = spikes.total_alignment(x, delta, gamma)
    assert 0 <= total <= population * (1 + 1e-14)
    assert population <= 1
    assert population * sample == pytest.approx(total, rel=1e-9, abs=1e-15)


@given(delta=ratio, gamma=ratio, factor=st.floats(-3, 6).map(lambda e: 1 + 10.0**e))
def test_inverse_recovers_the_excess(delta, gamma, factor):
    x = max(spikes.critical_excess(delta, gamma), 1e-7) * factor
    eigenvalue = spikes.sample_outlier(x, delta, gamma, 0.1)
    if eigenvalue <= spikes.bulk_edge(delta, gamma, 0.1):
        return  # merged with the edge by rounding
    # near the edge the eigenvalue is flat in x: its rounding error is amplified by 1/(factor−1), and by the narrowness
    narrow = 1 + 1 / max(x, 1e-300)
    tolerance = 1e-14 * narrow * (1 + 1 / (factor - 1) ** 2)
    assert spikes.excess_from_eigenvalue(eigenvalue, delta, gamma, 0.1) == pytest.approx(x, rel=max(tolerance, 1e-13))


def test_alignment_starts_from_zero_without_a_jump():
    star = spikes.critical_excess(0.625, 0.5)
    steps = np.array([1e-3, 1e-6, 1e-9, 1e-12])
    values = spikes.total_alignment(star * (1 + steps), 0.625, 0.5)
    slopes = values / steps
    assert np.all(values > 0)
    np.testing.assert_allclose(slopes[1:], slopes[1], rtol=2e-3)  # linear; rounding of 1 + 1e-12 leaves 1e-4
    assert spikes.total_alignment(star * (1 - 1e-12), 0.625, 0.5) == 0


def test_limits_of_large_samples_and_vocabularies():
    x = np.array([0.9, 1.5, 4.0])
    # gamma -> 0: the sample is the population
    np.testing.assert_allclose(spikes.total_alignment(x, 0.4, 0.0), spikes.population_alignment(x, 0.4), rtol=1e-14)
    np.testing.assert_allclose(spikes.sample_outlier(x, 0.4, 0.0), spikes.population_outlier(x, 0.4), rtol=1e-14)
    # delta -> 0: the spiked Wishart model, eigenvalue (1+x)(1+g/x), alignment (1 − g/x²)/(1 + g/x)
    g = 0.3
    np.testing.assert_allclose(spikes.sample_outlier(x, 0.0, g), (1 + x) * (1 + g / x), rtol=1e-14)
    np.testing.assert_allclose(spikes.total_alignment(x, 0.0, g), (1 - g / x**2) / (1 + g / x), rtol=1e-13)
    # both: a spike on a multiple of the identity
    assert spikes.total_alignment(1e-9, 0.0, 0.0) == 1
    assert spikes.bulk_edge(0.0, 0.0, 0.7) == 0.7


def test_required_gamma_hits_the_target():
    x, delta = 3.0, 0.625
    for target in (0.01, 0.3, 0.6, 0.9):
        gamma = spikes.required_gamma(x, delta, target)
        assert spikes.total_alignment(x, delta, gamma) == pytest.approx(target, rel=1e-12)
    assert spikes.required_gamma(1e200, delta, 0.5) == pytest.approx(1e200)  # x (1 − A)/A in the limit
    with pytest.raises(sp.UnreachableError) as caught:
        spikes.required_gamma(x, delta, 0.95)
    assert caught.value.limit == pytest.approx(1 - delta / x**2)


def test_broadcasting():
    out = spikes.total_alignment(np.linspace(1, 3, 5)[:, None], 0.1, np.array([0.1, 0.2]))
    assert out.shape == (5, 2)
    assert np.ndim(spikes.total_alignment(2.0, 0.1, 0.1)) == 0


def test_an_eigenvalue_inside_the_bulk_has_no_spike():
    with pytest.raises(sp.DomainError, match="must exceed the bulk edge"):
        spikes.excess_from_eigenvalue(1.0, 0.5, 0.5)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"delta": -1.0}, sp.DomainError),
        ({"gamma": np.nan}, sp.NonFiniteError),
        ({"alpha": -1.0}, sp.DomainError),
        ({"kappa": 0.0}, sp.DomainError),
        ({"mu": np.inf}, sp.NonFiniteError),
    ],
)
def test_bad_input_is_named_at_the_door(changes, error):
    """The formulas check nothing; what calls them with a user's numbers does."""
    arguments = {"mu": 1.0, "alpha": 0.5, "kappa": 0.2, "delta": 0.1, "gamma": 0.1} | changes
    with pytest.raises(error) as caught:
        sp.predict_arrays(**arguments)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("target", [1.5, -0.5])
def test_targets_are_checked_where_they_are_asked_for(target):
    model = sp.SequenceModel(50, 80, 100, sp.prefix_correlation(5, 2), 2.0)
    with pytest.raises(sp.DomainError):
        model.required_samples(sp.mean_weights(5), alignment=target)


def test_one_prediction_checks_its_arguments_once(monkeypatch):
    from spikepool.kit import validation

    model, w = sp.SequenceModel(50, 80, 100, sp.prefix_correlation(5, 2), 2.0), sp.causal_weights(5)
    checked, plain = [], validation.finite_array
    monkeypatch.setattr(validation, "finite_array", lambda *a, **k: checked.append(a[1:]) or plain(*a, **k))
    model.predict(w)
    assert len(checked) == 1
