"""Positional correlations made of blocks that share one sign: the case in which the law of the signs is explicit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray
from spikepool.kit.validation import IDENTITY_TOLERANCE


@dataclass(frozen=True)
class SignBlocks:
    """Positions grouped in blocks: ``xi_t = sign_t * s_block(t)`` with independent uniform signs s.

    Attributes
    ----------
    block : ndarray of int, shape (T,)
        Block of each position, numbered from 0 in order of appearance.
    sign : ndarray, shape (T,)
        ±1: sign of the position relative to the first one of its block.
    """

    block: NDArray[np.intp]
    sign: FloatArray

    @property
    def count(self) -> int:
        """Number of blocks."""
        return int(self.block.max()) + 1

    def totals(self, w: FloatArray) -> FloatArray:
        """Weight of each block in ``w'xi = sum_b totals_b s_b``."""
        result: FloatArray = np.zeros(self.count)
        np.add.at(result, self.block, w * self.sign)
        return result


def sign_blocks(R: FloatArray) -> SignBlocks | None:
    """The blocks of `R` when its entries are all 0 or ±1 (prefix model, identity, ...), else None.

    R fixes only pair correlations; the law meant is the one :func:`spikepool.sign_sampler` draws, independent blocks.
    """
    rounded = np.rint(R)
    if float(np.abs(R - rounded).max()) > IDENTITY_TOLERANCE or float(np.abs(rounded).max()) > 1:
        return None
    first = np.argmax(rounded != 0, axis=0)
    sign = rounded[first, np.arange(len(R))]
    same = first[:, None] == first[None, :]
    if not np.array_equal(np.where(same, np.outer(sign, sign), 0.0), rounded):
        return None
    _, block = np.unique(first, return_inverse=True)
    return SignBlocks(block.astype(np.intp), sign)


def sign_patterns(count: int) -> FloatArray:
    """All 2^count sign vectors, one per row."""
    bits: NDArray[Any] = (np.arange(1 << count)[:, None] >> np.arange(count)[None, :]) & 1
    return 1.0 - 2.0 * bits
