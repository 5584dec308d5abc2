"""TableSpectrum: bulk, edge, outliers and verdict of one embedding table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spikepool.data.names import names_an_embedding
from spikepool.data.table_input import Table, as_table, open_table
from spikepool.errors import DomainError, InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.progress import Progress
from spikepool.kit.text import one_line
from spikepool.laws.bulk_edge import FEWEST, MARGIN, USUAL_SHARE, BulkEdge, find_edge, require_eigenvalues
from spikepool.tables import nulls, report
from spikepool.tables.gram import InfluentialRow, Moments, half_moments, heaviest, scan_rows, token_names
from spikepool.tables.heldout import fit_table_bulk, predict_held_out
from spikepool.tables.measures import measure
from spikepool.tables.population import TablePopulation, plug_in

MOST_DIRECTIONS = 20  # outlying directions whose rows are examined
ROUNDING = 1e-13  # eigenvalues below this share of the largest, times d, are zeros


@dataclass(frozen=True)
class TableOutlier:
    """One eigenvalue beyond the bulk.

    Attributes
    ----------
    eigenvalue : float
    population_eigenvalue : float
        The population eigenvalue that explains it, −1/m̲(λ): sampling pushes outliers up.
    distance : float
        Units beyond the edge of the bulk, the units of the margin.
    """

    eigenvalue: float
    population_eigenvalue: float
    distance: float


# Between these variances entries are floats of single precision, and cubes of the variances doubles.
SMALLEST_VARIANCE, LARGEST_VARIANCE = 1e-60, 1e60


def _check_size(source: Table, top: float) -> None:
    """Raise if the entries of a table, though not equal, are too small or too large for their squares."""
    largest = max(float(np.abs(block).max(initial=0.0)) for block in source.blocks())
    if largest > 0 and (top > LARGEST_VARIANCE or largest**2 <= SMALLEST_VARIANCE):
        raise DomainError(
            f"the entries of {source.name} are up to {largest:.3g} in size: powers of their variances overflow",
            top,
            "Rescale the table",
        )


class TableSpectrum(BaseEstimator):  # type: ignore[misc]
    """Spectrum of an embedding table: a bulk of unknown colour, its edge, and what stands beyond it.

    The eigenvalues of E'E/V (columns centred) are split in a bulk, described by Silverstein's law of an estimated
    population, and outliers, eigenvalues that stand beyond the edge of all those after them by a margin on the
    Tracy-Widom scale. The count is set beside the counts under other nulls, and the bulk is tested by
    predicting the spectrum of rows it has not seen.

    Parameters
    ----------
    center : bool, default=True
        Subtract the mean of each column.
    margin : float, default=4.7
        Least distance of an outlier beyond the edge; see :mod:`spikepool.laws.bulk_edge` for the choice.
    max_outliers : int, optional
        Most outliers considered; half of the eigenvalues by default. Beyond a tenth of them twice the margin is
        required.
    population : {"inverse", "plug-in"}, default="inverse"
        How the population of the bulk is estimated: by inverting Silverstein's equation, or as the paper does by
        taking the observed eigenvalues for it.
    null_draws : int, default=3
        Tables drawn for each of the simulated nulls; 0 leaves them out.
    repetitions : int, default=39
        Gaussian repetitions behind the p-value of the held-out prediction; 0 leaves the prediction out.
    stability : bool, default=True
        Count the outliers of two random halves of the rows as well.
    influential : int, default=10
        Rows to list.
    tokenizer : optional
        Names of the tokens: a tokenizer (`id_to_token` or `convert_ids_to_tokens`), a list with one name per row, or a
        function.
    random_state : int or numpy Generator, default=0
    progress : bool, optional
        Show a progress bar; by default on a terminal, when the work is long.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (d,)
        Eigenvalues of E'E/V, largest first.
    singular_values_ : ndarray
        Singular values of the centred table.
    edge_, threshold_ : float
        Right edge of the bulk law; eigenvalues above the threshold are outliers.
    margin_ : float
        The margin used: `margin`, or more for tables of fewer than 100 eigenvalues.
    statistics_ : ndarray
        T_k for k = 1, 2, ...: how far the k-th eigenvalue stands beyond the edge of those after it.
    n_outliers_ : int
    outliers_ : tuple of TableOutlier
    components_ : ndarray of shape (n_outliers_, d)
        Their directions, one per row.
    population_ : TablePopulation
        Estimated population of the bulk; ``population_.law()`` is its :class:`spikepool.GeneralizedLaw`.
    measures_ : Measures
        Norms, stable and effective rank, condition and power-law exponent of the table as stored, not centred.
    counts_ : dict
        Number of outliers under each null.
    nulls_ : tuple of Null
        The same with thresholds and meanings.
    half_counts_ : tuple of int or None
        Outliers found in either half of the rows on its own.
    heldout_ : HeldOut or None
        Prediction of half of the rows from the other half.
    trusted_ : bool or None
        Whether the bulk predicts held-out rows within sampling error, and few rows are copies of others; None when that
        was left out.
    n_copies_ : int
        Rows that are exact copies of others (of equal length about the mean); 0 where rows were not looked at.
    stable_ : bool or None
        Whether either half of the rows shows as many outliers as the whole; None when that was left out.
    influential_rows_ : list of InfluentialRow
        Rows that weigh most on the outlying directions; none where there is no such direction.
    verdict_ : str
    shape_, name_, rank_ : tuple, str, int
    """

    def __init__(
        self,
        *,
        center: bool = True,
        margin: float = MARGIN,
        max_outliers: int | None = None,
        population: str = "inverse",
        null_draws: int = 3,
        repetitions: int = 39,
        stability: bool = True,
        influential: int = 10,
        tokenizer: Any = None,
        random_state: Any = 0,
        progress: bool | None = None,
    ) -> None:
        self.center = center
        self.margin = margin
        self.max_outliers = max_outliers
        self.population = population
        self.null_draws = null_draws
        self.repetitions = repetitions
        self.stability = stability
        self.influential = influential
        self.tokenizer = tokenizer
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def from_file(
        cls, path: Any, tensor: str | None = None, *, transpose: bool = False, **parameters: Any
    ) -> TableSpectrum:
        """Analyse the table in a file; see :func:`spikepool.tables.open_table` for what can be read.

        Parameters
        ----------
        path : str or path-like
        tensor : str, optional
            Name of the tensor; the input embedding is found by its usual names.
        transpose : bool
            Exchange rows and columns.
        **parameters
            Parameters of the estimator.
        """
        return cls(**parameters).fit(open_table(path, tensor, transpose=transpose))

    def fit(self, E: Any, y: Any = None) -> TableSpectrum:
        """Analyse a table.

        Parameters
        ----------
        E : array of shape (V, d), or Table
            One row per token; in memory, a memory map, a sparse matrix, or a path. Memory maps are read block by block,
            at most three times: for the moments, for the rows, and for the null of shuffled columns when the table fits
            in memory.
        y : ignored
        """
        rng = self._check_parameters()
        source = as_table(E)
        name = token_names(self.tokenizer, source.shape[0])
        # rows of other weights are not tokens, and the report does not call them so
        self.rows_are_tokens_ = name is not None or names_an_embedding(source.name)
        steps = 3 + 2 * self.null_draws + self.repetitions
        require_eigenvalues(min(source.shape[0] - self._lost, source.shape[1]))  # before any work
        with Progress(steps, f"spectrum of {source.name}", show=self.progress) as bar:
            split = self.stability or self.repetitions > 0
            halves = half_moments(source, rng, split=split)
            whole = halves[0].copy()
            whole.merge(halves[1])
            bar.advance()
            nonzero, size, rows = self._decompose(whole, source)
            find = partial(find_edge, margin=self.margin, max_outliers=self.max_outliers)
            self._set_bulk(nonzero, size, rows, find(nonzero))
            self.components_ = (whole if self.center else whole.uncentered()).leading(self.n_outliers_).T
            bar.advance()
            norms = self._examine_rows(source, name)
            bar.advance()
            # before the nulls: how many of them are drawn must not change the verdict
            self.heldout_, self.half_counts_ = None, None
            if split:
                parts = [part if self.center else part.uncentered() for part in halves]
                degrees = (parts[0].n - self._lost, parts[1].n - self._lost)
                spectra = [part.eigenvalues()[: min(size, n)] for part, n in zip(parts, degrees, strict=True)]
                if min(map(len, spectra)) >= FEWEST or self.repetitions:
                    edges = find(spectra[0]), find(spectra[1])
                    self.half_counts_ = edges[0].n_outliers, edges[1].n_outliers
            if self.repetitions:
                self.heldout_ = predict_held_out(
                    spectra[0], spectra[1], size, degrees, edges[0], self.repetitions, rng, bar.advance
                )
            self._compare_nulls(source, whole, nonzero, norms, rows, rng, bar)
        self.verdict_ = report.verdict(self)
        return self

    def _check_parameters(self) -> np.random.Generator:
        check.flag(self.center, "center")
        check.positive(self.margin, "margin")
        check.choice(self.population, "population", ("inverse", "plug-in"))
        check.size(self.null_draws, "null_draws", minimum=0)
        check.size(self.influential, "influential", minimum=0)
        if self.max_outliers is not None:
            check.size(self.max_outliers, "max_outliers", minimum=0)
        check.flag(self.stability, "stability")
        if 0 < check.size(self.repetitions, "repetitions", minimum=0) < 19:
            raise InvalidInputError(
                "a p-value of 5 % needs at least 19 repetitions", self.repetitions, "Use 0 or at least 19"
            )
        return check.generator(self.random_state)

    @property
    def _lost(self) -> int:
        """Rows that centring costs."""
        return 1 if self.center else 0

    def _decompose(self, whole: Moments, source: Table) -> tuple[FloatArray, int, int]:
        """(nonzero eigenvalues, dimension they live in, independent rows)."""
        V, d = source.shape
        self.shape_, self.name_, self.n_features_in_ = (V, d), one_line(source.name), d
        stored = whole.uncentered()
        moments = whole if self.center else stored
        self.mean_ = moments.mean
        self.eigenvalues_ = moments.eigenvalues()
        self.singular_values_ = np.sqrt(V * self.eigenvalues_)
        rows = V - self._lost
        top = float(self.eigenvalues_[0])
        spread = float(np.sqrt(np.mean(whole.mean**2))) if self.center else 0.0
        # Rows that differ by no more than their rounding have no spectrum.
        if not SMALLEST_VARIANCE <= top <= LARGEST_VARIANCE:
            _check_size(source, top)
        if top <= (ROUNDING * spread) ** 2 or top == 0:
            raise DomainError("all rows of the table are equal", top, "Check which tensor was chosen")
        as_stored = stored.eigenvalues() if self.center else self.eigenvalues_
        self.measures_ = measure(V * as_stored[: min(V, d)])
        self.rank_ = min(rows, int(np.sum(self.eigenvalues_ > ROUNDING * d * top)))
        # A table of lower rank than its shape allows lives in a subspace, and so does its bulk.
        size = d if self.rank_ == min(d, rows) else self.rank_
        return self.eigenvalues_[: self.rank_], size, rows

    def _set_bulk(self, nonzero: FloatArray, size: int, rows: int, edge: BulkEdge) -> None:
        k = edge.n_outliers
        self.n_outliers_ = k
        self.threshold_ = edge.threshold
        self.margin_ = edge.margin
        self._bulk = nonzero, size, rows, edge
        self._population: TablePopulation | None = None
        self.edge_ = edge.edge if self.population == "inverse" else self.population_.edge
        self.statistics_ = edge.statistics
        self.outliers_ = tuple(
            TableOutlier(
                float(value),
                _population_value(float(value), nonzero[k:], rows - k),
                float((value - edge.edge) / edge.scale),
            )
            for value in nonzero[:k]
        )

    @property
    def population_(self) -> TablePopulation:
        """Estimated population of the bulk, fitted when first asked for."""
        check_is_fitted(self, "threshold_")
        if self._population is None:
            nonzero, size, rows, edge = self._bulk
            k = edge.n_outliers
            self._population = (
                fit_table_bulk(nonzero, size, rows, edge)
                if self.population == "inverse"
                else plug_in(nonzero[k:], size - k, rows - k)
            )
        return self._population

    def _examine_rows(self, source: Table, name: Callable[[int], str] | None) -> FloatArray:
        """List the heavy rows; norms of all the centred rows."""
        k = min(self.n_outliers_, MOST_DIRECTIONS)
        self.influential_rows_: list[InfluentialRow] = []
        self.n_copies_ = 0
        if not (self.influential and k) and not self.null_draws:  # nothing asked of a second pass
            return np.empty(0)
        norms, shares = scan_rows(source, self.mean_, self.components_[:k].T, self.eigenvalues_[:k])
        self.n_copies_ = len(norms) - len(np.unique(norms))
        if k:  # without an outlying direction there is nothing a row could carry much of
            self.influential_rows_ = heaviest(norms, shares, self.influential, name)
        return norms

    def _compare_nulls(
        self,
        source: Table,
        whole: Moments,
        nonzero: FloatArray,
        norms: FloatArray,
        rows: int,
        rng: np.random.Generator,
        bar: Progress,
    ) -> None:
        d, draws = source.shape[1], self.null_draws
        most = (
            max(int(USUAL_SHARE * len(nonzero)), self.n_outliers_) if self.max_outliers is None else self.max_outliers
        )
        found = [
            nulls.white(nonzero, d, rows),
            nulls.Null(
                "coloured",
                self.threshold_,
                self.n_outliers_,
                nulls.MEANINGS["coloured"],
                f"edge {self.edge_:.4g} of the fitted bulk and {self.margin_:.3g} units of margin",
            ),
            nulls.screenot(nonzero, d, rows, max(most, 1)),
        ]
        if draws:
            variances = np.diag(whole.lower) / whole.n
            found.append(nulls.permuted(source, nonzero, variances, rows, draws, rng, bar.advance))
            found.append(nulls.row_norm(nonzero, norms, d, draws, rng, bar.advance))
        self.nulls_ = tuple(found)
        self.counts_ = {null.name: null.count for null in found}

    @property
    def trusted_(self) -> bool | None:
        """Whether rows are not copies and the bulk predicts held-out ones; None when that was left out."""
        check_is_fitted(self, "verdict_")
        return None if self.heldout_ is None else report.can_be_trusted(self)

    @property
    def stable_(self) -> bool | None:
        """Whether either half of the rows shows as many outliers as the whole; None when that was left out."""
        check_is_fitted(self, "verdict_")
        return None if self.half_counts_ is None else {*self.half_counts_} == {self.n_outliers_}

    def _html_repr(self) -> str:
        """In a notebook: the analysis once fitted, scikit-learn's card before."""
        return report.as_html(self) if hasattr(self, "verdict_") else str(super()._html_repr())

    def summary(self) -> str:
        """The analysis as text."""
        check_is_fitted(self, "verdict_")
        return report.summary(self)

    def to_dict(self) -> dict[str, Any]:
        """The analysis as plain numbers, strings and lists, ready for JSON."""
        check_is_fitted(self, "verdict_")
        return report.as_dict(self)

    def plot(self) -> Any:
        """Figure with the paper's two panels (decay of the singular values, bulk against its law) and the nulls.

        Returns
        -------
        matplotlib.figure.Figure
        """
        check_is_fitted(self, "verdict_")
        from spikepool.drawing.tables import draw

        return draw(self)


def _population_value(value: float, bulk: FloatArray, n: int) -> float:
    """−1/m̲(λ) with m̲ the companion transform of the bulk, n rows."""
    companion = (np.sum(1 / (bulk - value)) - (n - len(bulk)) / value) / n
    return float(-1 / companion)
