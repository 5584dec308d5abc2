"""Spectra by dense linear algebra, on the smaller side: S is d x d, its Gram matrix C'C/N is N x N.

One decomposition of the noise part serves the top eigenpairs of S(mu) for many mu. Write C = mu u b' + Y, K = YY'/N, g
= Yb/N and c = b'b/N. Then

    S(mu) = K + mu (u g' + g u') + mu² c u u' = K + X J X',   X = [u, g],   J = [[mu² c, mu], [mu, 0]],

a rank-two change of K. In the eigenbasis of K, with eigenvalues theta and coordinates U of u and G of g, a
number z is an eigenvalue of S(mu) iff the 2 x 2 matrix

    M(z) = J^{-1} − X'(z − Theta)^{-1} X,   J^{-1} = [[0, 1/mu], [1/mu, −c]]

is singular, and by Sylvester's law of inertia exactly ``#{theta > z} + neg M(z) − 1`` eigenvalues of S(mu)
exceed z, neg counting negative eigenvalues. Brackets that close on that count cannot miss an eigenvalue, and do so for
all mu at once.

For 25 values of mu and three pairs each, these equations take .9, 1.5 and 3 ms at sizes 30, 120 and 400, where
``scipy.linalg.eigh(subset_by_index=)`` on each S(mu) takes 2.6, 16 and 186 ms (one thread, medians of five, same
numbers to 2e-15): they are worth their lines.
"""

from __future__ import annotations

import math

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.simulation.pooled_noise import PooledNoise


def _columns(noise: PooledNoise, mu: float) -> FloatArray:
    """C P as an (N, d) array of rows; for N < d only."""
    rows = np.concatenate([block for _, block in noise.pooled_blocks()])
    return rows + mu * noise.b[:, None] * noise.u


def _covariance(noise: PooledNoise, mu: float) -> FloatArray:
    """S(mu), (d, d), summed over blocks of sequences so that C is never held."""
    S = np.zeros((noise.d, noise.d))
    for sequences, rows in noise.pooled_blocks():
        if mu:
            rows += mu * noise.b[sequences, None] * noise.u
        S += rows.T @ rows
    S /= noise.N
    return S


def gram_bytes(d: int, N: int) -> int:
    """Memory of a dense decomposition beside the sample: matrix, vectors, work space, and C when N < d."""
    side = min(d, N)
    return 8 * (4 * side * side + (N * d if d > N else 0) + (1 << 21))


def spectrum(noise: PooledNoise, mu: float) -> FloatArray:
    """All d eigenvalues of S(mu), ascending; rounding below zero is set to the exact zero it stands for."""
    if noise.d > noise.N:
        C = _columns(noise, mu)
        values = np.linalg.eigvalsh(C @ C.T / noise.N)
        values = np.concatenate([np.zeros(noise.d - noise.N), values])
    else:
        values = np.linalg.eigvalsh(_covariance(noise, mu))
    # S is a Gram matrix: a negative value is rounding of a zero, of the order of eps times the largest
    return np.asarray(np.maximum(values, 0.0))


