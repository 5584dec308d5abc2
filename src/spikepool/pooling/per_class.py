"""Support, recall and precision of each class, from predictions of rows that were left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.kit.arrays import AnyArray, FloatArray, IntArray


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


def class_scores_table(
    classes: AnyArray, codes: IntArray, predicted: IntArray, weights: FloatArray
) -> tuple[ClassScores, ...]:
    """The scores of every class, from codes and predicted codes (n,)."""
    K = len(classes)
    support, claimed, right = (
        np.bincount(where, w, minlength=K)
        for where, w in ((codes, weights), (predicted, weights), (codes, weights * (codes == predicted)))
    )
    return tuple(
        ClassScores(
            classes[k].item() if hasattr(classes[k], "item") else classes[k],
            float(support[k]),
            float(right[k] / support[k]) if support[k] else float("nan"),
            float(right[k] / claimed[k]) if claimed[k] else float("nan"),
        )
        for k in range(K)
    )
