"""Compare candidates (layer, pooling, head) on rows left out, weigh them, and keep the mean unless they are better.

1. **Propose.** Of one layer, every registered candidate pooling. Of several, the mean of the last layer and attention
   in three middle layers, or in each of at most four. The mean of the last layer comes first: it is the reference.
2. **Rank.** Where more are proposed than `Rules.most_heads`, ridge regression ranks them: it leaves rows out in
   closed form. The reference and the others of largest likelihood go on.
3. **Judge.** Each candidate's head is fitted without each fold, its pooling learned without the fold as well, and
   scores the rows of the fold.
4. **Weigh.** The candidates have the weights of largest likelihood on rows left out (:mod:`spikepool.pooling.judging`).
5. **Decide.** The weighted candidates predict if their likelihood is above that of the reference by more than
   `Rules.errors_required` standard errors of the paired difference; else the reference predicts alone. Fewer than
   `Rules.fewest_to_judge` rows left out cannot tell: of several layers, attention in the middle ones is used then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.kit.progress import Progress
from spikepool.kit.threads import Map
from spikepool.pooling.catalogue import poolings
from spikepool.pooling.fitted import Candidate
from spikepool.pooling.heads import Design, Head, HeadFit, RidgeHead, design
from spikepool.pooling.judging import Task
from spikepool.pooling.learning_rows import LearningRows
from spikepool.pooling.registry import Pooling, PoolingSpec

Proposal = tuple[Any, str]  # layer and name of the pooling


@dataclass(frozen=True)
class Rules:
    """Numbers that decide what is compared and what is kept.

    Attributes
    ----------
    middle : tuple of float
        Places of the layers, as fractions of the depth, in which attention is compared where there are several.
    most_heads : int
        Candidates that are judged with their heads, the reference included.
    rows_left_out : int
        With many rows, only as many folds are left out as hold this many rows; the others train.
    fewest_to_judge : int
        Rows left out below which several layers are not judged. With 8 rows per class of two classes the mean lost 8
        points where it was kept (docs/benchmarks/choose.md).
    errors_required : float
        Standard errors of likelihood by which the reference must be exceeded.
    errors_behind : float
        Standard errors of likelihood by which a contender may be below the best candidate.
    least_weight : float
        Candidates whose share of the weights is smaller are dropped: they cost time and change nothing.
    """

    middle: tuple[float, ...] = (1 / 2, 2 / 3, 5 / 6)
    most_heads: int = 5
    rows_left_out: int = 300
    fewest_to_judge: int = 32
    errors_required: float = 1.0
    errors_behind: float = 2.0
    least_weight: float = 0.01


@dataclass(frozen=True)
class Options:
    """How poolings are learned: number of queries, and steps of the optimiser."""

    queries: int
    max_steps: int


@dataclass(frozen=True, eq=False)
class Pooled:
    """A pooling of a layer, learned on all rows and, where it looks at the targets, without each fold."""

    layer: Any
    spec: PoolingSpec
    rows: LearningRows
    pooling: Pooling
    without: tuple[Pooling, ...]

    def designs(self, task: Task) -> Callable[[int], Design]:
        """The design without each fold, and of all rows for −1; a fixed pooling has one for all."""
        known: dict[int, Design] = {}

        def of(k: int) -> Design:
            k = k if self.without else -1
            if k not in known:
                known[k] = design(self.rows, self.without[k] if k >= 0 else self.pooling, task.weights)
            return known[k]

        if not self.without:
            of(-1)  # once, before threads ask for it
        return of


@dataclass(frozen=True, eq=False)
class Judged:
    """A candidate with what its head found."""

    pooled: Pooled
    head: str
    fit: HeadFit


@dataclass(frozen=True, eq=False)
class Decision:
    """What predicts.

    Attributes
    ----------
    used : tuple of (weight, Judged)
        Candidates whose scores are added.
    leading : Judged
        The one of largest likelihood among them, whose features `transform` gives.
    scores : array (n, k)
        Weighted scores of the rows left out.
    candidates : tuple of Candidate
        The table, the reference first; empty where there was one candidate.
    gain, error : float
        Score minus that of the reference and its standard error; NaN where nothing was compared.
    prediction : {"mean", "single", "weighted", "untold"}
        What predicts: the reference, one other candidate (or the only one), several, or several that the few rows left
        out could not tell from the reference.
    """

    used: tuple[tuple[float, Judged], ...]
    leading: Judged
    scores: FloatArray
    candidates: tuple[Candidate, ...]
    gain: float
    error: float
    prediction: str


def proposals(layers: Sequence[Any], pooling: str, rules: Rules, *, single_token: bool = False) -> list[Proposal]:
    """What to compare: the reference first. A pooling asked for by name, or the mean of one token, in every layer."""
    last, earlier = layers[-1], list(layers[:-1])[::-1]
    if pooling != "auto" or single_token:
        name = "mean" if pooling == "auto" else pooling
        return [(layer, name) for layer in (last, *earlier)]
    specs = poolings()
    if not earlier:
        return [(last, name) for name, spec in specs.items() if spec.candidate]
    middle: Any = layers
    if len(layers) > len(rules.middle) + 1:
        middle = dict.fromkeys(layers[round(place * (len(layers) - 1))] for place in rules.middle)
    return [(last, "mean"), *((layer, name) for layer in middle for name, spec in specs.items() if spec.in_layers)]


def pool(proposal: Proposal, rows: LearningRows, task: Task, options: Options, over: Map) -> Pooled:
    """Learn a pooling on all rows, and without each fold where it looks at the targets."""
    layer, name = proposal
    spec, Y, everything = poolings()[name], task.Y, np.arange(len(task.weights))
    if not spec.learned:
        return Pooled(layer, spec, rows, spec.fit(rows, Y, task.weights, everything, options), ())
    _ = rows.z, rows.covariances  # once, before threads ask for them

    def learned(k: int) -> Any:
        train = np.flatnonzero(task.folds != k) if k < task.fold_count else everything
        return spec.fit(rows, Y, task.weights, train, options)

    *without, whole = over(learned, task.fold_count + 1)
    return Pooled(layer, spec, rows, whole, tuple(without))


def compare(
    proposed: Sequence[Proposal],
    rows_of: Callable[[Any], LearningRows],
    task: Task,
    head: Head,
    options: Options,
    rules: Rules,
    over: Map,
    progress: bool | None = None,
) -> Decision:
    """Judge the proposals and decide; see the module's docstring.

    Parameters
    ----------
    proposed : sequence of (layer, name)
        The reference first.
    rows_of : callable
        Learning rows of a layer.
    task : Task
        Targets, weights and folds.
    head : Head
        The linear model.
    options : Options
        How poolings are learned.
    rules : Rules
        The deciding numbers.
    over : callable
        Map over folds; they share nothing, so threads do not change the numbers.
    progress : bool, optional
        Show a progress bar.
    """
    ranked: list[Judged] = []
    judged: list[Judged] = []
    several = len({layer for layer, _ in proposed}) > 1
    with Progress(len(proposed), "comparing poolings", show=progress) as bar:
        few = len(proposed) <= rules.most_heads or isinstance(head, RidgeHead)
        for proposal in proposed:
            pooled = pool(proposal, rows_of(proposal[0]), task, options, over)
            one = _judged(pooled, head if few else RidgeHead(), task, over, settled=several)
            (judged if few else ranked).append(one)
            bar.advance()
    if ranked:
        order = sorted(ranked[1:], key=lambda one: -_likelihood(one, task))[: rules.most_heads - 1]
        judged = [_judged(one.pooled, head, task, over) for one in (ranked[0], *order)]
    kept = {(one.pooled.layer, one.pooled.spec.name) for one in judged}
    others = [one for one in ranked if (one.pooled.layer, one.pooled.spec.name) not in kept]
    return _decide(judged, others, task, rules)


def _judged(pooled: Pooled, head: Head, task: Task, over: Map, *, settled: bool = False) -> Judged:
    """A candidate with its scores; its designs are made again for the fit to all rows, so that none is held.

    With `settled` the map is worked out now, so that the rows of its layer need not be held either.
    """
    fit = head.judge(pooled.designs(task), task, over)
    if settled:
        linear = fit.linear()
        return Judged(pooled, head.name, replace(fit, linear=lambda: linear))
    chosen = fit.head
    return Judged(pooled, head.name, replace(fit, linear=lambda: chosen.whole(pooled.designs(task), task)()))


def _likelihood(one: Judged, task: Task) -> float:
    """Average log-likelihood of the rows left out, the scores at their best scale."""
    scale = task.objective.weigh([one.fit.scores], task.judging)[0]
    return task.average(task.objective.likelihood(scale * one.fit.scores))


def _decide(judged: Sequence[Judged], others: Sequence[Judged], task: Task, rules: Rules) -> Decision:
    """The weighted candidates, or the reference, which is the first; `others` only appear in the table."""
    objective, reference = task.objective, judged[0]
    if not task.judging.any():
        return Decision(((1.0, reference),), reference, reference.fit.scores, (), np.nan, np.nan, "single")

    def alone(one: Judged) -> FloatArray:
        return np.asarray(objective.weigh([one.fit.scores], task.judging)[0] * one.fit.scores)

    single = [alone(one) for one in (*judged, *others)]
    likelihoods = [objective.likelihood(scores) for scores in single]
    v = objective.weigh([one.fit.scores for one in judged], task.judging)
    stack = np.stack([one.fit.scores for one in judged])
    gain, error = task.paired(objective.likelihood(np.tensordot(v, stack, axes=1)) - likelihoods[0])
    layered = len({one.pooled.layer for one in judged}) > 1
    untold = layered and int((task.judging > 0).sum()) < rules.fewest_to_judge
    if len(judged) == 1 or not (untold or gain > rules.errors_required * error):
        v = np.zeros(len(judged))
        v[0] = objective.weigh([reference.fit.scores], task.judging)[0]
        prediction = "mean" if len(judged) > 1 else "single"
    else:
        best = max(likelihoods[1 : len(judged)], key=task.average)
        behind = [task.paired(best - one) for one in likelihoods[: len(judged)]]
        contenders = np.array([untold or gain <= rules.errors_behind * error for gain, error in behind])
        contenders[0] = False
        v = objective.shrunk(v, stack, task.judging, contenders)
        v = np.where(v < rules.least_weight * v.sum(), 0.0, v)
        prediction = "untold" if untold else "single" if np.count_nonzero(v) == 1 else "weighted"
    scores = np.tensordot(v, stack, axes=1)
    right = [objective.score(one) for one in single]

    def row(c: int, one: Judged) -> Candidate:
        share = float(v[c] / v.sum()) if c < len(v) and v.any() else 0.0
        gains = task.paired(right[c] - right[0])
        loss = -task.average(likelihoods[c])
        name, learned = one.pooled.spec.name, one.pooled.spec.learned
        return Candidate(name, learned, task.average(right[c]), *gains, loss, share, one.pooled.layer, one.head)

    used = tuple((float(v[c]), one) for c, one in enumerate(judged) if v[c] > 0) or ((0.0, reference),)
    leading = max(used, key=lambda pair: task.average(likelihoods[judged.index(pair[1])]))[1]
    table = tuple(row(c, one) for c, one in enumerate((*judged, *others)))
    gain, error = task.paired(objective.score(scores) - right[0])
    if len(table) == 1:
        table, gain, error = (), np.nan, np.nan
    return Decision(used, leading, scores, table, gain, error, prediction)
