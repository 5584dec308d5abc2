"""Rows that seem to depend on each other though no groups were named: close neighbours that share their targets.

Rows of one patient, speaker or document lie closer together than independent rows, and share a label that their
features do not explain. A left-out row whose neighbour is trained on is then not a new row, and scores are too high.
Two signs are looked for, and both must be there:

* the distance of a row to its nearest neighbour over that to its 32nd, in the median, against Gaussian rows with the
  same spectrum and the same norms;
* the cosine between the residuals of a row and its nearest neighbour, left out together by ridge, beyond that with
  its 21st to 30th neighbours. Targets of independent rows agree no more than the fit explains; where the fit is of the
  wrong form, near and far neighbours share its error alike.

Either sign alone has other reasons: short texts have near neighbours, and classes of several clusters share residuals.
Clusters within a class that hardly overlap have both, and cannot be told from groups.
No kind of independent rows of ``benchmarks/studies/plan_worlds.py`` has both; ten rows of a patient have .68 and .58 in
the median and are named in 17 of 40 samples of 400 rows. So are 6 of 116 samples of 200 and 500 rows of 21 real tasks,
all of them intents in few classes or digits. With an agreement of .45 they would be nearly all patients, and 21 of the
116. Dependence that is weaker, or not visible in the features, cannot be seen.
"""

from __future__ import annotations

import numpy as np

from spikepool.data.description import Caution
from spikepool.forecasting.leave_out import Decomposition, chosen_penalty, decompose
from spikepool.forecasting.pilot import LOG_PENALTIES
from spikepool.kit.arrays import FloatArray, IntArray

_NEIGHBOUR, _FAR_NEIGHBOURS = 32, slice(20, 30)
# Rows that are compared with each other.
_MOST_ROWS = 1500


def dependence_caution(
    X: FloatArray,
    Y: FloatArray,
    labels: IntArray | None,
    *,
    closeness: float = 0.75,
    agreement: float = 0.6,
) -> Caution | None:
    """The warning about rows that seem to belong together, if both signs are there.

    Parameters
    ----------
    X, Y : array (n, d), (n, k)
        Features and targets.
    labels : array (n,) or None
        Classes; distances are taken about their means.
    closeness, agreement : float
        The first sign below which, and the second above which, the warning is given.
    """
    rng = np.random.default_rng(0)
    if len(X) > _MOST_ROWS:
        rows = rng.choice(len(X), _MOST_ROWS, replace=False)
        X, Y, labels = X[rows], Y[rows], None if labels is None else labels[rows]
    if len(X) <= 2 * _NEIGHBOUR:
        return None
    centred = X - X.mean(axis=0)
    seen = relative_closeness(centred, labels, rng)
    if seen >= closeness:
        return None
    parts = decompose(centred)
    penalties = parts.squared.sum() / len(X) * 10.0**LOG_PENALTIES
    shared = shared_residuals(parts, Y, centred, float(penalties[chosen_penalty(parts, Y - Y.mean(axis=0), penalties)]))
    if shared <= agreement:
        return None
    return Caution(
        "dependence",
        f"nearest neighbours are {seen:.2f} times as far apart as in independent rows, and their targets agree beyond "
        f"what ridge explains (correlation {shared:.2f}): if rows belong together (patients, writers, documents), name "
        "them with groups=; scores are too high otherwise",
    )


def relative_closeness(centred: FloatArray, labels: IntArray | None, rng: np.random.Generator) -> float:
    """Median ratio of the distance to the nearest and to the 32nd neighbour, over that of Gaussian rows."""
    x = centred.copy()
    if labels is not None:
        sums = np.zeros((int(labels.max()) + 1, x.shape[1]))
        np.add.at(sums, labels, x)
        x -= (sums / np.maximum(np.bincount(labels), 1)[:, None])[labels]
    norms, spread = np.linalg.norm(x, axis=1), np.linalg.svd(x, compute_uv=False)
    drawn = rng.standard_normal((len(x), len(spread))) * spread
    drawn *= (norms / np.maximum(np.linalg.norm(drawn, axis=1), np.finfo(float).tiny))[:, None]
    own, other = (np.sort(_distances(rows), axis=1) for rows in (x, drawn))
    ratios = [np.median(d[:, 0] / np.maximum(d[:, _NEIGHBOUR - 1], np.finfo(float).tiny)) for d in (own, other)]
    return float(ratios[0] / max(ratios[1], np.finfo(float).tiny))


def shared_residuals(parts: Decomposition, Y: FloatArray, centred: FloatArray, penalty: float) -> float:
    """Mean cosine of the residuals of nearest neighbours, left out in pairs, less that of the 21st to 30th."""
    n, Z = len(Y), Y - Y.mean(axis=0)
    share = parts.squared / (parts.squared + penalty)
    hat = 1 / n + (parts.left * share) @ parts.left.T
    left = Z - parts.left @ (share[:, None] * (parts.left.T @ Z))
    own = np.arange(n)
    order = np.argsort(_distances(centred), axis=1)

    def cosine(other: IntArray) -> FloatArray:
        # the two residuals without both rows: the inverse of I − H over the pair
        a, b, c = 1 - hat[own, own], 1 - hat[other, other], -hat[own, other]
        first = b[:, None] * left[own] - c[:, None] * left[other]
        second = a[:, None] * left[other] - c[:, None] * left[own]
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        return np.asarray((first * second).sum(axis=1) / np.maximum(lengths, np.finfo(float).tiny))

    far = np.mean([cosine(column) for column in order[:, _FAR_NEIGHBOURS].T], axis=0)
    return float((cosine(order[:, 0]) - far).mean())


def _distances(x: FloatArray) -> FloatArray:
    """``‖x − y‖²/(‖x‖² + ‖y‖²)`` between all rows, infinite on the diagonal."""
    squares = np.einsum("ij,ij->i", x, x)
    total = np.maximum(squares[:, None] + squares, np.finfo(float).tiny)
    distance = np.maximum(1 - 2 * (x @ x.T) / total, 0.0)
    np.fill_diagonal(distance, np.inf)
    return np.asarray(distance)
