"""Files of a user's own study: rows of features or tokens, and the labels, masks and groups beside them.

Local npy and npz files need numpy alone; Parquet, Arrow, Zarr and URLs go through
:func:`spikepool.data.opening.open_blocks`. Pickled objects are refused everywhere.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.blocks import BlockSource
from spikepool.data.opening import open_blocks
from spikepool.errors import DataSourceError, MissingSourceError, RaggedError, ShapeError, UnsafeFormatError
from spikepool.kit.memory import require_memory

# Names under which the members of an archive, or the columns of a table, are looked for when none is given.
ROW_NAMES = ("X", "C", "features", "tokens", "embeddings", "embedding")
LABEL_NAMES = ("y", "label", "labels", "target", "class")
LABEL_FORMATS = "npy, npz, csv, txt, json, Parquet or Arrow"
# What numpy raises on headers and archives that are broken, besides ValueError.
_DAMAGED = (
    OSError, EOFError, SyntaxError, TokenError, TypeError, KeyError, OverflowError, MemoryError, RecursionError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
LARGEST_LABELS = 2**30  # bytes of a file of labels


def open_rows(path: Any, column: str | None = None, *, name: str = "X") -> Any:
    """Rows of a file as something every estimator takes; nothing large is read yet.

    Parameters
    ----------
    path : str or path-like
        npy, npz, Parquet, Arrow, Zarr, or a URL of any of these but npz.
    column : str, optional
        Member of an npz archive, column of a table, array of a Zarr group.
    name : str
        What messages call it.
    """
    text = str(path)
    local = Path(text)
    if "://" not in text:
        if not local.exists():
            raise MissingSourceError(f"{name}: there is no such file", text, "Check the path")
        head = b"" if local.is_dir() else _head(local)
        if head.startswith(b"\x93NUMPY") and column is None:
            return _checked(_load_npy(local, name), name)
        if head.startswith(b"PK\x03\x04") and local.suffix.lower() != ".zip":
            return _checked(_npz_member(local, column, ROW_NAMES, name), name)
    return _checked(open_blocks(path, name=name, column=column), name)


def load_rows(rows: Any, name: str = "X") -> NDArray[Any]:
    """All rows as one array."""
    if not isinstance(rows, BlockSource):
        return np.asarray(rows)
    require_memory(rows.shape[0] * rows.row_bytes, f"{name} as one array", "Pass fewer rows")
    return np.concatenate([chunk for _, chunk in rows.chunks()])


def _checked(rows: Any, name: str) -> Any:
    if len(rows.shape) not in (2, 3):
        raise ShapeError(
            f"{name} must be features (n, d) or tokens (n, T, d)", tuple(rows.shape), "Save it in one of these shapes"
        )
    if np.dtype(rows.dtype).kind not in "fiub":
        raise DataSourceError(f"{name} does not hold numbers", str(rows.dtype), "Convert it to float32")
    return rows


def read_labels(path: Any, column: str | None = None, *, rows: int | None = None, name: str = "labels") -> NDArray[Any]:
    """One value a row: numbers or text, from npy, npz, csv, txt (a label a line), json (a list), Parquet or Arrow.

    Parameters
    ----------
    path : str or path-like
        File or URL.
    column : str, optional
        Member, column or field; by default one of ``y, label, labels, target, class``, or the only one.
    rows : int, optional
        How many there must be.
    name : str
        What messages call them.
    """
    content = _bytes(path, name)
    values = _parse_labels(content, str(path), column, name)
    if values.ndim != 1:
        values = np.squeeze(values)
    if values.ndim != 1:
        raise ShapeError(f"{name} must hold one value a row", values.shape, "Save a vector")
    if values.dtype.kind == "S":
        values = values.astype(str)
    if values.dtype.kind not in "fiubU":
        raise DataSourceError(f"{name} must be numbers or text", str(values.dtype), "Convert them")
    if rows is not None and len(values) != rows:
        raise ShapeError(f"{name} has {len(values)} values for {rows} rows", remedy="Pass one value a row")
    return values


def read_mask(path: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """(n, T) mask, true where a token is observed, from npy or npz of booleans, or of zeros and ones."""
    mask = load_rows(_mask_rows(path), "mask")
    if mask.shape != shape[:2]:
        raise ShapeError(
            f"mask must have shape {shape[:2]}, one value a token", mask.shape, "Pass the tokens' own mask"
        )
    if mask.dtype != bool and not np.isin(np.unique(mask), (0, 1)).all():
        raise DataSourceError("mask must hold true and false, or 1 and 0", np.unique(mask)[:5], "Convert it")
    return mask.astype(bool)


def _mask_rows(path: Any) -> Any:
    text = str(path)
    if "://" not in text and Path(text).is_file() and _head(Path(text)).startswith(b"PK"):
        return _npz_member(Path(text), None, ("mask", "attention_mask"), "mask")
    return open_rows(path, name="mask")


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(8)
    except OSError as err:
        raise MissingSourceError(f"cannot read the file: {err.strerror}", str(file), "Check it") from err


def _load_npy(source: Any, name: str, *, mapped: bool = True) -> NDArray[Any]:
    try:
        if mapped:
            return np.asanyarray(np.load(source, mmap_mode="r", allow_pickle=False))
        return np.asarray(np.load(source, allow_pickle=False))
    except ValueError as err:
        if "pickle" in str(err) or "bjects" in str(err):  # of numpy's two messages
            raise UnsafeFormatError(
                f"{name} holds pickled objects, which run code when loaded", remedy="Save plain numbers or text"
            ) from err
        raise DataSourceError(f"{name}: the npy file is damaged ({err})", remedy="Save it again") from err
    except _DAMAGED as err:
        raise DataSourceError(f"{name}: the npy file is damaged ({err})", remedy="Save it again") from err


def _npz_member(file: Any, column: str | None, usual: tuple[str, ...], name: str) -> NDArray[Any]:
    """One array of an archive: the named one, the only one, or one of the usual names."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            if column is None:
                named = [key for key in usual if key in archive.files]
                column = named[0] if named else archive.files[0] if len(archive.files) == 1 else None
            if column not in archive.files:
                raise DataSourceError(f"{name}: which array of the archive?", column, f"It has {archive.files[:12]}")
            return np.asarray(archive[column])
    except _DAMAGED as err:
        raise DataSourceError(f"{name}: the archive is damaged ({err})", remedy="Save it again") from err
    except ValueError as err:
        if isinstance(err, DataSourceError):
            raise
        raise UnsafeFormatError(
            f"{name}: the archive holds pickled objects, which run code when loaded", remedy="Save plain arrays"
        ) from err


