"""Heads and layers: the pencil, its limits, and stacks of matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import spikepool as sp
from spikepool.world.heads import layered_weights, optimal_heads


def _random_problem(seed: int, H: int, T: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((T, T))
    R = factor @ factor.T
    scale = np.sqrt(np.diag(R))
    heads = rng.standard_normal((H, T))
    return heads, R / np.outer(scale, scale)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), H=st.integers(1, 5))
def test_equals_the_generalised_eigenproblem(seed: int, H: int) -> None:
    heads, R = _random_problem(seed, H, 8)
    values = scipy.linalg.eigh(heads @ R @ heads.T, heads @ heads.T, eigvals_only=True)
    mix = optimal_heads(heads, R)  # a random top vector never sums to zero exactly
    assert mix.ratio == pytest.approx(values[-1], rel=1e-8)
    assert mix.weights.sum() == pytest.approx(1, abs=1e-9)
    assert np.allclose(mix.coefficients @ heads, mix.weights, atol=1e-8 * np.abs(mix.weights).max())
    assert sp.gains(mix.weights, R) == pytest.approx((mix.alpha, mix.kappa), rel=1e-9)
    assert mix.ratio <= np.linalg.eigvalsh(R)[-1] * (1 + 1e-10)
    for row in heads:
        assert row @ R @ row <= mix.ratio * (row @ row) * (1 + 1e-9)


def test_one_head_a_position_gives_the_optimal_weights() -> None:
    R = sp.markov_correlation(9, 0.7)
    assert np.allclose(optimal_heads(np.eye(9), R).weights, sp.optimal_weights(R), atol=1e-12)


def test_dependent_heads_change_nothing() -> None:
    heads, R = _random_problem(3, 3, 6)
    more = np.vstack([heads, heads[0] + heads[1], 2 * heads[2]])
    first, second = optimal_heads(heads, R), optimal_heads(more, R)
    assert np.allclose(first.weights, second.weights, atol=1e-8)
    assert np.allclose(second.coefficients @ more, second.weights, atol=1e-8)


def test_a_single_head_is_only_normalised() -> None:
    mix = optimal_heads([[2.0, 1.0, 1.0]], np.eye(3))
    assert np.allclose(mix.weights, [0.5, 0.25, 0.25])
    assert mix.coefficients == pytest.approx([0.25])


def test_best_combination_of_zero_sum_is_an_error_with_its_supremum() -> None:
    R = np.array([[1.0, -0.8], [-0.8, 1.0]])
    with pytest.raises(sp.NoOptimumError) as caught:
        optimal_heads([[1.0, 0.0], [0.0, 1.0]], R)
    assert caught.value.supremum == pytest.approx(1.8)


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 3)), np.ones(3), np.ones((2, 4)), np.full((1, 3), np.nan), np.ones((0, 3))]
)
def test_bad_heads_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(sp.InvalidInputError):
        optimal_heads(bad, np.eye(3))


@pytest.mark.parametrize(("layers", "residual"), [(0, 0.3), (1, 0.0), (2, 0.25), (5, 0.9), (3, 1.0)])
def test_score_free_stack_equals_powers_of_the_causal_matrix(layers: int, residual: float) -> None:
    """Both implementations against the definition, w = T⁻¹ ((1−r)A + rI)^L' 1 with A written out."""
    T = 9
    A = np.zeros((T, T))
    A[0, 0] = 1
    for t in range(1, T):
        A[t, :t] = 1 / t
    expected = np.linalg.matrix_power((1 - residual) * A + residual * np.eye(T), layers).T @ np.ones(T) / T
    assert np.allclose(layered_weights(T, layers, residual, tau=0.0), expected, atol=1e-14)
    assert np.allclose(sp.causal_weights(T, layers, residual), expected, atol=1e-14)


def test_where_the_temperature_is_felt() -> None:
    # the inner product of rows t and s < t of the first layer does not depend on s, so that the softmax ignores it
    for layers in (1, 2):
        for residual in (0.0, 0.3):
            free = sp.causal_weights(8, layers, residual)
            assert np.allclose(layered_weights(8, layers, residual, tau=3.0), free, atol=1e-15)
    assert np.abs(layered_weights(8, 3, 0.3, tau=3.0) - sp.causal_weights(8, 3, 0.3)).max() > 0.01


def test_stacks_of_bad_size_are_refused() -> None:
    with pytest.raises(sp.MemoryBudgetError):
        sp.layered_weights(10**7)
    with pytest.raises(sp.SizeError):
        layered_weights(0)
    with pytest.raises(sp.SizeError):
        layered_weights(3, layers=-1)
    with pytest.raises(sp.DomainError):
        layered_weights(3, residual=1.5)
    with pytest.raises(sp.NonFiniteError):
        layered_weights(3, tau=float("nan"))
