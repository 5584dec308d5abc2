"""The formats that can be read: a module for each, which registers itself.

A format says how it is recognised by content, how it is opened as rows, how its tensors are listed and what it may
hold. Everything that opens data asks here: poolings, `diagnose`, `forecast`, `report`, tables, comparisons, the command
line. Files that run code when they are read (pickles) are refused here, once.

To add a format, write a module of this package that calls :func:`register`, or call it from your own code.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spikepool.data.blocks import BlockSource
from spikepool.data.locations import Location, named_errors
from spikepool.errors import MissingSourceError, TableFormatError, UnsafeFormatError

PICKLE_REMEDY = (
    "Ask the publisher for a safetensors file, or convert it on a machine you can throw away: "
    "safetensors.torch.save_file(torch.load(path, weights_only=True), 'table.safetensors')"
)
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill")
# What data may be. A mask belongs to tokens; texts and groups are columns, as labels are.
ROLES = ("tokens", "features", "table", "labels")
_NEEDED = {"rows": {"tokens", "features"}, "mask": {"tokens"}, "texts": {"labels"}, "groups": {"labels"}}
# Formats of text, which accept almost anything, have this rank or a higher one.
TEXT_RANK = 7
_HEAD = 4096  # bytes that are looked at


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
    def is_real(self) -> bool:
        """Whether its entries are read as real numbers, not as integers, booleans or complex numbers."""
        return not self.problem and not self.dtype.upper().startswith(("I", "U", "BOOL", "C64", "COMPLEX", "S"))

    @property
    def is_matrix(self) -> bool:
        """Whether it is a table of real numbers with at least two rows and columns."""
        return self.is_real and len(self.shape) == 2 and min(self.shape) >= 2


@dataclass(frozen=True)
class Probe:
    """What a format is recognised by.

    Attributes
    ----------
    location : Location
    folder : bool
    head : bytes
        The first bytes of a file.
    """

    location: Location
    folder: bool
    head: bytes

    @property
    def suffix(self) -> str:
        """Ending of the name, in lower case."""
        return self.location.suffix


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
    name : str
        What messages call the data.
    """

    role: str = "rows"
    column: str | None = None
    exclude: tuple[str, ...] = ()
    name: str = "X"


@dataclass(frozen=True)
class Format:
    """A way to store rows.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
        Usual endings of names; they decide nothing but messages and ties.
    roles : tuple of str
        What it may hold, of :data:`ROLES`.
    recognise : callable
        ``(probe) -> bool``.
    open : callable
        ``(location, request) -> BlockSource``. Nothing in a file may be trusted: check every length against the size of
        the file, and :mod:`spikepool.data.locations`, before allocating.
    tensors : callable or None
        ``(location) -> list of TensorEntry``; by default the one table that `open` gives.
    columns : callable or None
        ``(location) -> list of str``: names of the columns of a table.
    records : callable or None
        ``(location) -> iterator of dict``: its records in order.
    rank : int
        Formats of a lower rank are asked first; text formats, which accept almost anything, come last.
    """

    name: str
    suffixes: tuple[str, ...]
    roles: tuple[str, ...]
    recognise: Callable[[Probe], bool]
    open: Callable[[Location, Request], BlockSource]
    tensors: Callable[[Location], list[TensorEntry]] | None = None
    columns: Callable[[Location], list[str]] | None = field(default=None, kw_only=True)
    records: Callable[[Location], Iterator[dict[str, Any]]] | None = field(default=None, kw_only=True)
    rank: int = field(default=0, kw_only=True)

    def serves(self, role: str) -> bool:
        """Whether it may hold what is asked for."""
        return bool(_NEEDED.get(role, {role}) & set(self.roles))


FORMATS: dict[str, Format] = {}


def register(form: Format) -> Format:
    """Make a format known; one of the same name is replaced."""
    FORMATS[form.name] = form
    return form


def known_formats() -> list[Format]:
    """Every format, in the order in which they are asked."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(FORMATS.values(), key=lambda form: form.rank)


def readable(role: str = "rows") -> str:
    """Names of the formats that may hold `role`, for messages."""
    names = [form.name for form in known_formats() if form.serves(role)]
    return ", ".join(names[:-1]) + f" or {names[-1]}"


def suffixes(roles: Iterable[str]) -> tuple[str, ...]:
    """Usual endings of the formats that may hold one of `roles`."""
    endings = [s for form in known_formats() if any(form.serves(role) for role in roles) for s in form.suffixes]
    return tuple(dict.fromkeys(endings))


def recognise(location: Location, role: str = "rows") -> Format:
    """The format at a location, by content; raises for pickles, unknown formats, and those that cannot hold `role`."""
    folder = location.is_folder()
    probe = Probe(location, folder, b"" if folder else location.read(0, _HEAD))
    if not folder:
        _refuse_pickles(location, probe.head)
        if not probe.head:
            raise TableFormatError(f"{location.url} is empty", remedy="Pass a file with at least one row")
    formats = known_formats()
    with named_errors(location.url):
        recognised = next((form for form in formats if form.recognise(probe)), None)
    known = next((form for form in formats if location.suffix in form.suffixes), None)
    if recognised is not None and recognised.rank >= TEXT_RANK and known is not None and known.rank < TEXT_RANK:
        recognised = None  # text under the name of a binary format: a page of a server, or half a download
    if recognised is not None and recognised.serves(role):
        return recognised
    if recognised is not None:
        raise TableFormatError(
            f"{location.url} is {recognised.name}, which holds no {role}", remedy=f"Use {readable(role)}"
        )
    if folder:
        raise MissingSourceError(
            f"the folder {location.url} is neither a Zarr array nor holds one safetensors model or Parquet files",
            remedy="Pass the file itself",
        )
    problem = "is damaged: its first bytes are" if known else "is of no known format; its first bytes are"
    raise TableFormatError(f"{location.url} {problem}", probe.head[:16], f"Use {readable(role)}")


def _refuse_pickles(location: Location, head: bytes) -> None:
    if location.suffix in PICKLE_SUFFIXES:
        raise UnsafeFormatError(
            f"files ending in {location.suffix} are pickles, which run code when loaded", location.name, PICKLE_REMEDY
        )
    if len(head) > 1 and head[0] == 0x80 and head[1] <= 5 and head[8:9] != b"{":
        raise UnsafeFormatError("the file is a pickle, which runs code when loaded", location.name, PICKLE_REMEDY)
