"""What the bulk and the signal see of the tokens: the usage matrix, its spectrum, and its measure at the signal.

W (V x N) holds the pooling weights of each sequence at its tokens. With P the projection off the class means of a
class-centred table (P = I for a sampled one), C the centring of the sequences (C = I without), and b the pooled
latents C a/sqrt(N), the pooled matrix is A^{1/2} Z B/sqrt(V) + mu u b' with

    B = sqrt(V/N) P W C,       M = B B'  (V x V).

With the singular value decomposition B = sum_i sqrt(t_i) x_i v_i', b' f(B'B) b = sum_i f(t_i) (v_i'b)², the part of b
off all v_i counted at t = 0. The largest t_i are kept one by one (:class:`TopPairs`), the rest as a law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.measures import EXACT_SIZE, lanczos_measure, non_negative
from spikepool.theory.general_spikes import Measure
from spikepool.theory.usage_pairs import TOP, TopPairs, converged_pairs
from spikepool.world.pooling_matrix import Projection

# Up to this size eigenvectors are computed; between it and EXACT_SIZE eigenvalues are, with Lanczos for the rest.
_VECTORS_SIZE = 1500
_LANCZOS_STEPS = 160
_PROBES = 12
# Quadrature nodes closer than this, relative to their size, are one eigenvalue; smaller than this against the largest,
# zero.
_NODE_DISTANCE = 1e-9


@dataclass(frozen=True)
class Usage:
    """Spectrum of the usage and its measure at the signal.

    Attributes
    ----------
    top : TopPairs
        The largest eigenvalues of M, one by one.
    values, weights : numpy.ndarray
        The other eigenvalues, descending, and their masses (1/V each when diagonalised).
    measure : Measure
        Of B'B at the part of b off the top pairs.
    remainder : numpy.ndarray of shape (V,)
        B b off the top pairs: the direction of the classes among the tokens, as far as it is not one of them.
    gain : float
        ‖b‖², the signal gain of these very sequences.
    of_tokens : bool
        Whether the latents are those of the tokens' signs.
    """

    top: TopPairs
    values: FloatArray
    weights: FloatArray
    measure: Measure
    remainder: FloatArray
    gain: float
    of_tokens: bool = True

    @property
    def V(self) -> int:
        """Size of the vocabulary."""
        return len(self.remainder)

    @property
    def signal_measure(self) -> Measure:
        """Of B'B at the whole of b."""
        return Measure(
            np.concatenate([self.top.values, self.measure.values]),
            np.concatenate([self.top.signal[:, None], self.measure.coordinates]),
        )


def sample_usage(
    W_t: csr_array, latent: FloatArray | None, signs: NDArray[Any], *, centered: bool, project: Projection, rng: Any
) -> Usage:
    """Usage of drawn or observed tokens.

    Parameters
    ----------
    W_t : csr_array of shape (N, V)
        From :func:`token_matrix`.
    latent : numpy.ndarray of shape (N,), optional
        Pooled latents a; those of the tokens' signs when not given.
    signs : numpy.ndarray of shape (V,)
        Class of each token.
    centered : bool
        Whether the mean over sequences is subtracted.
    project : Projection
        P.
    rng : optional
        Of the probes, when the usage is too large to be diagonalised.
    """
    found = _usage(W_t, latent, signs, centered, project, rng)
    return found if latent is None else replace(found, of_tokens=False)


def _usage(
    W_t: csr_array, latent: FloatArray | None, signs: NDArray[Any], centered: bool, project: Projection, rng: Any
) -> Usage:
    N, V = W_t.shape
    pooled = np.asarray(W_t @ signs.astype(np.float64)) if latent is None else latent
    b = (pooled - pooled.mean() if centered else pooled) / np.sqrt(N)
    operator = _Operator(W_t, centered, project)
    if min(V, N) > EXACT_SIZE:
        return _large_usage(operator, b, rng)
    M = operator.dense()
    trace = V / N * float(W_t.data @ W_t.data)  # without centring: the size of what rounding acts on
    if len(M) > _VECTORS_SIZE:
        t = non_negative(np.asarray(np.linalg.eigvalsh(M), dtype=np.float64), "usage", trace / V)[::-1]
        top = _found_pairs(operator, b, np.random.default_rng(0))
        values = np.concatenate([t[len(top) :], np.zeros(V - len(t))])
        return _with_lanczos_measure(operator, b, top, values, np.full(len(values), 1 / V))
    t, basis = np.linalg.eigh(M)
    t, basis = non_negative(t, "usage", trace / V)[::-1], basis[:, ::-1]
    k = min(TOP, int((t > 0).sum()))
    if V <= N:  # basis holds the x_i
        with np.errstate(divide="ignore", invalid="ignore"):
            coordinates = np.where(t > 0, basis.T @ operator.forward(b) / np.sqrt(t), 0.0)
        vectors = basis[:, :k]
        outside = np.sqrt(max(0.0, float(b @ b) - float(coordinates @ coordinates)))
        rest = Measure(np.append(t[k:], 0.0), np.append(coordinates[k:], outside)[:, None])
    else:  # ... or the v_i
        coordinates = basis.T @ b
        vectors = np.column_stack([operator.forward(v) for v in basis[:, :k].T] or [np.empty((V, 0))])
        vectors = vectors / np.sqrt(t[:k])
        rest = Measure(t[k:], coordinates[k:, None])
    top = TopPairs(t[:k], vectors, coordinates[:k], operator.mean_shares(t[:k], vectors))
    values = np.concatenate([t[k:], np.zeros(V - len(t))])
    return Usage(top, values, np.full(len(values), 1 / V), rest, _off(vectors, operator.forward(b)), float(b @ b))


