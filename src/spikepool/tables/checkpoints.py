r"""Two checkpoints, tensor by tensor: what each tensor that both have shows before and after.

For a tensor A of the first checkpoint and B of the second:

* **drift**, where their shapes are equal: :math:`\|B − A\|_F/\|A\|_F` of the tensors as stored, of any rank and type,
  and the **norm** :math:`\|B\|_F/\|A\|_F`.

For matrices of real numbers, with the longer side of A as rows, also:

* **leading spaces** of dimension k of the centred weights, by the principal angles of :mod:`.compare`: of coordinates
  where both have as many columns, else of rows;
* **outliers** beyond a bulk of unknown colour, as :class:`spikepool.TableSpectrum` counts them. Whether a count
  can be relied on is not tested here: that takes simulated tables for every weight, as ``spectrum --all --held-out``
  makes them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spikepool.data.blocks import BlockSource
from spikepool.data.formats import TensorEntry
from spikepool.data.names import names_an_embedding
from spikepool.data.opening import open_blocks
from spikepool.data.table_input import list_tensors, locate_table, open_table, tokens_beside
from spikepool.errors import MemoryBudgetError, NonFiniteError, SpikepoolError, TableFormatError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.progress import Progress
from spikepool.kit.showing import Result, Table, number, one_line, record, text_table
from spikepool.tables.geometry import SpaceOverlap, joint_moments, match_rows, meeting, separate_overlaps
from spikepool.tables.spectrum import TableSpectrum

SHOWN_SPACE = 10  # dimension of the leading spaces in the table, or the largest below it that a weight allows
PIECE = 2**20  # entries of a tensor that are compared at once
HEADER = ("tensor", "shape", "outliers", "k", "overlap", "chance", "largest angle", "norm", "drift")


@dataclass(frozen=True)
class WeightChange:
    """One tensor of two checkpoints.

    Attributes
    ----------
    name : str
        In the first checkpoint.
    second_name : str
        In the second, which may call it by another prefix.
    shapes : pair of tuples of int
        As stored.
    outliers : pair of int or None
        Eigenvalues beyond the bulk; None where a tensor is not a matrix, or too small or too plain for a bulk.
    overlaps : tuple of SpaceOverlap
        Empty unless both are matrices.
    norms : pair of float
        ‖A‖ and ‖B‖.
    drift : float or None
        ‖B − A‖/‖A‖, infinite where A alone is zero; None where the shapes differ.
    notes : tuple of str
        Why something was left out.
    """

    name: str
    second_name: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    outliers: tuple[int | None, int | None]
    overlaps: tuple[SpaceOverlap, ...]
    norms: tuple[float, float]
    drift: float | None
    notes: tuple[str, ...] = ()

    @property
    def space(self) -> SpaceOverlap | None:
        """The leading spaces that a table shows: of dimension 10, or the largest below."""
        return max((o for o in self.overlaps if o.k <= SHOWN_SPACE), key=lambda o: o.k, default=None)

    @property
    def overlap(self) -> float | None:
        """Mean squared cosine of their principal angles, of coordinates where they are common, else of rows."""
        if self.space is None:
            return None
        return self.space.tokens if self.space.coordinates is None else self.space.coordinates

    @property
    def norm_ratio(self) -> float:
        """‖B‖/‖A‖; 1 where both are zero."""
        first, second = self.norms
        return second / first if first else (math.inf if second else 1.0)

    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        first, second = (" x ".join(map(str, shape)) for shape in self.shapes)
        space = self.space
        return (
            one_line(self.name),
            (first if first == second else f"{first} → {second}") or "scalar",
            "–" if self.outliers == (None, None) else " → ".join(number(count) for count in self.outliers),
            "–" if space is None else str(space.k),
            number(self.overlap, 3),
            "–" if space is None else number(space.chance, 2),
            "–" if space is None or space.largest_angle is None else f"{space.largest_angle:.1f}°",
            number(self.norm_ratio, 4),
            "–" if self.drift is None else f"{100 * self.drift:.3g} %",
        )


@dataclass(frozen=True)
class CheckpointComparison(Result, schema="checkpoints"):
    """What :func:`compare_checkpoints` found; print it, plot it, or use the fields.

    Attributes
    ----------
    weights : tuple of WeightChange
        Every tensor that both checkpoints have, in the order of the first.
    only_first, only_second : tuple of str
        Tensors that only one of them has.
    failed : dict of str to str
        Tensors that could not be read or hold NaN, and why.
    missing : dict of str to str
        Tensors that a checkpoint announces and does not hold, such as those of a missing shard.
    skipped : dict of str to str
        Tensors of a type that is not read here.
    """

    weights: tuple[WeightChange, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    failed: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """How many tensors failed, are missing, were skipped, have no partner, or changed their shape."""
        return {
            "failed": len(self.failed),
            "missing": len(self.missing),
            "skipped": len(self.skipped),
            "unmatched": len(self.only_first) + len(self.only_second),
            "reshaped": sum(w.drift is None for w in self.weights),
            "unmeasured": sum(any("not counted" in note for note in w.notes) for w in self.weights),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Lines of the table under :data:`HEADER`."""
        return [weight.cells() for weight in self.weights]

    @property
    def notes(self) -> list[str]:
        """What the table does not show: names of one side alone, what was left out, and how to read the counts."""
        lines = [f"Only in the first: {name}" for name in self.only_first]
        lines += [f"Only in the second: {name}" for name in self.only_second]
        lines += [f"{w.name} is {w.second_name} in the second" for w in self.weights if w.name != w.second_name]
        lines += [f"{w.name}: {note}" for w in self.weights for note in w.notes]
        for kind in ("failed", "missing", "skipped"):
            lines += [f"{name} {kind}: {reason}" for name, reason in getattr(self, kind).items()]
        lines += [
            "Counts of outliers describe each weight; spikepool spectrum FILE --all --held-out says which to trust."
        ]
        return [one_line(line) for line in lines]

    def summary(self) -> str:
        """The comparison as text."""
        return "\n".join([*text_table([HEADER, *self.rows()]), *self.notes])

    def _record(self) -> dict[str, Any]:
        names = ("only_first", "only_second", "failed", "missing", "skipped", "counts")
        return record(self, *names, weights=[record(w, overlap=w.overlap) for w in self.weights])

    def _tables(self) -> list[Table]:
        return [(f"{len(self.weights)} tensors of two checkpoints", HEADER, self.rows())]

    def _notes(self) -> list[str]:
        return list(self.notes)

    def plot(self) -> Any:
        """Figure: drift and largest principal angle of every weight."""
        from spikepool.drawing.tables import draw_checkpoints

        return draw_checkpoints(self)


