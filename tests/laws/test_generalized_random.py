"""Ten thousand random laws: every point that is returned solves the equations, in the right half plane.

A solution of the pair with Im e > 0 is unique (see ``laws/_separable.py``), so that the residual of the equations as
printed, evaluated here from the atoms, is a proof of each number.
"""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp

LAWS, SHARDS = 10_000, 4


def random_atoms(rng, size):
    """Atoms: uniform, clustered, two distant groups, six decades, or log-normal; weights equal or not."""
    kind = rng.integers(5)
    if kind == 0:
        values = rng.uniform(0.1, 3.0, size)
    elif kind == 1:
        values = rng.uniform(0.5, 2.0) * (1 + 10.0 ** -rng.integers(3, 12) * rng.random(size))
    elif kind == 2:
        far = 10 ** rng.uniform(1, 4)
        values = np.where(np.arange(size) < size // 2, rng.uniform(0.5, 1, size), far * rng.uniform(0.9, 1, size))
    elif kind == 3:
        values = 10 ** rng.uniform(-3, 3, size)
    else:
        values = np.exp(rng.standard_normal(size))
    weights = rng.dirichlet(np.full(size, 0.5)) + 1e-9 if rng.random() < 0.5 else np.ones(size)
    return values, weights / weights.sum()


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_unconverged_point_is_ever_returned(shard):
    rng = np.random.default_rng([2026, shard])
    points = several = 0
    for k in range(LAWS // SHARDS):
        t, p = random_atoms(rng, 300 if k % 250 == 0 else int(rng.integers(1, 9)))
        a, q = random_atoms(rng, int(rng.integers(1, 6))) if k % 10 == 0 else (np.ones(1), np.ones(1))
        delta = 10 ** rng.uniform(-2, 2)
        law = sp.GeneralizedLaw(sp.AtomicLaw(a, q), sp.AtomicLaw(t, p), delta)
        ends = law.intervals()
        assert np.all(np.diff(ends.ravel()) > 0)
        assert ends[0, 0] >= 0
        several += len(ends) > 1
        low, high = ends[rng.integers(len(ends))]
        x = low + (high - low) * np.sin(np.pi * rng.random(4) / 2) ** 2
        x = x[(x > low) & (x < high)]
        e, et = law.boundary_values(x)
        first = -delta * (q * a / (1 + et[:, None] * a)).sum(axis=1) / x
        second = -(p * t / (1 + e[:, None] * t)).sum(axis=1) / x
        assert np.all(e.imag > 0), (shard, k)
        assert np.all(et.imag > 0), (shard, k)
        # a residual is relative to the largest term: sums of clustered atoms cancel
        room = 1e-9 * (1 + np.abs(t * e[:, None] / (1 + e[:, None] * t)).max(axis=1))
        assert np.all(np.abs(second / et - 1) < room), (shard, k)
        assert np.all(np.abs(first / e - 1) < 1e-9 * (1 + np.abs(a * et[:, None] / (1 + et[:, None] * a)).max(axis=1)))
        points += len(x)
    assert points > 3.9 * LAWS / SHARDS
    assert several > 0.2 * LAWS / SHARDS
