"""What the bulk and the signal see of the tokens: the usage matrix, its spectrum, and its measure at the signal.

W (V x N) holds the pooling weights of each sequence at its tokens. With P the projection off the class means of a
class-centred table (P = I for a sampled one), C the centring of the sequences (C = I without), and b the pooled
latents C a/sqrt(N), the pooled matrix is A^{1/2} Z B/sqrt(V) + mu u b' with

    B = sqrt(V/N) P W C,       M = B B'  (V x V),       c = B b,

and b' f(B'B) b = f(0)(‖b‖² − sum_i c_i²/t_i) + sum_i f(t_i) c_i²/t_i in the eigenbasis (t_i, c_i) of M. For latents
that are the signs of the tokens, b = C W's/sqrt(N), c = P M_0 s/sqrt(V) and ‖b‖² = s'M_0 s/V, with M_0 the usage for
P = I.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from spikepool.kit.arrays import FloatArray
from spikepool.laws.measures import EXACT_SIZE, lanczos_measure, non_negative
from spikepool.theory.general_spikes import Measure

# Up to this size eigenvectors are computed; between it and EXACT_SIZE eigenvalues are, with Lanczos for the measure.
_VECTORS_SIZE = 1500
_LANCZOS_STEPS = 160
_PROBES = 12
_TOP = 8
# Distinct token frequencies beyond this many are binned, for the population limit only.
_GROUPS = 1000


@dataclass(frozen=True)
class Usage:
    """Spectrum of the usage and its measure at the signal.

    Attributes
    ----------
    values, weights : numpy.ndarray
        Eigenvalues of M, descending, and their masses (1/V each when diagonalised).
    measure : Measure
        Of B'B at b, of rank one.
    gain : float
        ‖b‖², the signal gain of these very sequences.
    """

    values: FloatArray
    weights: FloatArray
    measure: Measure
    gain: float


def token_matrix(tokens: NDArray[Any], weights: FloatArray, V: int) -> csr_array:
    """W' (N x V), rows are sequences; repeated tokens of a sequence add up."""
    N, T = tokens.shape
    data = np.broadcast_to(weights, (N, T)).ravel()
    matrix = csr_array((data, (np.repeat(np.arange(N), T), tokens.ravel())), shape=(N, V))
    matrix.sum_duplicates()
    return matrix


class Projection:
    """P, the projection off the class means; the identity when there is no class-centring."""

    def __init__(self, signs: NDArray[Any] | None) -> None:
        self._classes = [] if signs is None else [np.flatnonzero(signs == c) for c in np.unique(signs)]

    def __call__(self, x: FloatArray) -> FloatArray:
        """P x, along the first axis."""
        if self._classes:
            x = x.copy()
            for rows in self._classes:
                x[rows] -= x[rows].mean(axis=0)
        return x


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
    N, V = W_t.shape
    pooled = np.asarray(W_t @ signs.astype(np.float64)) if latent is None else latent
    b = (pooled - pooled.mean() if centered else pooled) / np.sqrt(N)
    gain = float(b @ b)
    mean = np.asarray(W_t.sum(axis=0)).ravel() / N  # W 1/N
    scale = np.sqrt(V / N)
    trace = V / N * float(W_t.data @ W_t.data)  # without centring: the size of what rounding acts on

    def forward(x: FloatArray) -> FloatArray:
        """B x."""
        x = x - x.mean() if centered else x
        return project(scale * np.asarray(W_t.T @ x))

    def adjoint(y: FloatArray) -> FloatArray:
        """B'y."""
        x = scale * np.asarray(W_t @ project(y))
        return np.asarray(x - x.mean() if centered else x)

    if min(V, N) <= EXACT_SIZE:
        if V <= N:
            M = np.asarray((W_t.T @ W_t).toarray()) * (V / N)
            if centered:
                M -= V * np.outer(mean, mean)
            M = project(project(M).T)
        else:
            rows = W_t.toarray().T
            B = project(scale * (rows - mean[:, None] if centered else rows))
            M = B.T @ B
        if len(M) <= _VECTORS_SIZE:
            t, basis = np.linalg.eigh(M)
            t = non_negative(t, "usage", trace / V)
            return _usage(t, basis.T @ (forward(b) if V <= N else b), gain, V, small_side=V <= N)
        t = non_negative(np.asarray(np.linalg.eigvalsh(M), dtype=np.float64), "usage", trace / V)
        values, weights = np.sort(np.concatenate([t, np.zeros(V - len(t))]))[::-1], np.full(V, 1 / V)
    else:
        values, weights = _large_law(forward, adjoint, N, V, rng)
    nodes, mass = lanczos_measure(lambda x: adjoint(forward(x)), b, _LANCZOS_STEPS)
    nodes = np.where(nodes < 1e-10 * values[0], 0.0, nodes)
    # converged nodes are the isolated eigenvalues: give them exactly the same place
    nearest = values[np.argmin(np.abs(values[:64, None] - nodes), axis=0)]
    nodes = np.where(np.abs(nearest - nodes) <= 1e-7 * nearest, nearest, nodes)
    return Usage(values, weights, Measure(nodes, np.sqrt(mass)[:, None]), gain)


