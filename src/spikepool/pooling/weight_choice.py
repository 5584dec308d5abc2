r"""Whether learned pooling weights may replace the mean, and how far: cross-validation with a bias to the mean.

Candidates are w_s = (1 − s)·(uniform) + s·(learned) for a few shares s. In each fold the weights are learned on the
training rows alone, and every validation row is scored under every candidate, so that candidates are compared on
the same rows. A share is admissible when its gain over the mean exceeds ``Z_REQUIRED`` standard errors; of the
admissible ones within a standard error of the best, the smallest is taken. After two folds the comparison ends when
no candidate is ahead by ``Z_HOPE`` standard errors: the mean is then the answer, and cheaply so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spikepool.data.tokens import row_weights
from spikepool.kit.arrays import FloatArray
from spikepool.kit.gcv import fit_ridge
from spikepool.kit.progress import Progress
from spikepool.pooling.joint_ridge import JointRidge
from spikepool.pooling.learn_weights import minimise, random_starts

Score = Callable[[FloatArray, NDArray[np.intp]], FloatArray]

SHARES = (0.25, 0.5, 0.75, 1.0)
Z_REQUIRED = 2.0
Z_HOPE = 0.7


@dataclass(frozen=True)
class WeightChoice:
    """The weights chosen and why.

    Attributes
    ----------
    weights : array (T,)
        Weights to use.
    share : float
        Share s of the learned weights in them; 0 is the mean.
    improvement, error : float
        Cross-validated gain in score of the best candidate over the mean, and its standard error.
    """

    weights: FloatArray
    share: float
    improvement: float
    error: float


def choose_weights(
    x: FloatArray,
    observed: NDArray[np.bool_],
    Y: FloatArray,
    folds: NDArray[np.intp],
    score: Score,
    *,
    ridge: float,
    restarts: int,
    max_iter: int,
    rng: np.random.Generator,
    progress: bool | None = None,
) -> WeightChoice:
    """Learn, validate and choose.

    Parameters
    ----------
    x, observed : arrays (n, T, d) and (n, T)
        Tokens, zeros where not observed.
    Y : array (n, k)
        Targets.
    folds : array (n,) of int
        Fold of each row, 0 to the number of folds − 1.
    score : callable
        ``score(values, rows)``: score of each of `rows`, larger is better, given predicted values.
    ridge : float
        Penalty, the same for every candidate.
    restarts, max_iter : int
        As in :func:`spikepool.pooling.learn_weights.learn_weights`.
    rng : Generator
        For the random starts.
    progress : bool, optional
        Show a progress bar.
    """
    n, T, _ = x.shape
    uniform = np.full(T, 1.0 / T)
    starts = random_starts(T, restarts, rng)
    scale = np.sqrt(((Y - Y.mean(axis=0)) ** 2).sum() / n) or 1.0  # constant targets leave nothing to scale

    def learn(rows: NDArray[np.bool_]) -> FloatArray:
        # unit variance in the targets: the optimiser's tolerances then mean the same for every data set
        problem = JointRidge(x[rows], observed[rows], Y[rows] / scale, ridge, intercept=True)
        return minimise(problem, starts, max_iter).weights

    gains = np.zeros((n, len(SHARES)))
    count = int(folds.max()) + 1
    mean_pooled = _pool(uniform, x, observed)
    done = np.zeros(n, dtype=bool)
    with Progress(count + 1, "learning weights", show=progress) as bar:
        for k in range(count):
            train, test = folds != k, np.flatnonzero(folds == k)
            learned = learn(train)
            base = score(fit_ridge(mean_pooled[train], Y[train], ridge).predict(mean_pooled[test]), test)
            for i, s in enumerate(SHARES):
                pooled = _pool((1 - s) * uniform + s * learned, x, observed)
                fitted = fit_ridge(pooled[train], Y[train], ridge)
                gains[test, i] = score(fitted.predict(pooled[test]), test) - base
            done[test] = True
            bar.advance()
            mean = gains[done].mean(axis=0)
            error = gains[done].std(axis=0, ddof=1) / np.sqrt(done.sum())
            if k == 1 and not (mean > Z_HOPE * error).any():
                break
        admissible = (mean > Z_REQUIRED * error) & (mean > 0)
        if not admissible.any():
            best = int(np.argmax(mean))
            return WeightChoice(uniform, 0.0, float(mean[best]), float(error[best]))
        best = int(np.argmax(np.where(admissible, mean, -np.inf)))
        near = admissible & (mean >= mean[best] - error[best])
        share = SHARES[int(np.flatnonzero(near)[0])]
        weights = (1 - share) * uniform + share * learn(np.ones(n, dtype=bool))
        bar.advance()
    return WeightChoice(weights, share, float(mean[best]), float(error[best]))


def _pool(w: FloatArray, x: FloatArray, observed: NDArray[np.bool_]) -> FloatArray:
    return np.asarray(np.matmul(row_weights(w, observed, None)[:, None, :], x)[:, 0])
