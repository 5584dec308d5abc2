"""Seeds: whatever NumPy takes as one, with children that belong to a key rather than to an order of calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.kit import validation as check


def seed_sequence(rng: Any) -> np.random.SeedSequence:
    """A SeedSequence from whatever ``numpy.random.default_rng`` takes.

    From what has a state of its own (a Generator, BitGenerator or RandomState) 128 bits are drawn, which advances it.
    """
    if isinstance(rng, np.random.SeedSequence):
        return rng
    if isinstance(rng, (np.random.Generator, np.random.BitGenerator, np.random.RandomState)):
        words = check.generator(rng).integers(0, 1 << 32, size=4, dtype=np.uint64)
        return np.random.SeedSequence(words.tolist())
    try:
        return np.random.SeedSequence(rng)
    except (TypeError, ValueError) as err:
        raise check.bad_rng(rng) from err


def child_seed(root: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """The child of `root` at `key`; unlike ``spawn`` it does not depend on how many were made before."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *key), pool_size=root.pool_size)
