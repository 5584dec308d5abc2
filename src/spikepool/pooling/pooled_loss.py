r"""The loss that learned pooling minimises: ridge on what a few scores pool, with the ridge solved in closed form.

    f(theta) = (1/n)<Y, Y − C beta> + rho‖theta‖²,    beta = (C'C + lam I)^{-1} C'Y,    lam = c·tr(C'C)/F,

    C = [Σ_t P_nth z_nt]_h, centred (n, F = heads·p),    P = softmax of the scores s over observed tokens.

The first term is the ridge's own minimum, so that only the explicit dependence on C enters the gradient (envelope):

    D = df/dC = −(2/n)(Y − C beta)beta' + (2c/(nF))‖beta‖² C,
    df/ds_nth = P_nth (D_nh·z_nt − Σ_u P_nuh D_nh·z_nu).

The penalty is relative to the trace, so that weights cannot escape it by pooling to larger features. Tokens are given
by their leading components: a step costs O(n·T·p·heads + n·F² + F³) whatever the dimension of the embedding.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from spikepool.errors import ConvergenceError
from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.kit.gcv import gcv_penalty, live_part
from spikepool.pooling.scores import Scores, softmax_weights

# Largest c. Where the start holds nothing cross-validation asks for all the penalty there is, and nothing would move.
MOST_PENALTY = 0.3


class PooledRidgeLoss:
    """f and its gradient for given sequences, targets and kind of scores.

    Parameters
    ----------
    z : array (n, T, p)
        Tokens in their leading components, zeros where nothing is observed.
    observed : array (n, T)
        Tokens that may get weight; a row without any is pooled to zero, the mean token.
    Y : array (n, k)
        Targets; scaled to unit total variance here.
    scores : Scores
        Of the same sequences.
    rho : float
        Penalty on the parameters of the scores.
    """

    def __init__(self, z: FloatArray, observed: BoolArray, Y: FloatArray, scores: Scores, rho: float) -> None:
        self.z, self.observed, self.model, self.rho = z, observed, scores, rho
        Y = Y - Y.mean(axis=0)
        energy = float((Y**2).sum())
        self.Y = Y / np.sqrt(energy / len(Y)) if energy > 0 else Y
        self.F = scores.heads * z.shape[2]
        self.c = self._relative_penalty(scores.start())

    def pooled(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights P (n, heads, T) and the centred features C (n, F)."""
        P = softmax_weights(self.model.scores(parameters), self.observed)
        C = np.matmul(P, self.z).reshape(len(self.z), self.F)
        return P, C - C.mean(axis=0)

    def _relative_penalty(self, parameters: FloatArray) -> float:
        """c, by generalised cross-validation at the start; it stays what it is while the weights move."""
        _, C = self.pooled(parameters)
        values, vectors = np.linalg.eigh(C.T @ C)
        live = live_part(values, len(C))
        energy = ((vectors[:, live].T @ (C.T @ self.Y)) ** 2).sum(axis=1) / values[live]
        penalty = gcv_penalty(values[live], energy, float((self.Y**2).sum()), len(C), self.F)
        return min(penalty * self.F / float(values[live].sum()), MOST_PENALTY) if penalty > 0 else 0.0

    def evaluate(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """F and its gradient."""
        n = len(self.z)
        P, C = self.pooled(parameters)
        gram = C.T @ C
        trace = float(np.trace(gram))
        if trace <= 0:  # nothing varies: no weights change that
            return float((self.Y**2).sum() / n + self.rho * parameters @ parameters), 2 * self.rho * parameters
        gram[np.diag_indices(self.F)] += self.c * trace / self.F
        beta = cho_solve(cho_factor(gram, overwrite_a=True), C.T @ self.Y)
        residual = self.Y - C @ beta
        value = float((self.Y * residual).sum() / n + self.rho * parameters @ parameters)
        D = (-2 / n) * (residual @ beta.T) + (2 * self.c * float((beta**2).sum()) / (n * self.F)) * C
        pull = np.matmul(D.reshape(n, self.model.heads, -1), self.z.transpose(0, 2, 1))
        by_score = P * (pull - (P * pull).sum(axis=-1, keepdims=True))
        return value, self.model.pull_back(by_score) + 2 * self.rho * parameters

    def minimise(self, max_steps: int) -> FloatArray:
        """Parameters after at most `max_steps` of L-BFGS from the start.

        Few steps are meant: what they leave undone is fitted to the rows at hand rather than to the population.
        """
        found = minimize(
            self.evaluate, self.model.start(), jac=True, method="L-BFGS-B", options={"maxiter": int(max_steps)}
        )
        if not np.isfinite(found.fun) or not np.isfinite(found.x).all():
            raise ConvergenceError("the loss of pooled ridge is not finite", remedy="Rescale X, or pass pooling='mean'")
        return np.asarray(found.x)
