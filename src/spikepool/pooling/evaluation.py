"""How well probabilities predict labels that are known: scores, calibration, confusions and mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.results import Result

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
    unknown : tuple of (label, rows)
        Labels that the model does not know.
    threshold : dict or None
        For two classes: the ``label`` that fewer rows have, the ``probability`` from which predicting it has the
        largest F1 on these rows, and that ``f1``. It was chosen on these rows: judge it on others.
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
    unknown: tuple[tuple[str, int], ...] = ()
    threshold: dict[str, Any] | None = None

    def _record(self) -> dict[str, Any]:
        return {**vars(self), "mistakes": list(self.mistakes), "confusion": self.confusion.tolist()}

    def lines(self) -> list[str]:
        """The scores, one per line."""
        lines = [
            f"accuracy           {self.accuracy:.4f}",
            f"macro-F1           {self.macro_f1:.4f}",
            f"log loss           {self.log_loss:.4f}",
            f"calibration error  {self.calibration_error:.4f}",
        ]
        if self.threshold is not None:
            best = self.threshold
            lines.append(
                f"best F1            {best['f1']:.4f} of {best['label']}, predicted from a probability of "
                f"{best['probability']:.3f} on (chosen on these rows)"
            )
        return lines

    def confused(self, most: int = 10) -> list[tuple[str, str, int]]:
        """The pairs of label and prediction that are confused most often, with their rows."""
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
        return [(str(self.labels[i]), str(self.labels[j]), int(wrong[i, j])) for i, j in pairs if wrong[i, j]]

    def summary(self) -> str:
        """Scores, confusion matrix (or, of more than 12 labels, the pairs confused most often) and mistakes."""
        lines = [f"{self.rows:,} labelled rows", *self.lines()]
        if self.unknown:
            named = ", ".join(f"{label} ({count:,} rows)" for label, count in self.unknown)
            lines.append(f"labels that the model does not know, counted as wrong: {named}")
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
        tuple((name, int(support[place[name]])) for name in both[K:]),
        _best_threshold(known, probabilities, codes) if K == 2 else None,
    )


def _best_threshold(known: list[str], probabilities: FloatArray, codes: IntArray) -> dict[str, Any] | None:
    """The probability of the rarer of two classes from which predicting it has the largest F1."""
    counts = np.bincount(codes, minlength=2)[:2]
    rare = int(np.argmin(counts))
    if not counts[rare]:
        return None
    p, own = probabilities[:, rare], codes == rare
    order = np.argsort(-p, kind="stable")
    hits, claimed = np.cumsum(own[order]), np.arange(1, len(p) + 1)
    f1 = 2 * hits / (claimed + counts[rare])
    last = np.flatnonzero(np.diff(p[order], append=-1.0))  # rows of equal probability are predicted together
    best = int(last[np.argmax(f1[last])])
    return {"label": known[rare], "probability": float(p[order][best]), "f1": float(f1[best])}
