"""Eigenpairs of several draws as a table: means with their standard errors."""

from __future__ import annotations

from spikepool.kit.arrays import FloatArray
from spikepool.kit.results import Table
from spikepool.kit.statistics import standard_error


def mean_table(eigenvalues: FloatArray, alignments: FloatArray) -> Table:
    """A table of (trials, k) eigenpairs: means over trials with their standard errors."""

    def both(values: FloatArray) -> str:
        mean = f"{values.mean():.4g}"
        return mean if len(values) < 2 else f"{mean} ± {standard_error(values):.1g}"

    rows = [(str(i + 1), both(eigenvalues[:, i]), both(alignments[:, i])) for i in range(eigenvalues.shape[1])]
    return f"{len(alignments)} draws", ("component", "eigenvalue", "alignment"), rows