def _bytes(path: Any, name: str) -> bytes:
    text = str(path)
    if "://" in text:
        from spikepool.data.locations import locate, named_errors

        location = locate(text, None)
        with named_errors(text):
            return bytes(location.fs.cat_file(location.path))
    file = Path(text)
    if not file.is_file():
        raise MissingSourceError(f"{name}: there is no such file", text, "Check the path")
    if file.stat().st_size > LARGEST_LABELS:
        raise DataSourceError(f"{name}: the file is too large", file.stat().st_size, "Pass one value a row")
    try:
        return file.read_bytes()
    except OSError as err:
        raise MissingSourceError(f"{name}: cannot read the file: {err.strerror}", text, "Check it") from err


def _parse_labels(content: bytes, path: str, column: str | None, name: str) -> NDArray[Any]:
    if content.startswith(b"\x93NUMPY"):
        return _load_npy(io.BytesIO(content), name, mapped=False)
    if content.startswith(b"PK\x03\x04"):
        return _npz_member(io.BytesIO(content), column, LABEL_NAMES, name)
    if content.startswith((b"PAR1", b"ARROW1")):
        return _table_column(content, column, name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise DataSourceError(f"{name}: {path} is of no known format", remedy=f"Use {LABEL_FORMATS}") from err
    if path.lower().endswith(".json"):
        try:
            values = json.loads(text)
            return _as_values(values if column is None else values[column], name)
        except (ValueError, KeyError, TypeError) as err:
            raise DataSourceError(f"{name}: {path} is no JSON list ({err})", remedy="Write a list of labels") from err
    lines = list(csv.reader(io.StringIO(text))) if path.lower().endswith(".csv") else [[x] for x in text.splitlines()]
    lines = [line for line in lines if line]
    if lines and (len(lines[0]) > 1 or column is not None or lines[0][0].strip() in LABEL_NAMES):
        lines = _csv_column(lines, column, name)
    return _as_values([line[0].strip() for line in lines], name)


def _csv_column(lines: list[list[str]], column: str | None, name: str) -> list[list[str]]:
    """One column of a table with a header."""
    header = [cell.strip() for cell in lines[0]]
    chosen = column or next((key for key in LABEL_NAMES if key in header), None)
    if chosen not in header:
        raise DataSourceError(f"{name}: which column of the table?", chosen, f"It has {header[:12]}")
    place = header.index(chosen)
    short = next((i for i, line in enumerate(lines) if len(line) <= place), None)
    if short is not None:
        raise RaggedError(f"{name}: line {short + 1} of the table is too short", lines[short], "Repair it")
    return [[line[place]] for line in lines[1:]]


def _as_values(values: list[Any], name: str) -> NDArray[Any]:
    """Numbers where every value is one, text otherwise."""
    if not isinstance(values, list) or not values or any(isinstance(v, (list, dict)) or v is None for v in values):
        raise DataSourceError(f"{name} must be a list of one value a row", values, "Write numbers or text")
    for kind in (int, float):
        try:
            return np.array([kind(v) if isinstance(v, str) else v for v in values])
        except ValueError:
            continue
    return np.array([str(v) for v in values])


def _table_column(content: bytes, column: str | None, name: str) -> NDArray[Any]:
    """One column of a Parquet or Arrow file."""
    from spikepool.errors import require

    pyarrow = require("pyarrow", "parquet")
    stream = pyarrow.BufferReader(content)
    try:
        if content.startswith(b"PAR1"):
            table = require("pyarrow.parquet", "parquet").read_table(stream)
        else:
            table = pyarrow.ipc.open_file(stream).read_all()
    except (pyarrow.ArrowException, OSError) as err:
        raise DataSourceError(f"{name}: the file is damaged ({err})", remedy="Save it again") from err
    names = table.schema.names
    plain = [key for key in names if not hasattr(table.schema.field(key).type, "value_type")]
    chosen = column or next((key for key in LABEL_NAMES if key in names), plain[0] if len(plain) == 1 else None)
    if chosen not in names:
        raise DataSourceError(f"{name}: which column of the table?", chosen, f"It has {names[:12]}")
    values = table.column(chosen)
    if values.null_count:
        raise DataSourceError(f"{name}: column {chosen} has missing values", values.null_count, "Drop these rows")
    return _as_values(values.to_pylist(), name)
