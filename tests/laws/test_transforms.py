"""Transforms of free probability: identities, forty-digit integrals, and numerical against closed forms."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import spikepool as sp
from spikepool.errors import DomainError
from spikepool.laws._transforms import FreeTransforms

LAWS = [sp.MarchenkoPastur(0.3, 2.0), sp.FreeProductLaw(0.6, 0.4, 0.5), sp.FreeProductLaw(0.05, 0.9)]
HEAVY = [sp.MarchenkoPastur(2.5), sp.FreeProductLaw(1.5, 0.4)]


def generalized(law):
    """The same law through the numerical engine: unit noise, and a Marchenko-Pastur usage cut into many atoms."""
    n = 4000
    usage = sp.MarchenkoPastur(law.gamma / law.delta, law.scale).ppf((np.arange(n) + 0.5) / n)
    return sp.GeneralizedLaw(noise=sp.AtomicLaw([1.0]), usage=sp.AtomicLaw(usage), delta=law.delta)


@pytest.mark.parametrize("law", [*LAWS, *HEAVY])
def test_closed_forms_agree_with_the_numerical_ones(law):
    at_edge = -law.stieltjes(law.support()[1] * (1 + 1e-9))
    g = np.array([-0.7, -0.1, 0.0, 0.2 * at_edge, 0.9 * at_edge]) / 1.0
    g = g[(g >= 0) | (law.atom > 0)] if law.atom == 0 and g.min() < -law.stieltjes(-1e-9) else g
    np.testing.assert_allclose(law.r_transform(g), FreeTransforms.r_transform(law, g), rtol=1e-9)
    z = np.array([0.0, -0.05, -0.3]) * (1 - law.atom)
    np.testing.assert_allclose(law.s_transform(z), FreeTransforms.s_transform(law, z), rtol=1e-9)
    if law.atom == 0:
        for k in (1, 2, 4):
            assert law.negative_moment(k) == pytest.approx(FreeTransforms.negative_moment(law, k), rel=1e-9)
        assert law.log_moment() == pytest.approx(FreeTransforms.log_moment(law), abs=1e-8)
    else:
        assert law.negative_moment() == math.inf
        assert law.log_moment() == -math.inf


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_against_integrals_of_the_density_in_high_precision(law):
    """∫ f dF by mpmath with the density from the cubic (or square root) solved in twenty digits."""
    mpmath.mp.dps = 20
    d, c, k = (mpmath.mpf(v) for v in (law.delta, law.gamma, law.scale))

    def density(x):
        # roots of delta gamma kappa z² m³ − kappa z (delta+gamma−2 delta gamma) m² − (z+kappa(delta−1)(1−gamma)) m − 1
        coefficients = [d * c * k * x**2, -k * x * (d + c - 2 * d * c), -(x + k * (d - 1) * (1 - c)), mpmath.mpf(-1)]
        if d == 0 or c == 0:
            coefficients = coefficients[1:]
        roots = mpmath.polyroots(coefficients[::-1], maxsteps=200, extraprec=60, asc=True)
        return max(abs(r.imag) for r in roots) / mpmath.pi

    left, right = law.support()

    def mean(f):
        # x = middle − radius cos t turns the square roots at both ends into smooth functions
        middle, radius = mpmath.mpf(left + right) / 2, mpmath.mpf(right - left) / 2
        return mpmath.quad(
            lambda t: (
                f(middle - radius * mpmath.cos(t)) * density(middle - radius * mpmath.cos(t)) * radius * mpmath.sin(t)
            ),
            mpmath.linspace(0, mpmath.pi, 4),
            maxdegree=5,
        )

    assert law.negative_moment(1) == pytest.approx(float(mean(lambda x: 1 / x)), rel=1e-6)
    assert law.negative_moment(2) == pytest.approx(float(mean(lambda x: x**-2)), rel=1e-6)
    assert law.log_moment() == pytest.approx(float(mean(mpmath.log)), abs=1e-6)


def test_products_of_free_variables_multiply_s_and_add_logarithms():
    a, b, product = sp.MarchenkoPastur(0.6), sp.MarchenkoPastur(0.4), sp.FreeProductLaw(0.6, 0.4)
    z = np.linspace(-0.9, 0, 7)
    np.testing.assert_allclose(product.s_transform(z), a.s_transform(z) * b.s_transform(z))
    assert product.log_moment() == pytest.approx(a.log_moment() + b.log_moment())
    assert product.negative_moment() == pytest.approx(a.negative_moment() * b.negative_moment())


def test_free_cumulants():
    law = sp.MarchenkoPastur(0.3, 2.0)
    for k in range(1, 9):  # those of a free Poisson law
        assert law.free_cumulant(k) == pytest.approx(2.0**k * 0.3 ** (k - 1), rel=1e-9)
    product = sp.FreeProductLaw(0.6, 0.4, 0.5)
    # Taylor coefficients of R at 0 by Cauchy's formula on a small circle
    circle = 0.05 * np.exp(2j * np.pi * np.arange(64) / 64)
    for k in range(1, 7):
        coefficient = np.mean(product.r_transform(circle) * circle ** (1 - k)).real
        assert product.free_cumulant(k) == pytest.approx(coefficient, rel=1e-7)
    atoms = sp.AtomicLaw([1.0, 3.0])
    assert atoms.free_cumulant(2) == pytest.approx(atoms.var())


def test_log_determinant_of_a_drawn_matrix():
    d, V, N = 400, 800, 1000
    law, rng = sp.FreeProductLaw(d / V, d / N), np.random.default_rng(0)
    S = rng.standard_normal((d, V)) @ rng.standard_normal((V, N)) / np.sqrt(V * N)
    values = np.linalg.eigvalsh(S @ S.T)
    assert np.log(values).mean() == pytest.approx(law.log_moment(), abs=0.01)
    assert (1 / values).mean() == pytest.approx(law.negative_moment(), rel=0.02)


@pytest.mark.slow
def test_generalised_law_numerically():
    law = sp.FreeProductLaw(0.5, 0.3)
    engine = generalized(law)
    assert engine.log_moment() == pytest.approx(law.log_moment(), abs=1e-4)
    assert engine.negative_moment(2) == pytest.approx(law.negative_moment(2), rel=1e-3)
    np.testing.assert_allclose(engine.s_transform([-0.2, -0.6]), law.s_transform([-0.2, -0.6]), rtol=1e-4)
    np.testing.assert_allclose(engine.r_transform([0.1, 0.2]), law.r_transform([0.1, 0.2]), rtol=1e-4)


@pytest.mark.parametrize("ratio", [0.4, 2.5])
def test_companion_transform(ratio):
    """That of the other Gram matrix: its density differs by the factor ratio and by mass at zero."""
    law = sp.MarchenkoPastur(ratio)
    other = sp.MarchenkoPastur(1 / ratio, scale=ratio)
    z = np.array([-2.0, 0.5 + 0.3j, 20.0])
    np.testing.assert_allclose(law.companion_stieltjes(z, ratio), other.stieltjes(z), rtol=1e-12)


def test_points_out_of_range_are_refused():
    law = sp.FreeProductLaw(0.6, 0.4)
    with pytest.raises(DomainError):
        law.r_transform(5.0)
    with pytest.raises(DomainError):
        FreeTransforms.s_transform(law, -1.5)
