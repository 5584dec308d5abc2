"""Top eigenpairs of S(mu) for many mu from one decomposition of the noise part.

Write C = mu u b' + Y, K = YY'/N, g = Yb/N and c = b'b/N. Then

    S(mu) = K + mu (u g' + g u') + mu² c u u' = K + X J X',   X = [u, g],   J = [[mu² c, mu], [mu, 0]],

a rank-two change of K. In the eigenbasis of K, with eigenvalues theta and coordinates U of u and G of g, a
number z is an eigenvalue of S(mu) iff the 2 x 2 matrix

    M(z) = J^{-1} − X'(z − Theta)^{-1} X,   J^{-1} = [[0, 1/mu], [1/mu, −c]]

is singular, and by Sylvester's law of inertia exactly ``#{theta > z} + neg M(z) − 1`` eigenvalues of S(mu)
exceed z, neg counting negative eigenvalues. Brackets that close on that count cannot miss an eigenvalue, and do so for
all mu at once.

For 25 values of mu and three pairs each, these equations take 1.6, 1.9 and 15 ms at sizes 30, 120 and 400, where
``scipy.linalg.eigh(subset_by_index=)`` on each S(mu) takes 18, 63 and 675 ms (one thread, one run, same numbers to
5e-15): they are worth their lines.
"""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray

# Halvings of a bracket: to 1e-15 of its width, which is that of a gap in the spectrum or of the signal's reach.
_HALVINGS = 50

# ... and not beyond what a double can tell apart.
_RESOLUTION = 4 * float(np.finfo(float).eps)

# An eigenvector has components proportional to 1/(z − theta_i); closer than this (relative to z) rounding of z
# would be felt in them, and the small dense problem is solved instead.
_POLE_DISTANCE = 1e-8


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
    clear = (np.abs(distance).min(axis=2) > _POLE_DISTANCE * np.abs(z)).all(axis=1)
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


def _roots(theta: FloatArray, U: FloatArray, G: FloatArray, c: float, mu: FloatArray, k: int) -> FloatArray:
    """The largest `k` eigenvalues of S(mu), (m, k), each in its interlacing bracket.

    Every trial point z moves one end of its bracket, by the count above z. Where the point is laid is free: at the
    zero of the chord of F(z) = (z − theta_j) det M(z), which has no pole at theta_j, and in the middle where the
    chord has none between the ends, or two chords in a row did not quarter the bracket.
    """
    reach = mu**2 * c * (U @ U) + 2 * mu * np.linalg.norm(U) * np.linalg.norm(G)
    n, descending = len(theta), theta[::-1]
    # J has one positive and one negative eigenvalue, so theta_{j+1} <= lambda_j <= theta_{j−1}
    low = np.tile(np.append(descending, descending[-1])[1 : k + 1], (len(mu), 1))
    high = np.tile(np.append(descending[0], descending)[:k], (len(mu), 1))
    low[:, np.arange(1, k + 1) >= n] -= reach[:, None]
    high[:, 0] += reach
    # everything flat from here, one entry for each pair of mu and rank
    low, high, strength = low.ravel(), high.ravel(), np.repeat(mu, k)
    wanted = np.tile(np.arange(1, k + 1) + 1 - n, len(mu))
    pole = np.tile(descending[:k], len(mu))
    weights = np.stack([U * U, U * G, G * G], axis=1)
    scale = max(abs(descending[0]), abs(descending[-1]), float(reach.max()))
    tiny = max(np.finfo(float).eps * scale, 1e-150)  # also where there is no variance at all
    narrow = (high - low) * 2.0**-_HALVINGS
    quarter = narrow
    # F at the ends: unknown, which sends the first points to the middle, as the ends may be poles
    at_low, at_high = np.full_like(low, np.nan), np.full_like(low, np.nan)
    rose = np.zeros(len(low), dtype=bool)
    for step in range(3 * _HALVINGS):
        middle, width = (low + high) / 2, high - low
        closed = np.maximum(narrow, _RESOLUTION * np.abs(middle))
        if np.all(width <= closed):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            chord = low + width * (at_low / (at_low - at_high))
        inside = (chord >= low) & (chord <= high)
        # a chord that ends at the root steps across it, so that the other end comes too
        chord = np.minimum(np.maximum(chord, low + closed / 2), high - closed / 2)
        if step % 3 == 0:
            quarter = width / 4
        elif step % 3 == 2:
            inside &= width < quarter
        z = np.where(inside, chord, middle)
        difference = z[:, None] - theta
        if not difference.all():
            difference[difference == 0] = tiny
        p, q, r = (np.reciprocal(difference, out=difference) @ weights).T
        r += c
        determinant = (strength * p) * (strength * r) - (1 - strength * q) ** 2
        negative = np.where(determinant > 0, 2 * (r > 0), 1)
        more = negative - np.searchsorted(theta, z, side="right") >= wanted
        value = (z - pole) * determinant
        # an end that stays a second time has its value halved, or the chords would leave it there (Illinois rule)
        stays = np.where(more == rose, 0.5, 1.0)
        at_low, at_high = np.where(more, value, stays * at_low), np.where(more, stays * at_high, value)
        low, high, rose = np.where(more, z, low), np.where(more, high, z), more
    return np.asarray((low + high) / 2).reshape(len(mu), k)
