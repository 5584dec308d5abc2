"""What every reader of a file format is given, and what it says of the content of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

# The name of what was read (tensor, member of an archive, or file) and its values.
Named = tuple[str, NDArray[Any]]

PICKLE_REMEDY = (
    "Ask the publisher for a safetensors file, or convert it on a machine you can throw away: "
    "safetensors.torch.save_file(torch.load(path, weights_only=True), 'table.safetensors')"
)
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill")


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dtype : str
        As the format calls it.
    problem : str
        Why it cannot be read, if so.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    problem: str = ""

    @property
    def is_matrix(self) -> bool:
        """Whether it is a table of real numbers with at least two rows and columns."""
        integers = self.dtype.upper().startswith(("I", "U", "BOOL", "C64", "COMPLEX", "S"))
        return not self.problem and not integers and len(self.shape) == 2 and min(self.shape) >= 2


@dataclass(frozen=True)
class Request:
    """What is wanted of a file.

    Attributes
    ----------
    role : str
        ``"rows"`` (tokens or features), ``"table"``, ``"labels"``, ``"groups"``, ``"texts"`` or ``"mask"``.
    column : str or None
        Tensor, member, array or column; by default found by its usual names.
    exclude : tuple of str
        Columns that are not features.
    """

    role: str = "rows"
    column: str | None = None
    exclude: tuple[str, ...] = ()

    @property
    def values(self) -> bool:
        """Whether one value per row is wanted, a number or text."""
        return self.role in ("labels", "groups", "texts")
