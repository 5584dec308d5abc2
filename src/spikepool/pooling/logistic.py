r"""Logistic regressions beside the ridge: class scores that are added, with weights found on rows left out.

Ridge compares poolings in closed form, but a logistic regression on the features it chose is often the better
classifier, most of all where classes are many. The scores f_c of the ridge, of logistic regression on the chosen
features and of logistic regression on the mean are combined,

    p = softmax(Σ_c v_c f_c),      v = argmax Σ_i w_i log p(y_i | x_i)   over v >= 0,

the f_c of row i being those of fits without its fold. The ridge predicts alone where the combination does not raise
the out-of-fold log-likelihood by one standard error, and the mean's own scores (ridge and logistic regression on the
mean) are used alone where all others together do not raise theirs by one.

Where several layers are screened (:func:`average_layers`), there is no ridge. Strongly penalised logistic regressions
on the queries of the middle layers are averaged with equal weights, which few rows cannot overfit:

    p = softmax(a·(1/m) Σ_c f_c),      a = argmax Σ_i w_i [log p(y_i | x_i) + (r/n)²(1/K) Σ_k log p(k | x_i)],

as if r²/n further rows had been drawn whose classes are random: a is near zero, and p near 1/K, where the n rows left
out do not support more. The mean of the last layer joins, or replaces, the queries where that raises the likelihood by
two standard errors. With more than ``MOST_CLASSES`` classes the mean and the queries of the two deeper layers have the
weights v of largest likelihood instead of equal ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.progress import Progress
from spikepool.pooling.learned_report import Candidate
from spikepool.pooling.learning_rows import LearningRows
from spikepool.pooling.registry import Part, Pooling, RulePooling
from spikepool.pooling.selection import (
    ERRORS_REQUIRED,
    SCREENED,
    Choice,
    Fitted,
    Options,
    Task,
    middle_layers,
    poolings,
)
from spikepool.pooling.stacking import fit_scale, paired
from spikepool.ridge.folds import Standardised
from spikepool.ridge.gcv import RidgeFit

# Screened layers: inverse penalty times the number of features, r, rows that are left out in all (with many rows some
# folds only train), and the standard errors of likelihood that the mean needs to join. Chosen on tweets (emotion,
# offence, irony, hate, topic) and 20 classes of banking77; see docs/benchmarks/choose.md.
STRENGTH, RANDOM_ROWS, ROWS_LEFT_OUT, ERRORS_TO_JOIN = 3.0, 16.0, 300, 2.0
# Classes beyond which they are weighed, not averaged, and the strength of queries there: with the 150 classes of
# clinc150 the average loses 3 points to logistic regression on the mean. Chosen on a half of banking77 and of clinc150.
MOST_CLASSES, MANY_STRENGTH = 30, 30.0
# Inverse penalty on standardised features: scikit-learn's default.
INVERSE_PENALTY, STEPS, TOLERANCE = 1.0, 200, 1e-3
# Inverse penalties among which the references of a report choose.
REFERENCE_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
# Rows times features (at most the rows) times classes beyond which one would take longer than comparing poolings.
MOST_WORK = 6e8
# Largest size of its features, in single precision.
MOST_BYTES = 2**29
# Added to the products of rows, relative to their size: the rounding of single precision, or a power of ten more.
ROUNDING = 1e-6
# Score of a class that a fold has not seen.
UNSEEN = -30.0


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """coef (F, K) on the features as they are, intercept (K,)."""

    coef: FloatArray
    intercept: FloatArray

    def predict(self, C: FloatArray) -> FloatArray:
        """Scores (n, K), whose softmax are probabilities."""
        return np.asarray(C @ self.coef + self.intercept)


class LogisticFeatures:
    """Standardised features for multinomial logistic regression, in their row space where there are more than rows.

    With S S' = L L', regression on the rows of L (n, n) has the same scores as on those of S (n, F): the penalised
    coefficients lie in the row space, and products of rows are all that matters.

    Parameters
    ----------
    C : array (n, F) of float32
        Features; used up.
    weights : array (n,)
        Row weights.
    strength : float, optional
        Inverse penalty times F; by default the inverse penalty is ``INVERSE_PENALTY``.
    """

    def __init__(self, C: FloatArray, weights: FloatArray, strength: float | None = None) -> None:
        self.weights = weights
        self.inverse_penalty = INVERSE_PENALTY if strength is None else strength / C.shape[1]
        self.standard = Standardised.of(C, weights)
        self.S = self.Z = self.standard(C)
        n, F = C.shape
        if n < F:
            self.Z = _square_root((self.S @ self.S.T).astype(np.float64)).astype(np.float32)

    def _fit(self, rows: IntArray, codes: IntArray, classes: int) -> tuple[FloatArray, FloatArray]:
        """Coefficients on Z and intercepts, for classes 0 to K − 1."""
        model = LogisticRegression(C=self.inverse_penalty, max_iter=STEPS, tol=TOLERANCE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # early stopping acts as a penalty
            warnings.simplefilter("ignore", UserWarning)  # many classes for few rows: the check of y has warned
            model.fit(self.Z[rows], codes[rows], sample_weight=self.weights[rows])
        coef, intercept = np.zeros((self.Z.shape[1], classes)), np.full(classes, UNSEEN)
        coefficients, level = model.coef_.T.astype(np.float64), model.intercept_.astype(np.float64)
        if len(model.classes_) == 2:
            coefficients, level = np.column_stack([-coefficients, coefficients]) / 2, np.r_[-level, level] / 2
        coef[:, model.classes_], intercept[model.classes_] = coefficients, level
        return coef, intercept

    def scores(self, train: IntArray, test: IntArray, codes: IntArray, classes: int) -> FloatArray:
        """Scores of the rows `test` from a fit to the rows `train`."""
        coef, intercept = self._fit(train, codes, classes)
        return np.asarray(self.Z[test] @ coef + intercept)

    def fit(self, codes: IntArray, classes: int) -> LogisticFit:
        """The regression on all rows, for features as they are."""
        coef, intercept = self._fit(np.arange(len(codes)), codes, classes)
        if self.Z is not self.S:
            inner = solve_triangular(self.Z.astype(np.float64), coef, trans="T", lower=True)
            coef = (self.S.T @ inner.astype(np.float32)).astype(np.float64)
        coef = coef / self.standard.scale[:, None]
        return LogisticFit(coef, intercept - self.standard.centre @ coef)


def _square_root(gram: FloatArray) -> FloatArray:
    """L with L L' = gram, which has been rounded to single precision, plus as much of the identity as that takes."""
    added = max(ROUNDING * float(np.trace(gram)) / len(gram), 1e-30)
    while True:
        try:
            return np.asarray(cholesky(gram + added * np.eye(len(gram)), lower=True, overwrite_a=True))
        except LinAlgError:
            added *= 10


