"""Point-mass laws: every method against its definition."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp

VALUES, WEIGHTS = np.array([3.0, 0.0, 1.0, 3.0]), np.array([0.2, 0.3, 0.4, 0.1])


@pytest.fixture
def law() -> sp.AtomicLaw:
    return sp.AtomicLaw(VALUES, WEIGHTS)


def test_equal_atoms_merge_and_weights_default_to_equal(law):
    assert law.values.tolist() == [0.0, 1.0, 3.0]
    np.testing.assert_allclose(law.weights, [0.3, 0.4, 0.3], rtol=1e-15)
    np.testing.assert_allclose(sp.AtomicLaw([2.0, 5.0, 7.0]).weights, 1 / 3)


def test_atom_support_and_absent_continuous_part(law):
    assert law.atom == pytest.approx(0.3)
    assert sp.AtomicLaw([1.0]).atom == 0.0
    assert law.support() == (0.0, 3.0)
    assert law.intervals().shape == (0, 2)
    assert np.all(law.pdf([0.0, 0.5, 1.0]) == 0)


def test_cdf_is_right_continuous_and_ppf_inverts_it(law):
    np.testing.assert_allclose(law.cdf([-1, 0, 0.5, 1, 2.999, 3, np.inf]), [0, 0.3, 0.3, 0.7, 0.7, 1, 1])
    np.testing.assert_array_equal(law.ppf([0, 0.3, 0.3001, 0.7, 0.71, 1]), [0, 0, 1, 1, 3, 3])
    assert isinstance(law.cdf(1.0), float)


def test_levels_that_are_sums_of_many_weights_give_the_right_atom():
    law = sp.AtomicLaw(np.arange(10.0))
    np.testing.assert_array_equal(law.ppf(np.arange(1, 11) / 10), np.arange(10.0))


def test_moments_are_sums(law):
    for k in range(5):
        assert law.moment(k) == pytest.approx(float(WEIGHTS @ VALUES**k), rel=1e-15)
    assert law.var() == pytest.approx(float(WEIGHTS @ VALUES**2 - (WEIGHTS @ VALUES) ** 2))


def test_stieltjes_is_the_sum_and_keeps_reality_and_conjugation(law):
    z = np.array([[1 + 1j, -2.0], [0.5 - 3j, 2.0]])
    expected = (WEIGHTS / (VALUES - z[..., None])).sum(axis=-1)
    np.testing.assert_allclose(law.stieltjes(z), expected, rtol=1e-14)
    np.testing.assert_allclose(law.stieltjes(z.conj()), expected.conj(), rtol=1e-14)
    assert np.isrealobj(law.stieltjes(np.array([-1.0, 2.0])))


def test_rvs_follows_the_weights(law):
    draws = law.rvs(20_000, rng=0)
    share = (draws == 1.0).mean()
    assert abs(share - 0.4) < 4 * np.sqrt(0.24 / 20_000)
    assert set(np.unique(draws)) == {0.0, 1.0, 3.0}


@pytest.mark.parametrize(
    ("values", "weights", "error"),
    [
        ([], None, sp.ShapeError),
        ([[1.0]], None, sp.ShapeError),
        ([1.0, np.nan], None, sp.NonFiniteError),
        ([1.0, np.inf], None, sp.NonFiniteError),
        ([-1.0, 1.0], None, sp.DomainError),
        ([1.0, 2.0], [0.5], sp.ShapeError),
        ([1.0, 2.0], [0.6, 0.6], sp.DomainError),
        ([1.0, 2.0], [1.5, -0.5], sp.DomainError),
        ([1.0, 2.0], [np.nan, 1.0], sp.NonFiniteError),
        (["a"], None, sp.InvalidInputError),
    ],
)
def test_bad_atoms_are_named_errors(values, weights, error):
    with pytest.raises(error):
        sp.AtomicLaw(values, weights)


def test_bad_points_are_named_errors(law):
    with pytest.raises(sp.OnSupportError):
        law.stieltjes(1.0)
    with pytest.raises(sp.NonFiniteError):
        law.stieltjes(np.nan)
    with pytest.raises(sp.NonFiniteError):
        law.cdf(np.nan)
    with pytest.raises(sp.DomainError):
        law.ppf(1.1)
    with pytest.raises(sp.SizeError):
        law.moment(-1)


# the closed forms refuse the same points next to their atom at zero
@pytest.mark.parametrize("z", [0.0, 1e-320, -1e-320, 1e-305j, 1.0])
def test_a_point_that_doubles_cannot_tell_from_an_atom_is_on_it(z):
    with pytest.raises(sp.OnSupportError, match="atom of the law"):
        sp.AtomicLaw([0.0, 1.0]).stieltjes(z)


def test_next_to_an_atom_the_transform_is_finite():
    law = sp.AtomicLaw([0.0, 1.0])
    assert law.stieltjes(-1e-299) == pytest.approx(5e298, rel=1e-12)
    assert law.stieltjes(1e-299j) == pytest.approx(5e298j, rel=1e-12)
