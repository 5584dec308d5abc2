r"""Features that keep positions apart: the flattened sequence, and position kernels between it and the mean.

With z the tokens minus their mean, packed to the start of the sequence (and, where lengths differ, also to its end),

    K(x, x') = Σ_ts k(t − s) <z_t, z'_s>,      k(u) = rho^|u|,   rho = exp(−1/length).

rho = 0 is the flattened sequence, rho = 1 the mean; between them, a shift by a token or two costs little. k is the
covariance of an autoregression, so that K has explicit features, of the size of the sequence, from one recursion:

    u_t = z_t + rho·u_{t+1},      features u_1 and sqrt(1 − rho²)·u_t for t > 1.

Ridge on them costs what ridge on the flattened sequence costs. With more features than rows only the products
K (n, n) are formed, over blocks of positions. Sequences longer than those of the fit keep their first (last) positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.places import places
from spikepool.pooling.registry import PoolingSpec, register
from spikepool.pooling.token_space import TokenSpace

# Length of the exponential kernel, in tokens; 2 was the best single candidate on aligned sequences.
KERNEL_LENGTH = 2.0
# Features of all positions together, beyond which tokens are first cut to their leading components: products over more
# cost seconds. Where rows are streamed and not held, the sums are (F, F).
MOST_FEATURES, MOST_STREAMED = 65_536, 4096
# Numbers in a block of positions.
BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class SequencePooling:
    """Packed tokens, position by position, filtered by the recursion above."""

    name: str
    space: TokenSpace
    T: int
    rho: float
    aligned: bool  # whether every sequence of the fit has T tokens: one alignment then, else two
    components: int  # leading components of the tokens that are kept; 0 for the tokens as they are

    @property
    def width(self) -> int:
        """Features of a position."""
        return self.components or len(self.space.mean)

    @property
    def size(self) -> int:
        """Number of features F."""
        return len(self.sides) * self.T * self.width

    @property
    def sides(self) -> tuple[str, ...]:
        """Alignments."""
        return ("start",) if self.aligned else ("start", "end")

    def tokens(self, x: FloatArray, used: BoolArray) -> FloatArray:
        """Tokens minus their mean, in components where these are kept, zeros where not used."""
        z = x - self.space.mean.astype(x.dtype)
        if self.components:
            # one product of all tokens: matmul would make one for each sequence
            leading = self.space.leading(self.components).astype(x.dtype)
            z = (z.reshape(-1, z.shape[2]) @ leading).reshape(*z.shape[:2], -1)
        z[~used] = 0.0
        return np.asarray(z)

    def _filtered(self, z: FloatArray) -> FloatArray:
        """The recursion over positions (b, T, width), in place."""
        if self.rho:
            for t in range(z.shape[1] - 2, -1, -1):
                z[:, t] += self.rho * z[:, t + 1]
            z[:, 1:] *= np.sqrt(1 - self.rho**2)
        return z

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, sides·T·width)."""
        usable = self.space.usable(x, observed)
        parts = []
        for side in self.sides:
            index, used = packed_places(usable, self.T, side)
            z = self.tokens(np.take_along_axis(x, index[..., None], axis=1), used)
            parts.append(self._filtered(z).reshape(len(x), -1))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def position_coefficients(self, coef: FloatArray) -> FloatArray:
        """Ridge coefficients (F, k) on features as coefficients (sides, T, width, k) on packed tokens."""
        B = coef.reshape(len(self.sides), self.T, self.width, -1).copy()
        if self.rho:
            B[:, 1:] *= np.sqrt(1 - self.rho**2)
            for t in range(1, self.T):
                B[:, t] += self.rho * B[:, t - 1]
        return np.asarray(B)

    def token_importance(self, importance: FloatArray, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Weight of each token (b, T) from that of its places (sides, T), of unit sum in a row with a token."""
        usable = self.space.usable(x, observed)
        per_token = np.zeros(usable.shape)
        for shares, place in zip(importance, places(usable), strict=False):
            per_token += np.where(usable & (place < self.T), shares[np.minimum(place, self.T - 1)], 0.0)
        total = per_token.sum(axis=1, keepdims=True)
        return np.where(total > 0, per_token / np.where(total > 0, total, 1.0), self.weights(x, observed)[:, 0])

    def full_row_importance(self, importance: FloatArray, T: int) -> FloatArray:
        """The same for a row of T tokens, (1, T)."""
        x = np.broadcast_to(self.space.mean, (1, T, len(self.space.mean)))
        return self.token_importance(importance, x, np.ones((1, T), dtype=bool))

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Equal weights, (b, 1, T): what a position is worth follows from the ridge, not from the features."""
        return np.asarray((observed / np.maximum(observed.sum(axis=1, keepdims=True), 1))[:, None])

    def feature_names(self, d: int) -> list[str]:
        """Side, position and feature."""
        return [f"{side}{t}_{i}" for side in self.sides for t in range(self.T) for i in range(self.width)]

    def column_blocks(self, rows: Any) -> Iterator[tuple[Any, FloatArray]]:
        """Features of the learning rows in blocks of columns, last positions first, in the precision of the tokens.

        Each comes with the rows that have a token there; the features of the others are zero.
        """
        n = len(rows.usable)
        step = max(1, BLOCK // (n * max(self.width, len(self.space.mean))))
        for side in self.sides:
            index, used = packed_places(rows.usable, self.T, side)
            state: FloatArray | None = None
            for stop in range(self.T, 0, -step):
                block = slice(max(0, stop - step), stop)
                # places are counted from the side on, so that who has a later token has this one too
                live = np.flatnonzero(used[:, block.start])
                z = self.tokens(rows.gather(index[live, block], live), used[live, block])
                if self.rho:
                    state = np.zeros((n, z.shape[2]), dtype=z.dtype) if state is None else state
                    z[:, -1] += self.rho * state[live]
                    for t in range(z.shape[1] - 2, -1, -1):
                        z[:, t] += self.rho * z[:, t + 1]
                    state[live] = z[:, 0]
                    z[:, 1 if block.start == 0 else 0 :] *= np.sqrt(1 - self.rho**2)
                yield slice(None) if len(live) == n else live, z.reshape(len(z), -1)

    def products(self, rows: Any) -> FloatArray:
        """K (n, n) of the learning rows."""
        total = np.zeros((len(rows.usable), len(rows.usable)))
        for live, block in self.column_blocks(rows):
            where = (live, live) if isinstance(live, slice) else np.ix_(live, live)
            total[where] += block @ block.T
        return total

    def coefficients(self, rows: Any, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients (F, k) from the dual ones, which sum to zero, and the mean features (F,)."""
        coef, centre = np.empty((self.size, alpha.shape[1])), np.empty(self.size)
        per_side, stop, side = self.T * self.width, self.T * self.width, 0
        for live, block in self.column_blocks(rows):
            columns = slice(side * per_side + stop - block.shape[1], side * per_side + stop)
            coef[columns] = block.T @ alpha[live].astype(block.dtype)
            centre[columns] = rows.shares[live] @ block
            stop -= block.shape[1]
            if stop == 0:
                stop, side = per_side, side + 1
        return coef, centre


def packed_places(usable: BoolArray, T: int, side: str) -> tuple[np.ndarray[Any, Any], BoolArray]:
    """Index (n, T) of the token at each place counted over usable tokens from one side, and where there is one."""
    n, given = usable.shape
    length = usable.sum(axis=1, keepdims=True)
    order = np.argsort(~usable, axis=1, kind="stable")
    place = np.broadcast_to(np.arange(T), (n, T))
    used = place < length
    wanted = place if side == "start" else length - 1 - place
    return np.take_along_axis(order, np.clip(wanted, 0, given - 1), axis=1), np.asarray(used)


def position_importance(pooling: SequencePooling, coef: FloatArray) -> FloatArray:
    """Weight of each position (sides, T): the share of the squared coefficients that is on its token."""
    size = (pooling.position_coefficients(coef) ** 2).sum(axis=(2, 3))
    total = size.sum()
    return np.asarray(size / total if total > 0 else np.full(size.shape, 1 / size.size))


def _fit(name: str, rho: float) -> Any:
    def fit(rows: Any, *_: Any) -> SequencePooling:
        T = max(1, int(rows.usable.sum(axis=1).max()))
        aligned = bool((rows.usable.sum(axis=1) == T).all())
        most = MOST_STREAMED if rows.streamed else MOST_FEATURES
        d = len(rows.space.mean)
        components = 0 if T * d * (2 - aligned) <= most else max(1, most // (T * (2 - aligned)))
        return SequencePooling(name, rows.space, T, rho, aligned, min(components, d))

    return fit


register(
    PoolingSpec("flat", "all tokens side by side (no pooling)", _fit("flat", 0.0), cost=12.0, keeps_positions=True)
)
register(
    PoolingSpec(
        "positions",
        "all tokens side by side, tolerant of shifts by a token or two (position kernel)",
        _fit("positions", float(np.exp(-1 / KERNEL_LENGTH))),
        cost=12.0,
        keeps_positions=True,
    )
)