def compare_checkpoints(first: Any, second: Any, *, progress: bool | None = None) -> CheckpointComparison:
    """Compare every tensor that two checkpoints both have.

    Weights are matched by name. Where one checkpoint puts a prefix before all of its names (``transformer.wte.weight``
    for ``wte.weight``), it is left out. Rows of an embedding whose vocabularies differ are matched by the names of the
    tokens when a tokenizer lies beside each model.

    Parameters
    ----------
    first, second : str or path-like
        As for :meth:`spikepool.TableSpectrum.from_file`.
    progress : bool, optional
        Show a progress bar; by default on a terminal or in a notebook, when the work is long.

    Returns
    -------
    CheckpointComparison
    """
    files = first, second
    tensors = [list_tensors(file) for file in files]
    listed = [{tensor.name: tensor for tensor in found} for found in tensors]
    single = [len(found) == 1 for found in tensors]  # such as an npy file, whose tensor has no name
    for file, found in zip(files, listed, strict=True):
        if not found:
            raise TableFormatError("the file has no tensors", str(file), "See spectrum --list")
    pairs = pair_names(list(listed[0]), list(listed[1]))
    if not pairs:
        raise TableFormatError(
            "the checkpoints have no tensor in common",
            [next(iter(found)) for found in listed],
            "Name one tensor of each with --tensor, or rename them",
        )
    weights: list[WeightChange] = []
    problems: dict[str, dict[str, str]] = {"failed": {}, "missing": {}, "skipped": {}}
    with Progress(len(pairs), "tensors", show=progress) as bar:
        for names in pairs:
            entries = (listed[0][names[0]], listed[1][names[1]])
            trouble = next((entry for entry in entries if entry.problem), None)
            try:
                if trouble is not None:
                    kind = "missing" if trouble.dtype == "missing" else "skipped"
                    problems[kind][names[0]] = trouble.problem
                else:
                    weights.append(_compare(files, entries, single))
            except SpikepoolError as err:  # a damaged tensor does not spoil the others
                problems["failed"][names[0]] = str(err)
            bar.advance()
    seen = [{pair[side] for pair in pairs} for side in (0, 1)]
    only = [tuple(name for name in found if name not in seen[side]) for side, found in enumerate(listed)]
    return CheckpointComparison(tuple(weights), only[0], only[1], **problems)


def matching_matrices(first: Any, second: Any) -> Iterator[tuple[str, BlockSource, BlockSource]]:
    """Name and both sources of every matrix of real numbers that two checkpoints hold in one shape."""
    entries = [{t.name: t for t in list_tensors(file)} for file in (first, second)]
    for a, b in pair_names(*(list(tensors) for tensors in entries)):
        one, other = entries[0][a], entries[1][b]
        if one.is_matrix and other.is_matrix and one.shape == other.shape:
            single = [len(tensors) == 1 for tensors in entries]
            yield a, open_table(first, None if single[0] else a), open_table(second, None if single[1] else b)


def pair_names(first: list[str], second: list[str]) -> list[tuple[str, str]]:
    """Names of one weight in either checkpoint: equal, or equal up to one prefix; two single weights are a pair."""
    if len(first) == len(second) == 1:
        return [(first[0], second[0])]
    partner = {name: name for name in set(first) & set(second)}
    left, right = ([name for name in names if name not in partner] for names in (first, second))
    prefix, longer = _prefix(left, right)
    if prefix:
        known = set(right if longer == 1 else left)
        for name in left if longer == 1 else right:
            if prefix + name in known:
                here, there = (name, prefix + name) if longer == 1 else (prefix + name, name)
                partner[here] = there
    return [(name, partner[name]) for name in first if name in partner]


