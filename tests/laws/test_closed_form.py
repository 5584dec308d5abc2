"""The two closed-form laws against high-precision references, identities and limits."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from references import density_reference, free_product_moment, stieltjes_reference
from scipy.integrate import quad

import spikepool as sp

RATIOS = [1e-12, 1e-6, 0.1, 0.625, 1.0, 3.0, 1e3]
PAIRS = list(itertools.product(RATIOS, RATIOS))
INSIDE = np.array([1e-9, 1e-4, 0.03, 0.4, 0.9, 0.9999, 1 - 1e-8])


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_density_agrees_with_forty_digits(delta, gamma):
    for scale in (1.0, 0.1):
        law = sp.FreeProductLaw(delta, gamma, scale)
        left, right = law.support()
        x = left + (right - left) * INSIDE
        x = x[(x > left) & (x < right)]
        reference = np.array([float(density_reference(float(v), delta, gamma, scale)) for v in x])
        np.testing.assert_allclose(law.pdf(x), reference, rtol=1e-12)


@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_stieltjes_agrees_with_forty_digits(delta, gamma):
    law = sp.FreeProductLaw(delta, gamma, 0.1)
    left, right = law.support()
    width = right - left
    z = np.array(
        [
            left + 1j * width,
            left - 0.5 * width + 1e-3j * width,
            (left + right) / 2 + 1e-8j * width,
            right + 0.1 * width + 1e-14j * right,
            -0.1 * right + 1e-5j,
            1e-9 + 1e-9j,
            1e-3j,
            100j * right,
        ]
    )
    reference = np.array([complex(stieltjes_reference(complex(v), delta, gamma, 0.1)) for v in z])
    np.testing.assert_allclose(law.stieltjes(z), reference, rtol=1e-12)
    np.testing.assert_allclose(law.stieltjes(z.conj()), reference.conj(), rtol=1e-12)


@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_stieltjes_on_the_real_line_continues_the_upper_half_plane(delta, gamma):
    law = sp.FreeProductLaw(delta, gamma)
    left, right = law.support()
    width = right - left
    x = np.array([-10 * right, -1e-3 * right, right + 0.01 * width, right + width, 100 * right])
    if law.atom == 0 and left > 0:
        x = np.append(x, [0.0, 0.5 * left])
    m = law.stieltjes(x)
    assert np.isrealobj(m)
    with mp.workdps(40):
        reference = [float(mp.re(stieltjes_reference(mp.mpc(float(v), 1e-35), delta, gamma, 1))) for v in x if v != 0]
    np.testing.assert_allclose(m[x != 0], reference, rtol=1e-12)
    if 0.0 in x:  # the mean of 1/x over the law
        assert m[x == 0] == pytest.approx(1 / ((1 - delta) * (1 - gamma)), rel=1e-12)


@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_continuous_mass_and_atom_make_one(delta, gamma):
    law = sp.FreeProductLaw(delta, gamma, 2.0)
    left, right = law.support()
    width = right - left
    # x = left + width t³ on the left half and right − width t² on the right half tame both edges, hard ones included
    low, _ = quad(
        lambda t: float(law.pdf(left + width * t**3)) * 3 * width * t**2, 0, 0.5 ** (1 / 3), epsabs=1e-13, limit=400
    )
    high, _ = quad(lambda t: float(law.pdf(right - width * t**2)) * 2 * width * t, 0, 0.5**0.5, epsabs=1e-13, limit=400)
    assert low + high + law.atom == pytest.approx(1, abs=1e-10)
    assert law.cdf(left + width / 2) == pytest.approx(law.atom + low, abs=1e-10)


@pytest.mark.parametrize(("delta", "gamma"), PAIRS)
def test_quantiles_invert_the_distribution_function(delta, gamma):
    law = sp.FreeProductLaw(delta, gamma, 0.3)
    left, right = law.support()
    x = left + (right - left) * np.array([1e-4, 0.01, 0.2, 0.5, 0.77, 0.99, 0.9999])
    np.testing.assert_allclose(law.ppf(law.cdf(x)), x, rtol=1e-9, atol=1e-9 * (right - left))
    assert law.ppf(1.0) == right
    assert law.ppf(0.0) == (0.0 if law.atom > 0 else left)


def test_support_of_the_papers_figure():
    left, right = sp.FreeProductLaw(0.625, 0.5).support()
    assert left == pytest.approx(0.016713074647935783, rel=1e-15)
    assert right == pytest.approx(4.710743628489127, rel=1e-15)


@pytest.mark.parametrize(("delta", "gamma"), [(0.625, 0.5), (0.1, 3.0), (2.0, 1e-6), (0.0, 0.7), (0.0, 0.0)])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_moments_are_sums_over_noncrossing_partitions(delta, gamma, k):
    law = sp.FreeProductLaw(delta, gamma, 1.5)
    assert law.moment(k) == pytest.approx(1.5**k * free_product_moment(k, delta, gamma), rel=1e-13)


def test_first_moments_are_their_polynomials():
    d, g = 0.625, 0.5
    law = sp.FreeProductLaw(d, g)
    assert law.mean() == pytest.approx(1)
    assert law.moment(2) == pytest.approx(1 + d + g)
    assert law.moment(3) == pytest.approx(1 + 3 * (d + g) + d * d + g * g + 3 * d * g)
    assert law.var() == pytest.approx(d + g)
    assert law.moment(0) == 1


def test_moments_integrate_the_density():
    law = sp.FreeProductLaw(0.4, 1.7, 0.8)
    left, right = law.support()
    for k in (1, 2, 3, 4):
        value, _ = quad(lambda x, k=k: x**k * float(law.pdf(x)), left, right, limit=400, epsrel=1e-11)
        assert law.moment(k) == pytest.approx(value, rel=1e-8)


def test_symmetric_in_the_two_ratios():
    x = np.linspace(0.02, 5, 40)
    for delta, gamma in ((0.3, 0.9), (2.0, 0.1), (1e-6, 3.0)):
        a, b = sp.FreeProductLaw(delta, gamma), sp.FreeProductLaw(gamma, delta)
        np.testing.assert_array_equal(a.pdf(x), b.pdf(x))
        np.testing.assert_array_equal(a.cdf(x), b.cdf(x))


@pytest.mark.parametrize("ratio", [1e-9, 0.25, 0.999999, 1.0, 1.000001, 4.0, 1e3])
def test_marchenko_pastur_is_the_textbook_formula(ratio):
    law = sp.MarchenkoPastur(ratio, 2.0)
    a, b = 2 * (1 - np.sqrt(ratio)) ** 2, 2 * (1 + np.sqrt(ratio)) ** 2
    assert law.support() == pytest.approx((a, b), rel=1e-9, abs=1e-15)
    left, right = law.support()
    x = left + (right - left) * np.linspace(0.01, 0.99, 25)
    expected = np.sqrt((right - x) * (x - left)) / (2 * np.pi * ratio * 2 * x)
    np.testing.assert_allclose(law.pdf(x), expected, rtol=1e-9)
    z = np.array([1 + 1j, -0.5 + 0.1j, 30 + 1e-6j, 1e-3j])
    m = law.stieltjes(z)
    np.testing.assert_allclose(
        ratio * 2 * z * m**2 + (z + 2 * (ratio - 1)) * m + 1, 0, atol=1e-12 * np.abs(z * m).max()
    )
    assert np.all(m.imag > 0)
    assert law.atom == pytest.approx(max(0, 1 - 1 / ratio), abs=1e-15)


def test_zero_ratio_is_the_limit_of_small_ratios():
    x = np.linspace(0.1, 2.8, 30)
    exact = sp.FreeProductLaw(0.0, 0.5)
    np.testing.assert_array_equal(exact.pdf(x), sp.MarchenkoPastur(0.5).pdf(x))
    errors = [np.abs(sp.FreeProductLaw(eps, 0.5).pdf(x) - exact.pdf(x)).max() for eps in (1e-3, 1e-5, 1e-7)]
    assert errors[0] > 50 * errors[1] > 2500 * errors[2] > 0  # linear in the ratio
    np.testing.assert_allclose(sp.FreeProductLaw(1e-300, 0.5).cdf(x), exact.cdf(x), rtol=1e-14)


def test_point_mass():
    law = sp.FreeProductLaw(0.0, 0.0, 0.7)
    assert law.support() == (0.7, 0.7)
    np.testing.assert_array_equal(law.pdf([0.0, 0.7, 1.0]), [0.0, np.inf, 0.0])
    np.testing.assert_array_equal(law.cdf([0.0, 0.69, 0.7, 1.0]), [0, 0, 1, 1])
    np.testing.assert_array_equal(law.ppf([0.0, 0.5, 1.0]), [0.7, 0.7, 0.7])
    assert law.stieltjes(2.0) == pytest.approx(1 / (0.7 - 2.0))
    assert (law.atom, law.mean(), law.var()) == (0.0, 0.7, 0.0)
    assert set(law.rvs(5, rng=0)) == {0.7}


def test_hard_edges_diverge_at_the_known_rates():
    x = np.array([1e-8, 1e-10])
    for (delta, gamma), rate in {(1.0, 0.3): -1 / 2, (1.0, 1.0): -2 / 3, (3.0, 3.0): -1 / 2}.items():
        law = sp.FreeProductLaw(delta, gamma)
        assert law.support()[0] == 0
        low, high = np.log(law.pdf(x))
        assert (low - high) / np.log(x[0] / x[1]) == pytest.approx(rate, abs=2e-3)
        assert law.pdf(0.0) == np.inf


def test_fuss_catalan_moments_at_ratio_one():
    law = sp.FreeProductLaw(1.0, 1.0)  # the law of squared singular values of a product of two square matrices
    assert [law.moment(k) for k in (1, 2, 3, 4)] == pytest.approx([1, 3, 12, 55])
    assert law.support() == pytest.approx((0, 27 / 4))


def test_random_variates_follow_the_law():
    law = sp.FreeProductLaw(0.5, 2.0)
    draws = law.rvs(20_000, rng=3)
    assert np.mean(draws == 0) == pytest.approx(law.atom, abs=4 * np.sqrt(0.25 / 20_000))
    positive = np.sort(draws[draws > 0])
    empirical = (np.arange(len(positive)) + 0.5) / len(positive) * (1 - law.atom) + law.atom
    assert np.abs(law.cdf(positive) - empirical).max() < 1.95 / np.sqrt(len(positive))  # Kolmogorov, p about 1e-3
    np.testing.assert_array_equal(law.rvs((2, 3), rng=5), law.rvs((2, 3), rng=5))


def test_shapes_and_scalars():
    law = sp.FreeProductLaw(0.625, 0.5)
    assert isinstance(float(law.pdf(1.0)), float)
    assert np.ndim(law.pdf(1.0)) == 0
    assert law.pdf(np.ones((2, 3))).shape == (2, 3)
    assert law.stieltjes(np.ones((2, 2)) * 1j).shape == (2, 2)
    assert law.pdf([]).shape == (0,)
    np.testing.assert_array_equal(law.pdf([-1.0, 0.0, np.inf, -np.inf]), 0)
    np.testing.assert_array_equal(law.cdf([-1.0, 0.0, np.inf, -np.inf]), [0, 0, 1, 0])


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: sp.FreeProductLaw(-0.1, 0.5), sp.DomainError),
        (lambda: sp.FreeProductLaw(0.1, np.nan), sp.NonFiniteError),
        (lambda: sp.FreeProductLaw(0.1, np.inf), sp.NonFiniteError),
        (lambda: sp.FreeProductLaw(0.1, 0.1, 0.0), sp.DomainError),
        (lambda: sp.FreeProductLaw("a", 0.1), sp.InvalidInputError),
        (lambda: sp.MarchenkoPastur(-1.0), sp.DomainError),
        (lambda: sp.MarchenkoPastur(1.0, -2.0), sp.DomainError),
        (lambda: sp.MarchenkoPastur(0.5).pdf([1.0, np.nan]), sp.NonFiniteError),
        (lambda: sp.MarchenkoPastur(0.5).pdf(1j), sp.DomainError),
        (lambda: sp.MarchenkoPastur(0.5).cdf(np.nan), sp.NonFiniteError),
        (lambda: sp.MarchenkoPastur(0.5).ppf(1.1), sp.DomainError),
        (lambda: sp.MarchenkoPastur(0.5).ppf(np.nan), sp.NonFiniteError),
        (lambda: sp.MarchenkoPastur(0.5).stieltjes(1.0), sp.OnSupportError),
        (lambda: sp.MarchenkoPastur(2.0).stieltjes(0.0), sp.OnSupportError),
        (lambda: sp.MarchenkoPastur(0.5).stieltjes(np.inf), sp.NonFiniteError),
        (lambda: sp.MarchenkoPastur(2.0).stieltjes(1e-310j), sp.OnSupportError),
        (lambda: sp.FreeProductLaw(1.0, 1.0).stieltjes(-1e-310), sp.OnSupportError),
        (lambda: sp.MarchenkoPastur(0.5).stieltjes("z"), sp.InvalidInputError),
        (lambda: sp.MarchenkoPastur(0.5).pdf(["1", "2"]), sp.InvalidInputError),
        (lambda: sp.MarchenkoPastur(0.5).pdf([[1.0, 2.0], [3.0]]), sp.InvalidInputError),
        (lambda: sp.MarchenkoPastur(0.5).cdf(np.ma.masked_array([1.0, 2.0], [False, True])), sp.InvalidInputError),
        (lambda: sp.MarchenkoPastur(10**400), sp.InvalidInputError),
        (lambda: sp.MarchenkoPastur(0.5).rvs(-1), sp.SizeError),
        (lambda: sp.MarchenkoPastur(0.5).rvs((2, 1.5)), sp.SizeError),
        (lambda: sp.MarchenkoPastur(0.5).moment(-1), sp.SizeError),
        (lambda: sp.MarchenkoPastur(0.5).moment(1.5), sp.SizeError),
        (lambda: sp.MarchenkoPastur(0.5).rvs(3, rng="seed"), sp.InvalidInputError),
    ],
)
def test_bad_input_is_named(build, error):
    with pytest.raises(error) as caught:
        build()
    assert isinstance(caught.value, ValueError)
    assert "got" in str(caught.value)


@pytest.mark.parametrize("z", [0.0, 1e-320, -1e-310, 1e-290j, -1e-101, 1e-99 + 1e-99j])
def test_transform_is_continuous_through_the_origin_off_the_support(z):
    law = sp.FreeProductLaw(0.625, 0.5)
    np.testing.assert_allclose(law.stieltjes(z), 1 / (0.375 * 0.5), rtol=1e-14)  # ∫ dF/x of the free product


def test_a_draw_that_cannot_be_held_is_refused():
    with pytest.raises(sp.MemoryBudgetError, match="GiB"):
        sp.MarchenkoPastur(0.5).rvs((10**7, 10**7))


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_transform_is_continuous_through_zero(ratio):
    # just left of zero the physical root is a difference of larger numbers; it must not be mistaken for another
    law = sp.MarchenkoPastur(ratio)
    z = np.array([-1e-6, -1e-9, -1e-12, -1e-15, 0.0, 1e-15, 1e-12])
    slope = 1 / (1 - ratio) ** 3  # the mean of 1/x² over the law
    np.testing.assert_allclose(law.stieltjes(z), 1 / (1 - ratio) + slope * z, rtol=1e-7)
