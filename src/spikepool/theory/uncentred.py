"""The covariance that is not centred: the vocabulary mean competes, and alpha matters by itself.

Without centring, the sample mean of the vocabulary's noise is a spike of strength delta (sum w)² = delta, whatever the
weights. The top eigenvector follows the signal only where its spike is the stronger one,

    alpha (mu² + delta) > delta,     that is  alpha > a0 = delta/(mu² + delta),

besides being detectable. Weights enter through two numbers: alpha/kappa decides how well the signal's own eigenvector
aligns, alpha whether it is the top one. The best weights maximise alpha/kappa subject to alpha >= a0. Where the top
eigenvector of R falls short, the bound is active, and the problem is to minimise ‖w‖² subject to w'Rw = a, sum w = 1.
With w = 1/T + z, sum z = 0, and (lambda_i, e_i) the eigenpairs of R on that subspace, c_i = e_i'R1/T,

    z = sum_i nu c_i/(1 − nu lambda_i) e_i,        0 <= nu < 1/lambda_1,

along which alpha increases; where c_1 = 0 it increases further along e_1 at nu = 1/lambda_1.

At finite size a tie alpha = a0 is no optimum, because outliers that are close mix. The weights returned maximise the
alignment that is left after mixing (:func:`spikepool.theory.mixing.mixing_share`) along this curve; as d grows they
tend to the constrained optimum.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from spikepool.errors import NoOptimumError
from spikepool.kit.arrays import FloatArray
from spikepool.theory.closed_form import predict_gains
from spikepool.theory.mixing import mixing_share
from spikepool.theory.prediction import Prediction
from spikepool.world.sequences import SequenceWorld, checked_model
from spikepool.world.weights import optimal_weights


def leading_threshold(world: SequenceWorld, alpha: float, kappa: float) -> float:
    """Signal strength above which the top eigenvector of S is the signal's.

    The larger of the threshold at which the signal's outlier appears and, without centring, the strength at which its
    spike overtakes that of the vocabulary mean; infinite when the weights cancel the signal.
    """
    found = predict_gains(world, alpha, kappa).mu_sample
    if alpha == 0 or world.mean_strength == 0:
        return found
    return max(found, math.sqrt(max(0.0, world.mean_strength / alpha - world.class_mean_power)))


def mixed_alignment(prediction: Prediction, d: int, N: int) -> float:
    """Alignment of the top eigenvector, less what it loses to the outlier next to it in a single draw."""
    if len(prediction.outliers) < 2:
        return prediction.alignment
    first, second = prediction.outliers[:2]
    share = mixing_share(first.eigenvalue - second.eigenvalue, first.eigenvalue, d, N)
    return first.alignment + share * (second.alignment - first.alignment)


def best_weights(world: SequenceWorld) -> FloatArray:
    """Weights of the best alignment of the top eigenvector of this model's S.

    The top eigenvector of R where S is centred (:func:`spikepool.optimal_weights`); else the optimum of the module's
    problem, which may have weights of both signs.

    Raises
    ------
    NoOptimumError
        As :func:`spikepool.optimal_weights`, where S is centred or the mean does not compete.
    """
    world = checked_model(world)
    if world.mean_strength == 0:
        return optimal_weights(world.R)
    curve = _Curve(np.asarray(world.R, dtype=np.float64))
    power = world.mu**2 + world.class_mean_power
    # without a signal no weights align; the least that can be asked is to be as strong as the mean
    needed = world.mean_strength / power if power > 0 else 1.0

    def alignment(alpha: float) -> float:
        _, kappa = curve.gains(alpha)
        return mixed_alignment(predict_gains(world, alpha, kappa), world.d, world.N)

    starts: list[float] = []
    try:
        unconstrained = optimal_weights(world.R)
        starts.append(float(unconstrained @ world.R @ unconstrained))
    except NoOptimumError:
        pass
    if starts and starts[0] > needed and len(predict_gains(world, *_gains(world, unconstrained)).outliers) < 2:
        return unconstrained  # the mean makes no outlier, so that nothing mixes
    low = max(curve.least, min([needed, *starts]))
    grid = np.geomspace(low, max(4.0 * needed, 2.0 * max([low, *starts])), 81)
    values = [alignment(float(a)) for a in grid]
    best = int(np.argmax(values))
    if values[best] == 0:  # nothing is detectable: the largest ratio, which comes closest to it
        return unconstrained if starts else curve.weights(float(grid[-1]))
    ends = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    found = minimize_scalar(lambda a: -alignment(float(a)), bounds=ends, method="bounded", options={"xatol": 1e-10})
    chosen = float(found.x) if -found.fun >= values[best] else float(grid[best])
    return curve.weights(chosen)


def _gains(world: SequenceWorld, w: FloatArray) -> tuple[float, float]:
    return float(w @ world.R @ w), float(w @ w)


class _Curve:
    """Weights of unit sum with the smallest norm for each alpha at or above that of the mean."""

    def __init__(self, R: FloatArray) -> None:
        T = len(R)
        self._R, self._T = R, T
        values, vectors = np.linalg.eigh(R - R.mean(axis=0) - R.mean(axis=1)[:, None] + R.mean())
        inner = np.abs(vectors.sum(axis=0)) < 1e-6 * math.sqrt(T)  # eigenvectors off the ones vector
        order = np.argsort(-values[inner])
        self._values, self._vectors = values[inner][order], vectors[:, inner][:, order]
        self._pull = self._vectors.T @ R.mean(axis=1)
        self.least = float(R.mean())

    def weights(self, alpha: float) -> FloatArray:
        """Minimise ‖w‖² subject to sum w = 1 and w'Rw = alpha."""
        if alpha <= self.least or self._T == 1:
            return np.full(self._T, 1 / self._T)
        top = float(self._values[0])
        along = np.abs(self._pull[self._values > top * (1 - 1e-10)])
        hard = bool(along.max() < 1e-12 * max(1.0, float(np.abs(self._pull).max())))

        def z(share: float) -> FloatArray:  # nu = share/lambda_1
            with np.errstate(divide="ignore", invalid="ignore"):
                steps = np.where(self._pull == 0, 0.0, share * self._pull / (top - share * self._values))
            return np.asarray(self._vectors @ steps)

        def excess(share: float) -> float:
            w = 1 / self._T + z(share)
            return float(w @ self._R @ w) - alpha

        last = 1 - 1e-13
        if hard:
            self._pull[self._values > top * (1 - 1e-10)] = 0.0
        if excess(last) >= 0:
            share = float(brentq(excess, 0.0, last, xtol=1e-15, rtol=1e-14, maxiter=500))
            return np.asarray(1 / self._T + z(share))
        # the hard case: the rest along the top direction, of several the one nearest to a single position
        space = self._vectors[:, self._values > top * (1 - 1e-10)]
        direction = space @ space[int(np.argmax(np.round(np.sum(space**2, axis=1), 9)))]
        direction /= np.linalg.norm(direction)
        return np.asarray(1 / self._T + z(last) + math.sqrt(-excess(last) / top) * direction)

    def gains(self, alpha: float) -> tuple[float, float]:
        """Alpha and the smallest kappa that goes with it."""
        w = self.weights(alpha)
        return float(w @ self._R @ w), float(w @ w)
