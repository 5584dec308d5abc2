"""Left side of the equations of sequences pooled by a query: the noise off the query, and u, k' and q within it."""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.theory.general_spikes import Measure
from spikepool.theory.noise import Noise
from spikepool.world.query import QueryWorld


class QueryNoise:
    """The noise off the query, and the directions u, k' and q_1, ..., q_p among its eigenvectors.

    Attributes
    ----------
    noise : Noise
        Law of the noise, with its measure at u.
    directions : Measure
        Of the noise covariance at the unit vectors (u, k', q_1, ..., q_p); along q there is none.
    scales : numpy.ndarray of shape (2 + p,)
        Norms that multiply xi A, A and f.
    """

    def __init__(self, world: QueryWorld) -> None:
        p = world.directions
        if world.noise is None:
            self.noise = Noise(None, world.d - p, None)
            self.directions = Measure(np.array([1.0, 1.0, *np.zeros(p)]), np.eye(2 + p))
            self.scales = np.array([world.mu, world.missed, *np.ones(p)])
            self.mean_noise = Measure(np.ones(1), np.ones((1, 1)))
            return
        values = np.asarray(world.noise, dtype=np.float64)
        q, u, k = generic_directions(world)
        query = q / values if world.matched else q
        query = query / np.sqrt(query @ (values * query))
        B = values * query
        off, basis = np.linalg.eigh(np.diag(values) - np.outer(B, B))
        # equal eigenvalues stay equal: rounding must not spread an atom of the law
        off = np.maximum(np.round(off / values.max(), 11), 0.0) * values.max()
        key = k - (query @ k) * B
        size = np.array([1.0, np.linalg.norm(key), np.linalg.norm(B)])
        columns = basis.T @ np.column_stack([u, key, B]) / np.where(size > 0, size, 1.0)
        self.directions = Measure(off, columns)
        self.scales = np.array([world.mu, world.nu, 1.0]) * size
        self.noise = Noise(off, world.d, None)
        self.noise.left = Measure(off, columns[:, :1])
        # a random vector of noise: its direction in the eigenbasis
        self.mean_noise = Measure(off, np.sqrt(off / off.sum())[:, None])


def generic_directions(world: QueryWorld) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Unit vectors (d,) for the query's direction before filtering, u and k, in the eigenbasis of the noise.

    Signs alternate along the eigenvalues, in three patterns, so that v'f(S_0)v is the mean of f and v'f(S_0)w is small
    for two of them: the value for directions drawn at random, without their scatter.
    """
    i = np.arange(world.d)
    patterns = np.column_stack([1 - 2.0 * (i % 2), np.ones(world.d), 1 - 2.0 * (i // 2 % 2)])
    basis, triangle = np.linalg.qr(patterns)
    q, u, across = (basis * np.sign(np.diag(triangle))).T
    m = float(world.overlaps[0])
    return q, u, m * q + np.sqrt(1 - m**2) * across
