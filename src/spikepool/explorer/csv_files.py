"""Numbers separated by commas, as spreadsheets save them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spikepool.errors import TableFormatError
from spikepool.kit.arrays import FloatArray

MAX_CSV_COLUMNS = 20_000


def read_csv(path: Path) -> FloatArray:
    """Comma-separated numbers, with or without one line of column names."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            first = file.readline(1 << 20)
        columns = first.split(",")
        if len(columns) > MAX_CSV_COLUMNS:
            raise TableFormatError(f"the file has more than {MAX_CSV_COLUMNS:,} columns", len(columns))
        values = np.loadtxt(path, delimiter=",", ndmin=2, skiprows=int(not _numeric(columns)), encoding="utf-8")
    except (ValueError, UnicodeDecodeError) as err:
        if isinstance(err, TableFormatError):
            raise
        raise TableFormatError(
            "the file is not a table of numbers separated by commas", str(err)[:120], "Save it as .npy or plain .csv"
        ) from err
    if values.size == 0 or not np.isfinite(values).all():
        raise TableFormatError("the table is empty or contains NaN or infinities", values.shape, "Repair it first")
    return values


def _numeric(cells: list[str]) -> bool:
    try:
        [float(cell) for cell in cells]
    except ValueError:
        return False
    return True
