r"""Two tables side by side: spectra, leading spaces, and how far each token has moved.

Let A and B be the centred tables, with eigenvectors U_A, U_B of A'A and B'B. Two kinds of leading spaces are compared,
each by its overlap, the mean squared cosine of the principal angles (:math:`\|P'Q\|_F^2/k` of orthonormal bases):

* of **coordinates**, spanned by the top k columns of U_A and U_B; needs the same number of coordinates;
* of **tokens**, spanned by the top k left singular vectors A U_A/s_A and B U_B/s_B; needs the same tokens in the rows,
  and no common coordinates. Their cosines are those of :math:`s_A^{-1} U_A' (A'B) U_B s_B^{-1}`.

With the same tokens, A'B also gives the distance of the tables, as stored and after the best rotation (orthogonal
Procrustes, the narrower table padded with zeros):

.. math:: \|A − B\|^2 = \|A\|^2 + \|B\|^2 − 2\,\mathrm{tr}(A'B), \qquad
          \min_Q \|AQ − B\|^2 = \|A\|^2 + \|B\|^2 − 2\|A'B\|_*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.sources import ArraySource, TableSource, block_rows
from spikepool.data.table_input import as_source
from spikepool.errors import ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.showing import plain
from spikepool.tables import compare_report
from spikepool.tables.gram import Moments, stream_moments
from spikepool.tables.spectrum import TableSpectrum

SIZES = (1, 2, 5, 10, 20, 50)  # dimensions of the leading spaces
# Correlation tr(A'B)/(‖A‖‖B‖) from which two tables are taken to share coordinates: half way between a table and itself
# (1) and tables in unrelated coordinates (0).
SHARED_COORDINATES = 0.5
UNMOVED = 1e-6  # changes below this are rounding
FEWEST_COMMON = 20  # tokens with a common name below which two vocabularies do not match


@dataclass(frozen=True)
class SpaceOverlap:
    """Overlap of the leading spaces of dimension `k`.

    Attributes
    ----------
    k : int
    coordinates, tokens : float or None
        Mean squared cosine of the principal angles in either space; None where the tables cannot be compared so.
    largest_angle : float or None
        Largest principal angle in degrees, of coordinates where they are common, else of tokens.
    chance : float
        Mean overlap of unrelated spaces of that kind, k/d or k/V.
    """

    k: int
    coordinates: float | None
    tokens: float | None
    largest_angle: float | None
    chance: float


@dataclass(frozen=True)
class MovedToken:
    """A token whose vector differs between the tables.

    Attributes
    ----------
    row : int
        Its row in the first table.
    token : str or None
    change : float
        Length of the difference in units of the root mean square row of the first table.
    cosine : float
        Cosine of the two centred vectors.
    """

    row: int
    token: str | None
    change: float
    cosine: float


@dataclass(frozen=True)
class TableComparison:
    """What :func:`compare_tables` found; print it, plot it, or use the fields.

    Attributes
    ----------
    first, second : TableSpectrum
        The analysis of each table.
    overlaps : tuple of SpaceOverlap
    common : int
        Tokens found in both tables; 0 when their rows cannot be matched.
    basis : {"as stored", "rotated"} or None
        Whether tokens are compared as they are or after the best rotation, because the coordinates are unrelated.
    change, rotated_change : float or None
        ‖A − B‖/‖A‖ as stored, and after the best rotation, over the common tokens.
    changes : ndarray or None
        Change of each common token, in the order of the first table.
    moved : tuple of MovedToken
        The tokens that moved most, first.
    """

    first: TableSpectrum
    second: TableSpectrum
    overlaps: tuple[SpaceOverlap, ...]
    common: int
    basis: str | None
    change: float | None
    rotated_change: float | None
    changes: FloatArray | None
    moved: tuple[MovedToken, ...]

    def summary(self) -> str:
        """The comparison as text."""
        return compare_report.summary(self)

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        record: dict[str, Any] = plain(compare_report.as_dict(self))
        return record

    def _repr_html_(self) -> str:
        return compare_report.as_html(self)

    def plot(self) -> Any:
        """Figure: both spectra, overlap of the leading spaces, and how far tokens moved."""
        from spikepool.drawing.tables import draw_comparison

        return draw_comparison(self)


def compare_tables(
    first: Any,
    second: Any,
    *,
    tokens: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
    most: int = 10,
    **parameters: Any,
) -> TableComparison:
    """Compare two tables: spectra and counts, leading spaces, and drift by token where the vocabularies match.

    Parameters
    ----------
    first, second : array of shape (V, d), or TableSource
    tokens : pair of sequences of str, optional
        Names of the rows. Rows are matched by name when both are given, by number when both tables have as many
        rows, and otherwise not at all.
    most : int
        Moved tokens to list.
    **parameters
        Of both :class:`spikepool.TableSpectrum`; simulated nulls are left out unless asked for.

    Returns
    -------
    TableComparison
    """
    sources = as_source(first), as_source(second)
    most = check.size(most, "most", minimum=0)
    for names, source in zip(tokens, sources, strict=True):
        if names is not None and len(names) != source.shape[0]:
            raise ShapeError(f"{source.name} needs one name a row", len(names), f"Pass {source.shape[0]} names")
    settings = {"null_draws": 0, **parameters}
    fits = [
        TableSpectrum(tokenizer=names, **settings).fit(source) for source, names in zip(sources, tokens, strict=True)
    ]
    matched = _match(sources, tokens)
    if matched is None:
        moments = [stream_moments(source) for source in sources]
        values, vectors = zip(*(m.eigenpairs() for m in moments), strict=True)
        overlaps = _overlaps(values, vectors, None, [source.shape for source in sources])
        return TableComparison(fits[0], fits[1], overlaps, 0, None, None, None, None, ())
    pair, rows = matched
    n, (da, db) = pair[0].shape[0], (pair[0].shape[1], pair[1].shape[1])
    joint = _joint_moments(pair)
    gram = np.tril(joint.lower) + np.tril(joint.lower, -1).T
    aa, ab, bb = gram[:da, :da], gram[:da, da:], gram[da:, da:]
    values, vectors = zip(*(_eigenpairs(part / n) for part in (aa, bb)), strict=True)
    overlaps = _overlaps(values, vectors, ab / n, [(n, da), (n, db)])
    left, singular, right = np.linalg.svd(ab, full_matrices=False)
    powers = float(np.trace(aa)), float(np.trace(bb))
    stored = float(np.trace(ab)) if da == db else None
    shared = stored is not None and stored > SHARED_COORDINATES * np.sqrt(powers[0] * powers[1])
    rotation = None if shared else left @ right
    changes, cosines = _drift(pair, joint.mean, rotation, np.sqrt(powers[0] / n))
    order = np.argsort(-changes, kind="stable")[:most]
    names = tokens[0]
    return TableComparison(
        fits[0],
        fits[1],
        overlaps,
        n,
        "as stored" if shared else "rotated",
        None if stored is None else _distance(powers, stored),
        _distance(powers, float(singular.sum())),
        changes,
        tuple(
            MovedToken(int(rows[i]), None if names is None else names[rows[i]], float(changes[i]), float(cosines[i]))
            for i in order
            if changes[i] > UNMOVED
        ),
    )


def _match(
    sources: tuple[TableSource, TableSource], tokens: tuple[Sequence[str] | None, Sequence[str] | None]
) -> tuple[tuple[TableSource, TableSource], NDArray[np.intp]] | None:
    """Both tables restricted to their common tokens in one order, and the rows of the first; None when unmatched."""
    a, b = sources
    names_a, names_b = tokens
    if names_a is None or names_b is None or list(names_a) == list(names_b):
        return (sources, np.arange(a.shape[0])) if a.shape[0] == b.shape[0] else None
    place = {name: row for row, name in reversed(list(enumerate(names_b)))}
    pairs = [(row, place[name]) for row, name in enumerate(names_a) if name in place]
    if len(pairs) < FEWEST_COMMON:
        return None
    rows = np.array(pairs, dtype=np.intp)
    return (_rows_of(a, rows[:, 0]), _rows_of(b, rows[:, 1])), rows[:, 0]


def _rows_of(source: TableSource, rows: NDArray[np.intp]) -> TableSource:
    """A table of the given rows, in memory in single precision."""
    d = source.shape[1]
    require_memory(4 * len(rows) * d, f"matching {len(rows)} tokens by name", "Save both tables in the same order")
    table = np.empty((len(rows), d), dtype=np.float32)
    start = 0
    for block in source.blocks():
        inside = (rows >= start) & (rows < start + len(block))
        table[inside] = block[rows[inside] - start]
        start += len(block)
    return ArraySource(table, source.name)


def _joint_moments(pair: tuple[TableSource, TableSource]) -> Moments:
    """Moments of the tables side by side, in one pass over both."""
    width = pair[0].shape[1] + pair[1].shape[1]
    moments = Moments.zero(width)
    rows = block_rows(width)
    for blocks in _side_by_side(pair, rows):
        moments.add(np.concatenate(blocks, axis=1))
    return moments


def _side_by_side(pair: tuple[TableSource, TableSource], rows: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The same rows of both tables; formats differ in where a block ends."""
    left, right = pair[0].blocks(rows), pair[1].blocks(rows)
    a, b = next(left), next(right)
    while True:
        count = min(len(a), len(b))
        yield a[:count], b[:count]
        a, b = a[count:], b[count:]
        a = a if len(a) else next(left, a)
        b = b if len(b) else next(right, b)
        if not len(a) or not len(b):
            return


