"""Some whole sequences, evenly spread over all rows, kept for the estimate of positional weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.estimator_input import refuse_empty_rows
from spikepool.data.tokens import TokenForm
from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.places import places
from spikepool.pooling.token_space import is_sink, sink_signs

# Bytes of rows in single precision, and the limits of their number.
PROBE_BYTES = 96 * 2**20
FEWEST_PROBES, MOST_PROBES = 128, 2048


def probe_stride(n: int, form: TokenForm) -> int:
    """Every so many of `n` rows one is kept: the fewest that fit 96 MB, at least 128 and at most 2,048 rows."""
    return -(-n // int(np.clip(PROBE_BYTES // (4 * form.T * form.d), FEWEST_PROBES, MOST_PROBES)))


class ProbeRows:
    """Rows whose number is a multiple of `stride`, in a pass that checks all; see :func:`map_merge`.

    Parameters
    ----------
    form : TokenForm
        How stored rows become tokens.
    empty : {"error", "zero"}
        What to do with rows in which nothing is observed.
    stride : int
        0 when rows are only checked.
    """

    def __init__(self, form: TokenForm, empty: str, stride: int) -> None:
        self._form, self._empty, self._stride = form, empty, stride
        self.x: list[NDArray[Any]] = []  # in single precision
        self.observed: list[BoolArray] = []

    def add(self, start: int, rows: NDArray[Any], mask: NDArray[Any] | None = None) -> None:
        """Check a chunk whose first row is number `start`, and keep some of it."""
        for first, block in self._form.split(start, rows, mask):
            refuse_empty_rows(block.observed, first, self._empty)
            if self._stride:
                kept = slice(-first % self._stride, None, self._stride)
                self.x.append(block.dense(kept).astype(np.float32))
                self.observed.append(block.observed[kept].copy())

    def merged(self, other: ProbeRows) -> ProbeRows:
        """Both; `other`'s rows follow."""
        result = ProbeRows(self._form, self._empty, self._stride)
        result.x, result.observed = self.x + other.x, self.observed + other.observed
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        # rows that travel leave the embedding table behind
        form = TokenForm(self._form.T, self._form.d, None)
        return ProbeRows, (form, self._empty, self._stride), {"x": self.x, "observed": self.observed}

    def rows(self) -> tuple[FloatArray, BoolArray]:
        """The rows as one array (m, T, d), zero where nothing is observed, and what is."""
        return np.concatenate(self.x).astype(np.float64), np.concatenate(self.observed)


def first_token_sink(x: FloatArray, observed: BoolArray) -> tuple[float, bool]:
    """Median norm of first tokens over that of the others, and whether they are an attention sink."""
    first = observed & (places(observed)[0] == 0) & (observed.sum(axis=1, keepdims=True) > 1)
    if not first.any():
        return float("nan"), False
    norms = np.sqrt(np.einsum("ntd,ntd->nt", x, x))
    ratio, constant = sink_signs(norms[first], norms[observed & ~first], x[first].mean(axis=0))
    return ratio, is_sink(ratio, constant)
