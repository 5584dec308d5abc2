"""The loss that learned queries minimise: ridge on what they pool, with the ridge solved in closed form.

    f(Q) = (1/n)<Y, Y − C beta> + rho‖Q‖²,    beta = (C'C + lam I)^{-1} C'Y,    lam = c·tr(C'C)/F,

    C = [Σ_t P_nth z_nt for every query h, mean of z_n], centred (n, F),    P = softmax of s_nth = q_h·ẑ_nt.

The first term is the ridge's own minimum, so that only the explicit dependence on C enters the gradient (envelope):

    D = df/dC = −(2/n)(Y − C beta)beta' + (2c/(nF))‖beta‖² C,
    df/ds_nth = P_nth (D_nh·z_nt − Σ_u P_nuh D_nh·z_nu),    df/dq_h = Σ_nt (df/ds_nth) ẑ_nt.

Rows of C and Y are multiplied by the square root of their weight. The penalty is relative to the trace, so that weights
cannot escape it by pooling to larger features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.pooling.places import rule_weights
from spikepool.ridge.gcv import gcv_penalty, live_part

# Penalty on the queries, for targets of unit variance.
QUERY_PENALTY = 5e-3


# Largest c. Where the mean holds nothing cross-validation asks for all the penalty there is, and nothing would move.
MOST_PENALTY = 0.3


# Part of a group's positions that the shortest sequence fills: what is left is padding that is computed with.
LEAST_FILLED = 0.7


def inverse_rms(z: FloatArray) -> FloatArray:
    """1/rms of each token (n, T); 0 for a token of zeros."""
    rms = np.sqrt(np.einsum("ntp,ntp->nt", z, z) / z.shape[2])
    return np.asarray(np.divide(1.0, rms, out=np.zeros_like(rms), where=rms > 0))


def softmax_weights(scores: FloatArray, observed: BoolArray) -> FloatArray:
    """Weights (n, heads, T): the softmax of the scores over observed tokens; zeros in a row without any."""
    if observed.all():
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.asarray(weights)
    scores = np.where(observed[:, None, :], scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=-1, keepdims=True)
    weights /= np.where(total > 0, total, 1)
    return np.asarray(weights)


@dataclass(frozen=True, eq=False)
class LengthGroup:
    """Sequences of similar length, without most of their padding.

    Attributes
    ----------
    rows : array (m,)
        Which sequences.
    z : array (m, T', p)
        Their usable tokens, first the first one.
    size : array (m, T', 1)
        1/rms of each token, so that ẑ = size·z.
    usable : array (m, T')
        Where there is a token.
    """

    rows: IntArray
    z: FloatArray
    size: FloatArray
    usable: BoolArray

    def weights(self, queries: FloatArray) -> FloatArray:
        """Softmax weights P (m, H, T')."""
        scores = self.z.reshape(-1, self.z.shape[2]) @ queries.astype(self.z.dtype).T
        scores = scores.reshape(*self.usable.shape, -1)
        scores *= self.size
        scores = np.ascontiguousarray(scores.transpose(0, 2, 1))
        return softmax_weights(scores, self.usable)


def length_groups(z: FloatArray, usable: BoolArray, train: IntArray) -> list[LengthGroup]:
    """Sequences sorted into groups whose members have more than ``LEAST_FILLED`` of the tokens of the longest one.

    `train` are the sequences to sort; `rows` of a group counts among them.
    """
    usable = usable[train]
    length = usable.sum(axis=1)
    order = np.argsort(~usable, axis=1, kind="stable")  # usable tokens first
    left, groups = np.arange(len(train)), []
    while len(left):
        longest = max(1, int(length[left].max()))
        long_enough = length[left] > LEAST_FILLED * longest if longest > 1 else np.ones(len(left), dtype=bool)
        rows, left = left[long_enough], left[~long_enough]
        places = order[rows, :longest]
        part = z[train[rows][:, None], places]
        long_enough = np.take_along_axis(usable[rows], places, axis=1)
        groups.append(LengthGroup(rows, part, inverse_rms(part)[..., None], long_enough))
    return groups


class PooledRidgeLoss:
    """f and its gradient for given sequences and targets.

    Parameters
    ----------
    z : array (n, T, p)
        Tokens in their leading components, zeros where they cannot be used.
    usable : array (n, T)
        Tokens that may get weight; a row without any is pooled to zero, the mean token.
    Y : array (m, k)
        Targets; centred and scaled to unit total variance here.
    weights : array (m,)
        Row weights.
    rho : float
        Penalty on the queries.
    train : array (m,), optional
        The sequences to which targets and weights belong; by default all n.
    """

    def __init__(
        self,
        z: FloatArray,
        usable: BoolArray,
        Y: FloatArray,
        weights: FloatArray,
        rho: float = QUERY_PENALTY,
        train: IntArray | None = None,
    ) -> None:
        self.n, self.p, self.weights, self.rho = len(Y), z.shape[2], weights, rho
        self.groups = length_groups(z, usable, np.arange(self.n) if train is None else train)
        self.root = np.sqrt(weights / weights.mean())[:, None]
        self.share = weights / weights.sum()
        Y = self.root * (Y - self.share @ Y)
        energy = float((Y**2).sum())
        self.Y = Y / np.sqrt(energy / len(Y)) if energy > 0 else Y
        self.mean = np.zeros((self.n, self.p))
        for group in self.groups:
            share = rule_weights("mean", group.usable).astype(z.dtype)[:, None]
            self.mean[group.rows] = np.matmul(share, group.z)[:, 0]
        self.c = self._relative_penalty()

    def pooled(self, queries: FloatArray) -> tuple[list[FloatArray], FloatArray]:
        """Weights P (m, H, T') of each group, and the centred and weighted features C (n, (H + 1)·p)."""
        P = [group.weights(queries) for group in self.groups]
        C = np.empty((self.n, (len(queries) + 1) * self.p))
        for group, weights in zip(self.groups, P, strict=True):
            C[group.rows, : -self.p] = np.matmul(weights, group.z).reshape(len(group.rows), -1)
        C[:, -self.p :] = self.mean
        return P, self.root * (C - self.share @ C)

    def _relative_penalty(self) -> float:
        """c, by generalised cross-validation at the mean; it stays what it is while the weights move."""
        C = self.root * (self.mean - self.share @ self.mean)
        values, vectors = np.linalg.eigh(C.T @ C)
        live = live_part(values, len(C))
        energy = ((vectors[:, live].T @ (C.T @ self.Y)) ** 2).sum(axis=1) / values[live]
        penalty = gcv_penalty(values[live], energy, float((self.Y**2).sum()), len(C), C.shape[1])
        return min(penalty * C.shape[1] / float(values[live].sum()), MOST_PENALTY) if penalty > 0 else 0.0

    def _ridge(self, C: FloatArray) -> FloatArray | None:
        """Coefficients beta (F, k), or None where nothing varies."""
        gram = C.T @ C
        trace = float(np.trace(gram))
        if trace <= 0:
            return None
        gram[np.diag_indices(len(gram))] += max(self.c, 1e-9) * trace / len(gram)
        return np.asarray(cho_solve(cho_factor(gram, overwrite_a=True), C.T @ self.Y))

    def mean_residual(self) -> FloatArray:
        """What the mean leaves of the targets, (n, k), without row weights."""
        C = self.root * (self.mean - self.share @ self.mean)
        beta = self._ridge(C)
        return np.asarray((self.Y if beta is None else self.Y - C @ beta) / self.root)

    def value(self, queries: FloatArray) -> float:
        """F alone."""
        _, C = self.pooled(queries)
        beta = self._ridge(C)
        residual = self.Y if beta is None else self.Y - C @ beta
        return float((self.Y * residual).sum() / len(C) + self.rho * (queries**2).sum())

    def evaluate(self, queries: FloatArray) -> tuple[float, FloatArray]:
        """F and its gradient (H, p)."""
        n, H, p = self.n, len(queries), self.p
        P, C = self.pooled(queries)
        beta = self._ridge(C)
        if beta is None:  # nothing varies: no weights change that
            return float((self.Y**2).sum() / n + self.rho * (queries**2).sum()), 2 * self.rho * queries
        residual = self.Y - C @ beta
        value = float((self.Y * residual).sum() / n + self.rho * (queries**2).sum())
        first = H * p  # the columns that the queries move
        c = max(self.c, 1e-9)
        D = (-2 / n) * (residual @ beta[:first].T) + (2 * c * float((beta**2).sum()) / (n * len(beta))) * C[:, :first]
        D = (self.root * D).reshape(n, H, p)
        gradient = 2 * self.rho * queries
        for group, weights in zip(self.groups, P, strict=True):
            pull = np.matmul(D[group.rows].astype(group.z.dtype), group.z.transpose(0, 2, 1))
            pull -= np.einsum("nht,nht->nh", weights, pull)[..., None]
            pull *= weights
            pull *= group.size.transpose(0, 2, 1)
            gradient = gradient + pull.transpose(1, 0, 2).reshape(H, -1) @ group.z.reshape(-1, p)
        return value, gradient

    def minimise(self, start: FloatArray, max_steps: int) -> FloatArray:
        """Queries after at most `max_steps` of L-BFGS from the start.

        Few steps are meant: what they leave undone is fitted to the rows at hand rather than to the population.
        """

        def flat(parameters: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self.evaluate(parameters.reshape(start.shape))
            return value, gradient.reshape(-1)

        solution = minimize(flat, start.reshape(-1), jac=True, method="L-BFGS-B", options={"maxiter": int(max_steps)})
        if not np.isfinite(solution.fun) or not np.isfinite(solution.x).all():
            raise ConvergenceError("the loss of pooled ridge is not finite", remedy="Rescale X, or pass pooling='mean'")
        return np.asarray(solution.x.reshape(start.shape))
