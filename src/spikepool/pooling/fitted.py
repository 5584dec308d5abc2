"""The fitted state of a classifier or regressor: one frozen object that predicting, saving, loading and ONNX read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spikepool.kit.arrays import AnyArray, FloatArray
from spikepool.pooling.design import LinearMap
from spikepool.pooling.registry import Pooling, saved


@saved
@dataclass(frozen=True, eq=False)
class Part:
    """A term of a prediction: a weight, and a linear map on the features of a pooling in a layer."""

    weight: float
    layer: Any
    pooling: Pooling
    linear: LinearMap

    def with_head(self, other: Part) -> Part:
        """One term for this one and another on the same features."""
        weight = self.weight + other.weight
        a, b = self.weight / weight, other.weight / weight
        coef = a * self.linear.coef + b * other.linear.coef
        intercept = a * self.linear.intercept + b * other.linear.intercept
        return replace(self, weight=weight, linear=LinearMap(coef, intercept))


@saved
@dataclass(frozen=True)
class Candidate:
    """One pooling, in one layer, judged on rows that it had not seen.

    Attributes
    ----------
    name : str
        Name of the pooling.
    learned : bool
        Whether it was learned from the targets, in every fold anew.
    score : float
        Cross-validated accuracy; R² in regression.
    gain, error : float
        Score minus that of the mean (of the last layer) on the same rows, and the standard error of this paired
        difference (as if the largest difference had been seen once more in each direction).
    loss : float
        Log loss on rows left out; in regression half of the squared error, relative to the variance of the targets.
    weight : float
        Share of its scores in the prediction.
    layer : hashable or None
        Name or number of the layer; None where X has one layer.
    head : str
        The linear model.
    also : str
        The same, where it is not that of the reference.
    """

    name: str
    learned: bool
    score: float
    gain: float
    error: float
    loss: float = float("nan")
    weight: float = 0.0
    layer: Any = None
    head: str = ""
    also: str = ""

    @property
    def place(self) -> str:
        """Name, with the layer where there are several."""
        return self.name if self.layer is None else f"{self.name} @ {self.layer}"

    @property
    def label(self) -> str:
        """The same with the head, where it is not that of the reference."""
        return f"{self.place}, {self.also}" if self.also else self.place


@saved
@dataclass(frozen=True)
class ClassScores:
    """How one class is recognised.

    Attributes
    ----------
    label : object
        The class.
    support : float
        Its rows (their weights).
    recall : float
        Share of its rows that are predicted to be in it.
    precision : float
        Share of the rows predicted to be in it that are; NaN where none is.
    """

    label: Any
    support: float
    recall: float
    precision: float


@saved
@dataclass(frozen=True, eq=False)
class FittedPooling:
    """What was fitted, and what was found on the way.

    Attributes
    ----------
    parts : tuple of Part
        Terms of the prediction: scores of the classes (n, K), or one column of numbers.
    leading : Part
        The part whose features `transform` gives.
    layers : tuple
        Layers that must be passed, in order; ``(None,)`` where there is one.
    classes : array or None
        Class labels; None in regression.
    d, positions : int
        Features of a token, and positions of the fit.
    candidates : tuple of Candidate
        What was compared, the reference first; empty where there was one.
    prediction : {"mean", "single", "weighted", "untold"}
        What predicts: the mean, one candidate, several, or several that too few rows could not tell from the mean.
    reason : str
        "compared", or why nothing was.
    gain, error : float
        Score of the prediction over that of the mean, and its standard error.
    score : float
        Of the prediction, on rows left out.
    class_scores : tuple of ClassScores
        Of each class, on rows left out.
    head_weights : array (heads, T)
        Weight of each position in each head of the leading pooling.
    importance : array or None
        Weight of each place of a sequence of positions, for :meth:`LearnedPooling.token_weights`.
    sink : bool
        Whether the first token is passed over as an attention sink.
    sink_ratio : float
        Median norm of first tokens over that of the others.
    """

    parts: tuple[Part, ...]
    leading: Part
    layers: tuple[Any, ...]
    classes: AnyArray | None
    d: int
    positions: int
    candidates: tuple[Candidate, ...]
    prediction: str
    reason: str
    gain: float
    error: float
    score: float
    class_scores: tuple[ClassScores, ...]
    head_weights: FloatArray
    importance: FloatArray | None
    sink: bool
    sink_ratio: float
