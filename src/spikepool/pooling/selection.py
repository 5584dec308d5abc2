"""Compare poolings and layers by cross-validation, combine them, and keep the mean where that is not better.

Every candidate predicts each row from the other folds, with its weights learned without the fold and its penalty chosen
by the same out-of-fold squared error (:mod:`spikepool.ridge.folds`). The predictions are combined by non-negative
weights (:mod:`spikepool.pooling.stacking`), the stack. Simpler predictions are preferred within ``ERRORS_REQUIRED``
standard errors of the paired difference in squared error, the weights of the stack being found without each fold:

1. the mean is used alone if the stack is not better by more than that;
2. the single candidate of least squared error is used alone if the stack is not better than it by more than that;
3. otherwise the stack predicts. `transform` gives the features of the single candidate.

Of several layers three in the middle are compared by learned queries, with the mean of the last (``SCREENED``). With
``effort="full"`` all are compared by their mean, and the best two and the last by every pooling; that ranking is made
without each fold as well, so that the judgement of a fold's stack has not seen its labels.

Every pooling by name: those of the package, which are registered here, and those of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from spikepool.data.tokens import TokenInput
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.kit.memory import Map
from spikepool.kit.progress import Progress
from spikepool.pooling.learned_report import Candidate
from spikepool.pooling.learning_rows import LearningRows
from spikepool.pooling.registry import Pooling, PoolingSpec, registered
from spikepool.pooling.sequence import SequencePooling
from spikepool.pooling.stacking import cross_fitted, paired
from spikepool.ridge.folds import START, FeatureRidge, KernelRidge, out_of_fold
from spikepool.ridge.gcv import RidgeFit


def poolings() -> dict[str, PoolingSpec]:
    """Every registered pooling by name: the mean, the others that are compared, the rest; cheap ones first."""

    def rank(item: tuple[str, PoolingSpec]) -> tuple[bool, bool, float]:
        # not the order in which modules happened to be imported
        return item[0] != "mean", not item[1].candidate, item[1].cost

    return dict(sorted(registered().items(), key=rank))


def pooling_names() -> tuple[str, ...]:
    """Values that ``pooling=`` accepts."""
    return ("auto", *poolings())


def candidate_names() -> tuple[str, ...]:
    """Poolings that ``pooling="auto"`` compares, the mean first."""
    return tuple(name for name, spec in poolings().items() if spec.candidate)


# Standard errors of squared error by which the stack must be better than the mean, and than the best candidate.
ERRORS_REQUIRED = 1.0
# Layers that are compared in full, beside the last.
BEST_LAYERS = 2
# What is compared without ``effort="full"`` where there are several layers: the mean of the last, and this pooling at
# these fractions of the depth. benchmarks/studies/text_table.py has what that costs in accuracy and saves in time.
SCREENED, MIDDLE = "queries", (1 / 2, 2 / 3, 5 / 6)

# Score of each row, larger is better, given predicted values.
Score = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Options:
    """How poolings are learned: number of queries, steps of the optimiser, and a fixed ridge if one was asked for."""

    heads: int
    max_steps: int
    ridge: float | None

    def penalty(self, total: float) -> float:
        """The fixed penalty for rows of this weight together."""
        assert self.ridge is not None
        return total * self.ridge


@dataclass(frozen=True, eq=False)
class Task:
    """Targets (n, k), row weights, folds and clusters of the learning rows.

    `judging` are the weights with which out-of-fold predictions are compared: zero for a row whose class is missing in
    the other folds, which says nothing of how good a prediction is where classes are known.
    """

    Y: FloatArray
    weights: FloatArray
    folds: IntArray
    clusters: IntArray
    judging: FloatArray

    def loss(self, values: FloatArray) -> FloatArray:
        """Squared error of each row."""
        return np.asarray(((values - self.Y) ** 2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A pooling with its ridge on all learning rows, and out-of-fold values (n, k)."""

    layer: Any
    pooling: Pooling
    finish: Callable[[], RidgeFit]
    values: FloatArray
    learned: bool
    exponent: float  # of the penalty, where the search for the next candidate's begins
    without: tuple[Pooling, ...] = ()  # learned poolings: the fit without each fold

    @cached_property
    def ridge(self) -> RidgeFit:
        """The ridge on all learning rows; worked out only for candidates that are used."""
        return self.finish()

    @property
    def label(self) -> str:
        """Name, with the layer where there are several."""
        return self.pooling.name if self.layer is None else f"{self.pooling.name} @ {self.layer}"


