"""Row scales: how much more some rows vary than others.

Rows are ``x_i = sqrt(s_i)·Sigma^{1/2} z_i`` with scales of mean one. Two statistics show them: the squared norm of a
row (all components, weighted by variance) and its mean whitened square over the leading components (each weighted
alike). Both scatter for equal scales too, with variance g, which is taken out by shrinking towards one::

    s = 1 + a (r − 1),   a = sqrt((v − g)/((1 + g) v)),   v = var(r)

so that ``var(s) = (v − g)/(1 + g)``, the variance of scales that explains v = var(s)(1 + g) + g. Heavy tails matter
more for the overlap of spans than the spectrum does: without scales even the true spectrum predicts too much agreement.
"""

from __future__ import annotations

import numpy as np

from spikepool.data.description import norm_scatter
from spikepool.kit.arrays import FloatArray, IntArray


def shrunken(statistic: FloatArray, scatter: float) -> FloatArray:
    """Scales of mean one from a statistic of the rows and its scatter under equal scales."""
    r = statistic / statistic.mean()
    v = float(r.var())
    if v <= scatter:
        return np.ones(len(r))
    slope = np.sqrt((v - scatter) / ((1 + scatter) * v))
    return np.asarray(1 + slope * (r - 1))


def candidates(
    norms: FloatArray, whitened: FloatArray, values: FloatArray, n_whitened: int, counts: IntArray | None = None
) -> dict[str, FloatArray]:
    """The three hypotheses about the scales: equal, by norm, by whitened square.

    `counts` are multiplicities of the rows: c equal rows are one row of c times the scale.
    """
    hypotheses = {
        "gauss": np.ones(len(norms)),
        "norm": shrunken(norms, norm_scatter(float(values.sum()), float((values**2).sum()), len(norms))),
        "white": shrunken(whitened, 2 / n_whitened),
    }
    if counts is None:
        return hypotheses
    return {name: s * counts / np.mean(s * counts) for name, s in hypotheses.items()}
