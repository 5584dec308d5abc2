"""Signs with a given correlation: exact where they exist, a checkable proof where they do not."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spikepool as sp
from spikepool.world._cut_polytope import find_mixture


def assert_has_correlation(R, n=40_000, seed=0):
    xi = sp.sign_sampler(R)(n, rng=seed)
    assert xi.shape == (n, len(R))
    assert set(np.unique(xi)) <= {-1, 1}
    x = xi.astype(float)
    # entries of the sample correlation have standard error at most 1/sqrt(n); six of them over T² entries
    assert np.abs(x.T @ x / n - R).max() < 6 / np.sqrt(n)
    assert np.abs(x.mean(axis=0)).max() < 6 / np.sqrt(n)


CASES = [
    (sp.prefix_correlation(10, 3), "independent"),
    (sp.markov_correlation(8, -0.6), "markov"),
    (sp.equicorrelation(6, 0.3), "one-factor"),
    (sp.spiked_correlation(12, 10.0, 5, [1, -1, 1, 1, -1], normalize=True), "one-factor"),
    (sp.equicorrelation(6, -0.12), "gaussian"),
    (sp.equicorrelation(6, -0.19), "mixture"),
    (np.eye(1), "independent"),
    (np.ones((4, 4)), "independent"),
    (np.outer([1, -1, 1], [1, -1, 1]).astype(float), "independent"),
]


@pytest.mark.parametrize(("R", "method"), CASES)
def test_each_construction_has_the_requested_correlation(R, method):
    assert method in sp.sign_sampler(R).methods
    assert_has_correlation(R)


def random_realisable(T, seed):
    rng = np.random.default_rng(seed)
    S = rng.choice([-1.0, 1.0], size=(rng.integers(1, 2 * T + 1), T))
    return (S.T * rng.dirichlet(np.full(len(S), 0.5))) @ S


@pytest.mark.slow
@settings(max_examples=40)
@given(T=st.integers(2, 9), seed=st.integers(0, 10**6))
def test_mixture_reproduces_every_realisable_correlation_exactly(T, seed):
    R = random_realisable(T, seed)
    vectors, weights = find_mixture(R, np.arange(T), T)
    assert weights.min() > 0
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose((vectors.T * weights) @ vectors, R, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_sixteen_positions_without_structure(seed):
    R = random_realisable(16, seed)
    vectors, weights = find_mixture(R, np.arange(16), 16)
    np.testing.assert_allclose((vectors.T * weights) @ vectors, R, atol=1e-8)
    assert_has_correlation(R, n=5000)


def smallest_over_signs(B):
    T = len(B)
    return min(
        sum(B[i, j] * s[i] * s[j] for i in range(T) for j in range(i + 1, T))
        for s in itertools.product([-1, 1], repeat=T)
    )


@pytest.mark.parametrize(
    "R",
    [
        sp.equicorrelation(3, -0.5),  # PSD, but three signs cannot all disagree
        np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1.0]]),
        sp.equicorrelation(5, -0.25),  # satisfies every triangle inequality
        np.array([[1, 0, 0.5, -0.5], [0, 1, 0.5, 0.5], [0.5, 0.5, 1, 0], [-0.5, 0.5, 0, 1.0]]) * 1.6 - 0.6 * np.eye(4),
    ],
)
def test_the_violated_inequality_is_a_proof(R):
    with pytest.raises(sp.NotRealizableError) as caught:
        sp.sign_sampler(R)
    error = caught.value
    attained = np.sum(error.coefficients * R) / 2
    assert attained == pytest.approx(error.attained)
    assert attained < error.bound - 1e-9
    assert smallest_over_signs(error.coefficients) >= error.bound - 1e-7
    assert "R[" in str(error)


def test_an_inequality_names_the_callers_positions():
    R = np.eye(7)
    block = [1, 4, 6]
    R[np.ix_(block, block)] = sp.equicorrelation(3, -0.5)
    with pytest.raises(sp.NotRealizableError, match=r"R\[1,4\].*R\[1,6\].*R\[4,6\]") as caught:
        sp.sign_sampler(R)
    assert caught.value.coefficients.shape == (7, 7)


@pytest.mark.parametrize("R", [sp.prefix_correlation(1000, 200), sp.markov_correlation(1000, 0.9)])
def test_a_thousand_positions(R):
    xi = sp.sign_sampler(R)(500, rng=1).astype(float)
    assert np.abs(xi.T @ xi / 500 - R).max() < 7 / np.sqrt(500)


@pytest.mark.parametrize(("R", "method"), CASES)
def test_samplers_cross_processes(R, method):
    draw = sp.sign_sampler(R)
    copy = pickle.loads(pickle.dumps(draw))
    assert method in repr(copy)
    np.testing.assert_array_equal(copy(20, rng=0), draw(20, rng=0))


def test_same_seed_same_signs():
    draw = sp.sign_sampler(sp.equicorrelation(5, 0.2))
    np.testing.assert_array_equal(draw(9, rng=4), draw(9, rng=4))
    assert not np.array_equal(draw(9, rng=4), draw(9, rng=5))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sp.sign_sampler(np.eye(2))(10**13), sp.MemoryBudgetError),
        (lambda: sp.sign_sampler(np.ones((2, 3))), sp.ShapeError),
        (lambda: sp.sign_sampler(np.empty((0, 0))), sp.ShapeError),
        (lambda: sp.sign_sampler([[1.0, np.nan], [np.nan, 1.0]]), sp.NonFiniteError),
        (lambda: sp.sign_sampler([[1.0, 0.2], [0.3, 1.0]]), sp.CorrelationError),
        (lambda: sp.sign_sampler([[2.0, 0.0], [0.0, 1.0]]), sp.CorrelationError),
        (lambda: sp.sign_sampler([[1.0, 1.5], [1.5, 1.0]]), sp.CorrelationError),
        (lambda: sp.sign_sampler(np.eye(2))(0), sp.SizeError),
        (lambda: sp.sign_sampler(np.eye(2))(3, rng="x"), sp.InvalidInputError),
    ],
)
def test_bad_input_is_named(call, error):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, ValueError)


def test_search_without_an_end_is_stopped_by_name():
    rng = np.random.default_rng(0)
    patterns = np.where(rng.random((15, 30)) < 0.5, 1, -1)
    R = (patterns.T * rng.dirichlet(np.ones(15))) @ patterns
    np.fill_diagonal(R, 1.0)
    with pytest.raises(sp.ConvergenceError, match=r"stopped after 0\.5 s at a block of 30 positions"):
        sp.sign_sampler(R, seconds=0.5)
