"""What a fitted pooling says of itself: the table of candidates, one line, pictures.

The candidates that were compared: a table for reading and the words for the decision.

Support, recall and precision of each class, from predictions of rows that were left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.showing import Result, html_table
from spikepool.pooling.query import QueryPooling
from spikepool.pooling.registry import Pooling, registered
from spikepool.pooling.sequence import SequencePooling


@dataclass(frozen=True)
class Candidate:
    """One pooling, in one layer, judged on rows that its weights and its ridge had not seen.

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
        Out-of-fold squared error, relative to the variance of the targets; the lowest is ``decision_``.
    weight : float
        Weight of its predictions in the stack.
    layer : hashable or None
        Name or number of the layer; None where X has one layer.
    """

    name: str
    learned: bool
    score: float
    gain: float
    error: float
    loss: float = float("nan")
    weight: float = 0.0
    layer: Any = None

    @property
    def label(self) -> str:
        """Name, with the layer where there are several."""
        return self.name if self.layer is None else f"{self.name} @ {self.layer}"


def _cells(c: Candidate, reference: str) -> tuple[str, ...]:
    difference = ("", "") if c.label == reference else (f"{c.gain:+.4f}", f"{c.error:.4f}")
    return (c.label, f"{c.score:.4f}", *difference, f"{c.loss:.4f}", f"{c.weight:.2f}" if c.weight else "")


# Poolings whose names explain themselves.
PLAIN = ("mean", "last", "first")


def candidate_table(candidates: Sequence[Candidate], chosen: str, score_name: str) -> str:
    """The candidates as lines of text; the single best one is marked. Columns and names are explained below."""
    width = max(12, *(len(c.label) for c in candidates))
    lines = [f"{'pooling':<{width}} {score_name:>8} {'gain':>8} {'s.e.':>7} {'loss':>7} {'weight':>7}"]
    for c in candidates:
        label, score, gain, error, loss, weight = _cells(c, candidates[0].label)
        mark = " <" if c.label == chosen else ""
        lines.append(f"{label:<{width}} {score:>8} {gain:>8} {error:>7} {loss:>7} {weight:>7}{mark}".rstrip())
    poolings, names = registered(), dict.fromkeys(c.name for c in candidates)
    lines += [
        f"  gain, s.e.: {score_name} minus that of {candidates[0].label} on the same rows, and its standard error",
        "  loss: squared error on rows left out (1: the average target), lowest at <; weight: share in the prediction",
        *(f"  {name}: {poolings[name].description}" for name in names if name in poolings and name not in PLAIN),
    ]
    return "\n".join(lines)


def candidate_html(candidates: Sequence[Candidate], chosen: str, score_name: str) -> str:
    """The candidates as an HTML table."""
    header = ("pooling", score_name, "gain over the mean", "s.e.", "squared error", "weight in the stack", "")
    marks = ["chosen" if c.label == chosen else "" for c in candidates]
    cells = [_cells(c, candidates[0].label) for c in candidates]
    return html_table(header, [(*row, mark) for row, mark in zip(cells, marks, strict=True)])


def leading_candidates(candidates: Sequence[Candidate], most: int = 6) -> list[Candidate]:
    """The mean of the comparison and the best others, those that predict first; in the order of the table."""
    order = sorted(candidates[1:], key=lambda c: (-(c.weight > 0), c.loss))[: most - 1]
    return [c for c in candidates if c is candidates[0] or any(c is one for one in order)]


def pooling_record(fitted: Any) -> dict[str, Any]:
    """A fitted pooling for JSON: the choice and its layer, the gain, the candidates and the weights."""
    return {
        "decision": fitted.decision_,
        "layer": getattr(fitted, "layer_", None),
        "prediction": getattr(fitted, "prediction_", "single"),
        "gain": getattr(fitted, "improvement_", None),
        "gain_standard_error": getattr(fitted, "improvement_error_", None),
        "candidates": [asdict(c) for c in getattr(fitted, "candidates_", ())],
        "weights": fitted.weights_,
    }


# Why the mean was kept, where ridge alone had preferred another candidate.
BY_LIKELIHOOD = "compared with logistic regression"


class FittedReport(BaseEstimator):  # type: ignore[misc]
    """Summary, plots and notebook view of a fitted pooling."""

    _score_name = "score"
    _pooling: Pooling
    candidates_: tuple[Candidate, ...]
    decision_: str
    reason_: str
    layer_: Any
    layers_: tuple[Any, ...]
    prediction_: str
    sink_: bool
    sink_ratio_: float
    improvement_: float
    improvement_error_: float
    head_weights_: FloatArray
    accuracy_: float

    def token_weights(self, X: Any, mask: Any = None) -> FloatArray:
        """Weight of every token."""
        raise NotImplementedError

    def summary(self) -> str:
        """The table of candidates, then one line: which pooling is in use, and why."""
        self._require_model()
        line = (
            f"{self.decision_} pooling" if self.layer_ is None else f"{self.decision_} pooling of layer {self.layer_}"
        )
        line += f": {self._reason()}"
        if self.sink_:
            line += f"; position 0 masked as a sink (norm ratio {self.sink_ratio_:.3g})"
        if isinstance(self._pooling, SequencePooling) and self._pooling.components:
            line += f"; tokens cut to {self._pooling.components} components"
        shares = getattr(self, "head_shares_", {"ridge": 1.0})
        if self.prediction_ == "average":
            line += f"\naccuracy {self.accuracy_:.3f} on rows left out"
        elif len(shares) > 1:
            mixed = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
            line += f"\nscores added: {mixed}; accuracy {self.accuracy_:.3f} on rows left out"
        if not self.candidates_:
            return line
        return candidate_table(self.candidates_, self._chosen, self._score_name) + "\n" + line

    @property
    def _chosen(self) -> str:
        return self.decision_ if self.layer_ is None else f"{self.decision_} @ {self.layer_}"

    def _reason(self) -> str:
        if not self.candidates_:
            return self.reason_
        gain = _with_error(self.improvement_, self.improvement_error_)
        if self.prediction_ == "mean":
            best = max(self.candidates_[1:], key=lambda c: c.gain)
            if self.reason_ == BY_LIKELIHOOD:
                return (
                    "with logistic regression, the candidates were not better than the mean by one standard error of "
                    f"likelihood (best by ridge alone: {best.label} {_with_error(best.gain, best.error)})"
                )
            return (
                "the stack of candidates was not better by one standard error "
                f"(best single candidate: {best.label} {_with_error(best.gain, best.error)})"
            )
        if self.prediction_ == "single":
            return f"{gain} over the mean; the stack of candidates was not better by one standard error"
        used = sum(c.weight > 0 for c in self.candidates_)
        if self.prediction_ == "average":
            layers = ", ".join(str(c.layer) for c in self.candidates_ if c.weight)
            return f"{gain} over the mean for the average of layers {layers}"
        return f"best of {used} in the stack, which is {gain} over the mean"

    def plot(
        self, ax: Any = None, what: str | None = None, *, X: Any = None, mask: Any = None, tokens: Any = None
    ) -> Any:
        """Draw the fit and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            A new figure's by default.
        what : {"candidates", "weights", "tokens", "layers"}, optional
            The candidates with their standard errors; the weights by position of each head; the weights of the
            tokens of given sequences; or the score of each layer. By default the candidates where some were compared,
            else the weights.
        X, mask : optional
            A few sequences, for ``"tokens"``.
        tokens : list of lists of str, optional
            What to write for the tokens of each sequence, for ``"tokens"``; positions by default.
        """
        from spikepool.drawing import estimates as drawing

        check_is_fitted(self, "weights_")
        what = what or ("candidates" if self.candidates_ else "weights")
        check.choice(what, "what", ("candidates", "weights", "tokens", "layers"))
        if what == "tokens":
            if X is None:
                raise InvalidInputError(
                    "the weights of tokens need sequences", None, "Pass X, and mask if it has padding"
                )
            weights = self.token_weights(X, mask)
            heads = weights[:, :-1] if isinstance(self._pooling, QueryPooling) else weights
            return drawing.draw_token_weights(ax, heads.mean(axis=1), tokens)
        if what == "weights":
            return drawing.draw_position_weights(ax, self.head_weights_, self._head_names())
        if not self.candidates_ or (what == "layers" and self.layers_ == (None,)):
            wanted = "layers" if what == "layers" else "candidates"
            raise InvalidInputError(
                f"no {wanted} were compared: {self.reason_}", remedy="Fit with pooling='auto', and several layers"
            )
        if what == "layers":
            return drawing.draw_layers(ax, self.candidates_, self.layers_, self._score_name)
        return drawing.draw_candidates(ax, self.candidates_, self._chosen, self._score_name)

    def _head_names(self) -> tuple[str, ...]:
        heads = getattr(self._pooling, "heads", None)
        return (self.decision_,) * len(self.head_weights_) if heads is None else heads

    def _repr_html_(self) -> str:
        """scikit-learn's diagram, and the table of candidates once fitted."""
        diagram = str(estimator_html_repr(self))
        if not getattr(self, "candidates_", ()):
            return diagram
        return diagram + candidate_html(self.candidates_, self._chosen, self._score_name)


