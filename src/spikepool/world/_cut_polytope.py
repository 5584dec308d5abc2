"""Membership in the cut polytope: a mixture of sign vectors with a given correlation, or a proof that none exists."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ConvergenceError, NotRealizableError
from spikepool.kit.arrays import FloatArray

SignArray = NDArray[np.int8]

# Up to this many positions the pricing problem is solved by enumeration, so that the answer is a proof.
_ENUMERATION_LIMIT = 22
_COLUMNS_PER_ROUND = 40
_MAX_ROUNDS = 2000
_FEASIBILITY = 1e-9


def check_triangles(R: FloatArray, positions: NDArray[np.intp], size: int) -> None:
    """Raise if one of the inequalities ±R_ij ± R_jk ± R_ik >= −1 (product of the signs +1) is violated.

    `positions` are the rows of R within the full matrix of `size` positions, for the message and the certificate.
    """
    worst, where = -1 - 1e-9, None
    for i in range(len(R)):
        row = R[i]
        for a, b, c in ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)):
            total = a * row[:, None] + b * R + c * row[None, :]
            total[: i + 1] = np.inf  # i < j < k: each triple once
            total[np.tril_indices(len(R))] = np.inf
            flat = int(np.argmin(total))
            if total.flat[flat] < worst:
                worst = float(total.flat[flat])
                j, k = divmod(flat, len(R))
                where = ((a, i, j), (b, j, k), (c, i, k))
    if where is not None:
        B = np.zeros_like(R)
        for sign, p, q in where:
            B[p, q] = B[q, p] = sign
        raise _violation("triangle inequality ", B, -1.0, R, positions, size)


def find_mixture(
    R: FloatArray, positions: NDArray[np.intp], size: int, *, seconds: float = 30.0
) -> tuple[SignArray, FloatArray]:
    """Sign vectors (m, T) and weights (m,) whose weighted sum of s s' is R; `positions` as in `check_triangles`.

    The restricted linear program minimises the L1 distance between R and the mixture; its dual prices the sign
    vectors not yet used, the best of which join it, until the distance is zero or no vector improves it. In the
    second case the dual is an inequality that every sign vector satisfies and R violates. A search that is not over
    after `seconds` raises :class:`ConvergenceError`.
    """
    from scipy.optimize import linprog

    T = len(R)
    rows, cols = np.triu_indices(T, 1)
    target = np.append(R[rows, cols], 1.0)
    slack = len(rows)
    vectors = _first_vectors(R)
    end = time.monotonic() + seconds
    distance = float("nan")
    for _ in range(_MAX_ROUNDS):
        left = end - time.monotonic()
        if left <= 0:
            raise _out_of_time(T, seconds, distance)
        columns = np.vstack([(vectors[:, rows] * vectors[:, cols]).T, np.ones(len(vectors))])
        eye = np.vstack([np.eye(slack), np.zeros(slack)])
        result = linprog(
            np.concatenate([np.zeros(len(vectors)), np.ones(2 * slack)]),
            A_eq=np.hstack([columns, eye, -eye]),
            b_eq=target,
            method="highs",
            options={"time_limit": left},
        )
        if result.status == 1:  # the limit of time
            raise _out_of_time(T, seconds, distance)
        if result.status != 0:
            raise ConvergenceError(f"the linear program failed: {result.message}", remedy="Perturb R slightly")
        distance = float(result.fun)
        if distance <= _FEASIBILITY:
            weights = np.maximum(result.x[: len(vectors)], 0.0)
            used = weights > 0
            return vectors[used], weights[used] / weights[used].sum()
        price = np.zeros((T, T))
        price[rows, cols] = result.eqlin.marginals[:-1]
        price += price.T
        offset = float(result.eqlin.marginals[-1])
        candidates, gains, proven = _best_vectors(price)
        better = gains / 2 + offset > _FEASIBILITY / 10
        if not better.any():
            if proven:
                # sum over pairs of B_ts s_t s_s >= bound for every sign vector, with B = −price
                largest = float(np.abs(price).max())
                raise _violation("inequality ", -price / largest, offset / largest, R, positions, size)
            break
        vectors = np.unique(np.vstack([vectors, candidates[better]]), axis=0)
    raise ConvergenceError(
        f"whether signs with this correlation exist was not decided for a block of {T} positions",
        remedy=f"Use a block of at most {_ENUMERATION_LIMIT} positions, or a structured R",
    )


def _out_of_time(T: int, seconds: float, distance: float) -> ConvergenceError:
    return ConvergenceError(
        f"the search for signs with this correlation was stopped after {seconds:g} s at a block of {T} positions; the "
        "mixture found so far differs from R by",
        distance,
        "Pass a larger seconds=, a smaller block or a structured R",
        residual=distance,
    )


def _first_vectors(R: FloatArray) -> SignArray:
    """Signs of Gaussian vectors with covariance near R: a good start for the linear program."""
    values, mix = np.linalg.eigh(R)
    root = mix * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(0).standard_normal((4 * len(R), len(R))) @ root.T
    signs = np.where(draws >= 0, 1, -1).astype(np.int8)
    return np.unique(signs * signs[:, :1], axis=0)


def _best_vectors(price: FloatArray) -> tuple[SignArray, FloatArray, bool]:
    """Sign vectors with the largest s' price s, their values, and whether the best is proven best."""
    T = len(price)
    if T <= _ENUMERATION_LIMIT:
        best_signs, best_gains = [], []
        block = 1 << min(T - 1, 15)
        for start in range(0, 1 << (T - 1), block):
            codes = np.arange(start, start + block, dtype=np.int64)[:, None]
            signs = (1 - 2 * ((codes >> np.arange(T)) & 1)).astype(np.float64)  # the last sign stays +1
            gains = np.einsum("ni,ni->n", signs @ price, signs)
            top = np.argpartition(gains, -min(_COLUMNS_PER_ROUND, block))[-_COLUMNS_PER_ROUND:]
            best_signs.append(signs[top])
            best_gains.append(gains[top])
        all_signs, all_gains = np.vstack(best_signs), np.concatenate(best_gains)
        order = np.argsort(all_gains)[::-1][:_COLUMNS_PER_ROUND]
        return all_signs[order].astype(np.int8), all_gains[order], True
    rng = np.random.default_rng(1)
    signs = np.where(rng.random((256, T)) < 0.5, 1.0, -1.0)
    for _ in range(50 * T):  # steepest single flips until no start improves
        change = -4 * signs * (signs @ price)
        flip = np.argmax(change, axis=1)
        improving = change[np.arange(len(signs)), flip] > 1e-12
        if not improving.any():
            break
        signs[improving, flip[improving]] *= -1
    signs = np.unique(signs * signs[:, :1], axis=0)
    gains = np.einsum("ni,ni->n", signs @ price, signs)
    return signs.astype(np.int8), gains, False


def _violation(
    name: str, B: FloatArray, bound: float, R: FloatArray, positions: NDArray[np.intp], size: int
) -> NotRealizableError:
    """The error for the inequality sum_{t<s} B_ts R_ts >= bound, written in the caller's positions."""
    attained = float(np.sum(B * R) / 2)
    terms = [(i, j) for i in range(len(R)) for j in range(i + 1, len(R)) if abs(B[i, j]) > 1e-9]
    shown = " ".join(f"{B[i, j]:+.4g} R[{positions[i]},{positions[j]}]" for i, j in terms[:12])
    coefficients = np.zeros((size, size))
    coefficients[np.ix_(positions, positions)] = B
    return NotRealizableError(
        f"no random signs have this correlation: the {name}{shown}{' ...' if len(terms) > 12 else ''} >= {bound:.6g}, "
        "which all signs satisfy, is violated",
        attained,
        "Move R towards the identity until it holds",
        coefficients=coefficients,
        bound=bound,
        attained=attained,
    )
