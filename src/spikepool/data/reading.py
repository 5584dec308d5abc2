"""Read rows, and what stands beside them, from files of this machine; the ending of the name decides how.

Rows are features or tokens. Labels, groups and texts have one value per row; masks have one per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.formats import PICKLE_REMEDY, PICKLE_SUFFIXES, Named, Request, TensorEntry
from spikepool.data.formats.npy import npy_tensors, npz_tensors, read_npy, read_npz
from spikepool.data.formats.parquet import parquet_columns, parquet_records, parquet_strings, read_parquet
from spikepool.data.formats.records import (
    csv_columns,
    csv_objects,
    json_columns,
    json_objects,
    read_csv,
    read_json_lines,
)
from spikepool.data.formats.safetensors import read_safetensors, safetensors_tensors
from spikepool.data.formats.zarr_arrays import METADATA, read_zarr, zarr_tensors
from spikepool.data.labels import as_values
from spikepool.data.paths import existing_path, named_errors
from spikepool.errors import DataSourceError, ShapeError, TableFormatError, UnsafeFormatError


@dataclass(frozen=True)
class Format:
    """How files of one format are read.

    Attributes
    ----------
    name : str
    read : callable
        ``(path, request) -> (name, array)``.
    tensors : callable or None
        ``(path) -> list of TensorEntry``, where a file may hold several.
    columns : callable or None
        ``(path) -> list of str``: names of the columns of a table.
    records : callable or None
        ``(path) -> iterator of dict``: records in order, a few at a time.
    strings : callable or None
        ``(path, rows) -> list of dict``: the first records, of columns of strings, where the format knows them.
    """

    name: str
    read: Callable[[Path, Request], Named]
    tensors: Callable[[Path], list[TensorEntry]] | None = None
    columns: Callable[[Path], list[str]] | None = None
    records: Callable[[Path], Iterator[dict[str, Any]]] | None = None
    strings: Callable[[Path, int], list[dict[str, Any]]] | None = None


_ZARR = Format("Zarr", read_zarr, zarr_tensors)
_SAFETENSORS = Format("safetensors", read_safetensors, safetensors_tensors)
_PARQUET = Format("Parquet", read_parquet, columns=parquet_columns, records=parquet_records, strings=parquet_strings)
_CSV = Format("CSV", read_csv, columns=csv_columns, records=csv_objects)
_JSON_LINES = Format("JSON lines", read_json_lines, columns=json_columns, records=json_objects)
# Text formats may be compressed: .csv.gz.
TEXT_FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _CSV),
    **dict.fromkeys((".jsonl", ".ndjson"), _JSON_LINES),
}
FORMATS = {
    ".npy": Format("npy", read_npy, npy_tensors),
    ".npz": Format("npz", read_npz, npz_tensors),
    ".safetensors": _SAFETENSORS,
    ".parquet": _PARQUET,
    ".pq": _PARQUET,
    ".zarr": _ZARR,
    **TEXT_FORMATS,
}


def format_of(path: Path) -> Format:
    """The format of a file or folder, by the ending of its name.

    Raises
    ------
    UnsafeFormatError
        The name or the content is that of a pickle.
    TableFormatError
        The ending is not known, or the file is empty.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        return _ZARR if any((path / name).is_file() for name in METADATA) else _SAFETENSORS
    if path.name.endswith(".safetensors.index.json"):
        return _SAFETENSORS
    if suffix in PICKLE_SUFFIXES:
        raise UnsafeFormatError(
            f"files ending in {suffix} are pickles, which run code when loaded", path.name, PICKLE_REMEDY
        )
    packed = suffix == ".gz"
    found = TEXT_FORMATS.get(Path(path.stem).suffix.lower()) if packed else FORMATS.get(suffix)
    if found is None or found is _ZARR:
        raise TableFormatError(f"{path} is not of a known format", suffix, f"Use {', '.join(FORMATS)}")
    if not path.stat().st_size:
        raise TableFormatError(f"{path} is empty", remedy="Pass a file with at least one row")
    if _starts_as_pickle(path):
        raise UnsafeFormatError("the file is a pickle, which runs code when loaded", path.name, PICKLE_REMEDY)
    return found


