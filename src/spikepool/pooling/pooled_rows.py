"""Pooling of a block of sequences with fixed positional weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spikepool.data.estimator_input import refuse_empty_rows
from spikepool.data.tokens import Block, row_weights
from spikepool.errors import WeightsError
from spikepool.kit.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class PooledRows:
    """C_n = sum_t w_t x_nt, weights renormalised over the observed positions of a row.

    Parameters
    ----------
    weights : array (P,)
        Of unit sum, by position or by bin of relative positions.
    bins : int or None
        Number of bins of relative positions; None for absolute ones.
    empty : {"error", "zero"}
        What to do with rows in which nothing is observed.
    """

    weights: FloatArray
    bins: int | None
    empty: str

    def __call__(self, block: Block, start: int) -> FloatArray:
        """Pooled features (b, d) of a block whose first row is number `start`."""
        x, observed = block
        refuse_empty_rows(observed, start, self.empty)
        if not observed.all() and self.weights.min() < 0:
            raise WeightsError(
                "weights of both signs cannot be renormalised over the observed positions",
                self.weights,
                "Use non-negative weights with masks",
            )
        w = row_weights(self.weights, observed, self.bins)
        return np.asarray(np.matmul(w[:, None, :], x)[:, 0])
