"""Features of unequal variance and heavy-tailed rows: which spans of components the sample shares with its population.

No formula holds for such features. They are simulated: three hypotheses about the scales of the rows, for each the
population spectrum that gives the eigenvalues observed, weighted by how well random halves of its draws agree as the
halves of the data do. Draws of as many rows then say how far the sample's spans are from the population's; draws of
more rows say what these would bring. Where every eigenvalue is fitted, the fit is repeated on draws from itself, whose
overlaps are known: its errors there are those of the interval. Elsewhere resampling of the rows themselves, which
assumes no model but is biased when the rows are few for k, has a weight that grows with n/k.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.statistics import NORMAL_90, SIGNIFICANCE
from spikepool.trust.draws import Draw, overlaps, overlaps_with_axes, share_of_loss
from spikepool.trust.effort import Effort, effort
from spikepool.trust.levels import flat_levels
from spikepool.trust.population import FLOOR, corrected, population_spectrum
from spikepool.trust.regimes import equal_variances_level
from spikepool.trust.row_scales import candidates
from spikepool.trust.sample import SMALLEST_STEADY_SPAN, Sample

# A hypothesis whose halves differ from the data's by this more (mean over k >= 5) has e times less weight.
_HALVES_SCALE = 0.01
# Mean difference between observed and simulated halves beyond which a hypothesis has no weight beside a perfect one.
HALVES_TOLERANCE = -_HALVES_SCALE * math.log(SIGNIFICANCE)
# Least mean agreement of halves, and the power of k with which it may grow to the largest span, from the smallest
# steady span or from the one before: in a flat spectrum, without order among its leading components, S_k grows as k.
_LEAST_AGREEMENT = 0.15
_STEEPEST_GROWTH = 0.75


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


def steady_spans(ks: IntArray) -> IntArray:
    """Positions of the spans that decide: k >= 5, or all when there are none."""
    steady = np.flatnonzero(ks >= SMALLEST_STEADY_SPAN)
    return steady if len(steady) else np.arange(len(ks))


def have_order(halves: FloatArray, ks: IntArray, d: int) -> bool:
    """Whether the agreement of halves (len(ks),) is that of components in an order, and not of a flat spectrum.

    It may grow as k up to some span if the largest one is shared far beyond the chance k/d: its directions are in
    common, though their order is not.
    """
    steady = steady_spans(ks)
    first, before, last = (int(steady[i]) for i in (0, max(len(steady) - 2, 0), -1))

    def levels_off(i: int) -> bool:
        return bool(halves[i] >= (ks[i] / ks[last]) ** _STEEPEST_GROWTH * halves[last])

    shared = halves[last] - ks[last] / d >= _LEAST_AGREEMENT
    return bool(halves[steady].mean() >= _LEAST_AGREEMENT) and (levels_off(first) or (shared and levels_off(before)))


def angle(overlap: FloatArray) -> FloatArray:
    """``arcsin sqrt(O)``, on which the scatter of an overlap hardly depends on its size."""
    return np.asarray(np.arcsin(np.sqrt(np.clip(overlap, 0.0, 1.0))))


def overlap_of(value: FloatArray) -> FloatArray:
    """The overlap of an angle, which may lie outside [0, pi/2]."""
    return np.asarray(np.sin(np.clip(value, 0.0, math.pi / 2)) ** 2)


@dataclass(frozen=True)
class _World:
    """A hypothesis: scales of the rows, the spectrum fitted with them, and spectra that might have been."""

    scales: FloatArray
    tau: FloatArray
    redrawn: tuple[FloatArray, ...] = ()


@dataclass(frozen=True)
class _Fit:
    """A hypothesis fitted to the sample.

    Attributes
    ----------
    world : _World
    halves : numpy.ndarray of shape (len(ks),)
        Agreement of halves of its draws.
    difference : float
        Mean difference of that from the sample's over the steady spans.
    rounds : list of Draw
        Draws that the spectrum was fitted with.
    rng : numpy.random.Generator
        A stream of its own: how much is drawn from one hypothesis does not move the others.
    """

    world: _World
    halves: FloatArray
    difference: float
    rounds: list[Draw]
    rng: np.random.Generator


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
    rng, fits = _fit(sample, work, rng, advance)
    weights = _weights({name: fit.difference for name, fit in fits.items()}, work.draws)
    worlds, drawn = _draw({name: fits[name] for name in weights}, weights, sample, work, advance)
    wide = _widen(sample, work, {name: fits[name] for name in weights}, weights, drawn)
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
        simulated_halves=_mean_halves(fits, weights),
        tau=np.asarray(sum(weights[name] * worlds[name].tau for name in weights)),
        weights=weights,
        kept=kept[0],
        kept_scatter=kept[1],
        kept_swap=kept[2],
        widening=wide.widening,
        kurtosis=wide.kurtosis,
        tolerance=_tolerance(sample, fits, weights, work),
        at=at,
    )


def _fit(
    sample: Sample, work: Effort, rng: np.random.Generator, advance: Callable[[int], None]
) -> tuple[np.random.Generator, dict[str, _Fit]]:
    """The spectrum of each hypothesis about the scales, and how its halves agree; with the stream for what follows."""
    n, ks, d = sample.n_effective, sample.ks, len(sample.values)
    observed, steady = sample.halves.mean(axis=0), steady_spans(ks)
    hypotheses = _distinct(candidates(sample.norms, sample.whitened, sample.values, sample.n_whitened, sample.counts))
    rng, *streams = rng.spawn(1 + len(hypotheses))
    fits = {}
    for (name, scales), stream in zip(hypotheses.items(), streams, strict=True):
        rounds = [Draw(scales, n, d, stream) for _ in range(work.round_draws)]
        world = _World(scales, population_spectrum(sample.values, n, rounds, work.rounds, work.fitted))
        halves = _half_overlaps(world, n, ks, work.halves, stream)
        fits[name] = _Fit(world, halves, float(np.abs(halves - observed)[steady].mean()), rounds, stream)
        advance(60 // len(hypotheses))
    return rng, fits


def _mean_halves(fits: dict[str, _Fit], weights: dict[str, float]) -> FloatArray:
    return np.asarray(sum(weight * fits[name].halves for name, weight in weights.items()))


def _tolerance(sample: Sample, fits: dict[str, _Fit], weights: dict[str, float], work: Effort) -> float:
    """Mean difference of halves over the steady spans that is no reason to doubt the fit.

    Real rows are never those of the model: ``HALVES_TOLERANCE``. Halves of the model's own rows scatter as well, by
    sd_k, so that with the quantile q the tolerance is the mean over k of ``sqrt(HALVES_TOLERANCE² + (q sd_k)²)``. The
    scatter is drawn where it decides.
    """
    steady, best = steady_spans(sample.ks), max(weights, key=lambda name: weights[name])
    difference = np.abs(sample.halves.mean(axis=0) - _mean_halves(fits, weights))[steady].mean()
    if difference <= HALVES_TOLERANCE:
        return HALVES_TOLERANCE
    fit = fits[best]
    scatter = _half_scatter(fit.world, sample.n_effective, sample.ks, max(work.halves, 2), fit.rng.spawn(1)[0])
    return float(np.hypot(HALVES_TOLERANCE, norm.isf(SIGNIFICANCE / 2) * scatter)[steady].mean())


@dataclass(frozen=True)
class _Drawn:
    """Samples drawn from the hypotheses; overlaps (draws, len(ks)) on the angle.

    Attributes
    ----------
    own : numpy.ndarray
        Overlaps with the fitted spectrum's components.
    response : numpy.ndarray
        How much the overlaps of the spectrum redrawn from each sample differ from those of the fitted one.
    scattered : numpy.ndarray
        The prediction with its error: a draw of the overlap that the sample at hand may have.
    single : list of numpy.ndarray
        Squared cosines of single components.
    votes : numpy.ndarray of shape (draws,)
        Weights of the draws, which sum to one.
    """

    own: FloatArray
    response: FloatArray
    scattered: FloatArray
    single: list[FloatArray]
    votes: FloatArray

    @property
    def model(self) -> FloatArray:
        """Expected overlaps, on the angle."""
        return np.asarray(self.votes @ self.own)


def _draw(
    fits: dict[str, _Fit], weights: dict[str, float], sample: Sample, work: Effort, advance: Callable[[int], None]
) -> tuple[dict[str, _World], _Drawn]:
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
    return worlds, _Drawn(own, response, scattered, [o for one in found for o in one.single], votes)


@dataclass(frozen=True)
class _Wide:
    """Expected overlaps and their uncertainty on the angle, (len(ks),); see :class:`Simulated`."""

    centre: FloatArray
    variance: FloatArray
    lower: FloatArray
    one_level: bool
    widening: float
    kurtosis: float


def _widen(sample: Sample, work: Effort, fits: dict[str, _Fit], weights: dict[str, float], drawn: _Drawn) -> _Wide:
    """What the overlaps may differ by: scatter of the draws, misfit of the halves, resampling, flat spectra."""
    n, ks = sample.n_effective, sample.ks
    observed, steady = sample.halves.mean(axis=0), steady_spans(ks)
    # an eigenvalue scatters by sqrt((E[y⁴] − 1)/n) of itself, with E[y⁴] = 3 E[s²] for the scores y of simulated rows
    kurtosis = float(sum(weight * np.mean(fits[name].world.scales ** 2) for name, weight in weights.items()))
    widening = math.sqrt(max((sample.fourth - 1) / (3 * kurtosis - 1), 1.0))
    # the scatter of the sample and of the spectrum fitted to it, and the distance between the hypotheses; the truth is
    # one more draw beside the m that estimate mean and variance
    m = 1 / float(drawn.votes @ drawn.votes)
    variance = widening**2 * (m + 1) / (m - 1) * (drawn.votes @ (drawn.scattered - drawn.model) ** 2)
    # what the simulation is seen to miss between halves, it may miss here; small spans of halves say little of that
    unlike = (angle(observed) - angle(_mean_halves(fits, weights))) ** 2
    variance = variance + np.where(ks < SMALLEST_STEADY_SPAN, unlike[steady].mean(), unlike)
    centre, lower, one_level = drawn.model, np.zeros(len(ks)), False
    if sample.resampled is not None:
        # a mixture of two predictions has the variance between them as well
        share, resampled = n / (n + work.resampling_rows * ks), angle(sample.resampled.mean(axis=0))
        between = share * (1 - share) * (resampled - centre) ** 2
        if work.fitted:
            lower = NORMAL_90 * np.sqrt(between)
        else:
            centre, variance = (1 - share) * centre + share * resampled, variance + between
    if work.fitted:
        sunk, one_level = _sunk(sample, work, fits, weights, centre, widening)
        lower = np.hypot(lower, sunk)
    lower = np.hypot(lower, centre - angle(overlap_of(centre) * (1 - _unseen(sample))))
    return _Wide(centre, variance, lower, one_level, widening, kurtosis)


def _unseen(sample: Sample) -> FloatArray:
    """Share (len(ks),) of each span that components may take which no row shows.

    Columns that one row determines, such as a pixel that is rarely set, tell of others that no row has: they are about
    as many, of the same variances (Good and Turing). The columns of one row are one component, which has a place among
    the first k if its variance is at least the k-th eigenvalue.
    """
    places = np.minimum(sample.lone / sample.values[sample.ks - 1, None], 1.0).sum(axis=1)
    return np.asarray(np.minimum(places / sample.ks, 1.0))


def _sunk(
    sample: Sample, work: Effort, fits: dict[str, _Fit], weights: dict[str, float], centre: FloatArray, widening: float
) -> tuple[FloatArray, bool]:
    """How much lower the overlaps of the flattest spectrum are, and whether that spectrum is one level.

    One level also has to pass John's test, with as many rows as heavy tails leave.
    """
    n, ks = sample.n_effective, sample.ks
    observed, steady = sample.halves.mean(axis=0), steady_spans(ks)
    best, sunk, one_level = max(weights, key=lambda name: weights[name]), np.zeros(len(ks)), False
    for name, weight in weights.items():
        fit = fits[name]
        level, cuts = flat_levels(sample.values, fit.world.tau, fit.rounds, widening)
        one_level |= name == best and len(cuts) == 2
        overlaps = [overlaps_with_axes(draw.leading(level, int(ks[-1])), ks)[0] for draw in fit.rounds]
        shortfall = weight * np.maximum(centre - angle(np.array(overlaps)).mean(axis=0), 0.0)
        halves = _half_overlaps(_World(fit.world.scales, level), n, ks, work.halves, fit.rng)
        worse = max((float(np.abs(halves - observed)[steady].mean()) - fit.difference) / _HALVES_SCALE, 0.0)
        # halves are compared over steady spans, and say nothing of the gaps that smaller ones hang on
        sunk += np.where(ks < SMALLEST_STEADY_SPAN, 1.0, math.exp(-worse / 2)) * shortfall
    rows = max(int(n / widening**2), 2)
    return sunk, one_level and equal_variances_level(sample.values, rows) >= SIGNIFICANCE


def _kept(
    sample: Sample, work: Effort, best: _World, kurtosis: float, collection: float | None, rng: np.random.Generator
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
    worlds: dict[str, _World],
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


def _drawn(
    world: _World, sample: Sample, times: int, work: Effort, rounds: list[Draw], rng: np.random.Generator
) -> tuple[_World, _Drawn]:
    """Draw samples from the fitted spectrum, and the spectra that might have been fitted instead."""
    n, ks, count = sample.n_effective, sample.ks, int(sample.ks[-1])
    draws = [Draw(world.scales, n, len(world.tau), rng) for _ in range(times)]
    overlaps = [overlaps_with_axes(draw.leading(world.tau, count), ks) for draw in draws]
    angles, single = angle(np.array([o for o, _ in overlaps])), [o for _, o in overlaps]
    response = np.zeros_like(angles)
    if not work.redrawn:
        return world, _Drawn(angles, response, angles, single, np.full(times, 1 / times))
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
    return _World(world.scales, world.tau, spectra), _Drawn(
        angles, response, scattered, single, np.full(times, 1 / times)
    )


def _distinct(scales: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Hypotheses without repetition: a statistic that scatters no more than equal scales do says they are equal."""
    distinct: dict[str, FloatArray] = {}
    for name, s in scales.items():
        if not any(np.array_equal(s, other) for other in distinct.values()):
            distinct[name] = s
    return distinct


