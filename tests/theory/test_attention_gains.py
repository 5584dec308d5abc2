"""Gains of data-dependent attention: one-dimensional references, limits, Monte Carlo, refusals."""

import mpmath as mp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

import spikepool as sp
from spikepool.theory.attention_gains import attention_gains, predict_attention, softmax_square
from spikepool.world.correlation import average_correlation


@pytest.mark.parametrize("tau", [0.05, 1.0, 4.0, 20.0])
def test_two_scores_against_a_40_digit_integral(tau):
    """For k = 2 the softmax is a logistic function of g1 − g2 ~ N(0, 2)."""
    with mp.workdps(40):

        def integrand(g):
            p = 1 / (1 + mp.exp(-tau * mp.sqrt(2) * g))
            return mp.npdf(g) * (p * p + (1 - p) ** 2)

        knots = [-14, -4, -1, -1 / mp.mpf(tau) / 4, 0, 1 / mp.mpf(tau) / 4, 1, 4, 14]
        exact = float(mp.quad(integrand, sorted(knots)))
    assert softmax_square(tau, 2) == pytest.approx(exact, rel=1e-13)


def test_three_and_four_scores_against_gauss_hermite():
    nodes, weights = hermegauss(24)
    weights = weights / weights.sum()
    for k in (3, 4):
        grids = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * k, indexing="ij")])
        mass = np.prod(np.stack([m.ravel() for m in np.meshgrid(*[weights] * k, indexing="ij")]), axis=0)
        e = np.exp(0.3 * grids)
        assert softmax_square(0.3, k) == pytest.approx(mass @ ((e / e.sum(axis=0)) ** 2).sum(axis=0), rel=1e-12)


@pytest.mark.slow
def test_limits_of_the_softmax():
    k = np.array([1, 2, 7, 1000, 10**6])
    assert np.allclose(softmax_square(0.0, k), 1 / k, rtol=1e-15)
    # second order in tau: Q_k = 1/k + tau² (k−1)/k² + O(tau⁴)
    assert np.allclose(softmax_square(0.01, k), 1 / k + 1e-4 * (k - 1) / k**2, rtol=2e-8)
    # many scores: k Q_k → E X²/(E X)² = exp(tau²), with X = exp(tau g)
    assert 10**6 * softmax_square(1.0, 10**6) == pytest.approx(np.e, rel=1e-4)
    # hard maximum: P(second within 1/tau of the first) is O(1/tau)
    assert 0.97 < softmax_square(50.0, 5) < 1
    assert np.all(np.diff([softmax_square(tau, 6) for tau in np.linspace(0, 8, 30)]) > 0)
    assert softmax_square(-2.0, 5) == softmax_square(2.0, 5)


def test_zero_temperature_is_the_causal_average():
    R = sp.markov_correlation(12, 0.6)
    found = attention_gains(R, 0.0)
    assert (found.alpha, found.kappa) == pytest.approx(sp.gains(sp.causal_weights(12), R), rel=1e-14)


