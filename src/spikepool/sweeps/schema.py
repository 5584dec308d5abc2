"""The store's schema: every array, its dimensions, dtype and chunks, as a function of the spec.

One cell is one whole chunk of each of its arrays, so that workers never share a file. Every chunk ends with a CRC-32C
checksum, and chunks equal to the fill value are written like all others: a file that is absent, cut short or altered
is therefore always told from data.

From a spec to cells, the units of work, and the seeds of their random numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spikepool import __version__
from spikepool.errors import require
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


SCHEMA_VERSION = 2
ROOT = "zarr.json"  # the root's metadata, written last: a folder that has it is a complete store

# name -> what it is; dimensions ("weights", *axes)
PREDICTED = {
    "alpha": "signal gain w'Rw",
    "kappa": "noise gain ‖w‖²",
    "edge": "right edge of the bulk",
    "predicted_eigenvalue": "largest eigenvalue of S: the top outlier, or the edge",
    "predicted_alignment": "squared cosine of the top eigenvector of S with u",
    "signal_eigenvalue": "eigenvalue of the signal's outlier; NaN where it is not detectable",
    "signal_alignment": "its squared cosine with u; NaN where it is not detectable",
    "vocabulary_eigenvalue": "eigenvalue of the vocabulary mean's outlier; NaN where there is none",
    "detectable": "1 where S has an outlier made of the signal, 0 where not",
    "mu_population": "signal strength at which the outlier appears in the population",
    "mu_sample": "signal strength at which the outlier appears in the sample",
}
# name -> what it is; dimensions ("weights", *axes, "trial", "rank")
SIMULATED = {
    "eigenvalues": "largest eigenvalues of S",
    "alignments": "squared cosines of their eigenvectors with u",
}
# the last array written of a cell, without weights and mu: 0 unfinished, 1 finished, 2 finished with an error
PREDICTION_STATUS, TRIAL_STATUS = "prediction_status", "status"
PREDICTION_ERROR, TRIAL_ERROR = "prediction_error", "error"
VALIDITY = "validity"  # why a prediction may not hold

DONE, FAILED = 1, 2

# how simulations were made, in words; numbers of different routes have the same law and are not the same
ROUTES = {
    True: "tables drawn",
    False: "tables not drawn, their products are",
    None: "tables drawn where their noise is not Gaussian",
}


@dataclass(frozen=True)
class Variable:
    """One array of the store."""

    name: str
    dims: tuple[str, ...]
    dtype: Literal["float64", "string", "uint8"]
    description: str
    prediction: bool

    def shape(self, spec: SweepSpec) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return tuple(_length(spec, dim) for dim in self.dims)

    def chunks(self, spec: SweepSpec) -> tuple[int, ...]:
        """Chunk shape: whole along what a cell holds, 1 along what tells cells apart."""
        return tuple(_length(spec, dim) if dim in ("weights", "mu", "rank") else 1 for dim in self.dims)

    def block(self, spec: SweepSpec, cell: Cell) -> tuple[int, ...]:
        """Position of the cell's chunk on the grid of chunks."""
        place = dict(zip(spec.outer, cell.index, strict=True), trial=cell.trial)
        return tuple(place.get(dim, 0) for dim in self.dims)


def _length(spec: SweepSpec, dim: str) -> int:
    own = {"weights": len(spec.weights), "trial": spec.trials, "rank": spec.pairs}
    return own[dim] if dim in own else spec.length(dim)


def variables(spec: SweepSpec) -> dict[str, Variable]:
    """Every array that cells fill, in the order in which a cell's are written: its status last."""
    grid = ("weights", *spec.axes)
    found = [Variable(name, grid, "float64", text, True) for name, text in PREDICTED.items()]
    found.append(Variable(VALIDITY, grid, "string", "why the prediction may not hold; empty where it does", True))
    found.append(Variable(PREDICTION_ERROR, grid, "string", "what went wrong, or empty", True))
    found.append(Variable(PREDICTION_STATUS, spec.outer, "uint8", "1 finished, 2 with an error", True))
    if spec.trials:
        many = (*grid, "trial", "rank")
        found += [Variable(name, many, "float64", text, False) for name, text in SIMULATED.items()]
        found.append(Variable(TRIAL_ERROR, many[:-1], "string", "what went wrong, or empty", False))
        found.append(Variable(TRIAL_STATUS, (*spec.outer, "trial"), "uint8", "1 finished, 2 with an error", False))
    return {variable.name: variable for variable in found}


def coordinates(spec: SweepSpec) -> dict[str, np.ndarray[Any, Any]]:
    """The labels of every dimension. Array fields are labelled by the names they were given."""
    labels: dict[str, Any] = {"weights": list(spec.weights)}
    for name, values in spec.axes.items():
        labels[name] = list(values)
    if spec.trials:
        labels["trial"] = np.arange(spec.trials)
        labels["rank"] = np.arange(1, spec.pairs + 1)
    return {name: np.asarray(values) for name, values in labels.items()}


def attributes(spec: SweepSpec) -> dict[str, Any]:
    """Attributes of the store."""
    text = spec.to_json()
    return {
        "title": "spikepool sweep",
        "spec": text,
        "seed": spec.seed,
        "route": ROUTES[spec.table_drawn],
        "version": __version__,
        "schema_version": SCHEMA_VERSION,
        "fingerprint": fingerprint(text),
    }


def fingerprint(spec_text: str) -> str:
    """A digest of the spec: tells one changed character, and names the sweep to workers."""
    return hashlib.sha256(spec_text.encode()).hexdigest()


def skeleton(spec: SweepSpec) -> Mapping[str, bytes]:
    """Every file of a store in which no cell is done yet, by relative path: metadata and coordinates.

    Built by Zarr in memory, so that the driver decides how and in which order files reach the disk: the root's last.
    """
    zarr = require("zarr", "sweeps")
    checksum = zarr.codecs.Crc32cCodec()
    buffers: dict[str, Any] = {}
    group = zarr.create_group(store=zarr.storage.MemoryStore(buffers), zarr_format=3, attributes=attributes(spec))
    for variable in variables(spec).values():
        dtype = str if variable.dtype == "string" else variable.dtype
        group.create_array(
            variable.name,
            shape=variable.shape(spec),
            chunks=variable.chunks(spec),
            dtype=dtype,
            fill_value={"float64": np.nan, "string": "", "uint8": 0}[variable.dtype],
            compressors=[checksum],
            dimension_names=list(variable.dims),
            attributes={"description": variable.description},
        )
    for name, values in coordinates(spec).items():
        text = values.dtype.kind == "U"
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=str if text else values.dtype,
            compressors=[checksum],
            dimension_names=[name],
            config={"write_empty_chunks": True},
        )
        array[:] = values.astype(object) if text else values
    files = {path: buffer.to_bytes() for path, buffer in buffers.items()}
    root = files.pop(ROOT)
    return {**files, ROOT: root}
