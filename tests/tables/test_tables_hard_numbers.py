"""Tables at the limits of numerics: empty directions in half of the rows, equal rows, extreme scales, too few rows."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.tables import population as silverstein
from spikepool.tables import spectrum as spectrum_module


def table(seed=0, shape=(400, 60)):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.slow
@pytest.mark.parametrize("empty", [1, 3])
def test_a_direction_that_one_half_of_the_rows_does_not_have(empty):
    X = table()
    X[1:, :empty] = 0
    fitted = sp.TableSpectrum(null_draws=2, repetitions=19).fit(X)
    assert np.isfinite(fitted.edge_)
    assert fitted.n_outliers_ <= 2
    assert np.isfinite(fitted.heldout_.distance)


@pytest.mark.slow
@pytest.mark.parametrize("copies", [2, 5])
def test_tables_with_many_equal_rows(copies):
    X = np.repeat(table(shape=(200, 60)), copies, axis=0)
    assert np.isfinite(sp.TableSpectrum(null_draws=2, repetitions=19).fit(X).edge_)
    X = table()
    X[200:] = X[200]
    assert np.isfinite(sp.TableSpectrum(null_draws=2, repetitions=19).fit(X).edge_)


def test_quantiles_of_a_population_with_empty_directions():
    """Against eigenvalues of Gaussian rows with 30 % of the coordinates zero, and fewer or more rows than the rest."""
    rng = np.random.default_rng(1)
    d = 300
    atoms = np.concatenate([np.zeros(90), np.linspace(0.5, 2.0, 210)])
    weights = np.full(d, 1 / d)
    for n in (600, 240, 150):
        expected = silverstein.quantiles(atoms, weights, d / n, min(d, n))
        drawn = np.mean(
            [np.linalg.svd(rng.standard_normal((n, d)) * np.sqrt(atoms), compute_uv=False) ** 2 / n for _ in range(4)],
            axis=0,
        )
        assert expected.shape == drawn.shape
        assert np.abs(expected - drawn).max() < 0.25  # of 6, four draws
        assert np.abs(expected - drawn).mean() < 0.02


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-100, 1e100, 1e200])
def test_extreme_scales_are_named_and_not_called_equal(scale):
    with pytest.raises((sp.DomainError, sp.NonFiniteError), match=r"size|overflow|large") as caught:
        sp.TableSpectrum().fit(table() * scale)
    assert "equal" not in str(caught.value)


@pytest.mark.parametrize("scale", [1e-28, 1e28])
def test_scales_that_fit_give_the_same_spectrum(scale):
    plain = sp.TableSpectrum(null_draws=2, repetitions=0, random_state=0).fit(table())
    scaled = sp.TableSpectrum(null_draws=2, repetitions=0, random_state=0).fit(table() * scale)
    assert scaled.edge_ / scale**2 == pytest.approx(plain.edge_, rel=1e-6)
    assert scaled.n_outliers_ == plain.n_outliers_


def test_equal_rows_are_still_called_equal():
    with pytest.raises(sp.DomainError, match="equal"):
        sp.TableSpectrum().fit(np.ones((400, 60)))


def test_too_few_rows_are_refused_before_any_work(monkeypatch):
    def reached(*_args, **_kwargs):
        raise AssertionError("work was done")

    monkeypatch.setattr(spectrum_module, "half_moments", reached)
    with pytest.raises(sp.SizeError, match="at least 30"):
        sp.TableSpectrum().fit(table(shape=(3, 4000)))