def _with_error(gain: float, error: float) -> str:
    return f"{gain:+.3f} (s.e. {error:.3f})"


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


# Bins of confidence in the calibration error.
BINS = 15


@dataclass(frozen=True)
class Evaluation(Result, schema="evaluate"):
    """How well probabilities predict labels that are known.

    Attributes
    ----------
    rows : int
    accuracy, macro_f1, log_loss : float
        Macro-F1 is the average over the classes of the labels. A label that the model does not know counts as wrong,
        with probability zero (1e-15 in the logarithm).
    calibration_error : float
        Expected calibration error: the average over rows of |confidence − accuracy| of their bin of confidence.
    bins : tuple of (confidence, accuracy, rows)
        The bins that hold rows, with average confidence.
    labels : tuple
        Classes of the model, then unknown labels.
    confusion : array of shape (labels, labels)
        Rows of each label (first axis) and prediction.
    mistakes : tuple of dict
        The most confident wrong predictions: row, text, label, prediction, probability.
    """

    rows: int
    accuracy: float
    macro_f1: float
    log_loss: float
    calibration_error: float
    bins: tuple[tuple[float, float, int], ...]
    labels: tuple[Any, ...]
    confusion: IntArray
    mistakes: tuple[dict[str, Any], ...]

    def _record(self) -> dict[str, Any]:
        return {**vars(self), "mistakes": list(self.mistakes), "confusion": self.confusion.tolist()}

    def lines(self) -> list[str]:
        """The scores, one per line."""
        return [
            f"accuracy           {self.accuracy:.4f}",
            f"macro-F1           {self.macro_f1:.4f}",
            f"log loss           {self.log_loss:.4f}",
            f"calibration error  {self.calibration_error:.4f}",
        ]

    def confused(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The pairs of label and prediction that are confused most often, with their rows."""
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
        return [(str(self.labels[i]), str(self.labels[j]), int(wrong[i, j])) for i, j in pairs if wrong[i, j]]

    def summary(self) -> str:
        """Scores, confusion matrix (or, of more than 12 labels, the pairs confused most often) and mistakes."""
        lines = [f"{self.rows:,} labelled rows", *self.lines()]
        if len(self.labels) <= 12:
            width = max(6, *(len(str(label)) for label in self.labels))
            lines += ["", "rows by label (down) and prediction (across)"]
            lines += [" " * width + "".join(f" {label!s:>{width}}" for label in self.labels)]
            for label, row in zip(self.labels, self.confusion.tolist(), strict=True):
                lines.append(f"{label!s:>{width}}" + "".join(f" {count:>{width}}" for count in row))
        else:
            lines += ["", "confused most often"]
            lines += [f"{count:>5}  {label} -> {predicted}" for label, predicted, count in self.confused()]
        if self.mistakes:
            lines += ["", "most confident mistakes"]
        for one in self.mistakes:
            text = " ".join(str(one["text"]).split())
            wrong = f"{one['label']} predicted as {one['prediction']} ({one['probability']:.2f})"
            lines.append(f"row {one['row']}: {wrong}: {text:.100}")
        return "\n".join(lines)


def evaluate(
    classes: AnyArray, probabilities: FloatArray, labels: AnyArray, texts: Sequence[str] = (), mistakes: int = 10
) -> Evaluation:
    """Judge probabilities (n, K) of the `classes` by known labels (n,); rows of mistakes are numbered from 1."""
    known = [str(label) for label in classes.tolist()]
    names = [str(label) for label in labels.tolist()]
    both = [*known, *sorted(set(names) - set(known))]
    place = {name: k for k, name in enumerate(both)}
    codes = np.array([place[name] for name in names])
    n, K, L = len(codes), len(known), len(both)
    if probabilities.shape != (n, K) or not n:
        raise InvalidInputError("one row of probabilities per label is needed", probabilities.shape, "Pass n > 0 rows")
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    confusion = np.bincount(codes * L + predicted, minlength=L * L).reshape(L, L)
    right = predicted == codes
    hits, support, claimed = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    f1 = 2 * hits / np.maximum(support + claimed, 1)
    own = np.where(codes < K, probabilities[np.arange(n), np.minimum(codes, K - 1)], 0.0)
    bin_of = np.minimum((confidence * BINS).astype(np.intp), BINS - 1)
    bins = tuple(
        (float(confidence[here].mean()), float(right[here].mean()), int(here.sum()))
        for here in (bin_of == b for b in range(BINS))
        if here.any()
    )
    wrong = np.flatnonzero(~right)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][:mistakes]
    return Evaluation(
        n,
        float(right.mean()),
        float(f1[support > 0].mean()),
        float(-np.log(np.maximum(own, 1e-15)).mean()),
        sum(abs(c - a) * m for c, a, m in bins) / n,
        bins,
        tuple(both),
        confusion,
        tuple(
            {
                "row": int(i) + 1,
                "text": texts[i] if len(texts) else "",
                "label": names[i],
                "prediction": known[predicted[i]],
                "probability": float(confidence[i]),
            }
            for i in worst
        ),
    )
