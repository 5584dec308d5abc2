"""Seeds of a sweep: ``SeedSequence(seed, spawn_key=(cell, trial))``.

The stream belongs to the model and the trial, not to a worker, so numbers do not depend on how many workers there are
or in which order they work. `cell` is :func:`cell_key` of the model. A query model, whose kernel may be a function,
has the number of its combination instead.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np


def cell_key(model: Any) -> int:
    """A 64-bit number that names the model apart from mu and token weights: the start of a SHA-256 of its fields.

    A sweep over part of the other values gives the numbers of the sweep over all of them. mu and all weights are left
    out: every mu and every weights see the same tokens, signs and noise (common random numbers), which makes
    differences between them far more precise than the standard errors of each.
    """
    fields: dict[str, Any] = {}
    for name in (field.name for field in dataclasses.fields(model)):
        value = getattr(model, name)
        if isinstance(value, np.ndarray):
            value = [list(value.shape), hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
        if name not in ("mu", "token_weights"):
            fields[name] = value
    return int.from_bytes(hashlib.sha256(json.dumps(fields).encode()).digest()[:8], "big")


def trial_seed(seed: int, key: int, trial: int) -> np.random.SeedSequence:
    """``SeedSequence(seed, spawn_key=(key, trial))``.

    The trials are those of ``simulate_grid(model, weights, mus, trials, rng=SeedSequence(seed, spawn_key=(key,)))``.
    The tokens of a trial are the same whatever the sweep asks of them. So is a drawn table; one that is not drawn
    answers the products that all weights and mu of the sweep ask for, so that a sweep over part of them sees another
    table of the same law.
    """
    return np.random.SeedSequence(seed, spawn_key=(key, trial))


def prediction_seed(seed: int, key: int) -> np.random.SeedSequence:
    """Seed of an exact prediction, which draws its own tokens: that of a trial whose number no trial has."""
    return trial_seed(seed, key, 2**32 - 1)