@dataclass(frozen=True, eq=False)
class Choice:
    """What a comparison found.

    Attributes
    ----------
    parts : tuple of (weight, Fitted)
        The candidates whose predictions are added.
    best, mean : Fitted
        The single candidate in use for `transform`, and the mean, of the last layer.
    values : array (n, k)
        Out-of-fold values of what is in use.
    candidates : tuple of Candidate
        The table.
    gain, error : float
        Score of what is in use minus that of the mean, and its standard error.
    prediction : {"mean", "single", "stack", "average"}
        What predicts; "single" as well where one pooling was asked for.
    """

    parts: tuple[tuple[float, Fitted], ...]
    best: Fitted
    mean: Fitted
    values: FloatArray
    candidates: tuple[Candidate, ...]
    gain: float
    error: float
    prediction: str

    def mean_alone(self) -> Choice:
        """The same comparison, with the mean in use."""
        table = tuple(replace(row, weight=float(k == 0)) for k, row in enumerate(self.candidates))
        return Choice(((1.0, self.mean),), self.mean, self.mean, self.mean.values, table, 0.0, 0.0, "mean")


@dataclass(frozen=True, eq=False)
class Comparison:
    """What was compared, on which rows.

    Attributes
    ----------
    sources : dict
        Tokens by layer, all rows.
    task : Task
        Targets, weights and folds of the learning rows.
    choice : Choice
        What was found.
    rows_of : callable
        Learning rows of a layer.
    streamed : bool
        Whether there are more rows than the learning rows.
    rows : array
        Numbers of the learning rows among all.
    mixture : Mixture or None
        Of screened layers: the logistic regressions that predict.
    """

    sources: dict[Any, TokenInput]
    task: Task
    choice: Choice
    rows_of: Callable[[Any], LearningRows]
    streamed: bool
    rows: IntArray
    mixture: Any = None


def fit_candidate(
    spec: PoolingSpec,
    layer: Any,
    rows: LearningRows,
    task: Task,
    options: Options,
    over_tasks: Map,
    start: float = START,
) -> Fitted:
    """Fit one pooling on all rows, with out-of-fold values."""
    n = len(task.Y)
    everything = np.arange(n)
    fixed = None if options.ridge is None else options.penalty
    given = (task.Y, task.weights, task.folds, fixed, start)

    def learned_without(k: int) -> Any:
        train = everything if k < 0 else np.flatnonzero(task.folds != k)
        return spec.fit(rows, task.Y, task.weights, train, options)

    count = int(task.folds.max()) + 1
    if spec.learned:
        _ = rows.z, rows.covariances  # once, before threads ask for them
        *without, pooling = over_tasks(lambda k: learned_without(k if k < count else -1), count + 1)
        problems, units = [], []
        for k, fold in enumerate(without):
            ridge = FeatureRidge(rows.features(fold), task.Y, task.weights, np.where(task.folds == k, 0, -1))
            problems.append(ridge.problems[0])
            units.append(ridge.unit)
        values, a, exponent = out_of_fold(problems, float(np.mean(units)), *given)
        del ridge, problems  # before the features of all rows are made
        whole = FeatureRidge(rows.features(pooling), task.Y, task.weights, np.full(n, -1))
        return Fitted(layer, pooling, _constant(whole.fit(a)), values, True, exponent, tuple(without))
    pooling = learned_without(-1)
    if isinstance(pooling, SequencePooling) and pooling.size > n:
        products = KernelRidge(pooling.products(rows), task.Y, task.weights, task.folds, pooling.size)
        values, a, exponent = out_of_fold(products.problems, products.unit, *given)
        alpha, level = products.fit(a)

        def finish() -> RidgeFit:
            coef, centre = pooling.coefficients(rows, alpha)
            return RidgeFit(coef, level - centre @ coef, a / float(task.weights.sum()))

        return Fitted(layer, pooling, finish, values, False, exponent)
    scaled = not isinstance(pooling, SequencePooling)
    ridge = FeatureRidge(rows.features(pooling), task.Y, task.weights, task.folds, scaled=scaled)
    values, a, exponent = out_of_fold(ridge.problems, ridge.unit, *given)
    return Fitted(layer, pooling, _constant(ridge.fit(a)), values, False, exponent)


def _constant(ridge: RidgeFit) -> Callable[[], RidgeFit]:
    return lambda: ridge


