"""Hypotheses about the scales of rows: the spectrum fitted with each, and its weight by the agreement of halves.

Three hypotheses (:mod:`spikepool.trust.row_scales`) get the population spectrum that gives the eigenvalues observed.
Halves of draws from them agree more or less as the halves of the data do; a hypothesis whose halves differ by
`HALVES_SCALE` more than those of the best has e times less weight.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.statistics import SIGNIFICANCE
from spikepool.trust.draws import Draw, overlaps
from spikepool.trust.effort import Effort
from spikepool.trust.population import population_spectrum
from spikepool.trust.row_scales import candidates
from spikepool.trust.sample import Sample
from spikepool.trust.spans import steady_spans

# Mean difference of halves over the steady spans that costs a hypothesis a factor e.
HALVES_SCALE = 0.01
# That beyond which a hypothesis has no weight beside a perfect one.
HALVES_TOLERANCE = -HALVES_SCALE * math.log(SIGNIFICANCE)


@dataclass(frozen=True)
class World:
    """A hypothesis: scales of the rows, the spectrum fitted with them, and spectra that might have been."""

    scales: FloatArray
    tau: FloatArray
    redrawn: tuple[FloatArray, ...] = ()


@dataclass(frozen=True)
class Fit:
    """A hypothesis fitted to the sample.

    Attributes
    ----------
    world : World
    halves : numpy.ndarray of shape (len(ks),)
        Agreement of halves of its draws.
    difference : float
        Mean difference of that from the sample's over the steady spans.
    rounds : list of Draw
        Draws that the spectrum was fitted with.
    rng : numpy.random.Generator
        A stream of its own: how much is drawn from one hypothesis does not move the others.
    """

    world: World
    halves: FloatArray
    difference: float
    rounds: list[Draw]
    rng: np.random.Generator


def fit_hypotheses(
    sample: Sample, work: Effort, rng: np.random.Generator, advance: Callable[[int], None]
) -> tuple[np.random.Generator, dict[str, Fit]]:
    """The spectrum of each hypothesis about the scales, and how its halves agree; with the stream for what follows."""
    n, ks, d = sample.n_effective, sample.ks, len(sample.values)
    observed, steady = sample.halves.mean(axis=0), steady_spans(ks)
    hypotheses = _distinct(candidates(sample.norms, sample.whitened, sample.values, sample.n_whitened, sample.counts))
    rng, *streams = rng.spawn(1 + len(hypotheses))
    fits = {}
    for (name, scales), stream in zip(hypotheses.items(), streams, strict=True):
        rounds = [Draw(scales, n, d, stream) for _ in range(work.round_draws)]
        world = World(scales, population_spectrum(sample.values, n, rounds, work.rounds, work.fitted))
        halves = half_overlaps(world, n, ks, work.halves, stream)
        fits[name] = Fit(world, halves, float(np.abs(halves - observed)[steady].mean()), rounds, stream)
        advance(60 // len(hypotheses))
    return rng, fits


def weigh(differences: dict[str, float], draws: int) -> dict[str, float]:
    """Weights of the hypotheses that have at least one of so many draws."""
    best = min(differences.values())
    raw = {name: math.exp(-(difference - best) / HALVES_SCALE) for name, difference in differences.items()}
    total = sum(raw.values())
    kept = {name: w for name, w in raw.items() if round(draws * w / total)}
    total = sum(kept.values())
    return {name: w / total for name, w in kept.items()}


def mean_halves(fits: dict[str, Fit], weights: dict[str, float]) -> FloatArray:
    """Agreement of halves (len(ks),), the mean over the hypotheses."""
    return np.asarray(sum(weight * fits[name].halves for name, weight in weights.items()))


def halves_tolerance(sample: Sample, fits: dict[str, Fit], weights: dict[str, float], work: Effort) -> float:
    """Mean difference of halves over the steady spans up to which the fit is not doubted.

    Real rows are never those of the model: ``HALVES_TOLERANCE``. Halves of the model's own rows scatter as well, by
    sd_k, so that with the quantile q the tolerance is the mean over k of ``sqrt(HALVES_TOLERANCE² + (q sd_k)²)``. The
    scatter is drawn where it decides.
    """
    steady, best = steady_spans(sample.ks), max(weights, key=lambda name: weights[name])
    difference = np.abs(sample.halves.mean(axis=0) - mean_halves(fits, weights))[steady].mean()
    if difference <= HALVES_TOLERANCE:
        return HALVES_TOLERANCE
    fit = fits[best]
    scatter = _half_scatter(fit.world, sample.n_effective, sample.ks, max(work.halves, 2), fit.rng.spawn(1)[0])
    return float(np.hypot(HALVES_TOLERANCE, norm.isf(SIGNIFICANCE / 2) * scatter)[steady].mean())


def _distinct(scales: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Hypotheses without repetition: a statistic that scatters no more than equal scales do says they are equal."""
    distinct: dict[str, FloatArray] = {}
    for name, s in scales.items():
        if not any(np.array_equal(s, other) for other in distinct.values()):
            distinct[name] = s
    return distinct


def half_overlaps(world: World, n: int, ks: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Mean overlap between independent draws of half the rows each, over all pairs of `count` of them."""
    rows = max(n // 2, int(ks[-1]) + 2)
    drawn = [Draw(world.scales, rows, len(world.tau), rng).leading(world.tau, int(ks[-1])) for _ in range(count)]
    return np.asarray(np.mean([overlaps(a, b, ks)[0] for a, b in itertools.combinations(drawn, 2)], axis=0))


def _half_scatter(world: World, n: int, ks: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Standard deviation, over data sets, of the mean overlap of halves: the three splits of four quarters."""
    rows, means = max(n // 4, int(ks[-1]) + 2), []
    for _ in range(count):
        a, b, c, d = (Draw(world.scales, rows, len(world.tau), rng) for _ in range(4))
        splits = (((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c)))
        pairs = [[Draw.joined(half).leading(world.tau, int(ks[-1])) for half in split] for split in splits]
        means.append(np.mean([overlaps(first, second, ks)[0] for first, second in pairs], axis=0))
    return np.asarray(np.std(means, axis=0, ddof=1))
