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

The comparison of two tables in words, in plain data and as HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from spikepool.data.blocks import BlockSource
from spikepool.data.table_input import as_table
from spikepool.errors import ShapeError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.showing import Result, Table, record
from spikepool.tables.delta import WeightDelta, difference, examine
from spikepool.tables.geometry import (
    SpaceOverlap,
    joint_moments,
    match_rows,
    relative_distance,
    row_changes,
    separate_overlaps,
)
from spikepool.tables.spectrum import TableSpectrum

HEADER = ("", "rows", "columns", "outliers", "bulk edge", "largest", "trusted", "stable")
OVERLAP_HEADER = ("k", "coordinates", "tokens", "largest angle", "chance")


def change_sentence(comparison: Any) -> str:
    """How far the tables and their tokens are apart, or why that cannot be said."""
    if not comparison.common:
        return "The rows cannot be matched (different numbers of rows and no common names), so tokens are not compared."
    noun = "tokens" if comparison.first.rows_are_tokens_ else "rows"
    if not comparison.moved and comparison.changes.max() < 1e-5:
        return f"{comparison.common:,} common {noun}: the tables are equal up to rounding and a shift of all rows."
    text = f"{comparison.common:,} common {noun}: the second table differs from the first by "
    if comparison.change is not None:
        text += f"{comparison.change:.1%} of its size as stored, "
    text += f"{comparison.rotated_change:.1%} after the best rotation."
    quantiles = np.quantile(comparison.changes, [0.5, 0.9, 0.99])
    how = "" if comparison.basis == "as stored" else ", after rotation because the coordinates are unrelated"
    return text + (
        f" Half of the {noun} moved by less than {quantiles[0]:.3g} of a typical vector, 90 % by less than "
        f"{quantiles[1]:.3g}, 99 % by less than {quantiles[2]:.3g}{how}."
    )


def _degrees(angle: float | None) -> str:
    return "–" if angle is None else f"{angle:.1f}°"


# Correlation tr(A'B)/(‖A‖‖B‖) from which two tables are taken to share coordinates: half way between a table and itself
# (1) and tables in unrelated coordinates (0).
SHARED_COORDINATES = 0.5
UNMOVED = 1e-6  # changes below this are rounding


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
class TableComparison(Result, schema="compare"):
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
    delta : TableSpectrum or None
        Spectrum of the difference.
    change_kind : WeightDelta
        What kind of change it is, in a sentence.
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
    pair: tuple[BlockSource, BlockSource] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def delta(self) -> TableSpectrum | None:
        """A fitted :class:`spikepool.TableSpectrum` of second − first over the common tokens, not centred.

        None where the tables cannot be subtracted (unmatched rows, different widths) or are equal, and where the
        difference has too few nonzero eigenvalues for a bulk, as after merging an adapter; `change_kind` has its rank.
        """
        if self.pair is None or self.pair[0].shape != self.pair[1].shape or self.change_kind.kind == "identical":
            return None
        settings = self.first.get_params() | {"center": False, "null_draws": 0, "tokenizer": None}
        try:
            return TableSpectrum(**settings).fit(difference(*self.pair))
        except SizeError:
            return None

    @cached_property
    def change_kind(self) -> WeightDelta:
        """What kind of change it is: rounding, a scale, noise, a few directions; see :mod:`spikepool.tables.delta`."""
        if self.pair is None or self.pair[0].shape != self.pair[1].shape:
            raise ShapeError("tables of different shapes have no difference", remedy="Compare tables of equal shape")
        return examine(*self.pair)

    def _record(self) -> dict[str, Any]:
        levels = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
        quantiles = None if self.changes is None else {f"{q:g}": float(np.quantile(self.changes, q)) for q in levels}
        names = ("overlaps", "common", "basis", "change", "rotated_change", "moved")
        spectra = {"first": self.first.to_dict(), "second": self.second.to_dict()}
        return record(self, *names, change_quantiles=quantiles, **spectra)

    def _tables(self) -> list[Table]:
        named = {f"first: {self.first.name_}": self.first, f"second: {self.second.name_}": self.second}
        spectra = [
            (name, *fit.shape_, fit.n_outliers_, fit.edge_, float(fit.eigenvalues_[0]), fit.trusted_, fit.stable_)
            for name, fit in named.items()
        ]
        overlaps = [(str(o.k), o.coordinates, o.tokens, _degrees(o.largest_angle), o.chance) for o in self.overlaps]
        moved = [
            (f"row {t.row}" if t.token is None else f"{t.token!r} (row {t.row})", t.change, t.cosine)
            for t in self.moved
        ]
        return [
            ("Two tables", HEADER, spectra),
            ("Overlap of the leading spaces (1: equal)", OVERLAP_HEADER, overlaps),
            *([("", ("moved most", "change", "cosine"), moved)] if moved else []),
        ]

    def _notes(self) -> list[str]:
        return [change_sentence(self)]

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
    """Compare two tables: spectra and counts, leading spaces, and change by token where the vocabularies match.

    Parameters
    ----------
    first, second : array of shape (V, d), or BlockSource
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
    sources = as_table(first), as_table(second)
    most = check.size(most, "most", minimum=0)
    for names, source in zip(tokens, sources, strict=True):
        if names is not None and len(names) != source.shape[0]:
            raise ShapeError(f"{source.name} needs one name per row", len(names), f"Pass {source.shape[0]} names")
    settings = {"null_draws": 0, **parameters}
    fits = [
        TableSpectrum(tokenizer=names, **settings).fit(source) for source, names in zip(sources, tokens, strict=True)
    ]
    matched = match_rows(sources, tokens)
    if matched is None:
        return TableComparison(fits[0], fits[1], separate_overlaps(sources), 0, None, None, None, None, ())
    pair, rows = matched
    joint = joint_moments(pair)
    left, singular, right = np.linalg.svd(joint.ab, full_matrices=False)
    powers = float(np.trace(joint.aa)), float(np.trace(joint.bb))
    stored = float(np.trace(joint.ab)) if len(joint.aa) == len(joint.bb) else None
    shared = stored is not None and stored > SHARED_COORDINATES * np.sqrt(powers[0] * powers[1])
    rotation = None if shared else left @ right
    changes, cosines = row_changes(pair, joint.mean, rotation, np.sqrt(powers[0]))
    order = np.argsort(-changes, kind="stable")[:most]
    names = tokens[0]
    return TableComparison(
        fits[0],
        fits[1],
        joint.overlaps(),
        joint.n,
        "as stored" if shared else "rotated",
        None if stored is None else relative_distance(powers, stored),
        relative_distance(powers, float(singular.sum())),
        changes,
        tuple(
            MovedToken(int(rows[i]), None if names is None else names[rows[i]], float(changes[i]), float(cosines[i]))
            for i in order
            if changes[i] > UNMOVED
        ),
        pair,
    )
