"""Tables of texts: which column holds the texts, the labels and the groups, and which rows have no label."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.labels import as_values
from spikepool.data.names import USUAL_NAMES
from spikepool.data.paths import is_path
from spikepool.data.reading import read_array, read_column_names, read_first_strings
from spikepool.errors import InvalidInputError, ShapeError, SpikepoolError

TABLES = "Pass a CSV, TSV, JSON lines or Parquet file"
_MISSING_WORDS = frozenset({"", "nan", "none", "null", "na", "n/a"})


@dataclass(frozen=True)
class TextTable:
    """Texts with what stands beside them.

    Attributes
    ----------
    texts : list of str
    labels : numpy.ndarray or None
        One per text; text where anything is not a number. Entries without a label are empty or zero.
    labelled : numpy.ndarray of bool
        Which rows have a label.
    groups : numpy.ndarray or None
    columns : dict
        Column of each role that was found.
    notes : tuple of str
        What was guessed, and how many labels are missing.
    """

    texts: list[str]
    labels: NDArray[Any] | None
    labelled: NDArray[np.bool_]
    groups: NDArray[Any] | None
    columns: dict[str, str]
    notes: tuple[str, ...] = ()


def column_names(source: Any) -> list[str]:
    """Names of the columns of a data frame or file; empty where it has none."""
    if hasattr(source, "columns"):
        return [str(name) for name in source.columns]
    if not is_path(source):
        return []
    return read_column_names(source)


def holds_texts(source: Any) -> bool:
    """Whether a file or data frame has a column with a usual name of texts, or one that reads like texts.

    Texts under an unusual name are not guessed: :func:`read_text_table` then asks for the column.
    """
    try:
        names = column_names(source)
        return usual_column(names, "texts") is not None or bool(names and wordy_columns(source))
    except SpikepoolError:
        return False


def wordy_columns(source: Any, rows: int = 50, words: float = 3.0) -> list[str]:
    """Columns whose first `rows` values are strings of at least `words` words on average."""
    if hasattr(source, "columns"):
        records = [dict(zip(source.columns, row, strict=True)) for row in source.head(rows).itertuples(index=False)]
    else:
        records = read_first_strings(source, rows)
    found = []
    for name in records[0] if records else ():
        values = [record.get(name) for record in records]
        lengths = [len(value.split()) for value in values if isinstance(value, str)]
        if len(lengths) > len(values) / 2 and sum(lengths) >= words * len(lengths):
            found.append(str(name))
    return found


def read_text_table(
    source: Any, text: str | None = None, label: str | None = None, group: str | None = None
) -> TextTable:
    """Texts, labels and groups of a file or data frame.

    Parameters
    ----------
    source : path or data frame
        CSV, TSV, JSON lines or Parquet.
    text, label, group : str, optional
        Columns; texts and labels are found by their usual names where these are obvious, which `notes` say.
    """
    names = column_names(source)
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise InvalidInputError("columns have the same name", duplicates[:5], "Rename them")
    notes: list[str] = []
    columns: dict[str, str] = {}
    for role, asked in (("texts", text), ("labels", label), ("groups", group)):
        column = asked or usual_column(names, role)
        if asked is not None and names and asked not in names:
            raise InvalidInputError(f"there is no column {asked!r}", remedy=f"The columns are {names[:12]}")
        if column is not None:
            columns[role] = column
            if asked is None:
                notes.append(f"column {column!r} is taken for the {role}")
    if "texts" not in columns:
        if not names and is_path(source):
            what = "folder" if Path(source).is_dir() else "file"
            raise InvalidInputError(f"this {what} is not a table with named columns", str(source), TABLES)
        raise InvalidInputError("which column holds the texts?", names[:12], "Pass text= (--text-column)")
    if group is None:
        columns.pop("groups", None)  # rows are grouped only on request
        notes = [note for note in notes if not note.endswith("groups")]
    values = {role: _column(source, name, role) for role, name in columns.items()}
    texts = ["" if _is_missing(value) else str(value) for value in values["texts"]]
    labels, labelled = _labels(values.get("labels"), len(texts))
    if labels is not None and not labelled.any():
        others = [name for name in names if name not in columns.values()]
        raise InvalidInputError(
            f"every label in column {columns['labels']!r} is missing",
            remedy=f"Name another column with label= (--label-column): {', '.join(others[:12]) or 'there is none'}",
        )
    if labels is not None and not labelled.all():
        missing = int((~labelled).sum())
        notes.append(f"{missing:,} of {len(texts):,} rows have no label and are left out where labels are needed")
    groups = values.get("groups")
    return TextTable(
        texts, labels, labelled, None if groups is None else as_values(list(groups), "groups"), columns, tuple(notes)
    )


def usual_column(names: list[str], role: str) -> str | None:
    """The column with a usual name of `role`, if there is one."""
    lowered = {name.lower(): name for name in names}
    return next((lowered[usual] for usual in USUAL_NAMES[role] if usual in lowered), None)


def _column(source: Any, name: str, role: str) -> list[Any]:
    if hasattr(source, "columns"):
        return list(source[name].tolist())
    values = read_array(source, column=name, role=role)
    if values.ndim != 1:
        raise ShapeError(f"column {name!r} must hold one value per row", values.shape, "Name another column")
    return list(values.tolist())


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _labels(values: list[Any] | None, n: int) -> tuple[NDArray[Any] | None, NDArray[np.bool_]]:
    """Labels with a flag for those that are there."""
    if values is None:
        return None, np.zeros(n, dtype=bool)
    there = np.array(
        [not _is_missing(v) and not (isinstance(v, str) and v.strip().lower() in _MISSING_WORDS) for v in values]
    )
    known = [v.strip() if isinstance(v, str) else v for v, ok in zip(values, there, strict=True) if ok]
    if not known:
        return np.zeros(n), there
    converted = as_values(known, "labels")
    out = np.zeros(n, dtype=converted.dtype)
    out[there] = converted
    return out, there
