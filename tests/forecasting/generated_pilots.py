"""Pilots drawn from known classes, and what ridge reaches on them with more rows."""

import numpy as np

from spikepool.ridge.gcv import fit_ridge


def classes(rng, n, d=40, K=3, gap=1.2, means=None):
    means = np.random.default_rng(99).standard_normal((K, d)) * gap / np.sqrt(d) * 2 if means is None else means
    y = rng.integers(0, len(means), n)
    return rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.3 + means[y], y


def accuracy_at(n, draw, trials=6, seed=1):
    """Accuracy of ridge on n fresh rows, by doing it."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(trials):
        X, y = draw(rng, n)
        new, right = draw(rng, 4000)
        fit = fit_ridge(X, np.where(y[:, None] == np.arange(y.max() + 1), 1.0, -1.0))
        found.append((fit.predict(new).argmax(axis=1) == right).mean())
    return float(np.mean(found))
