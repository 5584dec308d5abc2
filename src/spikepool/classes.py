"""K classes with any shares and means (open problem i of the paper).

Token v of class k has embedding m_k + z_v. Let A_k be the weight that a sequence puts on class k, the sum of w_t over
positions whose token is of that class, and Gamma the covariance of (A_1, ..., A_K) over sequences. Given the table,
the covariance of a pooled column is exactly

    kappa · Z P Z'/V + (M + Z̄) Gamma (M + Z̄)',    M = (m_1, ..., m_K),  Z̄ the class means of the noise,

with P the projection off the class means, and Z̄ independent of ZP with columns of squared norm delta/pi_k. So the
spikes have as strengths the eigenvalues theta_i of

    Gamma^{1/2} (M'M + delta diag(1/pi)) Gamma^{1/2}

and directions (M + Z̄) b_i, b_i = Gamma^{1/2} q_i/sqrt(theta_i) with q_i the eigenvectors. Each goes through the
formulas of :mod:`spikepool.spikes` by itself. Its eigenvector's squared projection on the span of the true class
differences is A(x_i)·‖M b_i‖². Without centring, Gamma is replaced by the second moment Gamma + pi pi', and M b_i by
its projection on that span.

For positions that share a class with probability R_ts and are independent otherwise,
``Gamma = (w'Rw)(diag(pi) − pi pi')``: the same weights are optimal as for two classes. Two balanced classes at ±mu u
give the formulas of :class:`spikepool.SequenceModel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from spikepool import _validation as check
from spikepool import spikes
from spikepool._memory import require_memory
from spikepool._progress import Progress
from spikepool.class_sampling import class_sampler
from spikepool.errors import CorrelationError, DomainError, ShapeError, SizeError
from spikepool.laws.base import SpectralLaw
from spikepool.laws.free_product import FreeProductLaw
from spikepool.weights import alpha_kappa

FloatArray = NDArray[np.float64]

# Directions of the class differences shorter than this, relative to the longest, do not count.
_RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class ClassOutlier:
    """One predicted eigenvalue outside the bulk.

    Attributes
    ----------
    eigenvalue : float
        Eigenvalue of the sample covariance S.
    alignment : float
        Squared length of its eigenvector's projection on the span of the true class differences.
    overlaps : tuple of float
        Squared cosines with the principal directions of the true class differences (``ClassModel.directions``),
        which add up to `alignment`. Where strengths coincide only the sum is determined.
    strength : float
        theta, the size of the spike.
    population_eigenvalue, population_alignment : float
        The same for infinitely many sequences.
    """

    eigenvalue: float
    alignment: float
    overlaps: tuple[float, ...]
    strength: float
    population_eigenvalue: float
    population_alignment: float


@dataclass(frozen=True)
class ClassPrediction:
    """What theory says of the pooled covariance of K classes.

    Attributes
    ----------
    alpha, kappa : float
        Signal gain w'Rw and noise gain ‖w‖².
    bulk : SpectralLaw
        Limiting law of the bulk.
    edge : float
        Its right edge.
    strengths : tuple of float
        Strengths of all spikes, largest first, also of those that no outlier shows.
    outliers : tuple of ClassOutlier
        The outliers, largest first.
    """

    alpha: float
    kappa: float
    bulk: SpectralLaw
    edge: float
    strengths: tuple[float, ...]
    outliers: tuple[ClassOutlier, ...]

    @property
    def detectable(self) -> bool:
        """Whether there is any outlier."""
        return bool(self.outliers)

    @property
    def alignment(self) -> float:
        """Alignment of the top eigenvector; 0 when nothing is detectable."""
        return self.outliers[0].alignment if self.outliers else 0.0


@dataclass(frozen=True)
class ClassSimulation:
    """Top eigenpairs over independent draws.

    Attributes
    ----------
    eigenvalues, alignments : ndarray of shape (trials, k)
        Largest first; alignments with the span of the true class differences.
    overlaps : ndarray of shape (trials, k, r)
        Squared cosines with each of ``ClassModel.directions``.
    """

    eigenvalues: FloatArray
    alignments: FloatArray
    overlaps: FloatArray


@dataclass(frozen=True, eq=False)
class ClassModel:
    """Sequences of tokens from an embedding table with K classes.

    Parameters
    ----------
    d, V, N : int
        Embedding dimension, vocabulary size, number of sequences.
    R : array_like of shape (T, T)
        Probability that two positions share their class draw: unit diagonal, entries in [0, 1], PSD.
    means : array_like of shape (p, K), p <= d
        Class means as columns, in any orthonormal coordinates of a p-dimensional subspace.
    shares : array_like of shape (K,), optional
        Share pi_k of the vocabulary, and of the positions, that belongs to class k; equal when not given.
    table : {"sampled", "class_centered"}
        As in :class:`spikepool.SequenceModel`.
    centered : bool
        Whether the sample mean of the columns of C is subtracted before S is formed.
    """

    d: int
    V: int
    N: int
    R: FloatArray
    means: FloatArray
    shares: FloatArray
    table: str = "sampled"
    centered: bool = True

    def __init__(
        self,
        d: int,
        V: int,
        N: int,
        R: ArrayLike,
        means: ArrayLike,
        shares: ArrayLike | None = None,
        table: str = "sampled",
        centered: bool = True,
    ) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("d", check.size(d, "d"))
        put("V", check.size(V, "V"))
        put("N", check.size(N, "N"))
        put("R", check.symmetric_psd(R, "R"))
        check.unit_diagonal(self.R, "R")
        if self.R.min() < -check.IDENTITY_TOLERANCE:
            raise CorrelationError(
                "R holds probabilities of sharing a class and must not be negative; its smallest entry is",
                float(self.R.min()),
                "For two classes with opposite signs use SequenceModel",
            )
        put("means", _frozen(check.finite_array(means, "means", ndim=2)))
        p, K = self.means.shape
        if p > self.d:
            raise ShapeError(f"means must have at most d = {self.d} rows", self.means, "Pass (p, K) with p <= d")
        if K < 2:
            raise SizeError("there must be at least two classes", K, "Pass one column of means for each class")
        put("shares", _frozen(_check_shares(shares, K)))
        if self.V < K:
            raise SizeError(f"V must be at least the number of classes, {K}", self.V, "Enlarge the vocabulary")
        put("table", check.choice(table, "table", ("sampled", "class_centered")))
        put("centered", check.flag(centered, "centered"))

    @property
    def T(self) -> int:
        """Sequence length."""
        return len(self.R)

    @property
    def K(self) -> int:
        """Number of classes."""
        return int(self.means.shape[1])

    @property
    def delta(self) -> float:
        """Aspect ratio d/V."""
        return self.d / self.V

    @property
    def gamma(self) -> float:
        """Aspect ratio d/N."""
        return self.d / self.N

    @property
    def directions(self) -> FloatArray:
        """Principal directions (p, r) of the true class differences: left singular vectors of their matrix.

        Columns sqrt(pi_k)(m_k − mbar), largest singular value first; r is the rank, at most K − 1.
        """
        mean = self.means @ self.shares
        vectors, sizes, _ = np.linalg.svd((self.means - mean[:, None]) * np.sqrt(self.shares), full_matrices=False)
        return np.asarray(vectors[:, sizes > _RANK_TOLERANCE * max(float(sizes[0]), 1e-300)])

    def class_sizes(self) -> NDArray[np.intp]:
        """Number of tokens of each class: shares of V, rounded to at least one with the largest remainders."""
        exact = self.shares * self.V
        sizes = np.maximum(np.floor(exact), 1).astype(np.intp)
        while sizes.sum() != self.V:
            step = 1 if sizes.sum() < self.V else -1
            room = np.where(sizes + step >= 1, step * (exact - sizes), -np.inf)
            sizes[int(np.argmax(room))] += step
        return sizes

    def class_covariance(self, w: ArrayLike) -> FloatArray:
        """Gamma(w) = (w'Rw)(diag(pi) − pi pi'), the covariance of the weight put on each class."""
        alpha, _ = alpha_kappa(w, self.R)
        return np.asarray(alpha * (np.diag(self.shares) - np.outer(self.shares, self.shares)))

    def predict(self, w: ArrayLike, *, class_covariance: ArrayLike | None = None) -> ClassPrediction:
        """Bulk and every spike's outlier for pooling weights `w`.

        Parameters
        ----------
        w : array_like of shape (T,)
            Weights summing to one.
        class_covariance : array_like of shape (K, K), optional
            Gamma, when positions depend on each other in another way than through R.
        """
        alpha, kappa = alpha_kappa(w, self.R)
        gamma_matrix = self.class_covariance(w)
        if class_covariance is not None:
            gamma_matrix = check.symmetric_psd(class_covariance, "class_covariance")
            if gamma_matrix.shape != (self.K, self.K):
                raise ShapeError(f"class_covariance must be ({self.K}, {self.K})", gamma_matrix, "Match the classes")
        if not self.centered:
            gamma_matrix = gamma_matrix + np.outer(self.shares, self.shares)
        power = self.means.T @ self.means
        if self.table == "sampled":
            power = power + np.diag(self.delta / self.shares)
        values, vectors = np.linalg.eigh(gamma_matrix)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # PSD up to rounding
        theta, q = np.linalg.eigh(root @ power @ root)
        rank = self.K - 1 if self.centered else self.K
        theta, q = theta[::-1][:rank], q[:, ::-1][:, :rank]
        threshold = float(spikes.sample_threshold(self.delta, self.gamma)) * kappa
        loadings = (
            self.directions.T @ self.means @ root @ q
        )  # component of M b_i along each direction, times sqrt(theta)
        outliers = tuple(
            self._outlier(float(theta[i]), kappa, loadings[:, i] ** 2 / theta[i])
            for i in range(rank)
            if theta[i] > threshold
        )
        return ClassPrediction(
            alpha=alpha,
            kappa=kappa,
            bulk=FreeProductLaw(self.delta, self.gamma, kappa),
            edge=float(spikes.bulk_edge(self.delta, self.gamma, kappa)),
            strengths=tuple(float(max(t, 0.0)) for t in theta),
            outliers=outliers,
        )

    def _outlier(self, theta: float, kappa: float, purities: FloatArray) -> ClassOutlier:
        """The outlier of a spike whose direction has squared components `purities` along the true directions."""
        x = float(spikes.spike_excess(theta, self.delta, kappa))
        total = float(spikes.total_alignment(x, self.delta, self.gamma))
        purity = float(purities.sum())
        return ClassOutlier(
            eigenvalue=float(spikes.sample_outlier(x, self.delta, self.gamma, kappa)),
            alignment=total * purity,
            overlaps=tuple(float(total * value) for value in purities),
            strength=theta,
            population_eigenvalue=float(spikes.population_outlier(x, self.delta, kappa)),
            population_alignment=float(spikes.population_alignment(x, self.delta)) * purity,
        )

    def simulate(self, w: ArrayLike, trials: int = 20, k: int | None = None, *, rng: Any = None) -> ClassSimulation:
        """Top `k` eigenpairs of S (K by default) over independent draws of table, classes and tokens.

        S is formed and decomposed in full: meant for d of a few thousand at most. Classes are drawn by
        :func:`spikepool.class_sampling.class_sampler`.
        """
        w = check.weight_vector(w, self.T)
        trials = check.size(trials, "trials")
        k = self.K if k is None else check.size(k, "k")
        if k > self.d:
            raise DomainError(f"k must be at most d = {self.d}", k, "Ask for fewer eigenpairs")
        require_memory(
            8 * (self.V * self.d + 2 * self.N * self.d + 5 * self.N * self.T + 2 * self.d**2),
            f"simulating d={self.d}, V={self.V}, N={self.N}, T={self.T}",
            "Lower V or d (the table), or N or T (the tokens)",
        )
        generator = check.generator(rng)
        draw = class_sampler(self.R, self.shares)
        sizes = self.class_sizes()
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        owner = np.repeat(np.arange(self.K), sizes)
        directions = self.directions
        p, r = directions.shape
        eigenvalues, overlaps = np.empty((trials, k)), np.empty((trials, k, r))
        with Progress(trials, "K classes") as progress:
            for trial in range(trials):
                table = generator.standard_normal((self.V, self.d))
                if self.table == "class_centered":
                    for start, size in zip(starts, sizes, strict=True):
                        table[start : start + size] -= table[start : start + size].mean(axis=0)
                table[:, :p] += self.means.T[owner]
                classes = draw(self.N, rng=generator)
                tokens = starts[classes] + (generator.random(classes.shape) * sizes[classes]).astype(np.intp)
                entries = np.broadcast_to(w, tokens.shape).ravel()
                rows = np.repeat(np.arange(self.N), self.T)
                C = csr_array((entries, (rows, tokens.ravel())), shape=(self.N, self.V)) @ table
                if self.centered:
                    C -= C.mean(axis=0)
                values, vectors = np.linalg.eigh(C.T @ C / self.N)
                eigenvalues[trial] = values[::-1][:k]
                overlaps[trial] = (vectors[:p, ::-1][:, :k].T @ directions) ** 2
                progress.advance()
        return ClassSimulation(eigenvalues, overlaps.sum(axis=2), overlaps)


def _frozen(array: FloatArray) -> FloatArray:
    array = array.copy()
    array.setflags(write=False)
    return array


def _check_shares(shares: ArrayLike | None, K: int) -> FloatArray:
    if shares is None:
        return np.full(K, 1 / K)
    pi = check.finite_array(shares, "shares", ndim=1)
    if len(pi) != K:
        raise ShapeError(f"shares must have one entry for each of the {K} classes", pi, "Match the means")
    if pi.min() <= 0 or abs(float(pi.sum()) - 1) > check.IDENTITY_TOLERANCE:
        raise DomainError("shares must be positive and sum to one", pi, "Divide them by their sum")
    return pi


__all__ = ["ClassModel", "ClassOutlier", "ClassPrediction", "ClassSimulation"]
