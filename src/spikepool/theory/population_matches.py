"""Which outlier of the population an outlier of the sample becomes as sequences are added."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from spikepool.kit.arrays import FloatArray
from spikepool.theory.usage_spectrum import UsageSpectrum


def population_matches(sample: UsageSpectrum, population: UsageSpectrum) -> list[int | None]:
    """For each outlier of `sample` its match among those of `population`; None where it ends in the bulk.

    The assignment has the largest sum of squared cosines; what an outlier holds outside all outliers of the population
    counts for the bulk.
    """
    count = len(sample.outliers)
    similar = (sample.profiles().T @ _axes(sample).T @ _axes(population) @ population.profiles()) ** 2
    # an isolated eigenvalue of the noise covariance is the same one for any number of sequences: match these by rank
    of_noise = [np.flatnonzero([kind == "noise" for kind in s.kinds()]) for s in (sample, population)]
    similar[of_noise[0]], similar[:, of_noise[1]] = 0.0, 0.0
    ranks = min(map(len, of_noise))
    similar[of_noise[0][:ranks], of_noise[1][:ranks]] = 1.0
    bulk = np.full((count, count), -1.0)
    np.fill_diagonal(bulk, 1 - similar.sum(axis=1))
    _, chosen = linear_sum_assignment(np.hstack([similar, bulk]), maximize=True)
    return [int(j) if j < similar.shape[1] else None for j in chosen]


def _axes(spectrum: UsageSpectrum) -> FloatArray:
    """Directions (V + 1, len(top) + 1) of the profiles among tokens.

    Latents that do not come from the tokens lie outside all of them: the last coordinate.
    """
    usage = spectrum.usage
    size = float(np.linalg.norm(usage.remainder))
    last = np.append(usage.remainder / size, 0.0) if usage.of_tokens and size > 0 else np.eye(usage.V + 1)[-1]
    return np.column_stack([np.vstack([usage.top.vectors, np.zeros(len(usage.top))]), last])
