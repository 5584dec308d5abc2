"""The space in which pooling weights are learned: leading components of the tokens, without an attention sink.

Directions of large variance say where tokens differ; weights learned there are applied to the tokens as they are. An
attention sink (a first token of enormous norm that is nearly the same in every text, as in a decoder's middle layers)
would take the leading components and carries nothing, so learned weights pass over it; and over tokens as large as it
elsewhere, which such models have in one text of a hundred and which would dwarf all other rows. A sequence of
sinks only is pooled to the mean of all other tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.places import places, without_first

Block = tuple[FloatArray, BoolArray]

# The first token is a sink when its median norm exceeds this many times that of the others (145 in the middle of
# SmolLM2-135M, about 1 in its last layer and in MiniLM) and it is nearly constant: its mean holds this part of its
# energy (.996 in SmolLM2). A first token that is large but varies may be the message.
SINK_RATIO = 3.0
SINK_CONSTANT = 0.9
# Sequences whose tokens are copied at a time: a block has hundreds, and a copy of it would double what is held.
COPIED_ROWS = 64
# Below this dimension all eigenvectors cost less than the iteration for a few.
DENSE_FEATURES = 512


@dataclass(frozen=True, eq=False)
class TokenSpace:
    """Leading components of tokens.

    Attributes
    ----------
    mean : array (d,)
        Mean of the tokens that learned weights may use.
    directions : array (d, p)
        Orthonormal columns, largest variance first.
    sink : bool
        Whether the first token of a sequence is left out.
    sink_ratio : float
        Median norm of first tokens over that of the others; NaN when there is nothing to compare.
    largest : float
        Norm above which a token is a sink wherever it stands; infinite without a sink.
    wide : array (d, q) or None
        More directions, where long sequences are cut to components of their tokens.
    """

    mean: FloatArray
    directions: FloatArray
    sink: bool
    sink_ratio: float
    largest: float = np.inf
    wide: FloatArray | None = None

    def leading(self, k: int) -> FloatArray:
        """The first `k` directions, (d, k), where so many were asked for."""
        wide = self.directions if self.wide is None else self.wide
        return wide[:, :k]

    def usable(self, x: FloatArray, observed: BoolArray) -> BoolArray:
        """Tokens that learned weights may use."""
        if not self.sink:
            return observed
        return np.asarray(without_first(observed) & (_norms(x) <= self.largest))

    def pooled(self, weights: FloatArray, x: FloatArray, observed: BoolArray, usable: BoolArray) -> FloatArray:
        """Tokens pooled with weights (b, heads, T), (b, heads·d), head by head.

        A row of sinks only gets the mean of all other tokens; an empty one stays zero.
        """
        features = np.matmul(weights, x).reshape(len(x), -1)
        if self.sink:
            lost = observed.any(axis=1) & ~usable.any(axis=1)
            features[lost] = np.tile(self.mean, weights.shape[1])
        return np.asarray(features)

    def coordinates(self, x: FloatArray, usable: BoolArray) -> FloatArray:
        """Tokens (b, T, d) in components, (b, T, p); zeros where they cannot be used."""
        z = (x.reshape(-1, x.shape[2]) @ self.directions).reshape(*x.shape[:2], -1)
        z -= self.mean @ self.directions
        z[~usable] = 0.0
        return np.asarray(z)


def fit_token_space(
    blocks: Callable[[], Iterable[Block]], d: int, components: int, sink: bool | None, wide: int = 0
) -> TokenSpace:
    """Leading components from two passes over blocks of tokens: one for their norms, one for their moments.

    Parameters
    ----------
    blocks : callable
        Gives (x, observed): tokens (b, T, d) and where they are.
    d : int
        Their dimension.
    components : int
        How many; at most d are found.
    sink : bool or None
        Whether the first token is left out; None: when it looks like a sink.
    wide : int
        Directions to keep beyond these, for :attr:`TokenSpace.wide`; 0 for none.
    """
    first: list[FloatArray] = []
    others: list[FloatArray] = []
    first_sum, count = np.zeros(d), 0
    for x, observed in blocks():
        start, _ = places(observed)
        leading = observed & (start == 0) & (observed.sum(axis=1, keepdims=True) > 1)
        norms = _norms(x)
        first.append(norms[leading])
        others.append(norms[observed & ~leading])
        first_sum += x[leading].sum(axis=0)
        count += int(leading.sum())
    ratio, constant, typical = float("nan"), 0.0, np.inf
    if count and sum(map(len, others)):
        ratio, constant = sink_signs(np.concatenate(first), np.concatenate(others), first_sum / count)
        typical = float(np.median(np.concatenate(others)))
    sunk = is_sink(ratio, constant)
    left_out = sunk if sink is None else bool(sink)
    space = TokenSpace(
        np.zeros(d), np.zeros((d, 0)), left_out, ratio, SINK_RATIO * typical if left_out and sunk else np.inf
    )
    mean, covariance = _moments(blocks, space, d)
    p = min(components, d)
    found = _leading(covariance, min(max(p, wide), d))
    return replace(space, mean=mean, directions=found[:, :p].copy(), wide=found if wide > p else None)


def _norms(x: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.einsum("ntd,ntd->nt", x, x)))


def _moments(blocks: Callable[[], Iterable[Block]], space: TokenSpace, d: int) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the usable tokens, summed around a point inside the cloud to lose no digits."""
    count, total, second = 0, np.zeros(d), np.zeros((d, d))
    shift: FloatArray | None = None
    for x, observed in blocks():
        usable = space.usable(x, observed)
        for rows in range(0, len(x), COPIED_ROWS):
            tokens = x[rows : rows + COPIED_ROWS][usable[rows : rows + COPIED_ROWS]]
            if not len(tokens):
                continue
            if shift is None:
                shift = np.asarray(tokens.mean(axis=0))
            tokens -= shift
            count += len(tokens)
            total += tokens.sum(axis=0)
            second += tokens.T @ tokens
    if shift is None:
        return np.zeros(d), np.zeros((d, d))
    offset = total / count
    return shift + offset, second / count - np.outer(offset, offset)


def sink_signs(first: FloatArray, others: FloatArray, mean: FloatArray) -> tuple[float, float]:
    """Median norm of first tokens over that of the others, and the part of their energy that their mean holds.

    Parameters
    ----------
    first, others : arrays
        Norms of the first tokens, and of all others.
    mean : array (d,)
        Mean of the first tokens.
    """
    typical, energy = float(np.median(others)), float((first**2).mean())
    if typical <= 0 or energy <= 0:
        return float("nan"), 0.0
    return float(np.median(first)) / typical, float(mean @ mean) / energy


def is_sink(ratio: float, constant: float) -> bool:
    """Whether first tokens with these signs are an attention sink."""
    return ratio > SINK_RATIO and constant > SINK_CONSTANT


def _leading(covariance: FloatArray, p: int) -> FloatArray:
    """The p leading eigenvectors, signs fixed by their largest entry."""
    d = len(covariance)
    if d <= DENSE_FEATURES or 4 * p > d:
        vectors = eigh(covariance, subset_by_index=[d - p, d - 1])[1]
    else:
        # a fixed start makes the iteration give the same digits every time
        values, vectors = eigsh(covariance, k=p, v0=np.random.default_rng(0).standard_normal(d))
        vectors = vectors[:, np.argsort(values)]
    vectors = vectors[:, ::-1]
    return np.asarray(vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(p)]))
