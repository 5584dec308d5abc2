"""The usage of infinitely many sequences: the limit that an exact prediction's population fields speak of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray
from spikepool.laws.measures import non_negative
from spikepool.theory.general_spikes import Measure
from spikepool.theory.token_usage import TOP, TopPairs, Usage

# Distinct token frequencies beyond this many are binned.
_GROUPS = 1000
# Equal eigenvalues up to this many are kept one by one; more are a bulk of their own.
_MULTIPLICITY = 4


def population_usage(
    p: FloatArray,
    signs: NDArray[Any],
    alpha: float,
    kappa: float,
    *,
    centered: bool,
    class_centered: bool,
    gaussian: bool,
) -> Usage:
    """Usage of infinitely many sequences whose tokens are independent given their classes.

    With frequencies p, mean sign m = p's and variance v = 1 − m²,

        M_0/V = kappa (diag p − pp') + (alpha_c − kappa v)/v² (p∘(s−m))(p∘(s−m))'  [+ pp' without centring],

    where alpha_c is the variance of the pooled signs; a gaussian latent has no second term, and lies outside the
    directions of the usage. All vectors are constant on groups of tokens with the same frequency and class, so M_0 is
    diagonalised among the groups; orthogonally to them it is kappa V diag p.
    """
    V = len(p)
    if len(np.unique(p)) > _GROUPS:
        p = _binned(p)
    _, first, group, size = np.unique(
        np.column_stack([p, signs]), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    group = group.ravel()
    f, s, n = p[first], np.asarray(signs, dtype=np.float64)[first], size.astype(np.float64)
    root = np.sqrt(n)
    m = float(n @ (f * s))
    v = 1 - m * m
    tilt = root * f * (s - m)
    M = np.diag(V * kappa * f) + V * (not centered) * np.outer(root * f, root * f)
    M -= V * kappa * np.outer(root * f, root * f)
    if not gaussian and v > 1e-12:
        variance = alpha if centered else max(alpha - m * m, 0.0)
        M += V * (variance - kappa * v) / v**2 * np.outer(tilt, tilt)
    unit = root * s / np.sqrt(V)
    image, gain = (np.zeros(len(f)), alpha) if gaussian else (M @ unit, float(unit @ M @ unit))
    ones = np.sqrt(V) * root * f  # B 1/sqrt(N)
    if class_centered:
        P = np.eye(len(f))
        for sign in np.unique(s):
            side = np.where(s == sign, root, 0.0)
            P -= np.outer(side, side) / float(side @ side)
        M, image, ones = P @ M @ P, P @ image, P @ ones
    t, basis = np.linalg.eigh(M)
    t, basis = non_negative(t, "usage", V * kappa * float(f.max()))[::-1], basis[:, ::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        coordinates = np.where(t > 0, basis.T @ image / np.sqrt(t), 0.0)
        mean = np.where(t > 0, (basis.T @ ones) ** 2 / t, 0.0) * (not centered)
    # contrasts within a group have its frequency as eigenvalue and no share in anything
    among = np.concatenate([t, V * kappa * f[n > 1]])
    copies = np.concatenate([np.ones(len(t), dtype=np.intp), size[n > 1] - 1])
    order = np.argsort(-among, kind="stable")
    kept, total = [], 0
    for i in order:
        if copies[i] > _MULTIPLICITY or among[i] <= 0 or total + copies[i] > TOP:
            break
        kept.append(int(i))
        total += int(copies[i])
    several = np.flatnonzero(n > 1)
    blocks = [np.empty((V, 0))]
    for i in kept:
        if i < len(t):
            blocks.append((basis[:, i] / root)[group][:, None])
        else:
            members = group == several[i - len(t)]
            blocks.append(np.zeros((V, copies[i])))
            blocks[-1][members] = _contrasts(int(members.sum()))
    vectors = np.hstack(blocks)
    every = np.repeat(np.array(kept, dtype=np.intp), copies[kept])
    padding = np.zeros(len(among) - len(t))
    top = TopPairs(
        among[every],
        vectors,
        np.concatenate([coordinates, padding])[every],
        np.concatenate([mean, padding])[every],
    )
    rest = np.setdiff1d(np.arange(len(among)), kept)
    rest = rest[np.argsort(-among[rest], kind="stable")]
    inner = rest[rest < len(t)]
    outside = np.sqrt(max(0.0, gain - float(coordinates @ coordinates)))
    measure = Measure(np.append(t[inner], 0.0), np.append(coordinates[inner], outside)[:, None])
    whole = (image / root)[group]
    return Usage(top, among[rest], copies[rest] / V, measure, whole - vectors @ (vectors.T @ whole), gain, not gaussian)


def _contrasts(n: int) -> FloatArray:
    """Orthonormal basis (n, n−1) of the vectors whose entries sum to zero."""
    return np.asarray(np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0][:, 1:])


def _binned(p: FloatArray) -> FloatArray:
    """Frequencies replaced by their means over bins of neighbours in rank."""
    order = np.argsort(p)
    binned = p.copy()
    # the largest ones stay as they are: they may stand alone
    for rows in np.array_split(order[: -_GROUPS // 4], 3 * _GROUPS // 4):
        binned[rows] = p[rows].mean()
    return binned
