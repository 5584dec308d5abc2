"""What is in a file of weights: names, shapes and types, from headers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spikepool.data.formats import locate_file, recognise

# Types that are numbers to the readers: everything but integers and the rest a header may announce.
_NOT_REAL = ("I", "U", "BOOL", "C64", "F8")


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : str
        As the format calls it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def is_matrix(self) -> bool:
        """Whether it is a table of real numbers with at least two rows and columns."""
        real = not self.dtype.upper().startswith(_NOT_REAL)
        return real and len(self.shape) == 2 and min(self.shape) >= 2


def list_tensors(path: Any) -> list[TensorEntry]:
    """Every tensor of a file (safetensors, its index, npy, npz, GGUF), in the order of the file.

    Parquet and Arrow files hold one table; it is listed under the name of its columns.

    Parameters
    ----------
    path : str or path-like
        As for :func:`spikepool.data.formats.open_table`.
    """
    file = locate_file(path)
    kind = recognise(file)
    if kind == "npy":
        from spikepool.data.numpy_files import list_npy as listed
    elif kind == "npz":
        from spikepool.data.numpy_files import list_npz as listed
    elif kind == "gguf":
        from spikepool.data.gguf_files import list_gguf as listed
    elif kind == "index":
        from spikepool.data.safetensors_files import list_index as listed
    elif kind == "safetensors":
        from spikepool.data.safetensors_files import list_safetensors as listed
    else:
        from spikepool.data.arrow_files import open_arrow

        source = open_arrow(file, None)
        return [TensorEntry(source.name, source.shape, "columns")]
    return [TensorEntry(*entry) for entry in listed(file)]
