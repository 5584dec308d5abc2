"""Does the fit predict rows it has not seen? Half of the rows fit the bulk, the other half test it.

The distance is the mean absolute difference between the predicted and the observed bulk eigenvalues of the
held-out half, over the mean of the predicted ones. What sampling alone would give is measured by going through the same
steps, fit included, with Gaussian tables drawn from the fitted population.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.laws.bulk_edge import BulkEdge, find_edge
from spikepool.tables.population import TablePopulation, fit_population, plug_in

LEVEL = 0.05  # of the test; the usual one


@dataclass(frozen=True)
class HeldOut:
    """Result of :func:`predict_held_out`.

    Attributes
    ----------
    distance : float
        Mean absolute error of the predicted bulk eigenvalues, over their mean.
    expected : float
        Median distance that sampling alone gives.
    limit : float
        Distance above which sampling explains it in 5 % of the repetitions or fewer (p_value ≤ .05).
    p_value : float
        Share of Gaussian repetitions at least as far off, (1 + exceedances)/(1 + repetitions).
    plug_in_distance : float
        The same distance when the observed eigenvalues of the first half are taken as the population's.
    predicted, observed : ndarray
        Bulk eigenvalues of the held-out half, largest first.
    """

    distance: float
    expected: float
    limit: float
    p_value: float
    plug_in_distance: float
    predicted: FloatArray
    observed: FloatArray

    @property
    def within_sampling_error(self) -> bool:
        """Whether sampling explains the distance at the 5 % level."""
        return self.p_value > LEVEL


def fit_table_bulk(eigenvalues: FloatArray, d: int, n: int, edge: BulkEdge) -> TablePopulation:
    """Population behind the eigenvalues after the outliers that `edge` counts."""
    k = edge.n_outliers
    return fit_population(eigenvalues[k:], d - k, n - k, edge.edge)


def predict_held_out(
    first: FloatArray,
    second: FloatArray,
    d: int,
    rows: tuple[int, int],
    edge: BulkEdge,
    repetitions: int,
    rng: np.random.Generator,
    step: Callable[[], None],
) -> HeldOut:
    """Predict the bulk of the second half from the first.

    Parameters
    ----------
    first, second : ndarray
        Nonzero eigenvalues of the two halves, largest first.
    d : int
        Columns of the table.
    rows : tuple of int
        Independent rows of each half.
    edge : BulkEdge
        Of the first half.
    repetitions : int
        Gaussian repetitions behind the p-value; 19 is the least with which 5 % can be reached.
    rng : numpy.random.Generator
    step : callable
        Called after each repetition.
    """
    k = edge.n_outliers
    population = fit_table_bulk(first, d, rows[0], edge)
    predicted = population.expected(rows[1] - k)
    # The largest k eigenvalues of either half are left out of the comparison: they are not the bulk.
    observed = second[k : k + len(predicted)]
    distance = _distance(predicted, observed)
    naive = plug_in(first[k:], d - k, rows[0] - k).expected(rows[1] - k)
    repeated = []
    for _ in range(repetitions):
        fake = [gaussian_eigenvalues(population.atoms, n - k, rng) for n in rows]
        again = fit_population(fake[0], d - k, rows[0] - k, find_edge(fake[0], max_outliers=0).edge)
        repeated.append(_distance(again.expected(rows[1] - k), fake[1]))
        step()
    exceeding = int(np.sum(np.array(repeated) >= distance))
    return HeldOut(
        distance=distance,
        expected=float(np.median(repeated)),
        limit=_limit(np.array(repeated)),
        p_value=(1 + exceeding) / (1 + repetitions),
        plug_in_distance=_distance(naive, observed),
        predicted=predicted,
        observed=observed,
    )


def _limit(repeated: FloatArray) -> float:
    """The repetition that a distance must exceed for p ≤ 5 %: an interpolated quantile could contradict the p-value."""
    most = int(LEVEL * (1 + len(repeated)) + 1e-9)  # repetitions, and the table itself, that may lie so far off
    return float(np.sort(repeated)[-most])


def _distance(predicted: FloatArray, observed: FloatArray) -> float:
    count = min(len(predicted), len(observed))
    return float(np.mean(np.abs(predicted[:count] - observed[:count])) / np.mean(predicted))


def gaussian_eigenvalues(atoms: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Nonzero eigenvalues, largest first, of the sample covariance of n Gaussian rows with these variances.

    For n ≥ d the rows are never drawn: the Cholesky factor of a white Wishart matrix has independent normal
    entries below its diagonal and chi entries on it (Bartlett).
    """
    d = len(atoms)
    if n < d:
        factor = rng.standard_normal((d, n))
    else:
        factor = np.tril(rng.standard_normal((d, d)), -1)
        factor[np.diag_indices(d)] = np.sqrt(rng.chisquare(n - np.arange(d)))
    factor *= np.sqrt(atoms)[:, None]
    small = factor @ factor.T if d <= n else factor.T @ factor
    return np.maximum(np.linalg.eigvalsh(small)[::-1] / n, 0.0)