def _prefix(first: list[str], second: list[str]) -> tuple[str, int]:
    """The prefix, ending in a dot, that makes most names equal, and the side that has it."""
    prefixes: Counter[tuple[str, int]] = Counter()
    for side, (short, long) in enumerate(((second, first), (first, second))):
        wanted = set(short)
        for name in long:
            places = [i + 1 for i, letter in enumerate(name) if letter == "."]
            prefixes.update((name[:place], side) for place in places if name[place:] in wanted)
    return max(prefixes, key=lambda key: (prefixes[key], -len(key[0])), default=("", 0))


def _compare(files: tuple[Any, Any], entries: tuple[TensorEntry, TensorEntry], single: list[bool]) -> WeightChange:
    names = [None if alone else entry.name for entry, alone in zip(entries, single, strict=True)]
    shapes = (entries[0].shape, entries[1].shape)
    plain_pair = [open_any(file, name, shape) for file, name, shape in zip(files, names, shapes, strict=True)]
    drift, norms = _drift(plain_pair[0], plain_pair[1], shapes[0] == shapes[1])
    counts: tuple[int | None, int | None] = (None, None)
    overlaps: tuple[SpaceOverlap, ...] = ()
    notes: list[str] = []
    if all(entry.is_matrix for entry in entries):
        wide = shapes[0][0] < shapes[0][1]
        try:
            pair = (open_table(files[0], names[0], transpose=wide), open_table(files[1], names[1], transpose=wide))
        except MemoryBudgetError as err:
            notes.append(f"outliers not counted: {err}")
        else:
            outliers, reasons = zip(*(_outliers(source) for source in pair), strict=True)
            counts = (outliers[0], outliers[1])
            notes += [note for note in reasons if note]
            overlaps = _spaces(pair, files)
    if drift is None:
        notes.append("the shapes differ")
    return WeightChange(
        entries[0].name, entries[1].name, shapes, counts, overlaps, norms, drift, tuple(dict.fromkeys(notes))
    )


def open_any(file: Any, name: str | None, shape: tuple[int, ...]) -> BlockSource | None:
    """A tensor of any rank and type; None for one without entries."""
    return None if 0 in shape else open_blocks(locate_table(file).url, column=name, role="table")


def _outliers(source: BlockSource) -> tuple[int | None, str]:
    """Eigenvalues beyond the bulk, or why they are not counted."""
    try:
        fit = TableSpectrum(null_draws=0, repetitions=0, stability=False, influential=0, progress=False).fit(source)
    except SpikepoolError as err:
        return None, f"outliers not counted: {err}"
    return fit.n_outliers_, ""


def _spaces(pair: tuple[BlockSource, BlockSource], files: tuple[Any, Any]) -> tuple[SpaceOverlap, ...]:
    tokens: tuple[list[str] | None, list[str] | None] = (None, None)
    if pair[0].shape[0] != pair[1].shape[0] and all(names_an_embedding(source.name) for source in pair):
        tokens = (tokens_beside(files[0], pair[0].shape[0]), tokens_beside(files[1], pair[1].shape[0]))
    matched = match_rows(pair, tokens)
    if matched is None:
        return separate_overlaps(pair)
    common, _ = matched
    return joint_moments(common).overlaps()


def _drift(a: BlockSource | None, b: BlockSource | None, same: bool) -> tuple[float | None, tuple[float, float]]:
    """‖B − A‖/‖A‖ of equal shapes, summed from the differences so that small ones keep their digits; and both norms."""
    if a is None or b is None or not same:
        sizes = [
            0.0 if source is None else math.sqrt(sum(_squares(x) for x in flat_entries(source))) for source in (a, b)
        ]
        return (0.0 if same else None), (sizes[0], sizes[1])
    moved = first = second = 0.0
    for x, y in meeting(flat_entries(a), flat_entries(b)):
        moved, first, second = moved + _squares(y - x), first + _squares(x), second + _squares(y)
    norms = math.sqrt(first), math.sqrt(second)
    return (math.sqrt(moved / first) if first else math.inf if moved else 0.0), norms


def _squares(x: FloatArray) -> float:
    return float(np.dot(x, x))


def flat_entries(source: BlockSource) -> Iterator[FloatArray]:
    """All the entries in order, in float64 and in pieces; raises where one is not finite."""
    for start, chunk in source.chunks():
        entries = np.asarray(chunk).reshape(-1)
        for first in range(0, len(entries), PIECE):
            values = entries[first : first + PIECE].astype(np.float64)
            if not np.isfinite(values).all():
                raise NonFiniteError(
                    f"{source.name} contains NaN or infinities from row {start} on", remedy="Do not use it"
                )
            yield values
