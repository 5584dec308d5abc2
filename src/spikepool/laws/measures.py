"""Spectral laws and spectral measures of matrices: exactly when they are small, by Lanczos quadrature at scale.

For a symmetric A and a vector b, the measure nu with ∫ f dnu = b' f(A) b is approximated by the Gauss quadrature that n
steps of the Lanczos method give: exact for polynomials of degree 2n − 1, hence geometrically convergent for functions
analytic around the spectrum, which those of the separable equations are. The law of A is the mean of such measures
over random b (stochastic Lanczos quadrature); its error in a linear statistic is of order 1/sqrt(size · probes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spikepool.errors import CorrelationError, InvalidInputError, NonFiniteError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.atomic import AtomicLaw
from spikepool.laws.base import SpectralLaw

# Up to this size a symmetric matrix is diagonalised.
EXACT_SIZE = 3500

Apply = Callable[[FloatArray], FloatArray]


def lanczos_measure(apply: Apply, start: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """Gauss quadrature of the spectral measure of an operator at a vector: nodes and weights.

    Parameters
    ----------
    apply : callable
        x -> A x for a symmetric A.
    start : numpy.ndarray of shape (n,)
        The vector b; the weights sum to ‖b‖².
    steps : int
        Number of nodes at most; fewer when the Krylov space is exhausted.
    """
    norm = float(np.linalg.norm(start))
    if norm == 0:
        return np.zeros(1), np.zeros(1)
    _, projected = krylov_basis(apply, start[None] / norm, min(steps, len(start)))
    nodes, vectors = np.linalg.eigh(projected)
    return nodes, norm**2 * vectors[0] ** 2


def krylov_basis(
    apply: Apply, fresh: FloatArray, limit: int, exhausted: float = 1e-13
) -> tuple[FloatArray, FloatArray]:
    """Orthonormal rows Q (m, n) that span the Krylov space of A at the orthonormal rows `fresh`, and QAQ'.

    The rows are at most `limit`. Directions left with less than `exhausted` of the operator's size are rounding,
    and dropped.
    """
    basis, projected = np.empty((limit, fresh.shape[1])), np.zeros((limit, limit))
    filled, scale = 0, 0.0
    while len(fresh) and filled < limit:
        fresh = fresh[: limit - filled]
        old, filled = filled, filled + len(fresh)
        basis[old:filled] = fresh
        known = basis[:filled]
        image = np.stack([apply(x) for x in fresh])
        coefficients = image @ known.T
        if not np.isfinite(coefficients).all():
            raise NonFiniteError("the operator returned NaN or infinities", remedy="Check its matvec")
        projected[old:filled, :filled], projected[:filled, old:filled] = coefficients, coefficients.T
        scale = max(scale, float(np.abs(coefficients).max()))
        image -= coefficients @ known
        image -= (image @ known.T) @ known  # again: without it copies of converged pairs appear
        fresh = _orthonormal(image, exhausted * scale)
        if len(image) > 1:  # the least of a block may be small
            fresh = _orthonormal(fresh - (fresh @ known.T) @ known, 0.0)
    return basis[:filled], projected[:filled, :filled]


def _orthonormal(rows: FloatArray, least: float) -> FloatArray:
    """Orthonormal rows with the span of `rows`; what is left of a row below `least` is dropped."""
    from scipy.linalg import qr

    if len(rows) == 1:
        norm = float(np.linalg.norm(rows))
        return rows / norm if norm > least else rows[:0]
    columns, weight, _ = qr(rows.T, mode="economic", pivoting=True)
    return np.asarray(columns.T[np.abs(np.diag(weight)) > least])


def lanczos_law(apply: Apply, size: int, *, probes: int = 16, steps: int = 150, rng: Any = 0) -> AtomicLaw:
    """Law of a PSD operator by stochastic Lanczos quadrature with `probes` random sign vectors.

    Raises
    ------
    CorrelationError
        If the operator has a negative Ritz value, so is not PSD.
    """
    size = check.size(size, "size")
    generator = check.generator(rng)
    nodes, weights = [], []
    for _ in range(check.size(probes, "probes")):
        start = generator.choice([-1.0, 1.0], size) / np.sqrt(size)
        found, mass = lanczos_measure(apply, start, check.size(steps, "steps"))
        nodes.append(found)
        weights.append(mass / mass.sum() / probes)
    values, masses = np.concatenate(nodes), np.concatenate(weights)
    return AtomicLaw(non_negative(values), masses)


def non_negative(values: FloatArray, name: str = "operator", scale: float = 0.0) -> FloatArray:
    """Eigenvalues that are negative by rounding only, set to zero; raises when one is negative for real.

    Rounding is that of the largest eigenvalue, or of `scale` if that is larger.
    """
    largest = max(float(np.abs(values).max()), scale)
    if values.min() < -1e-8 * largest:
        raise CorrelationError(
            f"the {name} is not positive semi-definite; it has the eigenvalue",
            float(values.min()),
            "Pass a PSD matrix",
        )
    # eigenvalues this small are zeros with rounding on them
    return np.where(values < 1e-12 * largest, 0.0, values)


def as_law(source: Any, name: str = "law", *, rng: Any = 0) -> SpectralLaw:
    """A law from a law, a vector of atoms, a PSD matrix, or a symmetric PSD operator.

    Parameters
    ----------
    source : SpectralLaw, array_like of shape (k,) or (n, n), sparse matrix or LinearOperator
        Dense matrices, and sparse ones of up to a few thousand rows, are diagonalised; the rest goes through
        :func:`lanczos_law`.
    name : str
        For messages.
    rng : int, SeedSequence or Generator
        Of the probes of the quadrature.
    """
    from scipy.sparse import issparse
    from scipy.sparse.linalg import LinearOperator

    if isinstance(source, SpectralLaw):
        return source
    if issparse(source) or isinstance(source, LinearOperator):
        if len(source.shape) != 2 or source.shape[0] != source.shape[1]:
            raise ShapeError(f"{name} must be square", source.shape, "Pass an (n, n) operator")
        n = int(source.shape[0])
        if issparse(source) and n <= EXACT_SIZE:
            return as_law(source.toarray(), name)
        probe = np.random.default_rng(0).standard_normal((2, n))
        asymmetry = abs(float(probe[0] @ (source @ probe[1]) - probe[1] @ (source @ probe[0])))
        if not asymmetry <= 1e-8 * float(np.linalg.norm(source @ probe[1])) * np.sqrt(n):
            raise CorrelationError(f"{name} must be symmetric; x'Ay and y'Ax differ by", asymmetry, "Symmetrise it")
        return lanczos_law(lambda x: np.asarray(source @ x), n, rng=rng)
    try:
        array = check.real_array(source, name)
    except InvalidInputError as err:
        raise InvalidInputError(
            f"{name} must be a law, real atoms, a real matrix or an operator", source, "Pass one of them"
        ) from err
    if array.ndim == 1:
        return AtomicLaw(array)
    matrix = check.symmetric_psd(array, name)
    return AtomicLaw(non_negative(np.asarray(np.linalg.eigvalsh(matrix), dtype=np.float64), name))
