"""Features of unequal variance and heavy-tailed rows: which spans of components the sample shares with its population.

No formula holds for such features. They are simulated: three hypotheses about the scales of the rows, for each the
population spectrum that gives the eigenvalues observed, weighted by how well random halves of its draws agree as the
halves of the data do. Draws of as many rows then say how far the sample's spans are from the population's; draws of
more rows say what these would bring. The hypotheses are in :mod:`spikepool.trust.hypotheses`, the intervals in
:mod:`spikepool.trust.widths`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.statistics import NORMAL_90
from spikepool.trust.draws import Draw, overlaps_with_axes, share_of_loss
from spikepool.trust.effort import Effort, effort
from spikepool.trust.hypotheses import Fit, World, fit_hypotheses, halves_tolerance, mean_halves, weigh
from spikepool.trust.population import FLOOR, corrected, population_spectrum
from spikepool.trust.sample import Sample
from spikepool.trust.spans import angle, overlap_of, steady_spans
from spikepool.trust.widths import Drawn, widen


@dataclass(frozen=True)
class Simulated:
    """What the simulation says of a sample.

    Attributes
    ----------
    ks : numpy.ndarray of int
    overlap, half_width : numpy.ndarray of shape (len(ks),)
        Expected overlaps, and half-widths of their 90 % intervals on the scale arcsin sqrt.
    lower : numpy.ndarray of shape (len(ks),)
        Added in quadrature below, where every eigenvalue is fitted: how much lower the overlaps are of the flattest
        spectrum that explains the sample, as far as halves of its draws agree as the halves of the data do; and the
        distance to resampling, which overestimates overlaps where spans are ill-defined.
    one_level : bool
        Whether that spectrum is flat: rows of equal variances explain the eigenvalues.
    single : numpy.ndarray of shape (draws, max(ks))
        Draws of the squared cosines of single components.
    observed_halves, simulated_halves : numpy.ndarray of shape (len(ks),)
    tau : numpy.ndarray of shape (d,)
        Fitted population spectrum, the mean over the hypotheses.
    weights : dict
        Weight of each hypothesis about the scales.
    kept : numpy.ndarray of shape (len(ks),)
        Loss against the collection that the rows are part of, over that against the population; ones without it.
    kept_scatter : numpy.ndarray of shape (len(ks),)
        Standard deviation of the log of the former beyond that of the latter.
    kept_swap : numpy.ndarray of shape (len(ks),)
        Loss that the components next to the end of a span cause by turning into each other, at the 90 % level.
    widening : float
        Factor by which the scatter of draws is widened.
    kurtosis : float
        Mean squared scale E[s²]: an eigenvalue scatters by ``sqrt(2 E[s²]/n)`` of itself.
    tolerance : float
        Mean difference of the halves up to which the fit is not doubted.
    at : callable
        Expected overlaps (len(ks),) of a sample of a given number of independent rows.
    """

    ks: IntArray
    overlap: FloatArray
    half_width: FloatArray
    lower: FloatArray
    one_level: bool
    single: FloatArray
    observed_halves: FloatArray
    simulated_halves: FloatArray
    tau: FloatArray
    weights: dict[str, float]
    kept: FloatArray
    kept_scatter: FloatArray
    kept_swap: FloatArray
    widening: float
    kurtosis: float
    tolerance: float
    at: Callable[[int, int], FloatArray]

    @property
    def difference(self) -> float:
        """Mean absolute difference of the halves over the steady spans."""
        steady = steady_spans(self.ks)
        return float(np.abs(self.observed_halves - self.simulated_halves)[steady].mean())


def simulate(
    sample: Sample,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda _: None,
    collection: float | None = None,
) -> Simulated:
    """Fit the hypotheses to `sample`, weigh them, draw from them and widen; `advance` is told of hundredths done.

    `collection` is the number of independent rows of the finite collection that these are part of.
    """
    work = effort(sample.n_effective, len(sample.values))
    rng, fits = fit_hypotheses(sample, work, rng, advance)
    weights = weigh({name: fit.difference for name, fit in fits.items()}, work.draws)
    worlds, drawn = _draw({name: fits[name] for name in weights}, weights, sample, work, advance)
    wide = widen(sample, work, {name: fits[name] for name in weights}, weights, drawn)
    expected = overlap_of(wide.centre)
    # what the simulation misses at n it misses, as a share of the loss, at other numbers of rows too
    reached = np.maximum(1 - overlap_of(drawn.model + drawn.votes @ drawn.response), FLOOR)
    missed = np.log(np.maximum(1 - expected, FLOOR) / reached)
    best = worlds[max(weights, key=lambda name: weights[name])]
    kept = _kept(sample, work, best, wide.kurtosis, collection, rng)
    single = [*drawn.single, *([] if sample.resampled_single is None else sample.resampled_single)]

    def at(rows: int, total: int) -> FloatArray:
        return _overlaps_at(rows, total, worlds, weights, sample.ks, missed, rng)

    return Simulated(
        ks=sample.ks,
        overlap=expected,
        half_width=NORMAL_90 * np.sqrt(wide.variance),
        lower=wide.lower,
        one_level=wide.one_level,
        single=np.array(single),
        observed_halves=sample.halves.mean(axis=0),
        simulated_halves=mean_halves(fits, weights),
        tau=np.asarray(sum(weights[name] * worlds[name].tau for name in weights)),
        weights=weights,
        kept=kept[0],
        kept_scatter=kept[1],
        kept_swap=kept[2],
        widening=wide.widening,
        kurtosis=wide.kurtosis,
        tolerance=halves_tolerance(sample, fits, weights, work),
        at=at,
    )


def _draw(
    fits: dict[str, Fit], weights: dict[str, float], sample: Sample, work: Effort, advance: Callable[[int], None]
) -> tuple[dict[str, World], Drawn]:
    """Draws from each hypothesis in proportion to its weight, with the spectra that might have been."""
    worlds, found = {}, []
    for name, weight in weights.items():
        # a scatter of two draws would hang on them, and on the weight that decides how many are drawn
        times = max(2, work.draws // 4, round(work.draws * weight))
        fit = fits[name]
        worlds[name], drawn = _drawn(fit.world, sample, times, work, fit.rounds, fit.rng)
        found.append(replace(drawn, votes=drawn.votes * weight))
        advance(40 // len(weights))
    joined = (
        np.concatenate([getattr(one, what) for one in found]) for what in ("own", "response", "scattered", "votes")
    )
    own, response, scattered, votes = joined
    return worlds, Drawn(own, response, scattered, [o for one in found for o in one.single], votes)


def _drawn(
    world: World, sample: Sample, times: int, work: Effort, rounds: list[Draw], rng: np.random.Generator
) -> tuple[World, Drawn]:
    """Draw samples from the fitted spectrum, and the spectra that might have been fitted instead."""
    n, ks, count = sample.n_effective, sample.ks, int(sample.ks[-1])
    draws = [Draw(world.scales, n, len(world.tau), rng) for _ in range(times)]
    overlaps = [overlaps_with_axes(draw.leading(world.tau, count), ks) for draw in draws]
    angles, single = angle(np.array([o for o, _ in overlaps])), [o for _, o in overlaps]
    response = np.zeros_like(angles)
    if not work.redrawn:
        return world, Drawn(angles, response, angles, single, np.full(times, 1 / times))
    drawn = [draw.eigenvalues(world.tau) for draw in draws]
    spectra = tuple(
        population_spectrum(values, n, rounds, work.rounds, shrunken=True)
        if work.fitted
        else corrected(world.tau, sample.values, values, n)
        for values in drawn
    )
    # a spectrum redrawn from one draw is seen through the next ones
    others = min(work.curve_draws, times - 1) if work.fitted else 1
    for i, tau in enumerate(spectra):
        for j in range(i + 1, i + 1 + others):
            spans, cosines = overlaps_with_axes(draws[j % times].leading(tau, count), ks)
            response[i] += (angle(spans) - angles[j % times]) / others
            if j == i + 1:
                single.append(cosines)
    # the error of a refit is known; one that was not repeated is as likely to be of the other sign
    scattered = angles - response if work.fitted else np.roll(angles, -1, axis=0) + response
    return World(world.scales, world.tau, spectra), Drawn(
        angles, response, scattered, single, np.full(times, 1 / times)
    )


def _kept(
    sample: Sample, work: Effort, best: World, kurtosis: float, collection: float | None, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of the loss against a finite collection, its scatter, and the loss by turns at the end of a span."""
    n, ks, d = sample.n_effective, sample.ks, len(sample.values)
    if collection is None:
        return np.ones(len(ks)), np.zeros(len(ks)), np.zeros(len(ks))
    parts = [Draw(best.scales, n, d, rng) for _ in range(2 * work.draws)]
    kept, scatter = share_of_loss(best.scales, best.tau, n, round(collection), ks, parts, rng)
    # components k and k + 1 of the collection turn into each other by an angle that the gap seen here determines
    a, b = sample.values[ks - 1], sample.values[np.minimum(ks, d - 1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = NORMAL_90**2 * kurtosis * (1 / n - 1 / collection) * a * b / (a - b) ** 2
    return kept, scatter, np.minimum(np.nan_to_num(turn, nan=0.0), 1.0) / ks


def _overlaps_at(
    rows: int,
    total: int,
    worlds: dict[str, World],
    weights: dict[str, float],
    ks: IntArray,
    missed: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """From the spectra that might have been: the fitted one is too sure of its gaps, on which many rows hang."""
    rows, overlaps = max(rows, 2 * int(ks[-1])), np.zeros(len(ks))
    for name, weight in weights.items():
        world = worlds[name]
        spectra = world.redrawn or (world.tau,)
        times = max(1, round(total * weight))
        for i in range(times):
            vectors = Draw(world.scales, rows, len(world.tau), rng).leading(spectra[i % len(spectra)], int(ks[-1]))
            overlaps += weight / times * angle(overlaps_with_axes(vectors, ks)[0])
    return np.asarray(np.clip(1 - (1 - overlap_of(overlaps)) * np.exp(missed), 0.0, 1.0))
