"""The space in which pooling weights are learned: leading components of the tokens, without an attention sink.

Directions of large variance say where tokens differ; weights learned there are applied to the tokens as they are. An
attention sink (a first token of enormous norm that is nearly the same in every text, as in a decoder's middle layers)
would take all of the leading components and carries nothing, so learned weights pass over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
# Below this dimension all eigenvectors cost less than the iteration for a few.
DENSE_FEATURES = 512


@dataclass(frozen=True, eq=False)
class TokenSpace:
    """Leading components of tokens.

    Attributes
    ----------
    mean : array (d,)
        Mean token.
    directions : array (d, p)
        Orthonormal columns, largest variance first.
    sink : bool
        Whether the first token of a sequence is left out.
    sink_ratio : float
        Median norm of first tokens over that of the others; NaN when there is nothing to compare.
    """

    mean: FloatArray
    directions: FloatArray
    sink: bool
    sink_ratio: float

    def usable(self, observed: BoolArray) -> BoolArray:
        """Tokens that learned weights may use."""
        return without_first(observed) if self.sink else observed

    def coordinates(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Tokens (b, T, d) in components, (b, T, p); zeros where nothing is observed."""
        z = np.matmul(x, self.directions) - self.mean @ self.directions
        z[~observed] = 0.0
        return np.asarray(z)


class _Moments:
    """Number, sum and second moment of tokens, around a fixed point."""

    def __init__(self, d: int) -> None:
        self.count, self.sum, self.second = 0, np.zeros(d), np.zeros((d, d))

    def add(self, tokens: FloatArray) -> None:
        self.count += len(tokens)
        self.sum += tokens.sum(axis=0)
        self.second += tokens.T @ tokens


def fit_token_space(blocks: Iterable[Block], d: int, components: int, sink: bool | None) -> TokenSpace:
    """Leading components from one pass over blocks of tokens.

    Parameters
    ----------
    blocks : iterable of (x, observed)
        Tokens (b, T, d) and where they are.
    d : int
        Their dimension.
    components : int
        How many; at most d are found.
    sink : bool or None
        Whether the first token is left out; None: when it looks like a sink.
    """
    first, rest = _Moments(d), _Moments(d)
    norms: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    shift: FloatArray | None = None
    for x, observed in blocks:
        start, _ = places(observed)
        alone = observed.sum(axis=1, keepdims=True) == 1
        leading = observed & (start == 0) & ~alone
        for moments, found, chosen in ((first, norms[0], leading), (rest, norms[1], observed & ~leading)):
            tokens = x[chosen]
            if not len(tokens):
                continue
            if shift is None:
                shift = tokens.mean(axis=0)
            found.append(np.sqrt(np.einsum("nd,nd->n", tokens, tokens)))
            moments.add(tokens - shift)
    if shift is None:
        shift = np.zeros(d)
    ratio, constant = _sink_signs(first, norms, shift)
    left_out = bool(sink) if sink is not None else ratio > SINK_RATIO and constant > SINK_CONSTANT
    kept = [rest] if left_out and rest.count else [first, rest]
    count = max(sum(m.count for m in kept), 1)
    offset = np.sum([m.sum for m in kept], axis=0) / count
    covariance = np.sum([m.second for m in kept], axis=0) / count - np.outer(offset, offset)
    return TokenSpace(shift + offset, _leading(covariance, min(components, d)), left_out, ratio)


def _sink_signs(
    first: _Moments, norms: tuple[list[FloatArray], list[FloatArray]], shift: FloatArray
) -> tuple[float, float]:
    """Median norm of first tokens over that of the others, and the part of their energy that their mean holds."""
    if not first.count or not norms[1]:
        return float("nan"), 0.0
    lengths = np.concatenate(norms[0])
    others = float(np.median(np.concatenate(norms[1])))
    energy = float((lengths**2).mean())
    if others <= 0 or energy <= 0:
        return float("nan"), 0.0
    mean = shift + first.sum / first.count
    return float(np.median(lengths)) / others, float(mean @ mean) / energy


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