def logistic_rows(features: int, classes: int, folds: int) -> int:
    """Rows on which a logistic regression costs no more than the comparison, and whose features fit into memory."""
    return int(min((folds + 1) * MOST_WORK / (features * classes), MOST_BYTES / (4 * features)))


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weight of the ridge's scores, the logistic regressions with theirs, and out-of-fold probabilities (n, K).

    `mean` says that the mean is used alone after all.
    """

    ridge: float
    parts: tuple[Part, ...]
    values: FloatArray
    mean: bool = False


def two_classes_everywhere(codes: IntArray, folds: IntArray) -> bool:
    """Whether two classes remain without any of the folds."""
    return all(len(np.unique(codes[folds != k])) > 1 for k in range(int(folds.max()) + 1))


def too_large(rows: LearningRows, pooling: Pooling, K: int) -> bool:
    """Whether logistic regression on the features of these rows would take too long."""
    n, width = rows.source.n, len(pooling.feature_names(rows.source.d))
    return n * min(n, width) * K > MOST_WORK or 4 * n * width > MOST_BYTES


def fit_logistic(
    rows: LearningRows,
    pooling: Pooling,
    without: Sequence[Pooling],
    task: Task,
    codes: IntArray,
    K: int,
    over: Callable[..., list[Any]],
    strength: float | None = None,
) -> tuple[LogisticFit, FloatArray]:
    """Logistic regression on a pooling, and out-of-fold scores (n, K); `without` are the poolings of each fold."""

    def logistic(pooling: Pooling) -> LogisticFeatures:
        return LogisticFeatures(rows.features(pooling, np.float32), task.weights, strength)

    whole = logistic(pooling)

    def one_fold(k: int) -> tuple[IntArray, FloatArray]:
        train, test = np.flatnonzero(task.folds != k), np.flatnonzero(task.folds == k)
        one = logistic(without[k]) if without else whole
        return test, one.scores(train, test, codes, K)

    left_out = np.zeros((len(codes), K))
    for test, scores in over(one_fold, int(task.folds.max()) + 1):
        left_out[test] = scores
    return whole.fit(codes, K), left_out


def tuned_logistic(C: FloatArray, codes: IntArray, folds: IntArray, K: int) -> FloatArray:
    """Out-of-fold probabilities (n, K) of logistic regression on features C (n, F), for comparison.

    The inverse penalty is the one of ``REFERENCE_PENALTIES`` with the largest likelihood of the rows left out, those
    with a fold of 0 or more.
    """
    head = LogisticFeatures(np.array(C, dtype=np.float32), np.ones(len(C)))
    here = np.flatnonzero(folds >= 0)
    best, highest = np.full((len(C), K), 1 / K), -np.inf
    for head.inverse_penalty in REFERENCE_PENALTIES:
        logs = np.zeros((len(C), K))
        for k in range(int(folds.max()) + 1):
            train, test = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
            logs[test] = log_softmax(head.scores(train, test, codes, K), axis=1)
        likelihood = float(logs[here, codes[here]].mean())
        if likelihood > highest:
            best, highest = np.exp(logs), likelihood
    return np.asarray(best)


def screened_strength(pooling: Pooling, K: int) -> float | None:
    """Strength of the logistic regression on a pooling of screened layers, for K classes."""
    if K <= MOST_CLASSES:
        return STRENGTH
    return None if pooling.name == "mean" else MANY_STRENGTH


def average_layers(
    layers: Sequence[Any],
    rows_of: Callable[[Any], LearningRows],
    task: Task,
    options: Options,
    over: Callable[..., list[Any]],
    progress: bool | None = None,
) -> tuple[Task, Choice, Mixture] | None:
    """Queries of the middle layers and the mean of the last: the rows left out, the choice, and the mixture.

    None where one would be too large, or nothing can be judged. Parameters as
    :func:`spikepool.pooling.selection.compare`.
    """
    spec, last = poolings()[SCREENED], layers[-1]
    K = max(2, task.Y.shape[1])
    many = K > MOST_CLASSES
    codes = np.where(task.Y[:, 0] > 0, 1, 0) if K == 2 else task.Y.argmax(axis=1)
    every = int(task.folds.max()) + 1
    used = min(every, -(-ROWS_LEFT_OUT * every // len(codes)))
    folds = np.where(task.folds < used, task.folds, -1)
    task = replace(task, folds=folds, judging=np.where(folds >= 0, task.judging, 0.0))
    weights = task.judging
    if not weights.any() or not two_classes_everywhere(codes, folds):
        return None
    fitted: list[tuple[Any, Pooling, LogisticFit, FloatArray]] = []
    middle = middle_layers(layers)[-2 if many else 0 :]
    with Progress(len(middle) + 1, "fitting layers", show=progress) as bar:
        for layer in (last, *middle):
            rows = rows_of(layer)
            without: list[Pooling] = []
            pooling: Pooling = RulePooling("mean")
            if fitted:
                trains = [*(np.flatnonzero(folds != k) for k in range(used)), np.arange(len(codes))]

                def learned(k: int, rows: LearningRows = rows, trains: list[IntArray] = trains) -> Pooling:
                    return spec.fit(rows, task.Y, task.weights, trains[k], options)  # type: ignore[no-any-return]

                _ = rows.z, rows.covariances  # once, before threads ask for them
                *without, pooling = over(learned, used + 1)
            if too_large(rows, pooling, K):
                return None
            fit = fit_logistic(rows, pooling, without, task, codes, K, over, screened_strength(pooling, K))
            fitted.append((layer, pooling, *fit))
            bar.advance()
    here = folds >= 0

    def scaled(shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scaled weights, and the logarithms of the probabilities of their sum."""
        total = np.tensordot(shares, np.stack([scores for *_, scores in fitted]), axes=1)
        a = fit_scale(total[here], codes[here], weights[here], RANDOM_ROWS**2 / here.sum())
        return a * shares, np.asarray(log_softmax(a * total, axis=1))

    at = np.arange(len(codes)), codes
    count = len(fitted)
    single_ones = np.eye(count)
    if many:
        shares = score_weights([scores[here] for *_, scores in fitted], codes[here], weights[here])
        v, logs = scaled(shares if shares.any() else single_ones[0])
    else:
        v, logs = scaled(np.r_[0.0, np.full(count - 1, 1 / (count - 1))])
        for other in (np.full(count, 1 / count), single_ones[0]):
            u, others = scaled(other)
            gain, error = paired(others[at] - logs[at], weights, task.clusters)
            if gain > ERRORS_TO_JOIN * error:
                v, logs = u, others
    alone = [scaled(one)[1] for one in single_ones]
    right = [(one.argmax(axis=1) == codes) * 1.0 for one in alone]
    level = task.Y * 0 + weights @ task.Y / weights.sum()

    def candidate(c: int) -> Candidate:
        losses = [float(weights @ task.loss(values)) for values in (_targets(alone[c]), level)]
        score, gain = float(weights @ right[c] / weights.sum()), paired(right[c] - right[0], weights, task.clusters)
        share = float(v[c] / v.sum())
        return Candidate(fitted[c][1].name, c > 0, score, *gain, losses[0] / (losses[1] or 1.0), share, fitted[c][0])

    def single(c: int) -> Fitted:
        layer, pooling, fit, _ = fitted[c]
        coef, intercept = (part[..., 1:] - part[..., :1] if K == 2 else part for part in (fit.coef, fit.intercept))
        linear = RidgeFit(coef, intercept, float("nan"))
        return Fitted(layer, pooling, lambda: linear, _targets(alone[c]), c > 0, 0.0)

    table = tuple(candidate(c) for c in range(count))
    parts = np.flatnonzero(v)
    best = single(int(min(parts, key=lambda c: table[c].loss)))
    gain, error = paired((logs.argmax(axis=1) == codes) - right[0], weights, task.clusters)
    choice = Choice((), best, single(0), _targets(logs), table, gain, error, "average")
    return task, choice, Mixture(0.0, tuple(Part(float(v[c]), *fitted[c][:3]) for c in parts), np.exp(logs))


