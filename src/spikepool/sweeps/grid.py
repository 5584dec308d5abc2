"""From a spec to cells, the units of work, and the seeds of their random numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.model import SequenceModel
from spikepool.sweeps.spec import FIELDS, SweepSpec


@dataclass(frozen=True, order=True)
class Cell:
    """One unit of work: all weights and all mu of one combination of the other fields.

    Attributes
    ----------
    index : tuple of int
        Position on the axes other than mu.
    trial : int
        Which draw; −1 for the cell that holds the combination's predictions.
    """

    index: tuple[int, ...]
    trial: int

    @property
    def is_prediction(self) -> bool:
        """Whether the cell holds predictions rather than a simulated draw."""
        return self.trial < 0

    def __str__(self) -> str:
        what = "predictions" if self.is_prediction else f"trial {self.trial}"
        return f"{what} of combination {self.index}" if self.index else what


def cells(spec: SweepSpec) -> Iterator[Cell]:
    """Every cell: predictions first, then trial by trial, so that a half-done sweep covers the whole grid."""
    for trial in range(-1, spec.trials):
        for index in spec.outer_indices():
            yield Cell(index, trial)


def cell_key(model: SequenceModel) -> int:
    """A 64-bit number that names the model apart from mu and token weights: the start of a SHA-256 of its fields."""
    fields: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(model, name)
        if isinstance(value, np.ndarray):
            value = [list(value.shape), hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
        if name not in ("mu", "token_weights"):
            fields[name] = value
    return int.from_bytes(hashlib.sha256(json.dumps(fields).encode()).digest()[:8], "big")


def trial_seed(seed: int, model: SequenceModel, trial: int) -> np.random.SeedSequence:
    """``SeedSequence(seed, spawn_key=(cell, trial))``, where `cell` is :func:`cell_key`.

    The stream belongs to the model and the trial, not to a place on a grid or to a worker. So the numbers do not
    depend on how many workers there are or in which order they work, and a sweep over part of the other values
    gives the same numbers as the sweep over all of them. mu and all weights are left out of the key: every mu and every
    weights see the same tokens, signs and noise (common random numbers), which makes differences between them
    far more precise than the standard errors of each. The trials are those of
    ``simulate_grid(model, weights, mus, trials, rng=SeedSequence(seed, spawn_key=(cell,)))``. The tokens of a trial
    are the same whatever the sweep asks of them. So is a drawn table; one that is not drawn answers the products that
    all weights and mu of the sweep ask for, so that a sweep over part of them sees another table of the same law.
    """
    return np.random.SeedSequence(seed, spawn_key=(cell_key(model), trial))


def prediction_seed(seed: int, model: SequenceModel) -> np.random.SeedSequence:
    """Seed of an exact prediction, which draws its own tokens: that of a trial whose number no trial has."""
    return trial_seed(seed, model, 2**32 - 1)
