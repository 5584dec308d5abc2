"""The rows on which pooling weights are learned and compared, read once: components, repeated rows, folds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from spikepool.data.tokens import TokenInput
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.pooling.poolings import Pooling
from spikepool.pooling.token_space import TokenSpace, fit_token_space


@dataclass(frozen=True, eq=False)
class LearningRows:
    """Sequences in memory, with what all candidates need of them.

    Attributes
    ----------
    source : TokenInput
        The tokens.
    space : TokenSpace
        Their leading components.
    z : array (n, T, p)
        Tokens in components.
    observed, usable : arrays (n, T)
        Where there are tokens, and which of them learned weights may use.
    copies : array (n,) of int
        Equal numbers for rows that hold the same tokens.
    """

    source: TokenInput
    space: TokenSpace
    z: FloatArray
    observed: BoolArray
    usable: BoolArray
    copies: IntArray

    def features(self, pooling: Pooling) -> FloatArray:
        """Pooled features of all rows, (n, heads·d)."""
        out = np.empty((self.source.n, len(pooling.heads) * self.source.d))
        start = 0
        for x, observed in self.source.blocks():
            out[start : start + len(x)] = pooling.features(x, observed)
            start += len(x)
        return out

    def head_weights(self, pooling: Pooling) -> FloatArray:
        """Average weight of each position over the rows, (heads, T)."""
        total = sum(pooling.weights(x, observed).sum(axis=0) for x, observed in self.source.blocks())
        return np.asarray(total) / self.source.n


def read_learning_rows(source: TokenInput, components: int, sink: bool | None) -> LearningRows:
    """Three passes over tokens in memory: norms, components, coordinates; repeated rows are noticed in the last."""
    space = fit_token_space(source.blocks, source.d, components, sink)
    hashes: list[int] = []
    observed, usable = (np.empty((source.n, source.T), dtype=bool) for _ in range(2))
    z = np.empty((source.n, source.T, space.directions.shape[1]))
    start = 0
    for x, part in source.blocks():
        rows = slice(start, start + len(x))
        observed[rows], usable[rows] = part, space.usable(x, part)
        z[rows] = space.coordinates(x, usable[rows])
        hashes.extend(hash((row.tobytes(), o.tobytes())) for row, o in zip(x, part, strict=True))
        start += len(x)
    return LearningRows(source, space, z, observed, usable, _numbered(np.array(hashes)))


def _numbered(values: NDArray[np.int64]) -> IntArray:
    """Equal values as equal numbers, counted in order of appearance (hashes differ between processes, this not)."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]


def tie(copies: IntArray, groups: IntArray | None) -> IntArray:
    """Clusters of rows that share a group, or tokens, or are linked by such rows."""
    if groups is None:
        return copies
    n = len(copies)
    rows = np.arange(n)
    links = np.concatenate([n + copies, n + copies.max() + 1 + groups])
    size = int(links.max()) + 1
    graph = coo_array((np.ones(2 * n), (np.concatenate([rows, rows]), links)), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1][:n], dtype=np.intp)


def assign_folds(strata: IntArray, clusters: IntArray, folds: int, seed: int) -> IntArray:
    """Fold of each row: clusters stay together, strata (classes) are spread as evenly as they can be."""
    n = len(strata)
    if len(np.unique(clusters)) == n:
        order = np.random.default_rng(seed).permutation(n)
        order = order[np.argsort(strata[order], kind="stable")]
        result = np.empty(n, dtype=np.intp)
        result[order] = np.arange(n) % folds
        return result
    result = np.zeros(n, dtype=np.intp)
    # one class, or none with a member for every fold, leaves nothing to spread
    alike = strata.min() == strata.max() or np.bincount(strata).max() < folds
    splitter = (GroupKFold if alike else StratifiedGroupKFold)(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes with fewer members than folds
        for k, (_, test) in enumerate(splitter.split(strata, strata, clusters)):
            result[test] = k
    return result
