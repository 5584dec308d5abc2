"""Solvers report what they did; quadrature is exact where theory predicts it."""

from __future__ import annotations

import numpy as np
import pytest

from spikepool.kit.quadrature import derivative, tanh_sinh
from spikepool.kit.roots import dips_below, find_root, newton


def test_bracketed_roots_of_many_functions_at_once():
    powers = np.array([1.0, 3.0, 0.2, 9.0])
    report = find_root(lambda x, i: x ** powers[i] - 2, np.zeros(4) + 1e-9, np.full(4, 40.0))
    assert report.converged.all()
    np.testing.assert_allclose(report.value, 2 ** (1 / powers), rtol=1e-14)
    assert report.steps < 100


def test_missing_sign_change_is_reported_not_hidden():
    report = find_root(lambda x, i: x * x + 1, np.array([-1.0]), np.array([1.0]))
    assert not report.converged[0]
    assert report.residual[0] == np.inf


def test_root_at_an_end_of_the_bracket():
    report = find_root(lambda x, i: x - 1.0, np.array([1.0, 0.0]), np.array([2.0, 1.0]))
    assert report.converged.all()
    np.testing.assert_array_equal(report.value, 1.0)


def test_newton_stays_in_the_bracket_and_reports_exhaustion():
    target = np.array([0.3, 1.2, 1.5])

    def f(x, i):  # a tangent: plain Newton leaves every bracket
        return np.tan(x) - np.tan(target[i]), 1 / np.cos(x) ** 2

    report = newton(f, np.full(3, -1.5), np.full(3, 1.57), np.full(3, -1.4))
    assert report.converged.all()
    np.testing.assert_allclose(report.value, target, rtol=1e-13)
    assert not newton(f, np.full(3, -1.5), np.full(3, 1.57), np.full(3, -1.4), max_steps=2).converged.all()


@pytest.mark.parametrize("floor", [-1e-9, 1e-9])
def test_dips_below_finds_the_sign_of_a_convex_minimum(floor):
    place = np.array([0.1, 0.5, 0.93])

    def f(x, i):
        c = place[i]
        value = 1 / x + 1 / (1 - x)
        slope = -1 / x**2 + 1 / (1 - x) ** 2
        # shift the minimum of value (4 at 1/2) by a linear term, then set its height to `floor`
        tilt = 1 / c**2 - 1 / (1 - c) ** 2
        return value + tilt * x - (1 / c + 1 / (1 - c) + tilt * c) + floor, slope + tilt

    negative, where = dips_below(f, np.zeros(3), np.ones(3))
    assert np.all(negative == (floor < 0))
    if floor < 0:
        np.testing.assert_allclose(where, place, atol=1e-3)


def test_double_exponential_nodes_integrate_end_singularities():
    u, v, w = tanh_sinh()
    assert abs((w * u**-0.5).sum() - 2) < 1e-7  # the mass below the first node is its square root
    assert abs((w * np.sqrt(u) * np.sqrt(v)).sum() - np.pi / 8) < 1e-14
    np.testing.assert_allclose(u + v, 1.0, rtol=1e-15)


def test_cauchy_derivative():
    z = np.array([0.3 + 0.4j, -2.0 + 0j])
    value = derivative(lambda p: 1 / (1 - p), z, 0.15 * np.abs(1 - z))
    np.testing.assert_allclose(value, 1 / (1 - z) ** 2, rtol=1e-12)
    np.testing.assert_allclose(derivative(np.exp, z, np.full(2, 0.5)), np.exp(z), rtol=1e-14)
