"""A sweep on disk: creating, resuming, checking, writing and reading cells."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import SpecMismatchError, StoreCorruptError, StoreWriteError, SweepError, require
from spikepool.sweeps import schema
from spikepool.sweeps.grid import Cell, cells
from spikepool.sweeps.schema import ROOT, Variable
from spikepool.sweeps.spec import SweepSpec, differences

_CHECKSUM_BYTES = 4
# What of an array's metadata decides how chunks are read; the rest may change with the version of Zarr.
_DECISIVE = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value", "dimension_names")


@dataclass
class Scan:
    """What is on disk.

    Attributes
    ----------
    done, failed : set of Cell
        Finished cells all of whose files are whole; `failed` are those that hold an error message.
    damaged : list of pathlib.Path
        Files that are missing from a finished cell, or whose checksum is wrong. Their cells are in neither set.
    """

    done: set[Cell] = field(default_factory=set)
    failed: set[Cell] = field(default_factory=set)
    damaged: list[Path] = field(default_factory=list)


class Store:
    """A Zarr (version 3) group that follows :mod:`spikepool.sweeps.schema`.

    Files are only ever replaced whole (written beside, then renamed), so a reader sees the old file or the new
    one. A cell's status is removed before its other files change and written after them.
    """

    def __init__(self, path: Path, spec_text: str, version: str) -> None:
        self.path = path
        self.version = version
        # read back from text by the driver and every worker alike, so that all have the same bits
        self.spec = SweepSpec.from_json(spec_text)
        self.spec_text = spec_text
        self.fingerprint = schema.fingerprint(spec_text)
        self.variables = schema.variables(self.spec)
        self._arrays: dict[str, Any] = {}

    # -- opening -------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: Path) -> Store:
        """The store at `path`, which must exist; its spec is read from it."""
        file = path / ROOT
        try:
            attributes = json.loads(file.read_bytes())["attributes"]
            spec_text, version, layout = (attributes[key] for key in ("spec", "version", "schema_version"))
            if schema.fingerprint(spec_text) != attributes["fingerprint"]:
                raise ValueError("the spec in it does not match its fingerprint")
        except FileNotFoundError as err:
            raise SweepError("there is no sweep store", str(path), "Check the path") from err
        except (OSError, ValueError, KeyError, TypeError) as err:
            raise StoreCorruptError(
                f"the store's metadata file {file} cannot be read ({type(err).__name__}: {err})",
                remedy="Restore that file, or delete the store and run the sweep again",
            ) from err
        if layout != schema.SCHEMA_VERSION:
            raise SpecMismatchError(
                f"the store {path} has schema version {layout}, this version of spikepool writes "
                f"{schema.SCHEMA_VERSION}",
                remedy=f"Use spikepool {version}, or another store",
            )
        return cls(path, spec_text, version)

    @classmethod
    def create_or_resume(cls, path: Path, spec: SweepSpec) -> Store:
        """The store at `path`, made if need be. The caller holds its lock.

        Raises
        ------
        SpecMismatchError
            It was made from another spec; the message names the differences.
        StoreCorruptError
            Its root metadata cannot be read, or an array's is that of another array.
        StoreWriteError
            It cannot be written.
        """
        if not (path / ROOT).exists():
            expected = schema.skeleton(spec)
            _refuse_foreign(path, expected)
            for name, content in expected.items():
                _replace(path / name, content)
            return cls.open(path)
        store = cls.open(path)
        found = differences(store.spec.to_dict(), spec.to_dict())
        if found:
            raise SpecMismatchError(
                f"the store {path} was made from another spec: {'; '.join(found)}",
                remedy="Choose another store, or delete this one",
            )
        store._remove_partial_files()
        store._repair_skeleton()
        return store

    def _remove_partial_files(self) -> None:
        """Files that a killed writer had not yet renamed."""
        for file in self.path.rglob("*.partial"):
            file.unlink(missing_ok=True)

    def _repair_skeleton(self) -> None:
        for file, content in self.damaged_skeleton().items():
            warnings.warn(f"{file} was missing or damaged; written again", UserWarning, stacklevel=2)
            _replace(file, content)

    def damaged_skeleton(self) -> dict[Path, bytes]:
        """What the spec alone decides (array metadata, coordinates) and is absent or damaged; its right content.

        An array's metadata that reads well, but as that of another array, raises :class:`StoreCorruptError`.
        """
        damaged = {}
        for name, content in schema.skeleton(self.spec).items():
            file = self.path / name
            if name == ROOT:  # checked by `open`
                continue
            raw = _read(file)
            whole = _describes_the_same(file, raw, content) if file.name == ROOT else checksum_holds(raw or b"")
            if not whole:
                damaged[file] = content
        return damaged

    # -- cells ---------------------------------------------------------------------------------------------

    def file(self, variable: Variable, cell: Cell) -> Path:
        """The chunk of `variable` that belongs to `cell`."""
        return self.path.joinpath(variable.name, "c", *map(str, variable.block(self.spec, cell)))

    def _of(self, cell: Cell) -> list[Variable]:
        """The cell's arrays in the order of writing; its status is the last."""
        return [v for v in self.variables.values() if v.prediction == cell.is_prediction]

    def scan(self) -> Scan:
        """Read every file of every finished cell and verify its checksum."""
        result = Scan()
        for cell in cells(self.spec):
            *data, status = self._of(cell)
            raw = _read(self.file(status, cell))
            if raw is None:
                continue
            if not checksum_holds(raw) or raw[0] not in (schema.DONE, schema.FAILED):
                result.damaged.append(self.file(status, cell))
                continue
            bad = [file for v in data if not checksum_holds(_read(file := self.file(v, cell)) or b"")]
            if bad:
                result.damaged += bad
            else:
                (result.failed if raw[0] == schema.FAILED else result.done).add(cell)
        return result

    def write(self, cell: Cell, values: Mapping[str, Any], *, failed: bool) -> None:
        """Store the values of a cell, then mark it as finished.

        `values` has an array for each of the cell's variables except its status, in the order (weights, mu) or
        (weights, mu, rank).
        """
        *data, status = self._of(cell)
        try:
            self.file(status, cell).unlink(missing_ok=True)
            for variable in data:
                self._write_chunk(variable, cell, values[variable.name])
            self._write_chunk(status, cell, schema.FAILED if failed else schema.DONE)
        except OSError as err:
            raise StoreWriteError(
                f"cannot write {cell} to the store {self.path}: {err.strerror or err}",
                remedy="Free some space or restore access and run again: finished cells are kept",
            ) from err

    def _write_chunk(self, variable: Variable, cell: Cell, value: Any) -> None:
        chunks = variable.chunks(self.spec)
        block = variable.block(self.spec, cell)
        dtype = object if variable.dtype == "string" else variable.dtype
        region = tuple(slice(b * c, (b + 1) * c) for b, c in zip(block, chunks, strict=True))
        self._array(variable.name)[region] = np.asarray(value, dtype=dtype).reshape(chunks)

    def _array(self, name: str) -> Any:
        """The Zarr array; one that writes chunks of mere fill values too, so that absence means damage."""
        if name not in self._arrays:
            zarr = require("zarr", "sweeps")
            array = zarr.open_array(str(self.path / name), mode="r+", zarr_format=3)
            self._arrays[name] = array.with_config({"write_empty_chunks": True})
        return self._arrays[name]

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """The whole of one variable. Call :meth:`scan` first: chunks that are absent read as the fill value."""
        values = np.asarray(self._array(name)[...])
        return values.astype(object) if self.variables[name].dtype == "string" else values


