"""Weigh judged candidates by the likelihood of rows left out, and decide what predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.fitted import Candidate
from spikepool.pooling.judged import Judged
from spikepool.pooling.judging import Task


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


class _Weighing:
    """Candidates at their best scales, and what weights of them predict of the rows left out."""

    def __init__(self, candidates: Sequence[Judged], task: Task) -> None:
        objective = task.objective
        self.task, self.objective = task, objective
        self.raw = [one.fit.scores for one in candidates]
        self.scales = np.array([objective.weigh([scores], task.judging)[0] for scores in self.raw])
        self.stack = np.stack([scale * scores for scale, scores in zip(self.scales, self.raw, strict=True)])
        self.likelihoods = [objective.likelihood(scores) for scores in self.stack]

    def weights(self, members: BoolArray, contenders: BoolArray) -> FloatArray:
        """Weights (m,) of the members, moved towards equal ones of the contenders."""
        v = np.zeros(len(self.stack))
        v[members] = self.objective.weigh(list(self.stack[members]), self.task.judging)
        return np.asarray(self.objective.shrunk(v * self.scales, self.raw, self.task.judging, contenders) / self.scales)

    def scores(self, v: FloatArray) -> FloatArray:
        """Weighted scores (n, k)."""
        return np.tensordot(v, self.stack, axes=1)

    def shares(self, v: FloatArray) -> FloatArray:
        """Parts of the prediction: weights times the size of the scores, which of classes is how far they differ."""
        sizes = np.sqrt([self.task.average(one.var(axis=1)) if one.shape[1] > 1 else 1.0 for one in self.stack])
        return np.asarray(v * sizes / max(float(v @ sizes), 1e-300))

    def expected(self, v: FloatArray) -> FloatArray:
        """Log-likelihood of each row as that of other rows: a free weight adds 1/n to the rows it was found on."""
        free = max(np.count_nonzero(v) - 1, 0) * (1 - self.objective.equal_share(self.task.judging))
        return np.asarray(self.objective.likelihood(self.scores(v)) - free / np.count_nonzero(self.task.judging))


def decide(judged: Sequence[Judged], others: Sequence[Judged], task: Task, rules: Rules) -> Decision:
    """The weighted candidates, or the reference, which is the first; `others` only appear in the table."""
    reference = judged[0]
    if not task.judging.any():
        return Decision(((1.0, reference),), reference, reference.fit.scores, (), np.nan, np.nan, "single")
    candidates = (*judged, *others)
    weighing = _Weighing(candidates, task)
    members = np.arange(len(candidates)) < len(judged)
    of_mean = members & np.array([one.pooled is reference.pooled for one in candidates])
    of_head = members & np.array([one.head == reference.head for one in candidates])  # their scores have one scale
    of_reference = weighing.weights(of_mean, of_mean & of_head)
    alone = bool((of_mean == members).all())
    v, prediction = of_reference, "single" if alone else "mean"
    if not alone:
        layered = len({one.pooled.layer for one in judged}) > 1
        untold = layered and int((task.judging > 0).sum()) < rules.fewest_to_judge
        found = _of_all(weighing, members, of_head & ~of_mean, rules, untold)
        gain, error = task.paired(weighing.expected(found) - weighing.expected(of_reference))
        if untold or gain > rules.errors_required * error:
            v = found
            used_poolings = {id(one.pooled) for one in compress(candidates, v > 0)}
            prediction = "untold" if untold else "single" if len(used_poolings) == 1 else "weighted"
    scales = weighing.scales
    used = tuple((float(v[c] * scales[c]), one) for c, one in enumerate(candidates) if v[c] > 0) or ((0.0, reference),)
    leading = max(used, key=lambda pair: task.average(weighing.likelihoods[candidates.index(pair[1])]))[1]
    scores = weighing.scores(v)
    if alone:
        return Decision(used, leading, scores, (), np.nan, np.nan, prediction)
    score = task.objective.score
    gain, error = task.paired(score(scores) - score(weighing.scores(of_reference)))
    table = _table(candidates, weighing, v)
    return Decision(used, leading, scores, table, gain, error, prediction)


def _of_all(weighing: _Weighing, members: BoolArray, rivals: BoolArray, rules: Rules, untold: bool) -> FloatArray:
    """Weights of all members, moved towards equal ones of the rivals that are near the best of them."""
    task = weighing.task
    best = max(compress(weighing.likelihoods, rivals), key=task.average)
    behind = [task.paired(best - one) for one in weighing.likelihoods]
    near = np.array([untold or gain <= rules.errors_behind * error for gain, error in behind])
    found = weighing.weights(members, rivals & near)
    return np.where(weighing.shares(found) < rules.least_weight, 0.0, found)


def _table(candidates: Sequence[Judged], weighing: _Weighing, v: FloatArray) -> tuple[Candidate, ...]:
    """A line for each candidate alone, at its best scale, with its share in the prediction."""
    reference, task, shares = candidates[0], weighing.task, weighing.shares(v).tolist()
    right = [task.objective.score(scores) for scores in weighing.stack]
    rows = []
    for c, one in enumerate(candidates):
        gains = task.paired(right[c] - right[0])
        loss = -task.average(weighing.likelihoods[c])
        name, learned = one.pooled.spec.name, one.pooled.spec.learned
        also = one.head if one.head != reference.head else ""
        score = task.average(right[c])
        rows.append(Candidate(name, learned, score, *gains, loss, shares[c], one.pooled.layer, one.head, also))
    return tuple(rows)
