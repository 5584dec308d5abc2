"""The store's schema: every array, its dimensions, dtype and chunks, as a function of the spec.

One cell is one whole chunk of each of its arrays. Every chunk ends with a CRC-32C checksum, and chunks equal to the
fill value are written like all others: a file that is absent, cut short or altered is therefore always told from data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from spikepool import __version__
from spikepool.errors import require
from spikepool.sweeps.cells import Cell, variables
from spikepool.sweeps.dataset import attributes, coordinates
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.spec_text import spec_to_json

SCHEMA_VERSION = 2
ROOT = "zarr.json"  # the root's metadata, written last: a folder that has it is a complete store

# the last array written of a cell: 0 unfinished, 1 finished, 2 finished with an error
STATUS = {True: "prediction_status", False: "status"}
DONE, FAILED = 1, 2


def chunk_name(name: str, dims: tuple[str, ...], spec: SweepSpec, cell: Cell) -> str:
    """File of a cell's chunk of one array."""
    place = dict(zip(spec.outer, cell.index, strict=True), trial=cell.trial)
    block = (0 if dim in spec.kind.inside else place[dim] for dim in dims)
    return "/".join([name, "c", *map(str, block)])


def status_dims(spec: SweepSpec, prediction: bool) -> tuple[str, ...]:
    """Dimensions that tell cells apart."""
    return spec.outer if prediction or "trial" in spec.kind.inside else (*spec.outer, "trial")


def fingerprint(spec_text: str) -> str:
    """A digest of the spec: tells one changed character."""
    return hashlib.sha256(spec_text.encode()).hexdigest()


def skeleton(spec: SweepSpec) -> Mapping[str, bytes]:
    """Every file of a store in which no cell is done yet, by relative path: metadata and coordinates.

    Built by Zarr in memory, so that the driver decides how and in which order files reach the disk: the root's last.
    """
    zarr = require("zarr", "sweeps")
    checksum = zarr.codecs.Crc32cCodec()
    text = spec_to_json(spec)
    described = attributes(spec, __version__) | {
        "spec": text,
        "schema_version": SCHEMA_VERSION,
        "fingerprint": fingerprint(text),
    }
    buffers: dict[str, Any] = {}
    group = zarr.create_group(store=zarr.storage.MemoryStore(buffers), zarr_format=3, attributes=described)

    def create(name: str, dims: tuple[str, ...], dtype: Any, fill: Any, description: str) -> None:
        group.create_array(
            name,
            shape=tuple(map(spec.length, dims)),
            chunks=tuple(spec.length(dim) if dim in spec.kind.inside else 1 for dim in dims),
            dtype=dtype,
            fill_value=fill,
            compressors=[checksum],
            dimension_names=list(dims),
            attributes={"description": description},
        )

    for variable in variables(spec).values():
        number = variable.dtype == "float64"
        dtype, fill = ("float64", float("nan")) if number else (str, "")
        create(variable.name, variable.dims, dtype, fill, variable.description)
    for prediction in (True, False) if spec.trials else (True,):
        create(STATUS[prediction], status_dims(spec, prediction), "uint8", 0, "1 finished, 2 with an error")
    for name, values in coordinates(spec).items():
        words = values.dtype.kind == "U"
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=str if words else values.dtype,
            compressors=[checksum],
            dimension_names=[name],
            config={"write_empty_chunks": True},
        )
        array[:] = values.astype(object) if words else values
    files = {path: buffer.to_bytes() for path, buffer in buffers.items()}
    root = files.pop(ROOT)
    return {**files, ROOT: root}