@pytest.mark.parametrize("T", [1, 2])
def test_short_sequences_have_no_random_weight(T):
    found = attention_gains(np.eye(T), 3.0)
    assert (found.alpha, found.kappa) == pytest.approx((1.0, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize(("T", "tau"), [(5, 2.0), (10, 4.0), (64, 1.0)])
def test_quadrature_and_monte_carlo_agree(T, tau):
    for R in (sp.prefix_correlation(T, 3), sp.markov_correlation(T, -0.5)):
        exact = attention_gains(R, tau)
        drawn = attention_gains(R, tau, method="monte_carlo", draws=8000, rng=1)
        assert exact.alpha_error < 1e-8
        assert drawn.kappa_error > 0
        assert abs(exact.alpha - drawn.alpha) < 4 * drawn.alpha_error
        assert abs(exact.kappa - drawn.kappa) < 4 * drawn.kappa_error


def test_identity_correlation_ties_the_two_gains():
    found = attention_gains(np.eye(20), 2.5)
    assert found.alpha == pytest.approx(found.kappa, rel=1e-13)


def test_equal_signs_leave_nothing_to_chance():
    """R = 11': w'Rw = (sum w)² = 1 for every sequence."""
    assert attention_gains(np.ones((9, 9)), 3.0).alpha == pytest.approx(1.0, rel=1e-13)


def test_correlations_that_vary_by_sequence_are_averaged():
    stack = np.stack([sp.prefix_correlation(8, L) for L in (1, 2, 5)])
    assert np.array_equal(average_correlation(stack), stack.mean(axis=0))
    each = [attention_gains(R, 1.5) for R in stack]
    together = attention_gains(stack, 1.5)
    assert together.alpha == pytest.approx(np.mean([one.alpha for one in each]), rel=1e-13)
    assert together.kappa == pytest.approx(each[0].kappa, rel=1e-13)


def test_prediction_at_zero_temperature_is_the_models():
    model = sp.SequenceModel(d=400, V=640, N=800, R=sp.prefix_correlation(10, 3), mu=1.5, centered=False)
    ours, theirs = predict_attention(model, 0.0), model.predict(sp.causal_weights(10))
    for a, b in zip(ours.outliers, theirs.outliers, strict=True):
        assert a.kind == b.kind
        assert a.eigenvalue == pytest.approx(b.eigenvalue, rel=1e-12)
        assert a.alignment == pytest.approx(b.alignment, rel=1e-12, abs=1e-15)
    assert ours.mu_sample == pytest.approx(theirs.mu_sample, rel=1e-12)
    assert ours.edge == pytest.approx(theirs.edge, rel=1e-12)


def test_bad_input_is_refused():
    for bad in (np.nan, np.inf, 51.0, "2"):
        with pytest.raises(sp.InvalidInputError):
            attention_gains(np.eye(3), bad)
    for bad in (np.ones((2, 3)), np.ones((2, 2, 3)), -np.eye(2), np.full((2, 2), np.nan), np.ones(3)):
        with pytest.raises(sp.InvalidInputError):
            attention_gains(bad, 1.0)
    with pytest.raises(sp.InvalidInputError):
        attention_gains(np.stack([np.eye(2), -np.eye(2)]), 1.0)
    with pytest.raises(sp.InvalidInputError):
        attention_gains(np.eye(3), 1.0, method="guess")
    with pytest.raises(sp.SizeError):
        attention_gains(np.eye(3), 1.0, method="monte_carlo", draws=1)
    for bad in (0, [1, 0], 1.5, []):
        with pytest.raises(sp.InvalidInputError):
            softmax_square(1.0, bad)
    model = sp.SequenceModel(d=4, V=6, N=8, R=np.eye(2), mu=1.0, frequencies=np.arange(1, 7))
    with pytest.raises(sp.InvalidInputError):
        predict_attention(model, 1.0)


def test_equal_rows_are_the_closed_form_and_bad_rows_are_refused():
    model = sp.SequenceModel(60, 100, 140, sp.prefix_correlation(6, 3), 1.4)
    w = sp.causal_weights(6)
    rows = np.tile(w, (140, 1))
    p, q = model.predict(w), model.predict(rows)
    assert q.alignment == pytest.approx(p.alignment, rel=1e-12)
    assert q.edge == pytest.approx(p.edge, rel=1e-12)
    assert isinstance(q.bulk, sp.FreeProductLaw)
    mixed = 0.5 * (rows + np.eye(6)[np.random.default_rng(0).integers(0, 6, 140)])
    varying = model.predict(mixed)
    assert varying.alpha == pytest.approx(np.mean(np.sum(mixed @ model.R * mixed, axis=1)))
    assert varying.kappa == pytest.approx(np.mean(np.sum(mixed**2, axis=1)))
    assert varying.edge == varying.bulk.support()[1]
    assert isinstance(model.predict(mixed, exact=True, rng=0).alignment, float)
    with pytest.raises(sp.WeightsError):
        model.predict(rows[:5])
    uncentred = model.replace(centered=False, mu=0.3).predict(mixed)
    assert {o.kind for o in uncentred.outliers} <= {"signal", "mean"}


def test_law_of_the_gains_has_their_means():
    gains = attention_gains(sp.prefix_correlation(10, 3), 2.0)
    assert gains.quantiles.mean(axis=0) == pytest.approx([gains.alpha, gains.kappa])
    assert 0 < gains.kappa_spread < 1
    assert attention_gains(np.eye(4), 0.0).kappa_spread == 0.0
