"""What the table is compared with: one count of outliers for each idea of "noise".

The count depends on the null more than on the table, so all are reported side by side with what each would mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spikepool.data.table_input import Table, block_rows
from spikepool.kit.arrays import FloatArray
from spikepool.laws.free_product import MarchenkoPastur
from spikepool.tables import population as silverstein
from spikepool.tables.gram import Moments
from spikepool.tables.screenot import screenot_threshold

TRACY_WIDOM_99 = 2.0234  # 99 % quantile of the Tracy-Widom law of real matrices (Bejan 2005)
PERMUTATION_BYTES = 2**29  # a copy of the table in float32 may take this much

MEANINGS = {
    "white": "departures from noise of equal variance in every direction; counts the colour of the noise as signal",
    "coloured": "directions apart from a coloured bulk, or the tip of its tail if it has one; the count of the verdict",
    "permuted": "departures from independent coordinates with their own distributions; counts any correlation",
    "row_norm": "departures from isotropic rows with their own norms; counts the colour of the noise as signal",
    "screenot": "directions worth keeping to denoise the table in mean square; a decision, not a test",
}


@dataclass(frozen=True)
class Null:
    """One null and what the table shows against it.

    Attributes
    ----------
    name : str
    threshold : float
        Largest eigenvalue the null explains.
    count : int
        Eigenvalues of the table above it.
    meaning : str
        What such eigenvalues would be evidence of.
    note : str
        How the threshold was obtained, and what else was seen.
    """

    name: str
    threshold: float
    count: int
    meaning: str
    note: str


def compare(name: str, threshold: float, eigenvalues: FloatArray, note: str) -> Null:
    """Count the eigenvalues above a threshold."""
    return Null(name, float(threshold), int(np.sum(eigenvalues > threshold)), MEANINGS[name], note)


def white(eigenvalues: FloatArray, d: int, n: int) -> Null:
    """Marchenko-Pastur with the variance that matches the median nonzero eigenvalue (Gavish and Donoho 2014)."""
    unit = MarchenkoPastur(d / n)
    median = unit.ppf(unit.atom + (1 - unit.atom) / 2)
    variance = float(np.median(eigenvalues)) / float(median)
    edge, _, scale = silverstein.right_edge(np.array([variance]), np.ones(1), d / n, n)
    left = variance * unit.support()[0]
    below = int(np.sum(eigenvalues < left - TRACY_WIDOM_99 * scale))
    note = f"edge {edge:.4g} and a 99 % Tracy-Widom margin; {below} eigenvalues also lie below its left edge"
    return compare("white", edge + TRACY_WIDOM_99 * scale, eigenvalues, note)


def screenot(eigenvalues: FloatArray, d: int, n: int, most: int) -> Null:
    """ScreeNOT's threshold, with at most `most` signals."""
    threshold = screenot_threshold(np.sqrt(eigenvalues), min(d, n) / max(d, n), most) ** 2
    return compare("screenot", threshold, eigenvalues, f"adaptive hard threshold, at most {most} signals")


def row_norm(
    eigenvalues: FloatArray,
    norms: FloatArray,
    d: int,
    draws: int,
    rng: np.random.Generator,
    step: Callable[[], None],
) -> Null:
    """Rows of the observed centred norms in uniformly random directions: largest eigenvalue of `draws` such tables."""
    V, rows = len(norms), block_rows(d)
    tops = []
    for _ in range(draws):
        moments = Moments.zero(d)
        for start in range(0, V, rows):
            block = rng.standard_normal((min(rows, V - start), d))
            block *= (norms[start : start + rows] / np.linalg.norm(block, axis=1))[:, None]
            moments.add(block)
        tops.append(float(moments.eigenvalues()[0]))
        step()
    return compare("row_norm", max(tops), eigenvalues, f"largest eigenvalue of {draws} such tables")


def permuted(
    source: Table,
    eigenvalues: FloatArray,
    variances: FloatArray,
    n: int,
    draws: int,
    rng: np.random.Generator,
    step: Callable[[], None],
) -> Null:
    """Each column shuffled on its own (parallel analysis): largest eigenvalue of `draws` such tables.

    A table too large to hold a copy of in memory is compared with the limit instead, Silverstein's law whose
    population is the column variances.
    """
    V, d = source.shape
    if 4 * V * d > PERMUTATION_BYTES:
        edge, _, scale = silverstein.right_edge(variances, np.full(d, 1 / d), d / n, n)
        note = "edge of the limiting law and a 99 % Tracy-Widom margin; the table is too large to shuffle"
        return compare("permuted", edge + TRACY_WIDOM_99 * scale, eigenvalues, note)
    columns = np.empty((d, V), dtype=np.float32)
    start = 0
    for block in source.blocks():
        columns[:, start : start + len(block)] = block.T
        start += len(block)
    rows, tops = block_rows(d), []
    for _ in range(draws):
        for column in columns:
            rng.shuffle(column)
        moments = Moments.zero(d)
        for begin in range(0, V, rows):
            moments.add(columns[:, begin : begin + rows].T.astype(np.float64, order="C"))
        tops.append(float(moments.eigenvalues()[0]))
        step()
    return compare("permuted", max(tops), eigenvalues, f"largest eigenvalue of {draws} shuffled tables")
