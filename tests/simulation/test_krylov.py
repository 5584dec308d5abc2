"""Block Krylov spaces: identities of the projection, invariant spaces, quadrature."""

import numpy as np
import pytest

from spikepool.simulation.krylov import krylov_space


def operator(d=60, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    return A @ A.T / d, rng


@pytest.mark.parametrize("p", [1, 2, 3])
def test_projection_and_moments(p):
    """u'A^j u is reproduced exactly for j < 2 steps: the first block carries a Gauss quadrature."""
    A, rng = operator()
    start = rng.standard_normal((p, 60))
    steps = 8
    space = krylov_space(lambda x: x @ A, start, lambda s: float(steps - s.steps), max_dimension=60)
    assert space.projected.shape == (p * space.steps, p * space.steps)
    np.testing.assert_allclose(space.projected, space.projected.T, atol=1e-14)
    np.testing.assert_allclose(space.start.T @ space.start, start @ start.T, atol=1e-10)
    for j in range(2 * space.steps):
        exact = start @ np.linalg.matrix_power(A, j) @ start.T
        projected = space.start.T @ np.linalg.matrix_power(space.projected, j) @ space.start
        np.testing.assert_allclose(projected, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("p", [1, 2])
def test_whole_space_gives_the_whole_spectrum(p):
    A, rng = operator(40)
    space = krylov_space(lambda x: x @ A, rng.standard_normal((p, 40)), lambda s: np.inf, max_dimension=1000)
    np.testing.assert_allclose(np.linalg.eigvalsh(space.projected), np.linalg.eigvalsh(A), atol=1e-10)


def test_invariant_space_is_recognised():
    A = np.diag(np.arange(1.0, 51.0))
    start = np.zeros((1, 50))
    start[0, [3, 10, 44]] = 1.0
    space = krylov_space(lambda x: x @ A, start, lambda s: np.inf, max_dimension=50)
    assert space.invariant
    np.testing.assert_allclose(np.linalg.eigvalsh(space.projected), [4.0, 11.0, 45.0], atol=1e-10)


def test_zero_operator():
    space = krylov_space(lambda x: 0 * x, np.ones((1, 20)), lambda s: np.inf, max_dimension=20)
    assert space.invariant
    np.testing.assert_array_equal(space.projected, [[0.0]])


def test_residual_is_the_coupling_of_the_last_block():
    A, rng = operator(80)
    start = rng.standard_normal((2, 80))
    seen = []

    def look(space):
        seen.append(space)
        return 12.0 - space.steps

    krylov_space(lambda x: x @ A, start, look, max_dimension=80)
    space = seen[-1]
    theta, Y = np.linalg.eigh(space.projected)
    bound = np.linalg.norm(space.coupling @ Y[-2:, -1])
    true = np.linalg.eigvalsh(A)
    # an eigenvalue lies within the residual of each Ritz value
    assert np.abs(true - theta[-1]).min() <= bound + 1e-12
    assert true[-1] >= theta[-1] - 1e-12