def population_usage(
    p: FloatArray,
    signs: NDArray[Any],
    alpha: float,
    kappa: float,
    *,
    centered: bool,
    class_centered: bool,
    gaussian: bool,
) -> Usage:
    """Usage of infinitely many sequences whose tokens are independent given their classes.

    With frequencies p, mean sign m = p's and variance v = 1 − m²,

        M_0/V = kappa (diag p − pp') + (alpha_c − kappa v)/v² (p∘(s−m))(p∘(s−m))'  [+ pp' without centring],

    where alpha_c is the variance of the pooled signs; a gaussian latent has no second term, and lies outside the
    directions of the usage. All vectors are constant on groups of tokens with the same frequency and class, so M_0 is
    diagonalised among the groups; orthogonally to them it is kappa V diag p.
    """
    V = len(p)
    if len(np.unique(p)) > _GROUPS:
        p = _binned(p)
    _, first, size = np.unique(np.column_stack([p, signs]), axis=0, return_index=True, return_counts=True)
    f, s, n = p[first], np.asarray(signs, dtype=np.float64)[first], size.astype(np.float64)
    root = np.sqrt(n)
    m = float(n @ (f * s))
    v = 1 - m * m
    tilt = root * f * (s - m)
    M = np.diag(V * kappa * f) + V * (not centered) * np.outer(root * f, root * f)
    M -= V * kappa * np.outer(root * f, root * f)
    if not gaussian and v > 1e-12:
        variance = alpha if centered else max(alpha - m * m, 0.0)
        M += V * (variance - kappa * v) / v**2 * np.outer(tilt, tilt)
    unit = root * s / np.sqrt(V)
    c, gain = (np.zeros(len(f)), alpha) if gaussian else (M @ unit, float(unit @ M @ unit))
    if class_centered:
        P = np.eye(len(f))
        for sign in np.unique(s):
            side = np.where(s == sign, root, 0.0)
            P -= np.outer(side, side) / float(side @ side)
        M, c = P @ M @ P, P @ c
    t, basis = np.linalg.eigh(M)
    inner = _usage(non_negative(t, "usage", V * kappa * float(f.max())), basis.T @ c, gain, len(M), small_side=True)
    rest = n > 1
    values = np.concatenate([inner.values, V * kappa * f[rest]])
    weights = np.concatenate([np.full(len(f), 1 / V), (n[rest] - 1) / V])
    order = np.argsort(-values, kind="stable")
    return Usage(values[order], weights[order], inner.measure, gain)


def _binned(p: FloatArray) -> FloatArray:
    """Frequencies replaced by their means over bins of neighbours in rank."""
    order = np.argsort(p)
    binned = p.copy()
    # the largest ones stay as they are: they may stand alone
    for rows in np.array_split(order[: -_GROUPS // 4], 3 * _GROUPS // 4):
        binned[rows] = p[rows].mean()
    return binned


def _usage(t: FloatArray, coordinates: FloatArray, gain: float, V: int, *, small_side: bool) -> Usage:
    if small_side:
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.where(t > 0, coordinates / np.sqrt(t), 0.0)
        rest = np.sqrt(max(0.0, gain - float(inner @ inner)))
        measure = Measure(np.append(t, 0.0), np.append(inner, rest)[:, None])
    else:
        measure = Measure(t, coordinates[:, None])
    values = np.sort(np.concatenate([t, np.zeros(V - len(t))]))[::-1]
    return Usage(values, np.full(V, 1 / V), measure, gain)


def _large_law(forward: Any, adjoint: Any, N: int, V: int, rng: Any) -> tuple[FloatArray, FloatArray]:
    """Law of M at scale: its largest eigenvalues one by one, the rest by stochastic Lanczos quadrature."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    generator = np.random.default_rng(rng if isinstance(rng, int) else 0)
    operator = LinearOperator((V, V), matvec=lambda y: forward(adjoint(y.ravel())), dtype=np.float64)
    top, vectors = eigsh(operator, k=_TOP, v0=generator.standard_normal(V))
    nodes, mass = [top], [np.full(_TOP, 1 / V)]
    for _ in range(_PROBES):
        start = generator.choice([-1.0, 1.0], V)
        start -= vectors @ (vectors.T @ start)
        found, weight = lanczos_measure(lambda y: forward(adjoint(y)), start, _LANCZOS_STEPS)
        nodes.append(found)
        mass.append(weight / weight.sum() * ((V - _TOP) / V / _PROBES))
    values, weights = np.concatenate(nodes), np.concatenate(mass)
    values = non_negative(values, "usage")
    # Ritz values of deflated directions would repeat the top; what remains lies below it
    values[_TOP:] = np.minimum(values[_TOP:], top.min())
    order = np.argsort(-values, kind="stable")
    return values[order], weights[order]
