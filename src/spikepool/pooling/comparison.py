"""Compare candidates (layer, pooling, head) on rows left out, weigh them, and keep the mean unless they are better.

1. **Propose.** Of one layer, every registered candidate pooling. Of several, the mean of the last layer and attention
   in three middle layers, or in each of at most four. The mean of the last layer comes first: it is the reference.
2. **Judge.** Each head is fitted to a pooling without each fold, the pooling learned without the fold as well, and
   scores the rows of the fold. A classifier has two heads: logistic regression and ridge regression.
3. **Rank.** Where more poolings are proposed than `Rules.most_heads`, ridge regression judges all of them, and logistic
   regression the reference and the others of largest likelihood: it takes several times as long.
4. **Weigh.** Each candidate's scores are brought to their best scale. The candidates then have the weights of largest
   likelihood on rows left out, or more equal ones where these are few (:mod:`spikepool.pooling.judging`).
5. **Decide.** The weighted candidates predict if their likelihood is above that of the reference, its heads weighed in
   the same way, by more than `Rules.errors_required` standard errors of the paired difference; else the reference
   predicts alone. Likelihoods are corrected for the number of weights that were found (Akaike, 1974). Fewer than
   `Rules.fewest_to_judge` rows left out cannot tell: of several layers, attention in the middle ones is used then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.kit.progress import Progress
from spikepool.kit.threads import Map
from spikepool.pooling.catalogue import poolings
from spikepool.pooling.fitted import Candidate
from spikepool.pooling.heads import Design, Head, HeadFit, LinearMap, RidgeHead, design
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
        Poolings that logistic regression judges, the reference included.
    rows_left_out : int
        With many rows, only as many folds are left out as hold this many independent rows (groups count once); the
        others train.
    fewest_to_judge : int
        Rows left out below which several layers are not judged. With 8 rows per class of two classes the mean lost 8
        points where it was kept, with 32 rows 2.5 (docs/benchmarks/choose.md).
    errors_required : float
        Standard errors of likelihood by which the reference must be exceeded.
    errors_behind : float
        Standard errors of likelihood by which a contender may be below the best candidate.
    least_weight : float
        Candidates whose share of the weights is smaller are dropped: they cost time and change nothing.
    """

    middle: tuple[float, ...] = (1 / 2, 2 / 3, 5 / 6)
    most_heads: int = 5
    rows_left_out: int = 750
    fewest_to_judge: int = 100
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

    def designs(self, task: Task, *, keep: bool = True) -> Callable[[int], Design]:
        """The design without each fold, and of all rows for −1; a fixed pooling has one for all.

        Without `keep` those of folds are made whenever they are asked for, which holds less memory.
        """
        known: dict[int, Design] = {}

        def of(k: int) -> Design:
            k = k if self.without else -1
            if k in known:
                return known[k]
            made = design(self.rows, self.without[k] if k >= 0 else self.pooling, task.weights)
            if keep or k < 0:
                known[k] = made
            return made

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
    heads: Sequence[Head],
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
    heads : sequence of Head
        The linear models; that of the reference first.
    options : Options
        How poolings are learned.
    rules : Rules
        The deciding numbers.
    over : callable
        Map over folds; they share nothing, so threads do not change the numbers.
    progress : bool, optional
        Show a progress bar.
    """
    judged: list[Judged] = []
    several = len({layer for layer, _ in proposed}) > 1
    ranking = len(proposed) > rules.most_heads and not isinstance(heads[0], RidgeHead)
    first = (RidgeHead(),) if ranking else heads
    with Progress(len(proposed), "comparing poolings", show=progress) as bar:
        for proposal in proposed:
            pooled = pool(proposal, rows_of(proposal[0]), task, options, over)
            judged += _judged(pooled, first, task, over, settled=several)
            bar.advance()
    if not ranking:
        return _decide(judged, (), task, rules)
    order = sorted(judged[1:], key=lambda one: -_likelihood(one, task))[: rules.most_heads - 1]
    best = [one.pooled for one in (judged[0], *order)]
    slow = [head for head in heads if not isinstance(head, RidgeHead)]
    found = [one for pooled in best for one in _judged(pooled, slow, task, over, settled=several)]
    if len(slow) < len(heads):
        return _decide([*found, *judged], (), task, rules)
    return _decide(found, [one for one in judged if one.pooled not in best], task, rules)


def _judged(pooled: Pooled, heads: Sequence[Head], task: Task, over: Map, *, settled: bool) -> list[Judged]:
    """A pooling with each head; its designs are made again for the fit to all rows, so that none is held.

    With `settled` the maps are worked out now, so that the rows of the layer need not be held either.
    """
    designs = pooled.designs(task, keep=not all(isinstance(head, RidgeHead) for head in heads))
    found = []
    for head in heads:
        fit = head.judge(designs, task, over)
        if settled:
            linear = fit.linear()
            fit = replace(fit, linear=partial(_known, linear))
        else:
            fit = replace(fit, linear=partial(_fitted_later, fit.head, pooled, task))
        found.append(Judged(pooled, head.name, fit))
    return found


def _known(linear: LinearMap) -> LinearMap:
    return linear


def _fitted_later(head: Head, pooled: Pooled, task: Task) -> LinearMap:
    return head.whole(pooled.designs(task), task)()


def _likelihood(one: Judged, task: Task) -> float:
    """Average log-likelihood of the rows left out, the scores at their best scale."""
    scale = task.objective.weigh([one.fit.scores], task.judging)[0]
    return task.average(task.objective.likelihood(scale * one.fit.scores))


def _decide(judged: Sequence[Judged], others: Sequence[Judged], task: Task, rules: Rules) -> Decision:
    """The weighted candidates, or the reference, which is the first; `others` only appear in the table."""
    objective, reference = task.objective, judged[0]
    if not task.judging.any():
        return Decision(((1.0, reference),), reference, reference.fit.scores, (), np.nan, np.nan, "single")
    everything = (*judged, *others)
    scales = np.array([objective.weigh([one.fit.scores], task.judging)[0] for one in everything])
    single = [scale * one.fit.scores for scale, one in zip(scales, everything, strict=True)]
    likelihoods = [objective.likelihood(scores) for scores in single]
    of_mean = np.array([one.pooled is reference.pooled for one in judged])
    of_head = np.array([one.head == reference.head for one in judged])  # their scores have one scale

    stack, raw = np.stack(single[: len(judged)]), [one.fit.scores for one in judged]

    def weighed(members: BoolArray, contenders: BoolArray) -> FloatArray:
        """Weights (m,) of the members, moved towards equal ones of the contenders."""
        v = np.zeros(len(judged))
        v[members] = objective.weigh(list(stack[members]), task.judging)
        return np.asarray(objective.shrunk(v * scales[: len(v)], raw, task.judging, contenders) / scales[: len(v)])

    def shares(v: FloatArray) -> FloatArray:
        """Parts of the prediction: weights times the size of the scores, which of classes is how far they differ."""
        sizes = np.sqrt([task.average(scores.var(axis=1)) if scores.shape[1] > 1 else 1.0 for scores in stack])
        return np.asarray(v * sizes / max(float(v @ sizes), 1e-300))

    def expected(v: FloatArray) -> FloatArray:
        """Log-likelihood of each row as that of other rows: a free weight adds 1/n to the rows it was found on."""
        free = max(np.count_nonzero(v) - 1, 0) * (1 - objective.equal_share(task.judging))
        return np.asarray(objective.likelihood(np.tensordot(v, stack, axes=1)) - free / np.count_nonzero(task.judging))

    v = of_reference = weighed(of_mean, of_mean & of_head)
    every = np.ones(len(judged), dtype=bool)
    layered = len({one.pooled.layer for one in judged}) > 1
    untold = layered and int((task.judging > 0).sum()) < rules.fewest_to_judge
    prediction = "single" if of_mean.all() else "mean"
    if not of_mean.all():
        rivals = of_head & ~of_mean
        best = max(compress(likelihoods, rivals), key=task.average)
        behind = [task.paired(best - one) for one in likelihoods[: len(judged)]]
        near = np.array([untold or gain <= rules.errors_behind * error for gain, error in behind])
        found = weighed(every, rivals & near)
        found = np.where(shares(found) < rules.least_weight, 0.0, found)
        gain, error = task.paired(expected(found) - expected(v))
        if untold or gain > rules.errors_required * error:
            v = found
            used_poolings = {id(one.pooled) for one in compress(judged, v > 0)}
            prediction = "untold" if untold else "single" if len(used_poolings) == 1 else "weighted"
    scores = np.tensordot(v, stack, axes=1)
    right = [objective.score(one) for one in single]

    def row(c: int, one: Judged) -> Candidate:
        share = float(shares(v)[c]) if c < len(v) else 0.0
        gains = task.paired(right[c] - right[0])
        loss = -task.average(likelihoods[c])
        name, learned = one.pooled.spec.name, one.pooled.spec.learned
        also = one.head if one.head != reference.head else ""
        return Candidate(name, learned, task.average(right[c]), *gains, loss, share, one.pooled.layer, one.head, also)

    used = tuple((float(v[c] * scales[c]), one) for c, one in enumerate(judged) if v[c] > 0) or ((0.0, reference),)
    leading = max(used, key=lambda pair: task.average(likelihoods[judged.index(pair[1])]))[1]
    table = tuple(row(c, one) for c, one in enumerate(everything))
    gain, error = task.paired(objective.score(scores) - objective.score(np.tensordot(of_reference, stack, axes=1)))
    if of_mean.all():
        table, gain, error = (), np.nan, np.nan
    return Decision(used, leading, scores, table, gain, error, prediction)
