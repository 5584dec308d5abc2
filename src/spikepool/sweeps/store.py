"""A sweep on disk or in object storage: creating, resuming, checking, writing and reading cells."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.errors import (
    SpecMismatchError,
    SpikepoolError,
    StoreCorruptError,
    StoreWriteError,
    SweepError,
    require,
)
from spikepool.kit.files import UNFINISHED
from spikepool.sweeps import schema
from spikepool.sweeps.folders import Folder, RemoteFolder, as_folder
from spikepool.sweeps.schema import ROOT, Cell, Variable, cells
from spikepool.sweeps.spec import SweepSpec, differences

_CHECKSUM_BYTES = 4
# What of an array's metadata decides how chunks are read; the rest may change with the version of Zarr.
_DECISIVE = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value", "dimension_names")


@dataclass
class Scan:
    """What is in the store.

    Attributes
    ----------
    done, failed : set of Cell
        Finished cells all of whose files are whole; `failed` are those that hold an error message.
    damaged : list of pathlib.Path or str
        Files that are missing from a finished cell, or whose checksum is wrong. Their cells are in neither set.
    """

    done: set[Cell] = field(default_factory=set)
    failed: set[Cell] = field(default_factory=set)
    damaged: list[Any] = field(default_factory=list)


class Store:
    """A Zarr (version 3) group that follows :mod:`spikepool.sweeps.schema`.

    Files are only ever replaced whole, so a reader sees the old file or the new one. A cell's status is removed before
    its other files change and written after them.
    """

    def __init__(self, folder: Folder, spec_text: str, version: str) -> None:
        self.folder = folder
        self.version = version
        # read back from text by the driver and every worker alike, so that all have the same bits
        self.spec = SweepSpec.from_json(spec_text)
        self.spec_text = spec_text
        self.fingerprint = schema.fingerprint(spec_text)
        self.variables = schema.variables(self.spec)
        self._arrays: dict[str, Any] = {}
        self._skeleton: Mapping[str, bytes] | None = None  # files that the spec alone decides; slow to make

    # -- opening -------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, where: str | Path | Folder) -> Store:
        """The store at a path or URL, which must exist; its spec is read from it."""
        folder = as_folder(where)
        file = folder.place(ROOT)
        try:
            raw = folder.read([ROOT])[0]
            if raw is None:
                raise SweepError("there is no sweep store", str(folder), "Check the path")
            attributes = json.loads(raw)["attributes"]
            spec_text, version, layout = (attributes[key] for key in ("spec", "version", "schema_version"))
            if schema.fingerprint(spec_text) != attributes["fingerprint"]:
                raise ValueError("the spec in it does not match its fingerprint")
        except SpikepoolError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as err:
            raise StoreCorruptError(
                f"the store's metadata file {file} cannot be read ({type(err).__name__}: {err})",
                remedy="Restore that file, or delete the store and run the sweep again",
            ) from err
        if layout != schema.SCHEMA_VERSION:
            raise SpecMismatchError(
                f"the store {folder} has schema version {layout}, this version of spikepool writes "
                f"{schema.SCHEMA_VERSION}",
                remedy=f"Use spikepool {version}, or another store",
            )
        return cls(folder, spec_text, version)

    @classmethod
    def create_or_resume(cls, where: str | Path | Folder, spec: SweepSpec) -> Store:
        """The store at a path or URL, made if need be. The caller holds its lock or lease.

        Raises
        ------
        SpecMismatchError
            It was made from another spec; the message names the differences.
        StoreCorruptError
            Its root metadata cannot be read, or an array's is that of another array.
        StoreWriteError
            It cannot be written.
        """
        folder = as_folder(where)
        if folder.read([ROOT])[0] is None:
            expected = schema.skeleton(spec)
            _refuse_foreign(folder, expected)
            for name, content in expected.items():
                folder.write(name, content)
            store = cls.open(folder)
            store._skeleton = expected
            return store
        store = cls.open(folder)
        different = differences(store.spec.to_dict(), spec.to_dict())
        if different:
            raise SpecMismatchError(
                f"the store {folder} was made from another spec: {'; '.join(different)}",
                remedy="Choose another store, or delete this one",
            )
        folder.remove_leftovers()
        store._repair_skeleton()
        return store

    def _repair_skeleton(self) -> None:
        for name, content in self._damaged_skeleton().items():
            file = self.folder.place(name)
            warnings.warn(f"{file} was missing or damaged; written again", UserWarning, stacklevel=2)
            self.folder.write(name, content)

    def damaged_skeleton(self) -> list[Any]:
        """Paths or URLs of what the spec alone decides (array metadata, coordinates) and is absent or damaged.

        An array's metadata that reads well, but as that of another array, raises :class:`StoreCorruptError`.
        """
        return [self.folder.place(name) for name in self._damaged_skeleton()]

    def _damaged_skeleton(self) -> dict[str, bytes]:
        """Names of damaged files of the skeleton, and their right content."""
        if self._skeleton is None:
            self._skeleton = schema.skeleton(self.spec)
        expected = {name: content for name, content in self._skeleton.items() if name != ROOT}
        damaged = {}
        for (name, content), raw in zip(expected.items(), self.folder.read(list(expected)), strict=True):
            metadata = name.rpartition("/")[2] == ROOT
            file = self.folder.place(name)
            if not (_describes_the_same(file, raw, content) if metadata else checksum_holds(raw or b"")):
                damaged[name] = content
        return damaged

    # -- cells ---------------------------------------------------------------------------------------------

    def file(self, variable: Variable, cell: Cell) -> str:
        """Name of the chunk of `variable` that belongs to `cell`."""
        return "/".join([variable.name, "c", *map(str, variable.block(self.spec, cell))])

    def _of(self, cell: Cell) -> list[Variable]:
        """The cell's arrays in the order of writing; its status is the last."""
        return [v for v in self.variables.values() if v.prediction == cell.is_prediction]

    def scan(self) -> Scan:
        """Read every file of every finished cell and verify its checksum."""
        result = Scan()
        everything = list(cells(self.spec))
        statuses = self.folder.read([self.file(self._of(cell)[-1], cell) for cell in everything])
        for cell, raw in zip(everything, statuses, strict=True):
            *data, status = self._of(cell)
            if raw is None:
                continue
            if not checksum_holds(raw) or raw[0] not in (schema.DONE, schema.FAILED):
                result.damaged.append(self.folder.place(self.file(status, cell)))
                continue
            names = [self.file(variable, cell) for variable in data]
            contents = self.folder.read(names)
            bad = [name for name, content in zip(names, contents, strict=True) if not checksum_holds(content or b"")]
            if bad:
                result.damaged += [self.folder.place(name) for name in bad]
            else:
                (result.failed if raw[0] == schema.FAILED else result.done).add(cell)
        return result

    def write(self, cell: Cell, values: Mapping[str, Any], *, failed: bool) -> None:
        """Store what a cell computed, then mark it as finished.

        `values` has an array for each of the cell's variables except its status, in the order (weights, mu) or
        (weights, mu, rank).
        """
        *data, status = self._of(cell)
        try:
            self.folder.remove(self.file(status, cell))
            for variable in data:
                self._write_chunk(variable, cell, values[variable.name])
            self._write_chunk(status, cell, schema.FAILED if failed else schema.DONE)
        except SpikepoolError:
            raise
        except OSError as err:
            raise StoreWriteError(
                f"cannot write {cell} to the store {self.folder}: {err.strerror or err}",
                remedy="Free some space or restore access and run again: finished cells are kept",
            ) from err
        except Exception as err:  # what clients of object stores raise is their own
            if not isinstance(self.folder, RemoteFolder):
                raise
            raise self.folder.write_error(err, self.file(status, cell)) from err

    def _write_chunk(self, variable: Variable, cell: Cell, value: Any) -> None:
        chunks = variable.chunks(self.spec)
        block = variable.block(self.spec, cell)
        dtype = object if variable.dtype == "string" else variable.dtype
        region = tuple(slice(b * c, (b + 1) * c) for b, c in zip(block, chunks, strict=True))
        self._array(variable.name)[region] = np.asarray(value, dtype=dtype).reshape(chunks)

    def _array(self, name: str) -> Any:
        """The Zarr array; one that writes chunks of mere fill values too, so that absence means damage."""
        if name not in self._arrays:
            self._arrays[name] = self.folder.open_array(name).with_config({"write_empty_chunks": True})
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