def compare(
    layers: Sequence[Any],
    rows_of: Callable[[Any], LearningRows],
    task: Task,
    names: Sequence[str],
    score: Score,
    options: Options,
    over_tasks: Map,
    progress: bool | None = None,
    *,
    screened: bool = False,
) -> Choice:
    """Fit every candidate and choose; see the module's docstring.

    Parameters
    ----------
    layers : sequence
        Name of each layer, the last one last; None for a single one.
    rows_of : callable
        Learning rows of a layer.
    task : Task
        Targets, weights and folds.
    names : sequence of str
        Poolings to compare, the mean first.
    score : callable
        Score of each row from predicted values.
    options : Options
        How poolings are learned.
    over_tasks : callable
        Map over the folds of a learned candidate; they share nothing, so threads do not change the numbers.
    progress : bool, optional
        Show a progress bar.
    screened : bool
        Compare ``SCREENED`` in the middle layers with the mean of the last, and nothing else.
    """
    specs = poolings()
    fits: list[Fitted] = []
    last = layers[-1]
    if screened:
        middle = middle_layers(layers)
        with Progress(len(middle) + 1, "comparing poolings", show=progress) as bar:
            for layer, name in [(last, names[0]), *((layer, SCREENED) for layer in middle)]:
                fits.append(fit_candidate(specs[name], layer, rows_of(layer), task, options, over_tasks))
                _ = fits[-1].ridge
                bar.advance()
        return _decide(fits, task, score, None, compared=bool(task.judging.any()))
    full = min(len(layers), BEST_LAYERS + 1)
    with Progress(len(layers) + full * (len(names) - 1), "comparing poolings", show=progress) as bar:
        for layer in layers:
            fits.append(fit_candidate(specs[names[0]], layer, rows_of(layer), task, options, over_tasks))
            bar.advance()
        means = {fit.layer: fit for fit in fits}
        ranks = _layer_ranks(fits, task) if len(layers) > 1 else np.zeros((1, 1))
        chosen = _chosen_layers(ranks.sum(axis=0), layers)
        for layer in chosen:
            rows = rows_of(layer)
            exponent = means[layer].exponent
            for name in names[1:]:
                fits.append(fit_candidate(specs[name], layer, rows, task, options, over_tasks, exponent))
                exponent = fits[-1].exponent
                if len(layers) > 1:
                    _ = fits[-1].ridge  # so that the rows of the layer can go
                bar.advance()
    order = [means[last], *(f for f in fits if f is not means[last])]
    allowed = None
    if len(layers) > 1:
        keep = [_chosen_layers(ranks.sum(axis=0) - ranks[k], layers) for k in range(len(ranks))]
        allowed = np.array([[f.layer in which for f in order] for which in keep])
    return _decide(order, task, score, allowed, compared=len(order) > 1 and bool(task.judging.any()))


def middle_layers(layers: Sequence[Any]) -> list[Any]:
    """The layers at the fractions ``MIDDLE`` of the depth."""
    return list(dict.fromkeys(layers[round(place * (len(layers) - 1))] for place in MIDDLE))


def _layer_ranks(means: Sequence[Fitted], task: Task) -> FloatArray:
    """Squared error of the mean by fold and layer."""
    losses = np.stack([task.judging * task.loss(fit.values) for fit in means], axis=1)
    return np.stack([losses[task.folds == k].sum(axis=0) for k in range(int(task.folds.max()) + 1)])


def _chosen_layers(losses: FloatArray, layers: Sequence[Any]) -> list[Any]:
    """The layers of least loss, and the last."""
    best = [layers[i] for i in np.argsort(losses, kind="stable")[:BEST_LAYERS]]
    return [layer for layer in layers if layer in best or layer == layers[-1]][::-1]


def _decide(fits: Sequence[Fitted], task: Task, score: Score, allowed: BoolArray | None, *, compared: bool) -> Choice:
    """The stack, its best candidate, or the mean, which is the first of `fits`."""
    mean = fits[0]
    if not compared:
        return Choice(((1.0, mean),), mean, mean, mean.values, (), float("nan"), float("nan"), "single")

    def better(values: FloatArray, reference: FloatArray) -> bool:
        gain, error = paired(task.loss(reference) - task.loss(values), task.judging, task.clusters)
        return gain > ERRORS_REQUIRED * error

    total = float(task.judging.sum())
    level = task.judging @ task.Y / total
    variance = float(task.judging @ task.loss(np.broadcast_to(level, task.Y.shape))) or 1.0
    losses = [float(task.judging @ task.loss(f.values)) / variance for f in fits]
    weights, values = cross_fitted([f.values for f in fits], task.Y, task.judging, task.folds, allowed)
    best, prediction = fits[int(np.argmin(losses))], "stack"
    if not better(values, mean.values):
        best, prediction = mean, "mean"
    elif not better(values, best.values):
        prediction = "single"
    if prediction != "stack":
        weights, values = np.array([float(f is best) for f in fits]), best.values
    rows_mean = score(mean.values)

    def gains(values: FloatArray) -> tuple[float, float]:
        return paired(score(values) - rows_mean, task.judging, task.clusters)

    table = tuple(
        Candidate(
            f.pooling.name,
            f.learned,
            float(task.judging @ score(f.values) / total),
            *gains(f.values),
            loss,
            float(weight),
            f.layer,
        )
        for f, loss, weight in zip(fits, losses, weights, strict=True)
    )
    parts = tuple((float(v), f) for v, f in zip(weights, fits, strict=True) if v > 0)
    return Choice(parts, best, mean, values, table, *gains(values), prediction)
