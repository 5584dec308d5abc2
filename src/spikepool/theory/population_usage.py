"""The usage of infinitely many sequences: a diagonal matrix plus a few vectors, diagonalised in a small basis.

Tokens of frequencies p, weights a and signs s, independent given their classes, give a pooled column the covariance

    M_0/V = kappa diag(p a²) + (sigma − kappa)(p a)(p a)' + tilt (p a (s − m))(p a (s − m))',      m = p's,

with kappa the mean of ‖w‖², sigma the variance of the row sums of the weights (their mean square where S is not
centred), and tilt what the correlation of positions adds: (alpha_c − kappa v)/v² for a = 1, alpha_c the variance of the
pooled signs and v = p's² − m². Latents that do not come from the tokens have no such term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from spikepool.kit.arrays import FloatArray
from spikepool.laws.measures import non_negative
from spikepool.theory.general_spikes import Measure
from spikepool.theory.token_usage import Usage
from spikepool.theory.usage_pairs import TOP, TopPairs

# Distinct values of p a² beyond this many are binned.
_GROUPS = 500
# Equal eigenvalues up to this many are kept one by one; more are a bulk of their own.
_MULTIPLICITY = 4
# A column that adds less than this to the others, relative to the largest, is one of them.
_DEPENDENT = 1e-13


@dataclass(frozen=True)
class GroupedTokens:
    """Vectors over the tokens in a basis of few coordinates for each value of a diagonal matrix.

    Attributes
    ----------
    diagonal : numpy.ndarray of shape (n,)
        The diagonal matrix at each coordinate.
    columns : numpy.ndarray of shape (n, k)
        The vectors. Inner products are preserved.
    sizes, ranks : numpy.ndarray of shape (groups,)
        Tokens and coordinates of each group; contrasts within a group that are orthogonal to all vectors are left out.
    spread : float
        Largest distance of a token's value from that of its group; 0 unless values were binned.
    """

    diagonal: FloatArray
    columns: FloatArray
    values: FloatArray
    sizes: NDArray[np.intp]
    ranks: NDArray[np.intp]
    spread: float
    _members: tuple[NDArray[np.intp], ...]
    _bases: tuple[FloatArray, ...]

    def expand(self, x: FloatArray) -> FloatArray:
        """A vector of coordinates as one over the tokens."""
        full = np.zeros(int(self.sizes.sum()))
        start = 0
        for members, basis, rank in zip(self._members, self._bases, self.ranks, strict=True):
            full[members] = basis[:, :rank] @ x[start : start + rank]
            start += int(rank)
        return full

    def contrasts(self, group: int) -> FloatArray:
        """Orthonormal vectors (V, sizes − ranks) over the tokens of a group, orthogonal to all columns."""
        members, rank = self._members[group], int(self.ranks[group])
        vectors = np.zeros((int(self.sizes.sum()), len(members) - rank))
        basis = self._bases[group]
        vectors[members] = np.linalg.qr(np.column_stack([basis[:, :rank], np.eye(len(members))]))[0][:, rank:]
        return vectors


def group_tokens(t: FloatArray, columns: FloatArray, limit: int = _GROUPS) -> GroupedTokens:
    """Columns (V, k) over the tokens, grouped by the values of `t`.

    More than `limit` distinct values are binned with their neighbours in rank, the largest quarter excepted: these may
    stand alone. Within a bin `t` is its mean, and the columns are kept exactly.
    """
    values, group = np.unique(t, return_inverse=True)
    group = group.ravel()
    if len(values) > limit:
        top = limit // 4
        bins = np.array_split(np.arange(len(values) - top), limit - top)
        place = np.concatenate([np.full(len(rows), i) for i, rows in enumerate(bins)])
        group = np.concatenate([place, limit - top + np.arange(top)])[group]
        values = np.bincount(group, weights=t) / np.bincount(group)
    by_group = np.argsort(group, kind="stable")
    members = tuple(np.split(by_group, np.cumsum(np.bincount(group))[:-1]))
    bases, reduced = [], []
    for rows in members:
        block = columns[rows]
        if len(rows) <= columns.shape[1]:
            bases.append(np.eye(len(rows)))
            reduced.append(block)
        else:
            Q, R, order = qr(block, mode="economic", pivoting=True)
            rank = max(1, int((np.abs(np.diag(R)) > _DEPENDENT * abs(R[0, 0])).sum()))
            bases.append(Q[:, :rank])
            reduced.append(R[:rank, np.argsort(order)])
    ranks = np.array([len(block) for block in reduced])
    return GroupedTokens(
        np.repeat(values, ranks),
        np.concatenate(reduced),
        values,
        np.array([len(rows) for rows in members]),
        ranks,
        float(np.abs(t - values[group]).max()),
        members,
        tuple(bases),
    )


def population_usage(
    p: FloatArray,
    signs: NDArray[Any],
    tilt: float,
    kappa: float,
    *,
    token_weights: FloatArray | None = None,
    latent_gain: float | None = None,
    row_sums: tuple[float, float] = (1.0, 0.0),
    centered: bool,
    class_centered: bool,
) -> Usage:
    """Usage of infinitely many sequences whose tokens are independent given their classes; see the module's formula.

    Parameters
    ----------
    p, signs : numpy.ndarray of shape (V,)
        Frequencies of unit sum, and classes.
    tilt, kappa : float
        Coefficients of the formula.
    token_weights : numpy.ndarray of shape (V,), optional
        a; ones when not given.
    latent_gain : float, optional
        Mean square of pooled latents that do not come from the tokens.
    row_sums : pair of float
        Mean and variance of the sums of the weights of a sequence.
    centered, class_centered : bool
        Whether the mean over sequences is subtracted, and the noise centred within classes of equal sign.
    """
    V = len(p)
    s = np.asarray(signs, dtype=np.float64)
    a = np.ones(V) if token_weights is None else token_weights
    f = p * a
    sides = [np.where(s == side, 1.0, 0.0) for side in np.unique(s)] if class_centered else []
    grouped = group_tokens(f * a, np.column_stack([s, f, f * (s - float(p @ s)), *sides]))
    unit, mean, lean = grouped.columns[:, 0] / np.sqrt(V), grouped.columns[:, 1], grouped.columns[:, 2]
    sigma = row_sums[1] + (0.0 if centered else row_sums[0] ** 2)
    M = np.diag(V * kappa * grouped.diagonal) + V * (sigma - kappa) * np.outer(mean, mean)
    if latent_gain is None:
        M += V * tilt * np.outer(lean, lean)
        image, gain = M @ unit, float(unit @ M @ unit)
    else:
        image, gain = np.zeros(len(unit)), latent_gain
    ones = np.sqrt(V) * row_sums[0] * mean  # B 1/sqrt(N)
    if sides:
        P = np.eye(len(unit))
        for side in grouped.columns[:, 3:].T:
            P -= np.outer(side, side) / float(side @ side)
        M, image, ones = P @ M @ P, P @ image, P @ ones
    t, basis = np.linalg.eigh(M)
    # binning moves no eigenvalue by more than its spread (Weyl), and centring leaves one of them at zero
    t = np.where(np.abs(t) <= V * kappa * grouped.spread, np.maximum(t, 0.0), t)
    t, basis = non_negative(t, "usage", V * kappa * float(grouped.values.max()))[::-1], basis[:, ::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        coordinates = np.where(t > 0, basis.T @ image / np.sqrt(t), 0.0)
        share = np.where(t > 0, (basis.T @ ones) ** 2 / t, 0.0) * (not centered)
    # contrasts within a group have its value as eigenvalue and no share in anything
    several = np.flatnonzero(grouped.sizes > grouped.ranks)
    among = np.concatenate([t, V * kappa * grouped.values[several]])
    copies = np.concatenate([np.ones(len(t), dtype=np.intp), (grouped.sizes - grouped.ranks)[several]])
    order = np.argsort(-among, kind="stable")
    kept, total = [], 0
    for i in order:
        if copies[i] > _MULTIPLICITY or among[i] <= 0 or total + copies[i] > TOP:
            break
        kept.append(int(i))
        total += int(copies[i])
    blocks = [np.empty((V, 0))]
    for i in kept:
        single = i < len(t)
        blocks.append(grouped.expand(basis[:, i])[:, None] if single else grouped.contrasts(several[i - len(t)]))
    vectors = np.hstack(blocks)
    every = np.repeat(np.array(kept, dtype=np.intp), copies[kept])
    padding = np.zeros(len(among) - len(t))
    top = TopPairs(
        among[every],
        vectors,
        np.concatenate([coordinates, padding])[every],
        np.concatenate([share, padding])[every],
    )
    rest = np.setdiff1d(np.arange(len(among)), kept)
    rest = rest[np.argsort(-among[rest], kind="stable")]
    inner = rest[rest < len(t)]
    outside = np.sqrt(max(0.0, gain - float(coordinates @ coordinates)))
    measure = Measure(np.append(t[inner], 0.0), np.append(coordinates[inner], outside)[:, None])
    whole = grouped.expand(image)
    remainder = whole - vectors @ (vectors.T @ whole)
    return Usage(top, among[rest], copies[rest] / V, measure, remainder, gain, latent_gain is None)
