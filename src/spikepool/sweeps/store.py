"""A sweep on disk: creating, resuming, checking, writing and reading cells."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
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
from spikepool.kit.files import UNFINISHED, publishing
from spikepool.sweeps import schema
from spikepool.sweeps.cells import Cell, cells, failed, variables
from spikepool.sweeps.kind import Values
from spikepool.sweeps.schema import ROOT
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.spec_differences import differences
from spikepool.sweeps.spec_text import spec_from_json, spec_to_dict

# What of an array's metadata decides how chunks are read; the rest may change with the version of Zarr.
_DECISIVE = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value", "dimension_names")


@dataclass
class Scan:
    """What is in the store.

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

    A cell's status is removed before its other files change and written after them, and every file has a checksum: a
    driver that is killed at any moment leaves whole cells and cells that are computed again.
    """

    def __init__(self, path: Path, spec_text: str, version: str) -> None:
        self.path = path
        self.version = version
        # read back from text by every driver, so that all have the same bits
        self.spec = spec_from_json(spec_text)
        self.variables = variables(self.spec)
        self._arrays: dict[str, Any] = {}
        self._skeleton: Mapping[str, bytes] | None = None  # files that the spec alone decides; slow to make

    # -- opening -------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: Path) -> Store:
        """The store at a path, which must exist; its spec is read from it."""
        file = path / ROOT
        try:
            raw = _read(file)
            if raw is None:
                raise SweepError("there is no sweep store", str(path), "Check the path")
            attributes = json.loads(raw)["attributes"]
            spec_text, version, layout = (attributes[key] for key in ("spec", "version", "schema_version"))
            if schema.fingerprint(spec_text) != attributes["fingerprint"]:
                raise ValueError("the spec in it does not match its fingerprint")
        except SpikepoolError:
            raise
        except (ValueError, KeyError, TypeError) as err:
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
        """The store at a path, made if need be. The caller holds its lock.

        Raises
        ------
        SpecMismatchError
            It was made from another spec, or with its axes in another order; the message names the differences.
        StoreCorruptError
            Its root metadata cannot be read, or an array's is that of another array.
        StoreWriteError
            It cannot be written.
        """
        if _read(path / ROOT) is None:
            expected = schema.skeleton(spec)
            _refuse_foreign(path, expected)
            for name, content in expected.items():
                _write(path / name, content)
            store = cls.open(path)
            store._skeleton = expected
            return store
        store = cls.open(path)
        different = differences(spec_to_dict(store.spec), spec_to_dict(spec))
        if different:
            raise SpecMismatchError(
                f"the store {path} was made from another spec: {'; '.join(different)}",
                remedy="Choose another store, or delete this one",
            )
        for file in path.rglob(f"*{UNFINISHED}"):  # what a killed driver had not yet renamed
            file.unlink(missing_ok=True)
        store._repair_skeleton()
        return store

    def _repair_skeleton(self) -> None:
        for name, content in self._damaged_skeleton().items():
            file = self.path / name
            warnings.warn(f"{file} was missing or damaged; written again", UserWarning, stacklevel=2)
            _write(file, content)

    def _damaged_skeleton(self) -> dict[str, bytes]:
        """Damaged files of what the spec alone decides (array metadata, coordinates), and their right content.

        An array's metadata that reads well, but as that of another array, raises :class:`StoreCorruptError`.
        """
        if self._skeleton is None:
            self._skeleton = schema.skeleton(self.spec)
        damaged = {}
        for name, content in self._skeleton.items():
            file = self.path / name
            if name == ROOT:
                continue
            raw = _read(file)
            metadata = file.name == ROOT
            if not (_describes_the_same(file, raw, content) if metadata else checksum_holds(raw or b"")):
                damaged[name] = content
        return damaged

    # -- cells ---------------------------------------------------------------------------------------------

    def _data_files(self, cell: Cell) -> list[Path]:
        return [
            self.path / schema.chunk_name(variable.name, variable.dims, self.spec, cell)
            for variable in self.variables.values()
            if variable.prediction == cell.is_prediction
        ]

    def _status_file(self, cell: Cell) -> Path:
        dims = schema.status_dims(self.spec, cell.is_prediction)
        return self.path / schema.chunk_name(schema.STATUS[cell.is_prediction], dims, self.spec, cell)

    def scan(self) -> Scan:
        """Read every file of every finished cell and verify its checksum."""
        result = Scan()
        for cell in cells(self.spec):
            file = self._status_file(cell)
            raw = _read(file)
            if raw is None:
                continue
            if not checksum_holds(raw) or raw[0] not in (schema.DONE, schema.FAILED):
                result.damaged.append(file)
                continue
            bad = [file for file in self._data_files(cell) if not checksum_holds(_read(file) or b"")]
            result.damaged += bad
            if not bad:
                (result.failed if raw[0] == schema.FAILED else result.done).add(cell)
        return result

    def read(self, wanted: set[Cell]) -> dict[Cell, Values]:
        """The values of cells that :meth:`scan` found whole."""
        results: dict[Cell, Values] = {cell: {} for cell in wanted}
        for variable in self.variables.values() if wanted else ():
            array = np.asarray(self._array(variable.name)[...])
            array = array.astype(object) if variable.dtype == "string" else array
            for cell, values in results.items():
                if cell.is_prediction == variable.prediction:
                    values[variable.name] = array[variable.region(self.spec, cell)]
        return results

    def discard(self, cells: Iterable[Cell]) -> None:
        """Remove the files of cells that are to be computed, so that damaged ones among them are not read."""
        try:
            for cell in cells:
                for file in (self._status_file(cell), *self._data_files(cell)):
                    file.unlink(missing_ok=True)
        except OSError as err:
            raise _unwritable(f"cannot remove {file}", err) from err

    def results(self) -> dict[Cell, Values]:
        """All cells, which must be finished and whole."""
        scan = self.scan()
        damaged = [*(self.path / name for name in self._damaged_skeleton()), *scan.damaged]
        if damaged:
            raise StoreCorruptError(
                f"{len(damaged)} file(s) of the store are missing or damaged, the first is {damaged[0]}",
                remedy="Run the sweep again with this store: only what is damaged is computed again",
            )
        finished, total = scan.done | scan.failed, sum(1 for _ in cells(self.spec))
        if len(finished) < total:
            raise SweepError(
                f"the sweep in {self.path} is not finished: {len(finished)} of {total} cells",
                remedy="Run it again with this store to complete it",
            )
        return self.read(finished)

    def write(self, cell: Cell, values: Values) -> None:
        """Store what a cell computed, then mark it as finished."""
        status = schema.FAILED if failed(values) else schema.DONE
        marker = self._array(schema.STATUS[cell.is_prediction])
        dims = schema.status_dims(self.spec, cell.is_prediction)
        place = dict(zip(self.spec.outer, cell.index, strict=True), trial=cell.trial)
        try:
            self._status_file(cell).unlink(missing_ok=True)
            for name, value in values.items():
                array, region = self._array(name), self.variables[name].region(self.spec, cell)
                shape = tuple(
                    self.spec.length(dim) if dim in self.spec.kind.inside else 1 for dim in self.variables[name].dims
                )
                array[region] = value.reshape(shape)
            marker[tuple(place[dim] for dim in dims)] = status
        except OSError as err:
            raise _unwritable(f"cannot write {cell} to the store {self.path}", err) from err

    def _array(self, name: str) -> Any:
        """The Zarr array; one that writes chunks of mere fill values too, so that absence means damage."""
        if not self._arrays:
            group = require("zarr", "sweeps").open_group(str(self.path), mode="r+", zarr_format=3)
            config = {"write_empty_chunks": True}
            self._arrays = {name: array.with_config(config) for name, array in group.arrays()}
        return self._arrays[name]


def _unwritable(what: str, err: OSError) -> StoreWriteError:
    return StoreWriteError(
        f"{what}: {err.strerror or err}",
        remedy="Free some space or restore access and run again: finished cells are kept",
    )


def checksum_holds(raw: bytes) -> bool:
    """Whether the last four bytes are the CRC-32C of those before, as Zarr's ``crc32c`` codec writes it."""
    crc32c = require("google_crc32c", "sweeps")  # a dependency of Zarr
    body, stored = raw[:-4], raw[-4:]
    return bool(body) and int.from_bytes(stored, "little") == crc32c.value(body)


