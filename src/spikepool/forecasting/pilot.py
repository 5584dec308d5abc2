"""What a labelled pilot shows of itself: errors of ridge at its own size and at smaller ones, row by row.

Everything that follows is fitted to these statistics, and its uncertainty comes from reweighting the rows, so they
are kept by row: the excess |f|² − 2 f·(y − ȳ) of the squared error over |y − ȳ|², at each penalty and at the one that
generalised cross-validation chooses, and whether the class was right, counted and smoothly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.data.description import norm_scatter
from spikepool.data.folds import split_groups
from spikepool.forecasting.leave_out import chosen_penalty, decompose, held_out_predictor, leave_group_out
from spikepool.forecasting.level import heavy_tails, level_variance
from spikepool.forecasting.margins import likely_right, margins
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.progress import Progress

# Penalties in units of the mean squared norm of a centred row. One dominant direction (a decoder's attention sink)
# puts the useful ones as far down as 1e-5.
LOG_PENALTIES = np.arange(-8.0, 2.41, 0.2)
# Penalties on either side of the best leave-one-out one that go on to the smaller sizes: a decade. They must be close:
# smaller sizes choose among them, and with steps of a decade a fit to .4 of 1000 rows explained .15 instead of .22.
_PENALTIES_BESIDE = 5
# Fractions of the pilot that are trained on to see the curve below it: .8 · 2^(−j/2).
FRACTIONS = 0.8 * 2.0 ** (-np.arange(7) / 2)
FEWEST_TRAINED = 12
# Training sets drawn at each fraction.
_DRAWS = 6
# Sizes at which less of the variance is explained say nothing about the link to accuracy or the limit.
LEAST_R2 = 0.01
# Rows look Gaussian within classes when the variance of their squared norms there, and the fourth moments of their
# columns, are those of a Gaussian within this factor.
GAUSSIAN_RATIO = 1.5


@dataclass(frozen=True)
class PilotSize:
    """Errors at one training size.

    Attributes
    ----------
    n : int
        Rows trained on.
    tested : array (rows,)
        How often each row was tested.
    excess : array (rows, penalties)
        Mean of |f|² − 2 f·(y − ȳ) over the times a row was tested.
    chosen_excess, chosen_correct : array (rows,)
        The same, and the frequency of the right class, at the penalty chosen by generalised cross-validation.
    chosen_likely : array (rows,)
        The frequency of the right class as a smooth count (:mod:`spikepool.forecasting.margins`).
    """

    n: int
    tested: FloatArray
    excess: FloatArray
    chosen_excess: FloatArray
    chosen_correct: FloatArray
    chosen_likely: FloatArray


@dataclass(frozen=True)
class Pilot:
    """Statistics of a pilot.

    Attributes
    ----------
    rows, dimension : int
        Labelled rows (distinct ones) and features.
    shares : array (classes,) or None
        Class frequencies; None for regression.
    energy : array (rows,)
        |y − ȳ|² of each row; its mean is the target variance.
    row_norm : float
        Mean squared norm of a centred row, the trace of the covariance.
    penalties : array
        Those of `sizes`.
    eigenvalues : array
        Of X'X.
    sizes : tuple of PilotSize
        The pilot itself (leave-one-out) first, then smaller ones.
    gaussian : float
        Weight of the link of Gaussian classes: 0 where rows do not look Gaussian, of one shape, within the classes,
        else the effective number of classes over their number.
    level_variance : float
        Variance over pilots of the probit of the leave-one-out accuracy, or of ln(MSE/var(y)).
    """

    rows: int
    dimension: int
    shares: FloatArray | None
    energy: FloatArray
    row_norm: float
    penalties: FloatArray
    eigenvalues: FloatArray
    sizes: tuple[PilotSize, ...]
    gaussian: float = 0.0
    level_variance: float = 0.0

    @property
    def classes(self) -> int:
        """Number of classes; 0 for regression."""
        return 0 if self.shares is None else len(self.shares)

    @property
    def unseen(self) -> float:
        """Features per row, at least one: fewer rows do not show how much of a number is noise. One for classes."""
        return 1.0 if self.shares is not None else max(1.0, self.dimension / self.rows)


def explained(pilot: Pilot, excess: FloatArray, weights: FloatArray) -> FloatArray:
    """R² over rows with the given weights: the sum of what is explained over the sum of what there is.

    The targets' energy of the same rows is the divisor, so that a test set of large or small targets cancels. It is
    taken around the pilot's own mean and falls short of the variance by the part 1/n0, which counts where little is
    explained.
    """
    left = 1 + weighted_mean(excess, weights) / weighted_mean(pilot.energy, weights)
    return np.asarray(1 - (1 - 1 / pilot.rows) * left)


def weighted_mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Mean over rows."""
    return np.asarray(weights @ values / weights.sum())