def measure(noise: PooledNoise, mu: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Eigenvalues theta of S(mu), ascending, and the coordinates of u and of g = Yb/N in its eigenvectors.

    When N < d, all of the null space that is not orthogonal to u is one direction, of eigenvalue 0.
    """
    g = noise.forward(noise.b) / noise.N
    if noise.d <= noise.N:
        theta, vectors = np.linalg.eigh(_covariance(noise, mu))
        return np.maximum(theta, 0.0), noise.u @ vectors, g @ vectors
    C = _columns(noise, mu)
    theta, right = np.linalg.eigh(C @ C.T / noise.N)
    keep = theta > 1e-13 * max(theta[-1], 1e-300)
    theta, right = theta[keep], right[:, keep]
    left = C.T @ right / np.sqrt(noise.N * theta)
    U, G = noise.u @ left, g @ left
    missing = max(1.0 - float(U @ U), 0.0)
    return np.append(0.0, theta), np.append(np.sqrt(missing), U), np.append(0.0, G)


# Halvings of a bracket: to 1e-15 of its width, which is that of a gap in the spectrum or of the signal's reach.
_HALVINGS = 50

# ... and not beyond what a double can tell apart.
_RESOLUTION = 4 * float(np.finfo(float).eps)

# First trial points: within each gap, as parts of it, and above the spectrum, as parts of the signal's reach.
_INNER = np.arange(1, 5)[:, None] / 5
_OUTER = np.geomspace(1e-4, 1, 24)

# An eigenvector has components proportional to 1/(z − theta_i); closer than this (relative to the largest z) rounding
# would be felt in them, and the small dense problem is solved instead.
_POLE_DISTANCE = 1e-8
# ... as it is where an eigenvalue is this small against the largest: the sums for it cancel.
_SMALL_VALUE = 1e-5


def top_pairs(
    theta: FloatArray, U: FloatArray, G: FloatArray, c: float, mus: FloatArray, k: int
) -> tuple[FloatArray, FloatArray]:
    """Largest `k` eigenvalues (m, k), descending, of S(mu) for each mu, and unit eigenvectors (m, k, n).

    Vectors are in the eigenbasis of K. `theta` is in ascending order and has at least `k` entries.
    """
    n = len(theta)
    values = np.empty((len(mus), k))
    vectors = np.empty((len(mus), k, n))
    plain = mus == 0
    values[plain] = theta[::-1][:k]
    vectors[plain] = np.eye(n)[::-1][:k]
    signal = np.flatnonzero(~plain)
    if len(signal) == 0:
        return values, vectors
    mu = mus[signal]
    z = _roots(theta, U, G, c, mu, k)
    distance = z[:, :, None] - theta
    clear = (np.abs(distance).min(axis=2) > _POLE_DISTANCE * np.abs(z[:, :1])).all(axis=1)
    clear &= z[:, -1] > _SMALL_VALUE * z[:, 0]
    if clear.any():
        inverse = 1 / distance[clear]
        p, q, r = (inverse @ weight for weight in (U * U, U * G, G * G))
        strength = mu[clear, None]
        # the null vector of mu M = [[−first, off], [off, −second]], from its larger and so less cancelled row
        first, second, off = strength * p, strength * (c + r), 1 - strength * q
        larger = (np.abs(first) > np.abs(second))[..., None]
        y = np.where(larger, np.stack([off, first], -1), np.stack([second, off], -1))
        components = inverse * (y[..., :1] * U + y[..., 1:] * G)
        components /= np.linalg.norm(components, axis=2, keepdims=True)
        values[signal[clear]] = z[clear]
        vectors[signal[clear]] = components
    for i in signal[~clear]:
        cross = mus[i] * np.outer(U, G)
        found, basis = np.linalg.eigh(np.diag(theta) + cross + cross.T + mus[i] ** 2 * c * np.outer(U, U))
        values[i] = found[::-1][:k]
        vectors[i] = basis.T[::-1][:k]
    return values, vectors


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def _roots(theta: FloatArray, U: FloatArray, G: FloatArray, c: float, mu: FloatArray, k: int) -> FloatArray:
    """The largest `k` eigenvalues of S(mu), (m, k), each in its interlacing bracket.

    Every trial point z moves one end of its bracket, by the count above z. The first points are the same for all mu,
    so that the sums over the spectrum are taken once for all of them. Where a later one is laid is free: a Newton step
    for (z − theta_i) det M(z), which has no pole at the nearest theta_i, or the middle where that step leaves the
    bracket or is not half of the one before.
    """
    n, descending, strength = len(theta), theta[::-1], mu[:, None]
    reach = strength * (strength * c * (U @ U) + 2 * math.sqrt((U @ U) * (G @ G)))
    furthest = float(reach.max())
    # J has one positive and one negative eigenvalue, so theta_{j+1} <= lambda_j <= theta_{j−1}
    lower = np.append(descending, descending[-1])[1 : k + 1] - reach * (np.arange(1, k + 1) >= n)
    upper = np.append(descending[0], descending)[:k] + reach * (np.arange(k) == 0)
    narrow = (upper - lower) * 2.0**-_HALVINGS
    weights = np.stack([U * U, U * G, G * G], axis=1)
    # a point on a pole is one right above it
    lift = np.maximum(np.spacing(np.abs(theta)), 1e-150)
    wanted = np.arange(1, k + 1) + 1 - n
    fence = np.concatenate([[-np.inf], theta, [np.inf]])

    def inverses(z: FloatArray) -> FloatArray:
        difference = z.reshape(-1, 1) - theta
        if not difference.all():
            difference = np.where(difference == 0, lift, difference)
        return np.reciprocal(difference, out=difference)

    gaps = np.append(descending, descending[-1] - furthest)[: k + 1]
    inner = gaps[1:] + (gaps[:-1] - gaps[1:]) * _INNER
    shared = np.sort(np.append(inner, descending[0] + furthest * _OUTER))
    p, q, r = (inverses(shared) @ weights).T
    r += c
    determinant = strength * strength * (p * r) - (1 - strength * q) ** 2
    above = np.where(determinant > 0, 2 * (r > 0), 1) - np.searchsorted(theta, shared, side="right")
    below = np.stack([(above >= j).sum(axis=1) for j in wanted], axis=1)
    ends = np.concatenate([[-np.inf], shared, [np.inf]])
    low, high = np.maximum(lower, ends[below]), np.minimum(upper, ends[below + 1])
    # the first step is along the chord, and whatever its length halves the one before
    left, right = np.maximum(below - 1, 0), np.minimum(below, len(shared) - 1)
    row, a, b = np.arange(len(mu))[:, None], shared[left], shared[right]
    at_a, at_b = (a - descending[:k]) * determinant[row, left], (b - descending[:k]) * determinant[row, right]
    newton = a + (b - a) * (at_a / (at_a - at_b))
    z, move = 2 * low - high, 4 * (high - low)
    for _ in range(3 * _HALVINGS):
        middle = (low + high) / 2
        closed = np.maximum(narrow, _RESOLUTION * np.abs(middle))
        if (high - low <= closed).all():
            break
        good = (newton >= low - closed) & (newton <= high + closed)
        good &= np.abs(newton - z) <= np.maximum(move / 2, closed)
        # a step that ends at the root goes across it, so that the other end comes too
        step = np.where(good, np.minimum(np.maximum(newton, low + closed / 2), high - closed / 2), middle)
        move, z = np.abs(step - z), step
        inverse = inverses(z)
        p, q, r = (inverse @ weights).T.reshape(3, *z.shape)
        dp, dq, dr = (np.square(inverse, out=inverse) @ weights).T.reshape(3, *z.shape)
        r += c
        off = 1 - strength * q
        determinant = (strength * p) * (strength * r) - off * off
        slope = -strength * (strength * (dp * r + p * dr) + 2 * off * dq)
        place = np.searchsorted(theta, z, side="right")
        more = np.where(determinant > 0, 2 * (r > 0), 1) - place >= wanted
        left, right = z - fence[place], fence[place + 1] - z
        newton = z - 1 / (slope / determinant + 1 / np.where(left < right, left, -right))
        low, high = np.where(more, z, low), np.where(more, high, z)
    return np.asarray((low + high) / 2)
