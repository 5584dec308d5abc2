"""Does the use of tokens explain the spectrum? Pooled noise with Zipf's frequencies, drawn and compared.

Frequent tokens put eigenvalues beyond the bulk of pooled noise without any signal. Where the vocabulary and the weights
are known, the spectrum of noise pooled over tokens of frequencies ``rank^-a`` is drawn for a range of exponents a. If
one of them gives the eigenvalues observed, the largest ones included, there is nothing left for a signal to explain.
"""

from __future__ import annotations

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.trust.effort import FULL
from spikepool.trust.sample import COMPONENTS

_EXPONENTS = tuple(np.arange(0.125, 2.01, 0.125))
# Mean departure of the log eigenvalues, and largest one of the first ten, up to which they are explained, as (constant,
# multiple of sqrt(2/d)): the first scatter as the squared norms of the frequent tokens' embeddings do.
_MEAN_DEPARTURE = (0.03, 0.3)
_TOP_DEPARTURE = (0.05, 3.0)
# Bytes of an embedding table from which drawing it takes long.
LARGEST_TABLE = 192 * 2**20


def explaining_usage(values: FloatArray, n: int, V: int, weights: FloatArray, rng: np.random.Generator) -> float | None:
    """Zipf's exponent that explains eigenvalues (d,) of n rows, or None."""
    d = len(values)
    if 8 * V * d > LARGEST_TABLE:
        return None
    compared = slice(0, max(COMPONENTS, min(n - 1, d) // 2))
    observed = np.log(np.maximum(values[compared], np.finfo(float).tiny))

    def departure(drawn: FloatArray) -> FloatArray:
        difference = observed - np.log(np.maximum(drawn[compared], np.finfo(float).tiny))
        return np.asarray(difference - np.median(difference))  # the noise level is free

    def size(exponent: float) -> float:
        return float(np.abs(departure(pooled_spectrum(n, d, V, weights, exponent, rng))).mean())

    best = min(_EXPONENTS, key=size)
    draws = [pooled_spectrum(n, d, V, weights, best, rng)[compared] for _ in range(FULL.curve_draws)]
    drawn = np.mean(np.log(draws), axis=0)
    left = departure(np.exp(drawn))
    top = float(np.abs(left[:COMPONENTS]).max())
    mean_limit, top_limit = (a + b * np.sqrt(2 / d) for a, b in (_MEAN_DEPARTURE, _TOP_DEPARTURE))
    if float(np.abs(left).mean()) > mean_limit or top > top_limit:
        return None
    return float(best)


def pooled_spectrum(
    n: int, d: int, V: int, weights: FloatArray, exponent: float, rng: np.random.Generator
) -> FloatArray:
    """Eigenvalues of the covariance of n rows of pooled noise over tokens of frequencies rank^-exponent."""
    frequencies = np.arange(1.0, V + 1) ** -exponent
    tokens = rng.choice(V, size=(n, len(weights)), p=frequencies / frequencies.sum())
    table = rng.standard_normal((V, d))
    x = np.zeros((n, d))
    for position, weight in enumerate(weights):
        x += weight * table[tokens[:, position]]
    x -= x.mean(axis=0)
    small = x.T @ x if d <= n else x @ x.T
    return np.asarray(np.maximum(np.linalg.eigvalsh(small)[::-1], np.finfo(float).tiny) / (n - 1))
