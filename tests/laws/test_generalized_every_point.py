"""Laws whose solutions are hard to reach in doubles: narrow bands, continuous populations, and points that are lost."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import spikepool as sp
from spikepool.kit.roots import SolverReport
from spikepool.laws import _separable


def test_band_of_an_atom_of_mass_1e12_is_solved_up_to_its_edges():
    """Width 2e-6 of its place: at 1e-9 of the width from an edge, rounding of z is a tenth of the distance."""
    values = [0.0, 0.45596832, 0.99898375, 1.30951599, 4.21655656, 15.17045957]
    weights = np.array([5.32445549e-02, 6.79404093e-01, 3.75975677e-03, 7.96279486e-02, 4.67615994e-12, 0.183963647])
    law = sp.GeneralizedLaw(
        sp.AtomicLaw([2.91307]), sp.AtomicLaw(values, weights / weights.sum()), 13.7295, strict=True
    )
    for low, high in law.intervals():
        steps = (high - low) * 10.0 ** -np.linspace(0.4, 10, 60)
        for x in (low + steps, high - steps):
            assert np.isfinite(law.pdf(x)).all()
            mass = law.cdf(x)
            assert np.all(np.diff(mass) * np.sign(x[-1] - x[0]) >= -1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "usage", "delta"),
    [
        (sp.FreeProductLaw(2.2, 0.6), sp.AtomicLaw([0.4, 1.0, 3.0]), 0.3),
        (sp.AtomicLaw([0.0, 1.0, 2.9], [0.5, 0.2, 0.3]), sp.FreeProductLaw(0.5, 2.0), 40.0),
        (sp.AtomicLaw([0.35, 1.4]), sp.MarchenkoPastur(1.4, scale=2.9), 60.0),
        (sp.AtomicLaw([0.03, 4.0]), sp.MarchenkoPastur(1.4163, scale=2.8669), 0.0133),
    ],
)
def test_continuous_populations_have_a_distribution_function_everywhere(noise, usage, delta):
    law = sp.GeneralizedLaw(noise, usage, delta, strict=True)
    x = np.sort(
        np.concatenate([a + (b - a) * np.sin(np.linspace(0.01, np.pi / 2 - 0.01, 40)) ** 2 for a, b in law.intervals()])
    )
    F = law.cdf(x)
    assert np.all(np.diff(F) >= -1e-10)
    # the density integrates to it: the same law through another function
    a, b = law.intervals()[-1]
    nodes, weights = np.polynomial.legendre.leggauss(200)
    theta = np.pi / 2 * (nodes + 1)
    at = (a + b) / 2 - (b - a) / 2 * np.cos(theta)
    mass = float(np.sum(weights * np.pi / 2 * (b - a) / 2 * np.sin(theta) * law.pdf(at)))
    assert mass == pytest.approx(float(law.cdf(b) - law.cdf(a)), abs=2e-4)


@pytest.mark.slow
def test_quantiles_next_to_a_nearly_hard_edge():
    """A population whose support nearly reaches zero: its potential needs more nodes the closer one comes."""
    law = sp.GeneralizedLaw(
        noise=sp.MarchenkoPastur(0.98966, 0.44874), usage=sp.FreeProductLaw(0.05918, 0.44028, 1.1123), delta=0.08747
    )
    q = np.array([1e-6, 1e-4, 0.5])
    x = law.ppf(q)
    np.testing.assert_allclose(law.cdf(x), q, rtol=1e-8)
    # the density, which does not use the potential, from the lower edge up to the second quantile
    low = law.intervals()[0, 0]
    nodes, weights = np.polynomial.legendre.leggauss(200)
    root = np.sqrt(x[1] - low) * (nodes + 1) / 2
    mass = np.sqrt(x[1] - low) / 2 * np.sum(weights * 2 * root * law.pdf(low + root**2))
    assert mass == pytest.approx(1e-4, rel=1e-6)


@pytest.fixture
def losing(monkeypatch):
    """A solver that never converges near 1.1."""
    solve = _separable.solve

    def flawed(usage, noise, z, *args, **kwargs):
        report = solve(usage, noise, z, *args, **kwargs)
        return SolverReport(
            report.value, report.residual, report.converged & (np.abs(np.real(z) - 1.1) > 1e-3), report.steps
        )

    monkeypatch.setattr(_separable, "solve", flawed)


@pytest.mark.parametrize("name", ["pdf", "cdf"])
def test_one_lost_point_is_named_and_the_others_are_returned(losing, name):
    law = sp.GeneralizedLaw([1.0], [1.0, 2.0], 0.5)
    x = np.append(np.linspace(*law.support(), 999)[1:-1], 1.1)
    x = x[(np.abs(x - 1.1) > 2e-3) | (x == 1.1)]
    with pytest.warns(sp.UnresolvedPointWarning, match=r"1 of \d+ points did not converge and are NaN: 1\.1"):
        found = getattr(law, name)(x)
    assert np.isnan(found[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(found[:-1], getattr(law, name)(x[:-1]), rtol=1e-9)
    strict = sp.GeneralizedLaw([1.0], [1.0, 2.0], 0.5, strict=True)
    with pytest.raises(sp.ConvergenceError) as caught:
        getattr(strict, name)(x)
    assert caught.value.point == 1.1
    with pytest.raises(sp.ConvergenceError):  # the only one that was asked for
        getattr(law, name)(1.1)


def test_transform_and_quantiles_survive_a_lost_point(losing):
    law = sp.GeneralizedLaw([1.0], [1.0, 2.0], 0.5)
    z = np.array([1.1 + 0.5j, 2.0 + 0.5j])
    with pytest.warns(sp.UnresolvedPointWarning, match="1 of 2"):
        m = law.stieltjes(z)
    assert np.isnan(m[0])
    assert np.isfinite(m[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = np.linspace(0.05, 0.95, 41)
        found = law.ppf(q)
    assert np.isfinite(found).all()
