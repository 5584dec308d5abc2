"""The general law: reduction to the closed forms, identities, edges, several intervals, named errors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import diags_array
from scipy.sparse.linalg import aslinearoperator

import spikepool as sp

ONE = sp.AtomicLaw([1.0])
RATIOS = [
    (0.625, 0.5),
    (0.05, 0.3),
    (0.9, 0.95),
    (1.0, 0.5),
    (1.0, 1.0),
    (2.0, 0.5),
    (0.5, 2.0),
    (2.0, 3.0),
    (30.0, 4.0),
]


def interior(law, n=60):
    """Points inside every interval, crowded at the edges."""
    angle = np.pi * (np.arange(n) + 0.5) / n
    return np.concatenate([a + (b - a) * np.sin(angle / 2) ** 2 for a, b in law.intervals()])


def mass_by_quadrature(law, n=2000):
    """Total mass from the density alone: in the angle, square-root edges and x^(−1/2) at a hard edge are regular."""
    angle = np.pi * (np.arange(n) + 0.5) / n
    total = law.atom
    for a, b in law.intervals():
        x, weight = a + (b - a) * np.sin(angle / 2) ** 2, (b - a) / 2 * np.sin(angle) * np.pi / n
        total += float(law.pdf(x) @ weight)
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "gamma"), RATIOS)
@pytest.mark.parametrize("side", ["usage", "noise"])
def test_fed_with_marchenko_pastur_it_is_the_free_product(delta, gamma, side):
    """Two routes to MP_delta ⊠ MP_gamma: usage of ratio V/N with isotropic noise, and noise of ratio gamma."""
    exact = sp.FreeProductLaw(delta, gamma, scale=0.3)
    if side == "usage":
        law = sp.GeneralizedLaw(ONE, sp.MarchenkoPastur(gamma / delta, scale=0.3), delta)
    else:
        law = sp.GeneralizedLaw(sp.MarchenkoPastur(gamma, scale=0.3), ONE, delta)
    np.testing.assert_allclose(law.intervals(), exact.intervals(), rtol=1e-12, atol=1e-13)
    assert law.atom == pytest.approx(exact.atom, abs=1e-14)
    x = interior(exact)
    np.testing.assert_allclose(law.pdf(x), exact.pdf(x), rtol=1e-9)
    np.testing.assert_allclose(law.cdf(x), exact.cdf(x), atol=1e-9)
    left, right = exact.support()
    z = np.array([right + 0.1, 5 * right, -0.3, -2.0, 0.2 + 0.1j, left - 1e-3j, 3 - 2j, 1e3 + 0j])
    np.testing.assert_allclose(law.stieltjes(z), exact.stieltjes(z), rtol=1e-9)
    q = np.array([0.0, 0.2, 0.5, 0.97, 1.0])
    np.testing.assert_allclose(law.ppf(q), exact.ppf(q), rtol=1e-9, atol=1e-9)
    for k in range(6):
        assert law.moment(k) == pytest.approx(exact.moment(k), rel=1e-10)


@pytest.mark.slow
def test_other_closed_forms_as_input():
    """Atoms give Marchenko–Pastur; a free product of three comes out the same in any order of its factors."""
    law, exact = sp.GeneralizedLaw([2.0], [0.5, 0.5], 0.3), sp.MarchenkoPastur(0.3)
    x = interior(exact)
    np.testing.assert_allclose(law.pdf(x), exact.pdf(x), rtol=1e-11)
    first = sp.GeneralizedLaw(ONE, sp.FreeProductLaw(0.4 / 0.7, 0.2 / 0.7), 0.7)
    second = sp.GeneralizedLaw(sp.MarchenkoPastur(0.4), sp.MarchenkoPastur(0.2 / 0.7), 0.7)
    wide = sp.GeneralizedLaw(sp.MarchenkoPastur(2.0), sp.MarchenkoPastur(0.5), 0.7)
    other = sp.GeneralizedLaw(ONE, sp.FreeProductLaw(2.0 / 0.7, 0.5), 0.7)
    np.testing.assert_allclose(wide.intervals(), other.intervals(), rtol=1e-10)
    third = sp.GeneralizedLaw(ONE, sp.GeneralizedLaw(ONE, sp.MarchenkoPastur(0.2 / 0.4), 0.4 / 0.7), 0.7)
    np.testing.assert_allclose(first.intervals(), second.intervals(), rtol=1e-10)
    x = interior(first, 12)
    np.testing.assert_allclose(second.pdf(x), first.pdf(x), rtol=1e-9)
    np.testing.assert_allclose(third.pdf(x[3:5]), first.pdf(x[3:5]), rtol=1e-9)
    np.testing.assert_allclose(second.cdf(x), first.cdf(x), atol=1e-9)


def test_swapping_the_roles_of_rows_and_columns():
    """Y Y' (d x d) and Y'Y (V x V) have the same spectrum off zero: law(A, M, delta) against law(M, A, 1/delta)."""
    a, t, delta = [0.5, 1.0, 4.0], [0.2, 3.0], 0.4
    law, other = sp.GeneralizedLaw(a, t, delta), sp.GeneralizedLaw(t, a, 1 / delta)
    np.testing.assert_allclose(other.intervals(), law.intervals() / delta, rtol=1e-10)
    x = interior(law, 20)
    np.testing.assert_allclose(other.pdf(x / delta), delta * delta * law.pdf(x), rtol=1e-9)


def test_scaling():
    a, t = np.array([0.5, 2.0]), np.array([0.1, 1.0, 9.0])
    law, scaled = sp.GeneralizedLaw(a, t, 1.5), sp.GeneralizedLaw(3 * a, 5 * t, 1.5)
    np.testing.assert_allclose(scaled.intervals(), 15 * law.intervals(), rtol=1e-12)
    x = interior(law, 20)
    np.testing.assert_allclose(15 * scaled.pdf(15 * x), law.pdf(x), rtol=1e-10)


CASES = {
    "one interval": ([1.0], np.linspace(0.1, 3, 40), 0.6),
    "two far groups": ([1.0], [1.0, 1.0, 60.0], 8.0),
    "split by the noise": ([0.1, 0.1, 40.0], [0.8, 1.2], 0.05),
    "six decades": ([1.0, 2.0], np.logspace(-3, 3, 7), 20.0),
    "clustered": ([1.0], 1 + 1e-9 * np.arange(50), 3.0),
    "rank deficient usage": ([1.0], [0.0, 0.0, 1.0, 2.0], 0.3),
    "rank deficient noise": ([0.0, 1.0], [1.0, 2.0], 0.9),
    "square": ([1.0, 3.0], [0.5, 1.0], 1.0),
    "square, twelve decades": ([1.0], np.logspace(-6, 6, 13), 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_total_mass_and_cdf(case):
    """The density integrates to 1 to 1e-8, and to the distribution function, which comes from a separate formula."""
    a, t, delta = CASES[case]
    law = sp.GeneralizedLaw(a, t, delta)
    assert mass_by_quadrature(law) == pytest.approx(1.0, abs=1e-8)
    for low, high in law.intervals():
        angle = np.linspace(0.4, np.pi - 0.4, 5)
        x = low + (high - low) * np.sin(angle / 2) ** 2
        node, weight = np.polynomial.legendre.leggauss(120)
        for x0, x1 in pairwise(x):
            mass = (x1 - x0) / 2 * float(law.pdf((x0 + x1) / 2 + (x1 - x0) / 2 * node) @ weight)
            assert law.cdf(x1) - law.cdf(x0) == pytest.approx(mass, abs=1e-9)
    assert law.cdf(law.support()[1]) == 1.0
    assert law.cdf(-1e-9) == 0.0
    assert law.cdf(0.0) == pytest.approx(law.atom, abs=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_moments_ppf_and_stieltjes_agree_with_the_density(case):
    a, t, delta = CASES[case]
    law = sp.GeneralizedLaw(a, t, delta)
    q = np.linspace(law.atom + 1e-6, 1 - 1e-6, 23)
    np.testing.assert_allclose(law.cdf(law.ppf(q)), q, atol=1e-11)
    a, t = np.asarray(a, float), np.asarray(t, float)
    assert law.mean() == pytest.approx(a.mean() * t.mean(), rel=1e-14)
    assert law.moment(2) == pytest.approx((a**2).mean() * t.mean() ** 2 + delta * a.mean() ** 2 * (t**2).mean())
    # third moment of A^{1/2}Z M Z'A^{1/2}/V by Wick's theorem, leading order
    third = (a**3).mean() * t.mean() ** 3 + 3 * delta * (a**2).mean() * a.mean() * (t**2).mean() * t.mean()
    third += delta**2 * a.mean() ** 3 * (t**3).mean()
    assert law.moment(3) == pytest.approx(third, rel=1e-9)
    x = interior(law, 3)
    m = law.stieltjes(x + 1e-9j * x)
    np.testing.assert_allclose(m.imag / np.pi, law.pdf(x), rtol=2e-5)
    np.testing.assert_array_equal(law.stieltjes(x - 1e-9j * x), m.conj())


def test_number_and_masses_of_the_intervals_follow_the_atoms():
    """Exact separation: each interval holds the eigenvalues of its own group of atoms."""
    law = sp.GeneralizedLaw([1.0], [1.0, 1.0, 60.0], 8.0)  # S has V = d/8 eigenvalues off zero, one third of them large
    assert len(law.intervals()) == 2
    gap = law.intervals()[0, 1] * 1.01
    assert law.cdf(gap) == pytest.approx(1 - 1 / 24, abs=1e-14)
    law = sp.GeneralizedLaw([0.1, 0.1, 40.0], [0.8, 1.2], 0.05)
    assert len(law.intervals()) == 2
    middle = law.intervals()[0, 1] * 1.01
    assert law.cdf(middle) == pytest.approx(2 / 3, abs=1e-14)
    assert law.pdf(middle) == 0.0
    assert law.ppf(2 / 3) == pytest.approx(law.intervals()[0, 1], rel=1e-9)


def test_edges_against_a_direct_search_for_critical_points():
    """Isotropic noise: edges are the critical values of z(e) = ∫t dH/(1+et) − delta/e, located here on a fine grid."""
    from scipy.optimize import brentq

    t, p, delta = np.array([0.3, 1.0, 7.0]), np.array([0.5, 0.3, 0.2]), 4.0
    law = sp.GeneralizedLaw(ONE, sp.AtomicLaw(t, p), delta)

    def slope(e):
        return delta / e**2 - float(p @ (t / (1 + e * t)) ** 2)

    def z(e):
        return float(p @ (t / (1 + e * t))) - delta / e

    poles = np.sort(np.concatenate([-1 / t, [0.0, -1e4, 1e4]]))
    edges = []
    for a, b in pairwise(poles):
        grid = a + (b - a) * (1 - np.cos(np.linspace(1e-4, np.pi - 1e-4, 20_001))) / 2
        values = np.array([slope(e) for e in grid])
        for k in np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1])):
            edges.append(z(brentq(slope, grid[k], grid[k + 1], xtol=1e-15)))
    np.testing.assert_allclose(np.sort(edges), law.intervals().ravel(), rtol=1e-10)


@pytest.mark.slow
def test_spectrum_of_matrices_and_operators():
    """The same law from atoms, a dense matrix, a sparse matrix and, by quadrature, an operator too large to hold."""
    values = np.linspace(0.5, 2.0, 60)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 60)))[0]
    atoms = sp.GeneralizedLaw(ONE, values, 0.5)
    dense = sp.GeneralizedLaw(ONE, (rotation * values) @ rotation.T, 0.5)
    sparse = sp.GeneralizedLaw(ONE, diags_array(values), 0.5)
    x = interior(atoms, 20)
    np.testing.assert_allclose(dense.pdf(x), atoms.pdf(x), rtol=1e-9)
    np.testing.assert_allclose(sparse.pdf(x), atoms.pdf(x), rtol=1e-12)
    large = np.linspace(0.5, 2.0, 5000)
    operator = sp.GeneralizedLaw(ONE, aslinearoperator(diags_array(large)), 0.5)
    exact = sp.GeneralizedLaw(ONE, np.linspace(0.5, 2.0, 500), 0.5)
    x = np.linspace(0.3, 3.0, 15)
    # stochastic quadrature: the error of a linear statistic is about 1/sqrt(size x probes) = .0035
    np.testing.assert_allclose(operator.cdf(x), exact.cdf(x), atol=4 * 0.0035)


def test_solution_satisfies_the_equations_as_printed():
    a, t, delta = np.array([0.4, 1.0, 2.5]), np.linspace(0.2, 2.0, 9), 0.7
    law = sp.GeneralizedLaw(a, t, delta)
    x = interior(law, 40)
    e, et = law.boundary_values(x)
    assert np.all(e.imag > 0)
    assert np.all(et.imag > 0)
    np.testing.assert_allclose(e, -delta * (a / (1 + et[:, None] * a)).mean(axis=1) / x, rtol=1e-12)
    np.testing.assert_allclose(et, -(t / (1 + e[:, None] * t)).mean(axis=1) / x, rtol=1e-12)
    np.testing.assert_allclose(law.pdf(x), (-(1 / (1 + et[:, None] * a)).mean(axis=1) / x).imag / np.pi, rtol=1e-11)


def test_shapes_and_rvs():
    law = sp.GeneralizedLaw([1.0, 2.0], [1.0, 3.0], 0.5)
    assert law.pdf(np.ones((2, 3))).shape == (2, 3)
    assert isinstance(law.pdf(1.0), float)
    assert law.pdf([]).shape == (0,)
    draws = law.rvs(400, rng=1)
    np.testing.assert_array_equal(draws, law.rvs(400, rng=1))
    assert abs(draws.mean() - law.mean()) < 4 * law.std() / 20


@pytest.mark.parametrize(
    ("noise", "usage", "delta", "error"),
    [
        ([-1.0, 1.0], [1.0], 0.5, sp.DomainError),
        ([1.0], [np.nan], 0.5, sp.NonFiniteError),
        ([1.0], [], 0.5, sp.ShapeError),
        ([1.0], [0.0], 0.5, sp.DomainError),
        ([1.0], [1.0], 0.0, sp.DomainError),
        ([1.0], [1.0], np.inf, sp.NonFiniteError),
        ([1.0], np.array([[1.0, 0.0], [0.0, -1.0]]), 0.5, sp.CorrelationError),
        ([1.0], np.array([[1.0, 2.0], [0.0, 1.0]]), 0.5, sp.CorrelationError),
        ([1.0], np.ones((2, 3)), 0.5, sp.ShapeError),
        ([1.0], aslinearoperator(-np.eye(5)), 0.5, sp.CorrelationError),
        ([1.0], aslinearoperator(np.triu(np.ones((5, 5)))), 0.5, sp.CorrelationError),
        ([1.0], aslinearoperator(np.ones((5, 4))), 0.5, sp.ShapeError),
        ("noise", [1.0], 0.5, sp.SpikepoolError),
    ],
)
def test_bad_laws_are_named_errors(noise, usage, delta, error):
    with pytest.raises(error):
        sp.GeneralizedLaw(noise, usage, delta)


def test_bad_points_are_named_errors():
    law = sp.GeneralizedLaw([1.0], [1.0, 2.0], 2.0)
    left, right = law.support()
    for z in ((left + right) / 2, left, right, 0.0):  # 0 is an atom
        with pytest.raises(sp.OnSupportError):
            law.stieltjes(z)
    with pytest.raises(sp.NonFiniteError):
        law.pdf([1.0, np.nan])
    with pytest.raises(sp.DomainError):
        law.ppf(-0.1)
    with pytest.raises(sp.DomainError):
        law.boundary_values(right + 1)
    with pytest.raises(sp.DomainError):
        law.pdf(1j)


def test_a_point_that_does_not_converge_raises_with_the_point_and_the_remedy(monkeypatch):
    from spikepool.kit.roots import SolverReport
    from spikepool.laws import _separable

    def stuck(usage, noise, z, *args, **kwargs):
        n = len(z)
        return SolverReport(np.full(n, 1 - 1j), np.full(n, 0.5), np.zeros(n, dtype=bool), 3)

    law = sp.GeneralizedLaw([1.0], [1.0, 2.0], 0.5)
    law.intervals()
    monkeypatch.setattr(_separable, "solve", stuck)
    with pytest.raises(sp.ConvergenceError, match="no solution") as caught:
        law.pdf(1.0)
    assert caught.value.point == 1.0
    with pytest.raises(sp.ConvergenceError):
        law.stieltjes(1 + 1j)


@pytest.mark.parametrize(
    ("noise", "usage", "delta"), [(0.3, 0.3, 0.1), (1.0, 2.0, 0.7), (5.0, 0.3, 3.0), (1.5, 1.5, 1.0)]
)
def test_two_continuous_laws(noise, usage, delta):
    # edges are sought where Newton can step onto the support of either law
    law = sp.GeneralizedLaw(sp.MarchenkoPastur(noise), sp.MarchenkoPastur(usage), delta)
    left, right = law.support()
    assert 0 <= left < right
    assert law.cdf(right) == pytest.approx(1, abs=1e-8)
    # mean of a product of free variables; rank of the product by counting dimensions (d = delta V)
    assert law.mean() == pytest.approx(1, rel=1e-9)
    rank = min(min(1.0, 1 / noise), min(1.0, 1 / usage) / delta)
    assert law.atom == pytest.approx(1 - min(rank, 1.0), abs=1e-9)


@pytest.mark.parametrize("delta", [1e-14, 1e-12, 1e-10, 1e-6])
class TestTinyRatios:
    """Bands of width sqrt(delta): x itself is only known to 2e-16/sqrt(delta) of the width."""

    LEVELS = np.array([0.001, 0.1, 0.3, 0.5, 0.9, 0.999])

    def test_quantiles_are_those_of_marchenko_pastur(self, delta):
        law, exact = sp.GeneralizedLaw(ONE, ONE, delta), sp.MarchenkoPastur(delta)
        width = np.sqrt(delta)
        rounding = 20 * np.finfo(float).eps / width
        np.testing.assert_allclose((law.intervals() - exact.intervals()) / width, 0, atol=rounding)
        # next to an edge a level moves a quantile by its cube root: two thirds of the digits are left
        got, expected = law.ppf(self.LEVELS), exact.ppf(self.LEVELS)
        np.testing.assert_allclose((got - expected) / width, 0, atol=20 * rounding)
        np.testing.assert_allclose(law.cdf(expected), self.LEVELS, atol=20 * rounding)
        inner = expected[1:-1]
        np.testing.assert_allclose(law.pdf(inner), exact.pdf(inner), rtol=20 * rounding)

    def test_bands_of_several_atoms_are_semicircles(self, delta):
        # S = t1 A + sqrt(delta t2) A^(1/2) G A^(1/2) up to a relative sqrt(delta), G with semicircle eigenvalues
        atoms, weights, usage = np.array([1.0, 3.0]), np.array([0.25, 0.75]), np.array([1.0, 4.0])
        law = sp.GeneralizedLaw(sp.AtomicLaw(atoms, weights), usage, delta)
        t1, t2 = usage.mean(), np.mean(usage**2)
        half = 2 * np.sqrt(delta * t2 * weights) * atoms
        expected = np.column_stack([t1 * atoms - half, t1 * atoms + half])
        np.testing.assert_allclose((law.intervals() - expected) / half[:, None], 0, atol=20 * np.sqrt(delta) + 1e-7)
        middle = law.ppf([0.125, 0.25 + 0.375])
        np.testing.assert_allclose((middle - t1 * atoms) / half, 0, atol=20 * np.sqrt(delta) + 1e-7)
        # and far away it is the population law times the mean of the usage
        z = np.array([-1.0, -0.01, 2.0 + 0.5j])
        np.testing.assert_allclose(
            law.stieltjes(z), sp.AtomicLaw(t1 * atoms, weights).stieltjes(z), rtol=1e-8 + 50 * delta
        )


@pytest.mark.parametrize("delta", [1e-320, 1e-15, 1e15, 1e308])
def test_ratios_that_doubles_do_not_resolve_are_refused_at_once(delta):
    with pytest.raises(sp.DomainError, match=r"delta must lie in \[1e-14, 1e\+14\].*got .*Below it use"):
        sp.GeneralizedLaw(ONE, [1.0, 2.0], delta)


def test_the_largest_ratio_is_the_dual_of_a_small_one():
    """The eigenvalues of Z M Z'/V off zero are those of M^(1/2) Z'Z M^(1/2)/V: delta times the law of 1/delta."""
    delta = 1e12
    law = sp.GeneralizedLaw(ONE, [1.0, 3.0], delta)
    dual = sp.GeneralizedLaw([1.0, 3.0], ONE, 1 / delta)
    np.testing.assert_allclose(law.intervals(), delta * dual.intervals(), rtol=1e-12)


@pytest.mark.parametrize(("noise", "usage", "delta"), [("mp", [1.0, 2.0], 1e-10), ([1.0, 2.0], "mp", 1e10)])
def test_continuous_laws_at_extreme_ratios_ask_for_atoms(noise, usage, delta):
    law = sp.MarchenkoPastur(0.5)
    with pytest.raises(sp.ConvergenceError, match="quantiles"):
        sp.GeneralizedLaw(*(law if part == "mp" else part for part in (noise, usage)), delta).intervals()
    levels = (np.arange(20) + 0.5) / 20
    atoms = sp.AtomicLaw(law.ppf(levels))
    bands = sp.GeneralizedLaw(*(atoms if part == "mp" else part for part in (noise, usage)), delta).intervals()
    assert np.all(np.diff(bands.ravel()) > 0)


class TestNextToZero:
    """Against the closed forms: an atom keeps every digit, a hard edge half of them until z is refused."""

    @pytest.mark.parametrize("size", [1e-2, 1e-8, 1e-20, 1e-90, 1e-250])
    def test_an_atom(self, size):
        law, exact = sp.GeneralizedLaw(ONE, ONE, 3.0), sp.MarchenkoPastur(3.0)
        z = np.array([-size, size, 1j * size, size - 1j * size])
        np.testing.assert_allclose(law.stieltjes(z), exact.stieltjes(z), rtol=1e-13)

    @pytest.mark.parametrize("size", [1e-2, 1e-8, 1e-13])
    def test_a_hard_edge(self, size):
        law, exact = sp.GeneralizedLaw(ONE, ONE, 1.0), sp.MarchenkoPastur(1.0)
        z = np.array([-size, 1j * size, size - 1j * size])
        np.testing.assert_allclose(law.stieltjes(z), exact.stieltjes(z), rtol=50 * np.finfo(float).eps / np.sqrt(size))

    @pytest.mark.parametrize(("delta", "z"), [(1.0, -1e-15), (1.0, 1e-40j), (3.0, 1e-310), (3.0, -1e-320j)])
    def test_what_doubles_cannot_tell_from_zero(self, delta, z):
        with pytest.raises(sp.OnSupportError, match="singular at 0"):
            sp.GeneralizedLaw(ONE, ONE, delta).stieltjes(z)
