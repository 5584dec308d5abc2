r"""Cross-position second moments of token sequences: the data's view of the positional correlation R.

For tokens x_t with mean m_t at position t, the estimate of R up to scale is

    G_ts = average over sequences of <x_t − m_t, x_s − m_s> / d      (t ≠ s),

over the sequences in which both positions are observed. In the model E[G_ts] = R_ts·(mu² + delta)/d for every
pair t ≠ s: only pairs of DIFFERENT tokens enter, because <x_t, x_t> is swamped by the token's own noise. The
sums are kept in folds (row number modulo the number of folds), so that streams give exactly what one pass gives,
and so that sampling errors and cross-fitting come from the same sums.

Positions may be bins of relative positions; several tokens of a row then share a label, and pairs of different
tokens within a bin fill the diagonal of G too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spikepool.data.tokens import ReadRows
from spikepool.errors import MemoryBudgetError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.threads import Map, serial_map
from spikepool.pooling.cross_sums import CrossSums

# Ten folds: a t-quantile close to the normal's, and nine tenths of the data in each cross-fit.
N_FOLDS = 10
# The sums sum_n c_ns x_nt are needed only for incomplete rows, but take folds·P²·d numbers.
CROSS_BYTES_LIMIT = 2 * 2**30


@dataclass(frozen=True)
class PositionalGram:
    """Off-diagonal positional Gram matrices by fold.

    Attributes
    ----------
    sums : array (folds, P, P)
        Sum of <x_t − m_t, x_s − m_s>/d over pairs of different tokens with labels t and s.
    pairs : array (folds, P, P)
        Number of such pairs.
    means : array (P, d)
        Mean token of each label.
    variance : float
        Mean over tokens of ‖x_t − m_t‖²/d.
    """

    sums: FloatArray
    pairs: FloatArray
    means: FloatArray
    variance: float

    def without_first(self) -> PositionalGram:
        """The same without the first position label."""
        return PositionalGram(self.sums[:, 1:, 1:], self.pairs[:, 1:, 1:], self.means[1:], self.variance)

    def average(self, folds: NDArray[np.bool_] | None = None) -> tuple[FloatArray, FloatArray]:
        """G and the number of pairs behind each entry; entries nobody observed are 0 with 0 pairs."""
        keep = slice(None) if folds is None else folds
        pairs = self.pairs[keep].sum(axis=0)
        return self.sums[keep].sum(axis=0) / np.where(pairs > 0, pairs, 1.0), pairs


class PositionalMoments:
    """Additive sums from which :class:`PositionalGram` follows; one pass over the data, in any blocks.

    Parameters
    ----------
    P, d : int
        Number of position labels and of features.
    rows : int
        Number of the first row, which decides on folds.
    """

    def __init__(self, P: int, d: int, rows: int = 0) -> None:
        self.P, self.d = P, d
        self.rows = rows  # number of the next row
        self.gram = np.zeros((N_FOLDS, P, P))  # sum of <Y_t, Y_s>, Y the sum of a row's tokens with the label
        self.self_gram = np.zeros((N_FOLDS, P))  # sum of ‖x‖² over tokens
        self.counts = np.zeros((N_FOLDS, P))
        self.count_pairs = np.zeros((N_FOLDS, P, P))  # sum of c_t c_s, c the number of a row's tokens
        self.token_sums = np.zeros((N_FOLDS, P, d))  # sum of Y_t
        self.complete_sums = np.zeros((N_FOLDS, P, d))  # the same over rows with one token for every label
        self.cross_sums: list[CrossSums] | None = None  # sum of c_s Y_t over the other rows, by fold

    def add(self, counts: FloatArray, read: ReadRows, over_folds: Map = serial_map) -> None:
        """Add a block of rows.

        Parameters
        ----------
        counts : array (b, P)
            Number of tokens by row and label.
        read : callable
            Gives for a slice of the rows the token sums (P, m, d), label first, and the sums of squared norms (m, P),
            or None in their place when no row has two tokens of one label.
        over_folds : callable
            Map over the folds; those touch no common sums, so threads do not change the numbers.
        """
        complete = (counts == 1).all(axis=1)
        if not complete.all() and self.cross_sums is None:
            self.cross_sums = self._allocate_cross()

        def add_fold(k: int) -> None:
            mine = slice((k - self.rows) % N_FOLDS, None, N_FOLDS)
            if len(counts[mine]):
                self._add_fold(k, *read(mine), counts[mine], complete[mine])

        over_folds(add_fold, N_FOLDS)
        self.rows += len(counts)

    def _add_fold(
        self, k: int, Y: FloatArray, norms: FloatArray | None, c: FloatArray, full: NDArray[np.bool_]
    ) -> None:
        wide = np.ascontiguousarray(Y).reshape(self.P, -1)
        product = wide @ wide.T
        self.gram[k] += product
        self.self_gram[k] += np.diag(product) if norms is None else norms.sum(axis=0)
        self.counts[k] += c.sum(axis=0)
        self.count_pairs[k] += c.T @ c
        sums = Y.sum(axis=1)
        self.token_sums[k] += sums
        if full.all():
            self.complete_sums[k] += sums
            return
        self.complete_sums[k] += Y[:, full].sum(axis=1)
        assert self.cross_sums is not None
        self.cross_sums[k].add(c[~full], Y[:, ~full])

    def merge(self, other: PositionalMoments) -> None:
        """Add sums over rows that follow."""
        self.gram += other.gram
        self.self_gram += other.self_gram
        self.counts += other.counts
        self.count_pairs += other.count_pairs
        self.token_sums += other.token_sums
        self.complete_sums += other.complete_sums
        if other.cross_sums is not None:
            if self.cross_sums is None:
                self.cross_sums = self._allocate_cross()
            for mine, theirs in zip(self.cross_sums, other.cross_sums, strict=True):
                mine.merge(theirs)
        self.rows = other.rows

    def _allocate_cross(self) -> list[CrossSums]:
        size = 8 * N_FOLDS * self.P**2 * self.d
        if size > CROSS_BYTES_LIMIT:
            raise MemoryBudgetError(
                f"padded rows at {self.P} positions of {self.d} features need {size / 2**30:.1f} GB of sums",
                self.P,
                "Use positions='relative' with a smaller n_bins",
            )
        # sums of equal rows may take what the products, should they be needed, leave of the limit
        slots = min(self.P, (CROSS_BYTES_LIMIT - size) // (8 * N_FOLDS * self.P * self.d))
        return [CrossSums(self.P, self.d, slots) for _ in range(N_FOLDS)]

    def finish(self) -> PositionalGram:
        """Centre the sums with the means of all rows: exact, whatever the blocks were.

        Sum over n of <Y_t − c_t m_t, Y_s − c_s m_s> = sum <Y_t, Y_s> − <sum c_s Y_t, m_s> − <m_t, sum c_t Y_s>
        + (sum c_t c_s)<m_t, m_s>; pairs of a token with itself are then taken off the diagonal.
        """
        totals = self.counts.sum(axis=0)
        means = self.token_sums.sum(axis=0) / np.where(totals > 0, totals, 1.0)[:, None]
        cross_with_means = np.einsum("ktd,sd->kts", self.complete_sums, means)
        if self.cross_sums is not None:
            cross_with_means += np.stack([sums.with_means(means) for sums in self.cross_sums])
        inner = means @ means.T
        sums = self.gram - cross_with_means - cross_with_means.transpose(0, 2, 1) + self.count_pairs * inner
        own = (
            self.self_gram
            - 2 * np.einsum("ktd,td->kt", self.token_sums, means)
            + self.counts * np.einsum("td,td->t", means, means)
        )
        diagonal = np.arange(self.P)
        sums[:, diagonal, diagonal] -= own
        pairs = self.count_pairs.copy()
        pairs[:, diagonal, diagonal] -= self.counts
        # absolute positions have no pair on the diagonal: the difference is rounding, not information
        sums = np.where(pairs > 0, sums, 0.0) / self.d
        return PositionalGram(sums, pairs, means, float(own.sum() / max(totals.sum(), 1.0) / self.d))