def _half_overlaps(world: _World, n: int, ks: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Mean overlap between independent draws of half the rows each, over all pairs of `count` of them."""
    rows = max(n // 2, int(ks[-1]) + 2)
    drawn = [Draw(world.scales, rows, len(world.tau), rng).leading(world.tau, int(ks[-1])) for _ in range(count)]
    return np.asarray(np.mean([overlaps(a, b, ks)[0] for a, b in itertools.combinations(drawn, 2)], axis=0))


def _half_scatter(world: _World, n: int, ks: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Standard deviation, over data sets, of the mean overlap of halves: the three splits of four quarters."""
    rows, means = max(n // 4, int(ks[-1]) + 2), []
    for _ in range(count):
        a, b, c, d = (Draw(world.scales, rows, len(world.tau), rng) for _ in range(4))
        splits = (((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c)))
        pairs = [[Draw.joined(half).leading(world.tau, int(ks[-1])) for half in split] for split in splits]
        means.append(np.mean([overlaps(first, second, ks)[0] for first, second in pairs], axis=0))
    return np.asarray(np.std(means, axis=0, ddof=1))


def _weights(differences: dict[str, float], draws: int) -> dict[str, float]:
    """Weights of the hypotheses that have at least one of so many draws."""
    best = min(differences.values())
    raw = {name: math.exp(-(difference - best) / _HALVES_SCALE) for name, difference in differences.items()}
    total = sum(raw.values())
    kept = {name: w for name, w in raw.items() if round(draws * w / total)}
    total = sum(kept.values())
    return {name: w / total for name, w in kept.items()}