def _describes_the_same(file: Any, raw: bytes | None, content: bytes) -> bool:
    """Whether the array metadata `raw` is `content`; an error when it is whole but of another array."""
    wanted = json.loads(content)
    try:
        stored = dict(json.loads(raw or b""))
    except (ValueError, TypeError):
        return False
    wrong = [key for key in _DECISIVE if stored.get(key) != wanted.get(key)]
    if wrong:
        raise StoreCorruptError(
            f"the store's metadata file {file} does not fit its spec: {', '.join(wrong)} differ",
            remedy="Restore that file, or delete the store and run the sweep again",
        )
    return bool(stored == wanted)


def _refuse_foreign(folder: Folder, expected: Mapping[str, bytes]) -> None:
    """A folder without the root's metadata may be made a store only if it holds nothing that would be lost.

    The root's metadata is written before any cell, so a driver killed while creating the store leaves at most
    files that are about to be written again. Cells without it are results whose spec has been lost.
    """
    foreign = [name for name in folder.names() if name not in expected and not name.endswith(UNFINISHED)]
    if any(name.split("/")[0] in (schema.PREDICTION_STATUS, schema.TRIAL_STATUS) for name in foreign):
        raise StoreCorruptError(
            f"the store's metadata file {folder.place(ROOT)} is missing, and with it the spec of the results there",
            remedy="Restore that file, or delete the store and run the sweep again",
        )
    if foreign:
        raise SweepError(
            f"the folder {folder} is not a sweep store and holds {foreign[0]!r}",
            remedy="Choose an empty or new folder",
        )