def _eigenpairs(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _overlaps(values: Any, vectors: Any, cross: FloatArray | None, shapes: Any) -> tuple[SpaceOverlap, ...]:
    """Overlaps for every size that both tables have directions for; `cross` is A'B/n of matched rows."""
    (Va, da), (Vb, db) = shapes
    ranks = [int(np.sum(v > 1e-12 * v[0])) for v in values]
    found = []
    for k in (k for k in SIZES if k <= min(*ranks, max(da, db) // 2)):
        a, b = vectors[0][:, :k], vectors[1][:, :k]
        coordinates = np.linalg.svd(a.T @ b, compute_uv=False) if da == db else None
        tokens = None
        if cross is not None:
            scale = np.sqrt(np.outer(values[0][:k], values[1][:k]))
            tokens = np.linalg.svd(a.T @ cross @ b / scale, compute_uv=False)
        shown = coordinates if coordinates is not None else tokens
        found.append(
            SpaceOverlap(
                k,
                None if coordinates is None else float(np.mean(coordinates**2)),
                None if tokens is None else float(np.mean(tokens**2)),
                None if shown is None else float(np.degrees(np.arccos(np.clip(shown[-1], 0, 1)))),
                k / (da if da == db else max(Va, Vb)),
            )
        )
    return tuple(found)


def _drift(
    pair: tuple[TableSource, TableSource], mean: FloatArray, rotation: FloatArray | None, unit: float
) -> tuple[FloatArray, FloatArray]:
    """(length of each token's move in units of the root mean square row, cosine), in one more pass."""
    n, da = pair[0].shape
    changes, cosines = np.empty(n), np.empty(n)
    rows = block_rows(len(mean))
    start = 0
    for a, b in _side_by_side(pair, rows):
        a = a - mean[:da]
        b = b - mean[da:]
        here = slice(start, start + len(a))
        norms = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
        turned = a if rotation is None else a @ rotation
        products = np.einsum("ij,ij->i", turned, b)
        # what a wider first table has outside the narrower second one is part of the move
        outside = np.maximum(norms[0] ** 2 - np.einsum("ij,ij->i", turned, turned), 0) if rotation is not None else 0.0
        changes[here] = np.sqrt(np.einsum("ij,ij->i", turned - b, turned - b) + outside) / unit
        cosines[here] = products / np.maximum(norms[0] * norms[1], np.finfo(float).tiny)
        start += len(a)
    return changes, cosines


def _distance(powers: tuple[float, float], inner: float) -> float:
    """‖A − B‖/‖A‖ from squared norms and inner product."""
    return float(np.sqrt(max(powers[0] + powers[1] - 2 * inner, 0.0) / powers[0]))
