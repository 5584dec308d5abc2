"""Heads: linear models on the features of a pooling, with scores of rows that they have not seen.

A head gives scores f(x) = coef'x + intercept, one for each class or one predicted number. Every head sees the same
features (:mod:`spikepool.pooling.design`). A head of one's own is a class with a `name` and a method `fit`; see
`register_head`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import AnyArray, FloatArray
from spikepool.kit.threads import Map
from spikepool.pooling.design import Design, LinearMap
from spikepool.pooling.judging import Task, indicators
from spikepool.ridge.folds import FoldRidge, out_of_fold

# Score of a class that the training rows of a fold do not have.
UNSEEN = -30.0


@dataclass(frozen=True, eq=False)
class HeadFit:
    """What a head found.

    Attributes
    ----------
    scores : array (n, k)
        Of each row, from a fit without its fold; zeros where a row was never left out.
    head : Head
        The head with what it chose, such as its penalty, for a fit to all rows or to others.
    """

    scores: FloatArray
    head: Head


class Head:
    """A linear model that can be judged on rows left out.

    A subclass has a `name` and `fit`. Scores of classes need no calibration: the comparison finds their scale.
    """

    name = "head"

    def fit(
        self, Z: FloatArray, target: AnyArray, weights: FloatArray, classes: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """Coefficients (r, k) and intercept (k,).

        Parameters
        ----------
        Z : array (n, r)
            Features, centred and scaled.
        target : array (n,)
            Numbers 0 to `classes` − 1 of the classes, some of which may be missing, or real numbers.
        weights : array (n,)
            Weights of the rows.
        classes : int or None
            k; None for real numbers, where k = 1.
        """
        raise NotImplementedError

    def judge(self, design_of: Callable[[int], Design], task: Task, over: Map) -> HeadFit:
        """Scores of the rows of each fold from a fit to the others.

        `design_of(k)` is the design of a pooling that was learned without fold k, that of all rows for −1.
        """
        target, count = task.objective.target, task.objective.classes

        def one(k: int) -> FloatArray:
            Z, train, test = design_of(k).Z, task.folds != k, task.folds == k
            coef, intercept = self.fit(Z[train], target[train], task.weights[train], count)
            return np.asarray(Z[test] @ coef + intercept)

        scores = np.zeros((len(target), count or 1))
        for k, part in enumerate(over(one, task.fold_count)):
            scores[task.folds == k] = part
        return HeadFit(scores, self)

    def whole(self, whole: Design, task: Task) -> LinearMap:
        """The map fitted to all rows."""
        return whole.back(*self.fit(whole.Z, task.objective.target, task.weights, task.objective.classes))


@dataclass(frozen=True)
class LogisticHead(Head):
    """Multinomial logistic regression, the first head for classes.

    Attributes
    ----------
    strengths : tuple of float
        Information of a row over the penalty: the inverse penalty is strength·K²/((K − 1)·variance), for K classes and
        the variance of all features together, because equally frequent classes give the coefficients of one the
        information variance·(1/K)(1 − 1/K) per row. The strengths are tried in this order until the likelihood of the
        rows left out does not rise by `errors_required` standard errors any more. Texts take the first or second,
        aligned sequences the last (docs/benchmarks/choose.md).
    errors_required : float
        With one standard error, few rows choose by chance.
    steps, tolerance : int and float
        Of L-BFGS.
    exact_size : int
        Rows times columns times classes up to which it is iterated to the end, in double precision.
    """

    strengths: tuple[float, ...] = (1.0, 7.0, 40.0)
    errors_required: float = 2.0
    steps: int = 200
    tolerance: float = 1e-3
    exact_size: int = 4096
    name: str = "logistic"

    def fit(
        self, Z: FloatArray, target: AnyArray, weights: FloatArray, classes: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """See :meth:`Head.fit`."""
        assert classes is not None
        variance = float(weights @ np.einsum("nr,nr->n", Z, Z) / weights.sum()) or 1.0
        inverse_penalty = self.strengths[0] * classes**2 / ((classes - 1) * variance)
        dtype: Any = np.float32
        if Z.size * classes <= self.exact_size:  # to the last digits, so that a row twice is a row of weight two
            model, dtype = LogisticRegression(C=inverse_penalty, max_iter=20 * self.steps, tol=1e-10), np.float64
        else:
            model = LogisticRegression(C=inverse_penalty, max_iter=self.steps, tol=self.tolerance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # early stopping acts as a penalty
            warnings.simplefilter("ignore", UserWarning)  # many classes for few rows: the check of y has warned
            model.fit(Z.astype(dtype, copy=False), target, sample_weight=weights)
        coef, intercept = np.zeros((Z.shape[1], classes)), np.full(classes, UNSEEN)
        found, level = model.coef_.T.astype(np.float64), model.intercept_.astype(np.float64)
        if len(model.classes_) == 2:
            found, level = np.column_stack([-found, found]) / 2, np.r_[-level, level] / 2
        coef[:, model.classes_], intercept[model.classes_] = found, level
        return coef, intercept

    def judge(self, design_of: Callable[[int], Design], task: Task, over: Map) -> HeadFit:
        """See :meth:`Head.judge`; one strength serves all folds and the fit to all rows."""
        if not task.judging.any():
            return super().judge(design_of, task, over)
        best: HeadFit | None = None
        highest = np.zeros(0)
        for strength in self.strengths:
            found = Head.judge(replace(self, strengths=(strength,)), design_of, task, over)
            scale = task.objective.weigh([found.scores], task.judging)[0]
            reached = task.objective.likelihood(scale * found.scores)
            if best is not None:
                gain, error = task.paired(reached - highest)
                if not gain > self.errors_required * error:
                    break
            best, highest = found, reached
        assert best is not None
        return best


@dataclass(frozen=True)
class RidgeHead(Head):
    """Ridge regression, the head for numbers and the second one for classes; rows are left out in closed form.

    Attributes
    ----------
    penalty : float or None
        lam of (1/n)‖y − Z beta‖² + lam‖beta‖²; by default the one of least squared error on rows left out.
    """

    penalty: float | None = None
    name: str = "ridge"

    def fit(
        self, Z: FloatArray, target: AnyArray, weights: FloatArray, classes: int | None
    ) -> tuple[FloatArray, FloatArray]:
        """See :meth:`Head.fit`; with a penalty of 1 where none is given and no row can be left out."""
        ridge = FoldRidge(Z, indicators(target, classes), weights, np.full(len(Z), -1))
        found = ridge.whole.solve((1.0 if self.penalty is None else self.penalty) * float(weights.sum()))
        if classes == 2:
            found = np.column_stack([-found, found])
        return found[:-1], found[-1]

    def judge(self, design_of: Callable[[int], Design], task: Task, over: Map) -> HeadFit:
        """See :meth:`Head.judge`; one penalty serves all folds and the fit to all rows."""
        Y, weights, folds = task.Y, task.weights, range(task.fold_count)
        if not len(folds):
            return HeadFit(np.zeros((len(Y), task.objective.classes or 1)), self)
        shared = len(folds) > 1 and design_of(0) is design_of(1)
        problems, units = [], []
        for k in folds[:1] if shared else folds:
            left_out = task.folds if shared else np.where(task.folds == k, 0, -1)
            # products alone are held, not the features of each fold
            ridge = FoldRidge(design_of(k).Z, Y, weights, left_out)
            problems += ridge.problems
            units.append(ridge.unit)
            del ridge
        values, a = out_of_fold(problems, float(np.mean(units)), Y, weights, task.folds, self.penalty)
        chosen = RidgeHead(a / float(weights.sum()))
        scores = np.column_stack([-values, values]) if task.objective.classes == 2 else values
        return HeadFit(np.nan_to_num(scores), chosen)


_HEADS: dict[str, Head] = {}


def register_head(head: Head) -> Head:
    """Add a head, so that ``head=`` takes its name; a name can be registered once."""
    if head.name in _HEADS or head.name == "auto":
        raise InvalidInputError("a head of this name is registered already", head.name, "Choose another name")
    _HEADS[head.name] = head
    return head


def unregister_head(name: str) -> None:
    """Remove a head that was registered before."""
    _HEADS.pop(name, None)


def heads() -> dict[str, Head]:
    """Every registered head by name."""
    return dict(_HEADS)


register_head(LogisticHead())
register_head(RidgeHead())
