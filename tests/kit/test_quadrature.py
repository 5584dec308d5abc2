"""Double exponential quadrature and derivatives on a circle, against integrals and derivatives known in closed form."""

import numpy as np
import pytest
from scipy.special import beta

from spikepool.kit.quadrature import derivative, tanh_sinh


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.7, 3.0), (1.0, 1.0), (1.5, 2.5)])
def test_algebraic_singularities_at_both_ends(a, b):
    u, v, weights = tanh_sinh()
    assert np.sum(weights * u ** (a - 1) * v ** (b - 1)) == pytest.approx(beta(a, b), rel=1e-7)
    np.testing.assert_allclose(u + v, 1.0, rtol=1e-15)


def test_distances_to_both_ends_are_kept():
    u, v, _ = tanh_sinh()
    assert u[0] > 0
    assert v[-1] == pytest.approx(u[0], rel=1e-12)  # 1 - u would be rounding


def test_derivatives_of_analytic_functions():
    z = np.array([0.3 + 0.4j, -1.0 + 2.0j])
    np.testing.assert_allclose(derivative(np.exp, z, np.array([0.5, 0.5])), np.exp(z), rtol=1e-13)
    np.testing.assert_allclose(derivative(lambda x: 1 / x, z, np.abs(z) / 20), -1 / z**2, rtol=1e-12)