class _Operator:
    """B and its transpose, applied without being formed."""

    def __init__(self, W_t: csr_array, centered: bool, project: Projection) -> None:
        self._W_t, self._W = W_t, W_t.T.tocsr()
        self._centered, self._project = centered, project
        self.N, self.V = W_t.shape
        self._scale = np.sqrt(self.V / self.N)
        self._mean = np.asarray(W_t.sum(axis=0)).ravel() / self.N  # W 1/N

    def forward(self, x: FloatArray) -> FloatArray:
        """B x."""
        x = x - x.mean() if self._centered else x
        return self._project(self._scale * np.asarray(self._W @ x))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """B'y."""
        x = self._scale * np.asarray(self._W_t @ self._project(y))
        return np.asarray(x - x.mean() if self._centered else x)

    def gram(self, y: FloatArray) -> FloatArray:
        """M y."""
        return self.forward(self.adjoint(y))

    def mean_shares(self, t: FloatArray, vectors: FloatArray) -> FloatArray:
        """Squared cosines of v_i = B'x_i/sqrt(t_i) with the vector of ones: (x_i'B 1)²/(N t_i)."""
        if self._centered:
            return np.zeros(len(t))
        return np.asarray((vectors.T @ self.forward(np.ones(self.N))) ** 2 / (self.N * t))

    def dense(self) -> FloatArray:
        """B B', or B'B when that is smaller."""
        V, N, mean = self.V, self.N, self._mean
        if V <= N:
            M = np.asarray((self._W @ self._W_t).toarray()) * (V / N)
            if self._centered:
                M -= V * np.outer(mean, mean)
            return self._project(self._project(M).T)
        rows = self._W.toarray()
        B = self._project(self._scale * (rows - mean[:, None] if self._centered else rows))
        return np.asarray(B.T @ B)


def _found_pairs(operator: _Operator, b: FloatArray, rng: np.random.Generator) -> TopPairs:
    image = operator.forward(b)
    values, vectors = converged_pairs(operator.gram, operator.V, rng, image)
    signal = vectors.T @ image / np.sqrt(values)
    return TopPairs(values, vectors, signal, operator.mean_shares(values, vectors))


def _off(vectors: FloatArray, x: FloatArray) -> FloatArray:
    for _ in range(2):
        x = x - vectors @ (vectors.T @ x)
    return x


def _with_lanczos_measure(
    operator: _Operator, b: FloatArray, top: TopPairs, values: FloatArray, weights: FloatArray
) -> Usage:
    """Usage whose measure at b, off the top pairs, is Gauss quadrature of the rest."""
    right = np.column_stack([operator.adjoint(x) for x in top.vectors.T] or [np.empty((len(b), 0))])
    right = right / np.sqrt(top.values)
    nodes, mass = lanczos_measure(
        lambda x: _off(right, operator.adjoint(operator.forward(x))), _off(right, b), _LANCZOS_STEPS
    )
    largest = top.values[0] if len(top) else values[0]
    nodes = np.where(nodes < 1e-10 * largest, 0.0, nodes)
    measure = Measure(nodes, np.sqrt(mass)[:, None])
    return Usage(top, values, weights, measure, _off(top.vectors, operator.forward(b)), float(b @ b))


def _large_usage(operator: _Operator, b: FloatArray, rng: Any) -> Usage:
    """Usage at scale: its largest eigenpairs one by one, the law of the rest by stochastic Lanczos quadrature."""
    generator = check.generator(0 if rng is None else rng)
    top = _found_pairs(operator, b, generator)
    V, k = operator.V, len(top)
    nodes, mass = [], []
    apply: Callable[[FloatArray], FloatArray] = lambda y: _off(top.vectors, operator.gram(y))  # noqa: E731
    for _ in range(_PROBES):
        start = _off(top.vectors, generator.choice([-1.0, 1.0], V))
        found, weight = lanczos_measure(apply, start, _LANCZOS_STEPS)
        nodes.append(found)
        mass.append(weight / weight.sum() * ((V - k) / V / _PROBES))
    # where the pairs found are all there are, what is left is rounding of the largest
    scale = float(top.values[0]) if k else 0.0
    values, weights = _merged(non_negative(np.concatenate(nodes), "usage", scale), np.concatenate(mass))
    return _with_lanczos_measure(operator, b, top, values, weights)


def _merged(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes in descending order, those of one eigenvalue that several probes have found put together."""
    order = np.argsort(-values, kind="stable")
    values, weights = values[order], weights[order]
    values = np.where(values < _NODE_DISTANCE * values[0], 0.0, values)
    first = np.flatnonzero(np.diff(values, prepend=np.inf) < -_NODE_DISTANCE * values)
    mass = np.add.reduceat(weights, first)
    return np.add.reduceat(weights * values, first) / np.maximum(mass, 1e-300), mass