def _targets(logs: FloatArray) -> FloatArray:
    """Probabilities as predictions of the targets −1 and 1, (n, K) or (n, 1) for two classes."""
    return np.asarray(2 * np.exp(logs[:, 1:] if logs.shape[1] == 2 else logs) - 1)


def mix_logistic(
    choice: Choice,
    rows_of: Callable[[Any], LearningRows],
    task: Task,
    codes: IntArray,
    ridge: FloatArray,
    mean_ridge: FloatArray,
    over: Callable[..., list[Any]],
) -> Mixture:
    """Fit logistic regressions on the features of the best candidate and on the mean, and weigh them beside the ridge.

    Parameters
    ----------
    choice : Choice
        What the comparison of poolings found.
    rows_of : callable
        Learning rows of a layer.
    task : Task
        Targets, weights and folds.
    codes : array (n,) of int
        Classes.
    ridge, mean_ridge : arrays (n, K)
        Out-of-fold scores of the ridge and of ridge on the mean, scaled so that their softmax are probabilities.
    over : callable
        Map over the folds.
    """
    n, K = ridge.shape
    best, mean = choice.best, choice.mean
    candidates: list[tuple[Any, Pooling, Sequence[Pooling]]] = [(best.layer, best.pooling, best.without)]
    if best.pooling.name != "mean":
        candidates.append((best.layer, RulePooling("mean"), ()))
    if best.layer != mean.layer:
        candidates.append((mean.layer, RulePooling("mean"), ()))
    used: list[tuple[Any, Pooling]] = []
    fits: list[LogisticFit] = []
    scores: list[FloatArray] = []
    for layer, pooling, without in candidates if two_classes_everywhere(codes, task.folds) else ():
        rows = rows_of(layer)
        if too_large(rows, pooling, K):
            continue
        fit, left_out = fit_logistic(rows, pooling, without, task, codes, K, over)
        used.append((layer, pooling))
        fits.append(fit)
        scores.append(left_out)
    weights = task.judging
    if not weights.any():
        return Mixture(1.0, (), np.asarray(softmax(ridge, axis=1)))

    def mixed(scores: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        v = score_weights(scores, codes, weights)
        return v, np.asarray(sum(share * f for share, f in zip(v, scores, strict=True)))

    def better(scores: FloatArray, reference: FloatArray) -> bool:
        of_mean = np.arange(n), codes
        gains = log_softmax(scores, axis=1)[of_mean] - log_softmax(reference, axis=1)[of_mean]
        gain, error = paired(gains, weights, task.clusters)
        return gain > ERRORS_REQUIRED * error

    def chosen(ridge: FloatArray, scores: Sequence[FloatArray], keep: Sequence[int]) -> tuple[FloatArray, Mixture]:
        """The ridge beside logistic regression on the poolings `keep`, or alone."""
        v, total = mixed([ridge, *scores])
        if not better(total, ridge):
            return ridge, Mixture(1.0, (), np.asarray(softmax(ridge, axis=1)))
        weighted = zip(v[1:], keep, strict=True)
        parts = tuple(Part(float(w), *used[c], fits[c]) for w, c in weighted if w > 0)
        return total, Mixture(float(v[0]), parts, np.asarray(softmax(total, axis=1)))

    total, shares = chosen(ridge, scores, range(len(used)))
    if best is mean:
        return shares
    of_mean = [c for c, (layer, pooling) in enumerate(used) if layer == mean.layer and pooling.name == "mean"]
    reference, alone = chosen(mean_ridge, [scores[c] for c in of_mean], of_mean)
    return shares if better(total, reference) else replace(alone, mean=True)


def score_weights(scores: Sequence[FloatArray], codes: IntArray, weights: FloatArray) -> FloatArray:
    """V >= 0 of largest likelihood for softmax(Σ v_c f_c); a convex problem of few unknowns."""
    stacked = np.stack(scores)
    right = stacked[:, np.arange(len(codes)), codes] @ weights / weights.sum()

    def loss(v: FloatArray) -> tuple[float, FloatArray]:
        total = np.tensordot(v, stacked, axes=1)
        normal = logsumexp(total, axis=1)
        p = np.exp(total - normal[:, None]) * (weights / weights.sum())[:, None]
        return float(weights @ normal / weights.sum() - v @ right), np.einsum("cnk,nk->c", stacked, p) - right

    start = np.r_[1.0, np.zeros(len(scores) - 1)]
    solution = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(scores))
    return np.asarray(solution.x)