def measure_pilot(
    X: FloatArray,
    Y: FloatArray,
    labels: IntArray | None,
    groups: IntArray,
    rng: np.random.Generator,
    *,
    progress: Progress | None = None,
) -> Pilot:
    """Leave-one-group-out at the pilot's size and random training sets at fractions of it.

    Parameters
    ----------
    X : array (n, d)
        Features, with some variance.
    Y : array (n, k)
        Targets: ±1 indicators of `labels`, or real numbers.
    labels : array (n,) or None
        Class of each row, from 0; None for regression.
    groups : array (n,)
        Rows of one group are never on both sides.
    """
    n, d = X.shape
    level = Y.mean(axis=0)
    centred = X - X.mean(axis=0)
    row_norm = float((centred**2).sum()) / (n - 1)
    parts = decompose(centred)
    penalties = row_norm * 10.0**LOG_PENALTIES
    energy = ((Y - level) ** 2).sum(axis=1)
    excess = np.empty((n, len(penalties)))
    chosen = chosen_penalty(parts, Y - level, penalties)
    correct, likely, tails = np.zeros(n), np.zeros(n), 1.0
    for j, penalty in enumerate(penalties):
        f = leave_group_out(parts, Y, groups, float(penalty))
        excess[:, j] = _excess(f - level, Y - level)
        if j == chosen and labels is not None:
            correct = (_winner(f) == labels).astype(np.float64)
            likely = likely_right(margins(f, labels))
        elif j == chosen:
            tails = heavy_tails(Y - f)
    best = int(excess.mean(axis=0).argmin())
    kept = np.arange(max(best - _PENALTIES_BESIDE, 0), min(best + _PENALTIES_BESIDE + 1, len(penalties)))
    number = np.unique(groups, return_inverse=True)[1]
    leaving = float(np.bincount(number)[number].mean())  # rows that leave with a row, itself included
    full_size = PilotSize(round(n - leaving), np.ones(n), excess[:, kept], excess[:, chosen], correct, likely)

    if d > parts.rank:  # the same inner products in fewer columns
        X = parts.left * np.sqrt(parts.squared)
    sizes = [full_size]
    for fraction in FRACTIONS:
        if round(fraction * n) >= FEWEST_TRAINED:
            sizes.append(_measure_fraction(X, Y, labels, groups, float(fraction), penalties[kept], rng))
        if progress is not None:
            progress.advance()
    shares = None if labels is None else np.bincount(labels) / n
    gaussian = 0.0
    if shares is not None and labels is not None and _looks_gaussian(centred, labels):
        # sum pi² without the bias of n rows: equal classes have the weight one
        gaussian = min((n - 1) / max(n * float(shares @ shares) - 1, 1e-300) / len(shares), 1.0)
    variance = tails * level_variance(X, Y, labels, groups, penalties, rng)
    return Pilot(n, d, shares, energy, row_norm, penalties[kept], parts.squared, tuple(sizes), gaussian, variance)


