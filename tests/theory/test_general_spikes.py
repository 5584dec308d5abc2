"""Outliers over the general bulk: closed forms, inverse, rank r, spikes of the noise and of the usage."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.laws.atomic import discretise
from spikepool.theory import spikes
from spikepool.theory.general_spikes import GeneralSpikes, Measure

DELTA, GAMMA = 0.625, 0.5
ONE = Measure(np.ones(1), np.ones((1, 1)))


def free_product_bulk():
    return sp.GeneralizedLaw([1.0], sp.MarchenkoPastur(GAMMA / DELTA), DELTA)


def latent_measure(*strengths):
    """Latents independent of the tokens: B'B (N x N) has V/N of its eigenvalues from the usage and zeros else."""
    usage = discretise(sp.MarchenkoPastur(GAMMA / DELTA))
    values, weights = np.append(usage.values, 0.0), np.append(usage.weights * GAMMA / DELTA, 1 - GAMMA / DELTA)
    r = len(strengths)
    # independent directions: one copy of the measure for each, orthogonal to the others
    coordinates = np.concatenate([np.outer(np.sqrt(s * weights), np.eye(r)[k]) for k, s in enumerate(strengths)])
    return Measure(np.tile(values, r), coordinates)


@pytest.mark.parametrize("theta", [2.1, 3.0, 10.0, 500.0])
def test_rank_one_is_the_closed_form(theta):
    x = spikes.spike_excess(theta, DELTA)
    (found,) = GeneralSpikes(free_product_bulk(), ONE, latent_measure(theta)).outliers()
    assert found.eigenvalue == pytest.approx(spikes.sample_outlier(x, DELTA, GAMMA), rel=1e-9)
    assert found.overlaps[0] == pytest.approx(spikes.total_alignment(x, DELTA, GAMMA), rel=1e-7)


def test_threshold_and_silence_below_it():
    bulk = free_product_bulk()
    critical = spikes.sample_threshold(DELTA, GAMMA)
    assert GeneralSpikes(bulk, ONE, latent_measure(1.0)).threshold() ** 2 == pytest.approx(critical, rel=1e-8)
    assert GeneralSpikes(bulk, ONE, latent_measure(0.999 * critical)).outliers() == ()
    (found,) = GeneralSpikes(bulk, ONE, latent_measure(1.002 * critical)).outliers()
    assert 0 < found.overlaps[0] < 0.01
    assert GeneralSpikes(bulk, ONE, latent_measure(0.0)).outliers() == ()
    assert GeneralSpikes(bulk, ONE, latent_measure(0.0)).threshold() == np.inf


@pytest.mark.parametrize("theta", [2.5, 8.0])
def test_inverse_recovers_strength_and_alignment(theta):
    signal = GeneralSpikes(free_product_bulk(), ONE, latent_measure(theta))
    (found,) = signal.outliers()
    ((factor, overlaps),) = GeneralSpikes(free_product_bulk(), ONE, latent_measure(1.0)).invert(found.eigenvalue)
    assert factor**2 == pytest.approx(theta, rel=1e-9)
    assert overlaps[0] == pytest.approx(found.overlaps[0], rel=1e-7)
    with pytest.raises(sp.DomainError):
        signal.invert(signal.bulk.support()[1] * 0.99)


@pytest.mark.slow
def test_rank_three_orthogonal_signals_do_not_see_each_other():
    bulk, thetas = free_product_bulk(), (2.5, 2.5001, 9.0)
    together = GeneralSpikes(bulk, Measure(np.ones(3), np.eye(3)), latent_measure(*thetas))
    found = together.outliers()
    alone = [GeneralSpikes(bulk, ONE, latent_measure(t)).outliers()[0] for t in sorted(thetas, reverse=True)]
    np.testing.assert_allclose([o.eigenvalue for o in found], [o.eigenvalue for o in alone], rtol=1e-10)
    np.testing.assert_allclose([o.overlaps.sum() for o in found], [o.overlaps[0] for o in alone], rtol=1e-7)
    assert found[0].overlaps[2] == pytest.approx(alone[0].overlaps[0], rel=1e-7)
    factors = [factor for factor, _ in together.invert(20.0)]
    assert len(factors) == 3
    assert factors == sorted(factors)


def test_a_spike_of_the_usage_is_where_1_plus_et_vanishes():
    bulk, t = free_product_bulk(), 9.0
    silent = GeneralSpikes(bulk, ONE, latent_measure(0.0), usage_spikes=[t, 1.5])
    (found,) = silent.outliers()  # 1.5 stays inside
    z = found.eigenvalue
    e = bulk.delta * bulk.stieltjes(z)  # isotropic noise
    assert 1 + e * t == pytest.approx(0.0, abs=1e-9)
    assert found.overlaps[0] == 0.0
    # the spike theta = t of a covariance I + ... seen through MP_delta: x-map with kappa t as population spike
    np.testing.assert_allclose(silent.spike_outliers, [z], rtol=1e-12)


def test_a_spike_of_the_noise_is_where_1_plus_ea_vanishes():
    bulk = sp.GeneralizedLaw([1.0], [1.0], 0.3)
    (found,) = GeneralSpikes(bulk, ONE, Measure(np.ones(1), np.zeros((1, 1))), noise_spikes=[5.0]).outliers()
    # a covariance with one eigenvalue 5 among ones, ratio .3: Baik–Ben Arous–Péché
    assert found.eigenvalue == pytest.approx(5 * (1 + 0.3 / 4), rel=1e-10)


def test_signal_beside_a_usage_spike_has_two_outliers_at_any_strength():
    """A signal that lies partly on an isolated usage eigenvalue repels it; the two outliers interlace with it."""
    bulk, t = free_product_bulk(), 9.0
    base = latent_measure(3.0)
    right = Measure(np.append(base.values, t), np.vstack([base.coordinates, [[0.6]]]))
    pair = GeneralSpikes(bulk, ONE, right, usage_spikes=[t])
    place = pair.spike_outliers[0]
    high, low = (o.eigenvalue for o in pair.outliers())
    assert low < place < high
    weak = GeneralSpikes(bulk, ONE, Measure(right.values, 1e-4 * right.coordinates), usage_spikes=[t])
    (only,) = weak.outliers()
    assert only.eigenvalue == pytest.approx(place, rel=1e-6)
    assert 0 < only.overlaps[0] < 1e-6


def test_named_errors():
    bulk = free_product_bulk()
    with pytest.raises(sp.ShapeError):
        GeneralSpikes(bulk, ONE, latent_measure(1.0, 2.0))
    with pytest.raises(sp.ShapeError):
        GeneralSpikes(bulk, Measure(np.ones(2), np.ones((1, 1))), ONE)
    with pytest.raises(sp.DomainError):
        GeneralSpikes(bulk, ONE, Measure(np.array([-1.0]), np.ones((1, 1))))
    with pytest.raises(sp.NonFiniteError):
        GeneralSpikes(bulk, ONE, Measure(np.array([np.nan]), np.ones((1, 1))))