def checksum_holds(raw: bytes) -> bool:
    """Whether the last four bytes are the CRC-32C of those before, as Zarr's ``crc32c`` codec writes it."""
    crc32c = require("google_crc32c", "sweeps")  # a dependency of Zarr
    body, stored = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
    return bool(body) and int.from_bytes(stored, "little") == crc32c.value(body)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as err:
        raise StoreCorruptError(
            f"cannot read {file}: {err.strerror}", remedy="Restore access, or delete that file to recompute it"
        ) from err


def _describes_the_same(file: Path, raw: bytes | None, content: bytes) -> bool:
    """Whether the array metadata `raw` is `content`; an error when it is whole but of another array."""
    wanted = json.loads(content)
    try:
        found = dict(json.loads(raw or b""))
    except (ValueError, TypeError):
        return False
    wrong = [key for key in _DECISIVE if found.get(key) != wanted.get(key)]
    if wrong:
        raise StoreCorruptError(
            f"the store's metadata file {file} does not fit its spec: {', '.join(wrong)} differ",
            remedy="Restore that file, or delete the store and run the sweep again",
        )
    return bool(found == wanted)


def _replace(file: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(file)
    except OSError as err:
        temporary.unlink(missing_ok=True)
        raise StoreWriteError(
            f"cannot write {file}: {err.strerror}", remedy="Free some space or restore access and run again"
        ) from err


def _refuse_foreign(path: Path, expected: Mapping[str, bytes]) -> None:
    """A folder without the root's metadata may be made a store only if it holds nothing that would be lost.

    The root's metadata is written before any cell, so a driver killed while creating the store leaves at most
    files that are about to be written again. Cells without it are results whose spec has been lost.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise StoreWriteError("the store must be a folder", str(path), "Choose another path")
    files = (file.relative_to(path) for file in sorted(path.rglob("*")) if not file.is_dir())
    foreign = [file for file in files if file.as_posix() not in expected and file.suffix != ".partial"]
    if any(file.parts[0] in (schema.PREDICTION_STATUS, schema.TRIAL_STATUS) for file in foreign):
        raise StoreCorruptError(
            f"the store's metadata file {path / ROOT} is missing, and with it the spec of the results there",
            remedy="Restore that file, or delete the store and run the sweep again",
        )
    if foreign:
        raise SweepError(
            f"the folder {path} is not a sweep store and holds {str(foreign[0])!r}",
            remedy="Choose an empty or new folder",
        )
