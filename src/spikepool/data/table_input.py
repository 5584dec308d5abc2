"""Whatever holds a table, in memory or stored, as a source of its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.chunked_table import open_chunked_table
from spikepool.data.formats import open_table
from spikepool.data.opening import is_stored
from spikepool.data.sources import ArraySource, TableSource, checked_width
from spikepool.errors import InvalidInputError


def as_source(table: Any) -> TableSource:
    """`table` itself if it is a source, else the array as a source; lists become arrays, paths are opened."""
    if isinstance(table, TableSource):
        return table
    if isinstance(table, (str, Path)):
        return open_table(table)
    if is_stored(table) and not isinstance(table, np.memmap):
        return open_chunked_table(table)
    if hasattr(table, "to_numpy") and not hasattr(table, "dtype"):  # a data frame
        table = table.to_numpy()
    if not hasattr(table, "shape") or not hasattr(table, "dtype"):
        try:
            table = np.asarray(table, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as err:
            raise InvalidInputError(
                "E must be a (V, d) array of real numbers", type(table).__name__, "Pass a numeric array"
            ) from err
    if np.ma.isMaskedArray(table):
        raise InvalidInputError("E has masked entries", type(table).__name__, "Fill or drop them first")
    try:
        kind = np.dtype(table.dtype).kind
    except TypeError:  # a tensor of another library, which numpy can read or not
        return as_source(_foreign(table))
    if kind not in "fiu":
        raise InvalidInputError("E must hold real numbers", str(table.dtype), "Convert it to float32 first")
    return checked_width(ArraySource(table, "E"))


def _foreign(table: Any) -> NDArray[Any]:
    try:
        return np.asarray(table)
    except (TypeError, ValueError, RuntimeError) as err:
        raise InvalidInputError(
            "numpy cannot read E", type(table).__name__, "Convert it to a float32 numpy array"
        ) from err