def _read(file: Path) -> bytes | None:
    """Content of a file; None if it is not there."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as err:
        raise StoreCorruptError(
            f"cannot read {file}: {err.strerror}", remedy="Restore access, or delete that file to recompute it"
        ) from err


def _write(file: Path, content: bytes) -> None:
    """Write beside, then rename: the file is there whole or not at all."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with publishing(file, overwrite=True, durable=False) as temporary:
            temporary.write_bytes(content)
    except (OSError, SpikepoolError) as err:
        reason = err.__cause__ if isinstance(err, SpikepoolError) else err
        raise StoreWriteError(
            f"cannot write {file}: {getattr(reason, 'strerror', err)}",
            remedy="Free some space or restore access and run again",
        ) from err


def _describes_the_same(file: Path, raw: bytes | None, content: bytes) -> bool:
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


def _refuse_foreign(path: Path, expected: Mapping[str, bytes]) -> None:
    """A folder without the root's metadata may be made a store only if it holds nothing that would be lost.

    The root's metadata is written before any cell, so a driver killed while creating the store leaves at most
    files that are about to be written again. Cells without it are results whose spec has been lost.
    """
    if path.exists() and not path.is_dir():
        raise StoreWriteError("the store must be a folder", str(path), "Choose another path")
    names = [file.relative_to(path).as_posix() for file in sorted(path.rglob("*")) if not file.is_dir()]
    foreign = [name for name in names if name not in expected and not name.endswith(UNFINISHED)]
    if any(name.split("/")[0] in schema.STATUS.values() for name in foreign):
        raise StoreCorruptError(
            f"the store's metadata file {path / ROOT} is missing, and with it the spec of the results there",
            remedy="Restore that file, or delete the store and run the sweep again",
        )
    if foreign:
        raise SweepError(
            f"the folder {path} is not a sweep store and holds {foreign[0]!r}",
            remedy="Choose an empty or new folder",
        )