def _starts_as_pickle(path: Path) -> bool:
    """Whether a file is a pickle of protocol 2 to 5 under another name.

    The length that a safetensors file begins with may have the same first bytes; its ninth byte is a brace.
    """
    with named_errors(path), path.open("rb") as stream:
        head = stream.read(9)
    return head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5") and head[8:] != b"{"


def read_named(path: Any, request: Request) -> Named:
    """The name and the values of what is asked for in a file."""
    place = existing_path(path)
    with named_errors(place):
        return format_of(place).read(place, request)


def read_array(
    path: Any, *, column: str | None = None, role: str = "rows", exclude: tuple[str, ...] = ()
) -> NDArray[Any]:
    """Rows of a file as an array; those of npy and safetensors files are memory maps.

    Parameters
    ----------
    path : str or Path
        An npy, npz, safetensors, Parquet, CSV, TSV, txt or JSON lines file, or a folder with a Zarr array. Text may be
        compressed with gzip (``.csv.gz``).
    column : str, optional
        Tensor, member of an archive, array of a Zarr group, or column of a table. By default the one with a usual name,
        the only one, or all the columns of numbers side by side.
    role : {"rows", "table", "labels", "groups", "texts", "mask"}
        What the data are: by which names they are found.
    exclude : tuple of str
        Columns of a table that are not features.

    Raises
    ------
    MissingSourceError
        There is nothing at this path.
    TableFormatError, RaggedError
        It is not of a known format, or its rows are not of one shape.
    MemoryBudgetError
        The rows do not fit in memory.
    """
    return read_named(path, Request(role, column, exclude))[1]


def read_column(
    path: Any, column: str | None = None, *, role: str = "labels", rows: int | None = None, name: str | None = None
) -> NDArray[Any]:
    """One value per row of a file: numbers or text.

    Parameters
    ----------
    path : str or Path
        As in :func:`read_array`; a txt file has one value per line.
    column : str, optional
        Member, column or field; by default one of the usual names of `role`, or the only one.
    role : {"labels", "groups", "texts"}
        Texts are never converted to numbers.
    rows : int, optional
        How many there must be.
    name : str, optional
        What messages call them.
    """
    name = name or role
    values = np.asarray(read_array(path, column=column, role=role))
    if values.ndim != 1:
        values = np.squeeze(values)
    if values.ndim != 1:
        raise ShapeError(f"{name} must hold one value per row", values.shape, "Save a vector")
    if values.dtype == object:
        cells = [str(v).strip() if isinstance(v, str) else v for v in values.tolist()]
        values = np.array([str(v) for v in cells]) if role == "texts" else as_values(cells, name)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind not in "fiubU":
        raise DataSourceError(f"{name} must be numbers or text", str(values.dtype), "Convert them")
    if rows is not None and len(values) != rows:
        raise ShapeError(f"{name} has {len(values)} values for {rows} rows", remedy="Pass one value per row")
    return values


def read_records(path: Any) -> Iterator[dict[str, Any]]:
    """Records of a CSV, TSV, JSON lines or Parquet file as dictionaries, in order and a few at a time."""
    place = existing_path(path)
    form = format_of(place)
    if form.records is None:
        raise TableFormatError(f"{place} is {form.name}, which has no records", remedy="Use CSV or Parquet")
    yield from form.records(place)


def read_first_strings(path: Any, rows: int) -> list[dict[str, Any]]:
    """The first records of a table; only their strings where the format knows which columns hold them."""
    place = existing_path(path)
    form = format_of(place)
    return list(islice(read_records(place), rows)) if form.strings is None else form.strings(place, rows)


def read_column_names(path: Any) -> list[str]:
    """Names of the columns of a table; empty for formats without columns."""
    place = existing_path(path)
    form = format_of(place)
    return [] if form.columns is None else form.columns(place)


def read_mask(path: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """(n, T) mask of a file, true where a token is observed: booleans, or zeros and ones."""
    mask = np.asarray(read_array(path, role="mask"))
    if mask.shape != shape[:2]:
        raise ShapeError(
            f"mask must have shape {shape[:2]}, one value per token", mask.shape, "Pass the tokens' own mask"
        )
    if mask.dtype != bool and not np.isin(np.unique(mask), (0, 1)).all():
        raise DataSourceError("mask must hold true and false, or 1 and 0", np.unique(mask)[:5], "Convert it")
    return mask.astype(bool)


def read_features(path: Any, column: str | None = None, *, exclude: tuple[str, ...] = ()) -> NDArray[Any]:
    """Features (n, d) or tokens (n, T, d) of a file."""
    rows = read_array(path, column=column, exclude=exclude)
    if rows.ndim not in (2, 3):
        raise ShapeError("X must be features (n, d) or tokens (n, T, d)", rows.shape, "Save it in one of these shapes")
    if rows.dtype.kind not in "fiub":
        raise DataSourceError("X does not hold numbers", str(rows.dtype), "Convert it to float32")
    return rows
