"""Candidates: poolings of a layer, learned, with heads that have scored the rows left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.kit.threads import Map
from spikepool.pooling.catalogue import poolings
from spikepool.pooling.design import Design, LinearMap, design
from spikepool.pooling.heads import Head, HeadFit, RidgeHead
from spikepool.pooling.judging import Task
from spikepool.pooling.learning_rows import LearningRows
from spikepool.pooling.registry import Pooling, PoolingSpec

Proposal = tuple[Any, str]  # layer and name of the pooling


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
    """A candidate with what its head found, and its linear map where that is known."""

    pooled: Pooled
    head: str
    fit: HeadFit
    linear: LinearMap | None = None

    def linear_map(self, task: Task) -> LinearMap:
        """The head fitted to all rows; the design is made again, so that none is held meanwhile."""
        return self.linear or self.fit.head.whole(self.pooled.designs(task)(-1), task)


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


def judge(pooled: Pooled, heads: Sequence[Head], task: Task, over: Map, *, settled: bool) -> list[Judged]:
    """A pooling with each head; with `settled` fitted to all rows as well, so that these need not be held."""
    designs = pooled.designs(task, keep=not all(isinstance(head, RidgeHead) for head in heads))
    found = []
    for head in heads:
        fit = head.judge(designs, task, over)
        found.append(Judged(pooled, head.name, fit, fit.head.whole(designs(-1), task) if settled else None))
    return found


def likelihood(one: Judged, task: Task) -> float:
    """Average log-likelihood of the rows left out, the scores at their best scale."""
    scale = task.objective.weigh([one.fit.scores], task.judging)[0]
    return task.average(task.objective.likelihood(scale * one.fit.scores))
