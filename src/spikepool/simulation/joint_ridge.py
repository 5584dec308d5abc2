r"""The ridge loss of pooled features as a function of the pooling weights, with its exact gradient.

For tokens x_nt, targets Y (n x k) and pooled rows c_n(w) = sum_t w_t x_nt, the paper's last appendix minimises

    g(w) = min_beta (1/n)‖Y − C(w) beta‖² + lam‖beta‖²
         = (1/n)(‖Y‖² − tr(Y'C A^{-1} C'Y)),        A = C'C + lam n I,   beta = A^{-1}C'Y,

and by the envelope theorem (beta is optimal, so only the explicit dependence on w counts)

    dg/dC = −(2/n)(Y − C beta) beta',        dg/dw_t = sum_n <(dg/dC)_n, x_nt>.

With positions missing, weights are renormalised over the observed ones, c_n = sum_t w_t o_nt x_nt / sum_t w_t o_nt,
and dg/dw_t = sum_n (o_nt / sum_s w_s o_ns) <(dg/dC)_n, x_nt − c_n>.

Three evaluations of the same function, the cheapest by shape:

* ``moments``: A(w) = sum_{t<=s} w_t w_s S_ts with S_ts = X_t'X_s + X_s'X_t precomputed; a step never touches the data.
  Only without missing positions.
* ``primal``: form C(w), solve d x d.
* ``dual``: form C(w), solve n x n: beta = C'(CC' + lam n I)^{-1} Y.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from spikepool.kit.arrays import FloatArray

MOMENTS_BYTES_LIMIT = 2**30
# Cost of a multiply-add whose operand streams from memory, in units of one inside a matrix product.
_STREAMED = 5.0
# Steps over which the set-up of the moments is spread: a typical number for three starts of the optimiser.
_STEPS = 100
METHODS = ("moments", "primal", "dual")


def choose_method(n: int, T: int, d: int, complete: bool) -> str:
    """Cheapest evaluation by operation counts of a typical run."""
    m = min(n, d)
    direct = 2 * _STREAMED * n * T * d + n * d * m / 2 + m**3 / 3
    packed = T * (T + 1) / 2 * d * (d + 1) / 2
    moments = n * d * d * T * (T + 1) / 2 / _STEPS + 3 * _STREAMED * packed + d**3 / 3
    if complete and 8 * packed <= MOMENTS_BYTES_LIMIT and moments < direct:
        return "moments"
    return "primal" if d <= n else "dual"


class JointRidge:
    """g(w) and its gradient for one data set.

    Parameters
    ----------
    x : array (n, T, d)
        Tokens, zeros where not observed.
    observed : array (n, T) of bool, or None
        None when everything is observed.
    Y : array (n, k)
        Targets.
    ridge : float
        lam; multiplies ‖beta‖² next to a MEAN of squares.
    intercept : bool
        Fit an unpenalised intercept: pooled features and targets are centred.
    method : {"moments", "primal", "dual"}, optional
        Evaluation; the cheapest by default.
    """

    def __init__(
        self,
        x: FloatArray,
        observed: NDArray[np.bool_] | None,
        Y: FloatArray,
        ridge: float,
        *,
        intercept: bool = False,
        method: str | None = None,
    ) -> None:
        self.n, self.T, self.d = x.shape
        self.penalty = ridge * self.n
        self.intercept = intercept
        self.observed = None if observed is None or observed.all() else observed.astype(np.float64)
        self.Y = Y - Y.mean(axis=0) if intercept else Y
        if intercept and self.observed is None:
            x = x - x.mean(axis=0)
        self.x = x
        self.total = float((self.Y**2).sum())
        self.method = method or choose_method(self.n, self.T, self.d, self.observed is None)
        if self.method == "moments":
            self._precompute()

    def _precompute(self) -> None:
        T, d = self.T, self.d
        self._upper = np.triu_indices(d)
        self._pairs = np.triu_indices(T)
        self._cross = np.empty((T, d, self.Y.shape[1]))  # X_t'Y
        # symmetrised blocks, upper triangles only: half the memory to stream in each step
        self._blocks = np.empty((len(self._pairs[0]), len(self._upper[0])))
        row = 0
        for t in range(T):
            xt = np.ascontiguousarray(self.x[:, t])
            self._cross[t] = xt.T @ self.Y
            products = xt.T @ self.x[:, t:].reshape(self.n, -1)
            for s in range(T - t):
                block = products[:, s * d : (s + 1) * d]
                self._blocks[row] = block[self._upper] if s == 0 else (block + block.T)[self._upper]
                row += 1
        # <S, beta beta'> from upper triangles counts each off-diagonal entry twice
        self._double = np.where(self._upper[0] == self._upper[1], 1.0, 2.0)

    def evaluate(self, w: FloatArray) -> tuple[float, FloatArray]:
        """g(w) and dg/dw."""
        if self.method == "moments":
            return self._evaluate_moments(w)
        C, share = self._pool(w)
        beta = self._solve(C)
        residual = self.Y - C @ beta
        # at the optimum ‖Y − C beta‖² + penalty‖beta‖² = <Y, Y − C beta>
        value = float((self.Y * residual).sum()) / self.n
        if share is None and beta.shape[1] < self.T:  # few targets: project the tokens on beta
            projected = self.x @ beta
            return value, (-2.0 / self.n) * np.einsum("ntk,nk->t", projected, residual)
        D = (-2.0 / self.n) * residual @ beta.T
        inner = np.matmul(self.x, D[:, :, None])[:, :, 0]
        if share is None:
            return value, inner.sum(axis=0)
        own = np.einsum("nd,nd->n", D, self._pooled)
        return value, (share * (inner - own[:, None])).sum(axis=0)

    def _evaluate_moments(self, w: FloatArray) -> tuple[float, FloatArray]:
        t, s = self._pairs
        A = np.zeros((self.d, self.d), order="F")
        A[self._upper] = (w[t] * w[s]) @ self._blocks
        A[np.diag_indices(self.d)] += self.penalty
        b = np.tensordot(w, self._cross, axes=1)
        beta = cho_solve(cho_factor(A, lower=False, overwrite_a=True, check_finite=False), b, check_finite=False)
        value = (self.total - float((b * beta).sum())) / self.n
        outer = (beta @ beta.T)[self._upper] * self._double
        Q = np.zeros((self.T, self.T))
        Q[t, s] = self._blocks @ outer
        quadratic = (Q + Q.T) @ w  # d/dw of w'Qw; the diagonal counts twice, as it should
        linear = np.einsum("tdk,dk->t", self._cross, beta)
        return value, (quadratic - 2 * linear) / self.n

    def _pool(self, w: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """C(w), centred when there is an intercept; and o_nt / sum_s w_s o_ns when positions are missing."""
        if self.observed is None:
            return np.matmul(w, self.x), None
        total = self.observed @ w
        # a softmax weight can underflow; a row observed only there keeps the mean of its tokens
        tiny = total < 1e-290
        share = self.observed / np.where(tiny, 1.0, total)[:, None]
        p = np.where(tiny[:, None], self.observed / self.observed.sum(axis=1, keepdims=True), share * w)
        share[tiny] = 0.0
        self._pooled = np.matmul(p[:, None, :], self.x)[:, 0]
        return (self._pooled - self._pooled.mean(axis=0) if self.intercept else self._pooled), share

    def _solve(self, C: FloatArray) -> FloatArray:
        if self.method == "primal":
            A = dsyrk(1.0, C.T)  # upper triangle of C'C
            A[np.diag_indices(self.d)] += self.penalty
            factor = cho_factor(A, overwrite_a=True, check_finite=False)
            return np.asarray(cho_solve(factor, C.T @ self.Y, check_finite=False))
        K = dsyrk(1.0, C)
        K[np.diag_indices(self.n)] += self.penalty
        factor = cho_factor(K, overwrite_a=True, check_finite=False)
        return np.asarray(C.T @ cho_solve(factor, self.Y, check_finite=False))

    def coefficients(self, w: FloatArray) -> FloatArray:
        """The ridge solution beta(w), (d, k)."""
        if self.method == "moments":
            C = np.matmul(w, self.x)
            A = C.T @ C
            A[np.diag_indices(self.d)] += self.penalty
            return np.asarray(cho_solve(cho_factor(A, check_finite=False), C.T @ self.Y, check_finite=False))
        return self._solve(self._pool(w)[0])
