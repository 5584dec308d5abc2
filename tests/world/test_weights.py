"""Pooling weights: closed forms against sums written out, optimality against random search."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spikepool as sp


def harmonic_weights(T):
    """The harmonic weights in exact arithmetic."""
    H = [Fraction(0)]
    for k in range(1, T + 1):
        H.append(H[-1] + Fraction(1, k))
    first = (1 + H[T - 1]) / T
    return [first, *((H[T - 1] - H[s - 1]) / T for s in range(2, T + 1))]


@pytest.mark.parametrize("T", [1, 2, 3, 10, 57])
def test_causal_weights_are_harmonic(T):
    w = sp.causal_weights(T)
    np.testing.assert_allclose(w, [float(v) for v in harmonic_weights(T)], rtol=1e-13)
    assert w.sum() == pytest.approx(1, rel=1e-14)
    if T > 1:
        assert w[-1] == 0
        assert np.all(np.diff(w) < 0)


@pytest.mark.parametrize(("layers", "residual"), [(0, 0.3), (1, 0.25), (3, 0.0), (4, 0.5), (2, 1.0)])
def test_layers_and_residuals_are_matrix_powers(layers, residual):
    T = 9
    # score-free causal attention: uniform over earlier positions, the first row on itself
    A = np.tril(np.ones((T, T)), -1) / np.maximum(np.arange(T), 1)[:, None]
    A[0, 0] = 1.0
    np.testing.assert_allclose(A.sum(axis=1), 1)
    step = (1 - residual) * A + residual * np.eye(T)
    expected = np.linalg.matrix_power(step, layers).T @ np.ones(T) / T
    np.testing.assert_allclose(sp.causal_weights(T, layers=layers, residual=residual), expected, atol=1e-15)


@pytest.mark.parametrize("T", [10, 1000])
def test_weights_in_single_precision_are_accepted_and_completed(T):
    w = sp.causal_weights(T).astype(np.float32)
    assert w.astype(np.float64).sum() != 1
    R = np.eye(T)
    np.testing.assert_allclose(sp.gains(w, R), sp.gains(sp.causal_weights(T), R), rtol=1e-6)
    with pytest.raises(sp.WeightsError):
        sp.gains(w * np.float32(1.0001), R)


def test_endlessly_many_layers_end_at_the_first_position():
    np.testing.assert_allclose(sp.causal_weights(4, layers=10**15, residual=0.5), [1, 0, 0, 0], atol=1e-15)


def test_a_million_positions():
    w = sp.causal_weights(1_000_000)
    H = np.log(999_999) + 0.5772156649015329 + 1 / (2 * 999_999)
    assert w[0] == pytest.approx((1 + H) / 1e6, rel=1e-12)
    assert w.sum() == pytest.approx(1, rel=1e-12)
    alpha, kappa = sp.prefix_causal_gains(1_000_000, 1000)
    assert kappa == pytest.approx(w @ w, rel=1e-11)
    assert alpha == pytest.approx(w[:1000].sum() ** 2 + w[1000:] @ w[1000:], rel=1e-11)


@given(st.integers(1, 60).flatmap(lambda T: st.tuples(st.just(T), st.integers(1, T))))
def test_prefix_scalars_in_closed_form(sizes):
    T, L = sizes
    R = sp.prefix_correlation(T, L)
    assert sp.prefix_mean_gains(T, L) == pytest.approx(sp.gains(sp.mean_weights(T), R), rel=1e-12)
    assert sp.prefix_causal_gains(T, L) == pytest.approx(sp.gains(sp.causal_weights(T), R), rel=1e-12)


@pytest.mark.parametrize(("T", "last"), [(10, 5), (20, 12), (50, 32), (100, 64)])
def test_causal_beats_mean_exactly_up_to_the_crossover(T, last):
    assert sp.causal_crossover(T) == last
    wins = []
    for L in range(1, T + 1):
        R = sp.prefix_correlation(T, L)
        a, k = sp.gains(sp.causal_weights(T), R)
        a0, k0 = sp.gains(sp.mean_weights(T), R)
        if L == 1:
            assert a / k == pytest.approx(1)
            assert a0 / k0 == pytest.approx(1)
        elif a / k > a0 / k0:
            wins.append(L)
    assert wins == list(range(2, last + 1))


def test_no_crossover_in_the_shortest_sequences():
    assert [sp.causal_crossover(T) for T in (1, 2)] == [None, None]


def test_optimal_weights_of_the_prefix_model():
    w = sp.optimal_weights(sp.prefix_correlation(10, 3))
    np.testing.assert_allclose(w, [1 / 3] * 3 + [0] * 7, atol=1e-14)


@given(st.integers(3, 8), st.integers(0, 10_000))
def test_optimal_weights_beat_random_ones(T, seed):
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((T, T + 2))
    R = np.corrcoef(G)
    w = sp.optimal_weights(R)
    a, k = sp.gains(w, R)
    assert w.sum() == pytest.approx(1)
    assert a / k == pytest.approx(np.linalg.eigvalsh(R)[-1], rel=1e-9)
    tries = rng.standard_normal((200, T))
    assert np.all(np.einsum("it,ts,is->i", tries, R, tries) / np.sum(tries**2, axis=1) <= a / k * (1 + 1e-12))


def test_repeated_top_eigenvalue_projects_the_ones_vector():
    # two blocks of equal size: every mixture of the two block means is optimal; the projection has the least noise
    R = np.kron(np.eye(2), np.ones((3, 3)))
    np.testing.assert_allclose(sp.optimal_weights(R), np.full(6, 1 / 6), atol=1e-14)
    np.testing.assert_allclose(sp.optimal_weights(np.eye(5)), np.full(5, 0.2), atol=1e-14)


def test_no_optimum_carries_the_supremum():
    with pytest.raises(sp.NoOptimumError) as caught:
        sp.optimal_weights(np.array([[1.0, -0.4], [-0.4, 1.0]]))  # top eigenvector (1, −1)
    assert caught.value.supremum == pytest.approx(1.4)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sp.mean_weights(0), sp.SizeError),
        (lambda: sp.mean_weights(2.5), sp.SizeError),
        (lambda: sp.causal_weights(-3), sp.SizeError),
        (lambda: sp.causal_weights(4, layers=-1), sp.SizeError),
        (lambda: sp.causal_weights(4, residual=1.5), sp.DomainError),
        (lambda: sp.causal_weights(4, residual=np.nan), sp.NonFiniteError),
        (lambda: sp.optimal_weights([[1.0, 2.0], [2.0, 1.0]]), sp.CorrelationError),
        (lambda: sp.optimal_weights([[1.0, 0.1], [0.2, 1.0]]), sp.CorrelationError),
        (lambda: sp.optimal_weights(np.ones((2, 3))), sp.ShapeError),
        (lambda: sp.optimal_weights(np.empty((0, 0))), sp.ShapeError),
        (lambda: sp.optimal_weights([[np.nan]]), sp.NonFiniteError),
        (lambda: sp.gains([0.5, 0.6], np.eye(2)), sp.WeightsError),
        (lambda: sp.gains([1.0], np.eye(2)), sp.WeightsError),
        (lambda: sp.prefix_causal_gains(3, 4), sp.SizeError),
        (lambda: sp.causal_crossover(0), sp.SizeError),
        (lambda: sp.mean_weights(10**400), sp.SizeError),
        (lambda: sp.causal_weights(10**15), sp.MemoryBudgetError),
        (lambda: sp.gains(np.array([0.5 + 1j, 0.5]), np.eye(2)), sp.InvalidInputError),
        (lambda: sp.gains(["0.5", "0.5"], np.eye(2)), sp.InvalidInputError),
        (lambda: sp.gains(np.ma.masked_array([0.5, 0.5], [False, True]), np.eye(2)), sp.InvalidInputError),
    ],
)
def test_bad_input_is_named(call, error):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, ValueError)