def _looks_gaussian(centred: FloatArray, labels: IntArray) -> bool:
    """Whether rows about their class means look Gaussian, of one shape.

    Their squared norms vary as ``2 tr(S²)/tr(S)²``, and the fourth moments of the columns are three times their squared
    variances: norms of tf-idf rows, whose length is one, may vary as those of Gaussian rows do.
    """
    sizes = np.bincount(labels)
    means = np.zeros((len(sizes), centred.shape[1]))
    np.add.at(means, labels, centred)
    inside = sizes[labels] > 1
    counts = sizes[labels][inside, None]
    rest = (centred[inside] - (means / sizes[:, None])[labels[inside]]) * np.sqrt(counts / (counts - 1))
    freedom = len(rest) - int((sizes > 1).sum())
    if freedom < 2:
        return False
    norms = np.einsum("ij,ij->i", rest, rest)
    gram = rest.T @ rest if len(rest) > rest.shape[1] else rest @ rest.T
    expected = norm_scatter(float(norms.sum()), float((gram**2).sum()), freedom)
    if not expected > 0 or not norms.mean() > 0:
        return False
    square = np.maximum((rest**2).mean(axis=0), np.finfo(float).tiny)
    fourth = float(((rest**4).mean(axis=0) / square).sum() / square.sum()) / 3  # each column by its variance
    ratios = (float(norms.var() / norms.mean() ** 2 / expected), fourth)
    return all(1 / GAUSSIAN_RATIO < ratio < GAUSSIAN_RATIO for ratio in ratios)


def _measure_fraction(
    X: FloatArray,
    Y: FloatArray,
    labels: IntArray | None,
    groups: IntArray,
    fraction: float,
    penalties: FloatArray,
    rng: np.random.Generator,
) -> PilotSize:
    """Errors of training sets of a fraction of the rows on rows outside their groups."""
    n, level = len(Y), Y.mean(axis=0)
    size = round(fraction * n)
    tested, correct, chosen_excess = np.zeros(n), np.zeros(n), np.zeros(n)
    excess = np.zeros((n, len(penalties)))
    trained = []
    tests: list[tuple[IntArray, FloatArray]] = []
    for _ in range(_DRAWS):
        train, test = split_groups(groups, size, rng)
        if len(test) == 0 or len(train) < 2:
            continue
        centre, mean = X[train].mean(axis=0), Y[train].mean(axis=0)
        parts = decompose(X[train] - centre)
        if parts.rank == 0:  # a draw of identical rows
            continue
        Z = Y[train] - mean
        predict = held_out_predictor(parts, Z, X[test] - centre)
        chosen = chosen_penalty(parts, Z, penalties)
        tested[test] += 1
        for j, penalty in enumerate(penalties):
            f = predict(float(penalty)) + (mean - level)
            error = _excess(f, Y[test] - level)
            excess[test, j] += error
            if j == chosen:
                chosen_excess[test] += error
                if labels is not None:
                    correct[test] += _winner(f + level) == labels[test]
                    tests.append((test, margins(f + level, labels[test])))
        trained.append(len(train))
    times = np.maximum(tested, 1)
    likely = np.zeros(n)
    if tests:
        margin = np.concatenate([found for _, found in tests])
        np.add.at(likely, np.concatenate([test for test, _ in tests]), likely_right(margin))
    return PilotSize(
        round(float(np.mean(trained))) if trained else size,
        tested,
        excess / times[:, None],
        chosen_excess / times,
        correct / times,
        likely / times,
    )


def _excess(f: FloatArray, centred: FloatArray) -> FloatArray:
    """|f|² − 2 f·(y − ȳ), the squared error without |y − ȳ|²."""
    return np.asarray((f * (f - 2 * centred)).sum(axis=-1))


def _winner(f: FloatArray) -> IntArray:
    """Class of the largest fitted indicator; ties up to rounding go to the first class, not to the rounding."""
    return np.asarray(np.round(f, 9).argmax(axis=1))
