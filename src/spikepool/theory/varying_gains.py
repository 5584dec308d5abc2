"""Weights that vary by sequence: the spread of the noise gain is part of the law."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import DomainError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.atomic import AtomicLaw, discretise
from spikepool.laws.free_product import MarchenkoPastur
from spikepool.laws.generalized import GeneralizedLaw
from spikepool.theory import spikes
from spikepool.theory.closed_form import predict_gains, require_plain
from spikepool.theory.general_spikes import GeneralSpikes, Measure
from spikepool.theory.mixing import neighbours
from spikepool.theory.prediction import Outlier, Prediction
from spikepool.theory.validity import few_tokens, near_threshold, no_signal, small_sizes, too_high, validity_of
from spikepool.world.sequences import SequenceWorld


def predict_varying(world: SequenceWorld, alpha: ArrayLike, kappa: ArrayLike) -> Prediction:
    """Bulk and outliers of S for weights that vary by sequence, with gains alpha_n and kappa_n.

    The population covariance knows the means of the gains only. The sample also knows their spread, which does not
    vanish with d: the bulk is MP_delta with the law of kappa_n as its usage, over a ratio gamma = d/N, and the signal's
    right vector has a mass of alpha_n at kappa_n. Its outlier solves

        (mu² + delta) z g_u(z) g_b(z) = 1     with g_u, g_b of :mod:`spikepool.theory.general_spikes`.

    Parameters
    ----------
    alpha, kappa : array_like of shape (n,)
        Gains of the sequences, or quantiles of their joint law with equal mass each.
    """
    a, k = check.finite_array(alpha, "alpha", ndim=1), check.finite_array(kappa, "kappa", ndim=1)
    if a.shape != k.shape or a.min() < 0 or k.min() <= 0:
        raise DomainError("gains must be pairs of alpha >= 0 and kappa > 0", (a, k), "Pass one pair per sequence")
    require_plain(world)
    mean = predict_gains(world, float(a.mean()), float(k.mean()))
    if np.ptp(k) <= 1e-9 * k.max():
        return mean
    delta, gamma, d, n = world.delta, world.gamma, world.d, len(k)
    table = MarchenkoPastur(delta)
    atoms = discretise(table)
    left = Measure(atoms.values, np.sqrt(atoms.weights)[:, None])
    bulk = GeneralizedLaw(table, AtomicLaw(k), gamma)

    def spiked(weights: FloatArray) -> GeneralSpikes:
        return GeneralSpikes(bulk, left, Measure(k, np.sqrt(weights / n)[:, None]))

    zeta2 = world.class_mean_power
    needed = spiked(a).threshold()
    mu_sample = float(np.sqrt(max(0.0, needed**2 - zeta2)))
    outliers = []
    spikes_of_table: tuple[tuple[Literal["signal", "classes", "mean"], float, FloatArray, float], ...] = (
        ("signal" if world.mu > 0 else "classes", world.mu**2 + zeta2, a, world.purity),
        ("mean", world.mean_strength, np.ones(n), 0.0),
    )
    for kind, power, weights, purity in spikes_of_table:
        x = float(spikes.spike_excess(float(weights.mean()) * power, delta, mean.kappa))
        for outlier in spiked(power * weights).outliers() if power > 0 else ():
            outliers.append(
                Outlier(
                    kind=kind,
                    eigenvalue=outlier.eigenvalue,
                    alignment=purity * float(outlier.overlaps[0]),
                    population_eigenvalue=float(spikes.population_outlier(x, delta, mean.kappa)) if x > 0 else 0.0,
                    population_alignment=purity * float(spikes.population_alignment(x, delta)),
                )
            )
    placed = tuple(sorted(outliers, key=lambda outlier: -outlier.eigenvalue))
    edge = bulk.support()[1]
    return replace(
        mean,
        bulk=bulk,
        edge=edge,
        outliers=placed,
        alignment=placed[0].alignment if placed else 0.0,
        detectable=any(o.kind == "signal" for o in placed),
        mu_sample=mu_sample,
        validity=validity_of(
            no_signal(world.mu, placed),
            too_high(few_tokens(mean.kappa, world.mu, mu_sample)),
            near_threshold(world.mu**2 + zeta2, needed**2, d),
            neighbours(placed, d, world.N, edge),
            small_sizes(d=d, V=world.V, N=world.N),
        ),
    )
