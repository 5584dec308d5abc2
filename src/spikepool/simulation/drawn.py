"""Simulated spectra of the pooled covariance S, without forming X, and mostly without forming S.

Only the top eigenpairs are wanted most of the time. They come from a Krylov space of S started at the hidden
direction u, S being applied as a product of table, tokens, tokens and table (:mod:`spikepool.simulation.pooled_noise`).
For many signal strengths mu, S(mu) is a rank-two change of its noise part, in the span of u and one more vector g:
one block Krylov space started at [u, g] serves every mu (:mod:`spikepool.simulation.secular`). Small problems, and the
rare one where the Krylov space stops early, are decomposed densely on the smaller Gram side.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ConvergenceError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.kit.showing import html_table, mean_table, plain
from spikepool.kit.threads import Map, task_threads
from spikepool.simulation import dense, secular
from spikepool.simulation.krylov import KrylovSpace, krylov_space
from spikepool.simulation.pooled_noise import PooledNoise
from spikepool.world.sampling import (
    Sample,
    child_seed,
    draw_sample,
    pooling_weights,
    sample_bytes,
    seed_sequence,
    table_dtype,
)
from spikepool.world.sequences import SequenceWorld

Weights = ArrayLike | Callable[[Sample], ArrayLike]

# Bound on (residual/gap)² of an accepted Ritz pair: the size of the error of its alignment with u, and, times the gap,
# of its eigenvalue. A digit beyond the 1e-6 promised; errors measured against dense solutions are smaller still.
TOLERANCE = 1e-7

# Below this size a dense decomposition takes less time than a Krylov space.
_DENSE_SIDE = 80

# Beyond this size a dense decomposition is no answer to a Krylov space that did not converge.
_DENSE_LIMIT = 6000

# Entries of the table, or token positions, from which threads are worth their overhead.
_THREADED_SIZE = 1 << 21

# Largest dimension of a Krylov space; the orthogonalisation, quadratic in it, would dominate beyond.
_KRYLOV_LIMIT = 600


@dataclass(frozen=True)
class SimulationResult:
    """Top eigenpairs over independent draws.

    Attributes
    ----------
    eigenvalues : numpy.ndarray of shape (trials, k)
        Largest eigenvalues of S, descending.
    alignments : numpy.ndarray of shape (trials, k)
        Squared cosine of each of their eigenvectors with u.
    """

    eigenvalues: FloatArray
    alignments: FloatArray

    @property
    def alignment(self) -> FloatArray:
        """Alignment of the top eigenvector with u in each trial, (trials,)."""
        return self.alignments[:, 0]

    @property
    def eigenvalue(self) -> FloatArray:
        """Largest eigenvalue in each trial, (trials,)."""
        return self.eigenvalues[:, 0]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: every eigenpair of every trial."""
        record: dict[str, Any] = plain({"eigenvalues": self.eigenvalues, "alignments": self.alignments})
        return record

    def _repr_html_(self) -> str:
        return html_table(*mean_table(self.eigenvalues, self.alignments), title=f"{len(self.alignments)} draws")

    def plot(self, ax: Any = None, *, predicted: float | None = None) -> Any:
        """Alignment of the top eigenvector in each draw, with their mean, beside a prediction; returns the axes."""
        from spikepool.drawing.predictions import draw_trials

        return draw_trials(self.alignments[:, :1], ax, predicted=None if predicted is None else [predicted])


@dataclass(frozen=True)
class GridResult:
    """Top eigenpairs for several weights and signal strengths that share their draws.

    Attributes
    ----------
    names : tuple of str
        Names of the weights.
    mus : numpy.ndarray of shape (m,)
        Signal strengths.
    eigenvalues, alignments : numpy.ndarray of shape (weights, m, trials, k)
        As in :class:`SimulationResult`.
    """

    names: tuple[str, ...]
    mus: FloatArray
    eigenvalues: FloatArray
    alignments: FloatArray


def simulate(
    model: SequenceWorld,
    w: Weights,
    trials: int = 20,
    k: int = 2,
    *,
    rng: Any = None,
    dtype: Any = np.float64,
    progress: bool | None = None,
) -> SimulationResult:
    """Top `k` eigenvalues of S and the alignments of their eigenvectors with u, over independent draws.

    Parameters
    ----------
    model : SequenceWorld
        What is drawn, anew in each trial.
    w : array_like or callable
        Weights (T,), or (N, T) with a row for each sequence; or a function of the drawn
        :class:`~spikepool.world.sampling.Sample` that returns either, such as
        ``lambda s: s.attention_weights(tau=1.0)``.
    trials : int
        Number of draws.
    k : int
        Number of eigenpairs; at most the rank of S.
    rng : int, SeedSequence or Generator, optional
        Trial i draws from ``SeedSequence(entropy, spawn_key=(..., i))``: its numbers do not depend on `trials`, nor on
        the number of threads.
    dtype : {float64, float32}
        Precision of the table; in float32 results carry about 5 digits.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after a couple of seconds.
    """
    result = simulate_grid(model, {"w": w}, [model.mu], trials, k, rng=rng, dtype=dtype, progress=progress)
    return SimulationResult(result.eigenvalues[0, 0], result.alignments[0, 0])


def simulate_grid(
    model: SequenceWorld,
    weights: Mapping[str, Weights] | Sequence[Weights],
    mus: ArrayLike,
    trials: int = 20,
    k: int = 2,
    *,
    rng: Any = None,
    dtype: Any = np.float64,
    progress: bool | None = None,
) -> GridResult:
    """Simulate several weights and several signal strengths on the same draws.

    Parameters as in :func:`simulate`; `mus` replaces the model's mu. Each number equals that of ``simulate``
    with that mu, the same weights and the same `rng`, to about 1e-8, at a small fraction of the cost: table and
    tokens are drawn once a trial, and one Krylov space for each weights serves every mu.
    """
    named = dict(weights) if isinstance(weights, Mapping) else {str(i): w for i, w in enumerate(weights)}
    strengths, k = _check_grid(model, named, mus, k)
    trials = check.size(trials, "trials")
    root = seed_sequence(rng)
    _require(model, dtype, named.values())
    values = np.empty((len(named), len(strengths), trials, k))
    alignments = np.empty_like(values)
    with Progress(trials, "simulating", show=progress) as bar:
        for i in range(trials):
            sample = draw_sample(model, rng=child_seed(root, i), dtype=dtype)
            values[:, :, i], alignments[:, :, i] = sample_grid(sample, named, strengths, k)
            bar.advance()
    return GridResult(tuple(named), strengths, values, alignments)


def sample_grid(
    sample: Sample, weights: Mapping[str, Weights] | Sequence[Weights], mus: ArrayLike, k: int = 2
) -> tuple[FloatArray, FloatArray]:
    """Top `k` eigenvalues and alignments, each (weights, mus, k), of one draw; `mus` replace the model's mu."""
    named = dict(weights) if isinstance(weights, Mapping) else {str(i): w for i, w in enumerate(weights)}
    strengths, k = _check_grid(sample.model, named, mus, k)
    with _threads(sample.model) as run:
        found = [_weights_grid(sample, w, strengths, k, run) for w in named.values()]
    return np.stack([values for values, _ in found]), np.stack([alignments for _, alignments in found])


def _weights_grid(sample: Sample, w: Weights, mus: FloatArray, k: int, run: Map) -> tuple[FloatArray, FloatArray]:
    """Top `k` eigenvalues and alignments, (mus, k), for one choice of weights."""
    if not callable(w):
        return _top(PooledNoise(sample, pooling_weights(w, sample.model), run=run), mus, k)
    found = []
    for j, mu in enumerate(mus):  # such weights may depend on mu through the table
        at_mu = dataclasses.replace(sample, model=sample.model.replace(mu=float(mu)))
        noise = PooledNoise(at_mu, pooling_weights(w(at_mu), sample.model), run=run)
        found.append(_top(noise, mus[j : j + 1], k))
    return np.concatenate([values for values, _ in found]), np.concatenate([part for _, part in found])


def spectrum(model: SequenceWorld, w: Weights, *, rng: Any = None, dtype: Any = np.float64) -> FloatArray:
    """All d eigenvalues of S for one draw, ascending; the draw is that of trial 0 of :func:`simulate`."""
    fixed = w if callable(w) else pooling_weights(w, model)
    _require(model, dtype, [w], extra=dense.gram_bytes(model.d, model.N))
    sample = draw_sample(model, rng=child_seed(seed_sequence(rng), 0), dtype=dtype)
    drawn = pooling_weights(fixed(sample), model) if callable(fixed) else fixed
    with _threads(model) as run:
        return dense.spectrum(PooledNoise(sample, drawn, run=run), model.mu)


def maximal_rank(model: SequenceWorld) -> int:
    """Largest rank S can have: the smaller of d, the sequences and the vocabulary, less what centring removes."""
    centered = int(model.centered)
    # 1'W is constant when weights have unit sum, so that centring takes one from the rank of W as well
    return min(model.d, model.N - centered, model.V - centered + int(model.latent == "gaussian"))


def _check_grid(model: SequenceWorld, weights: Mapping[str, Weights], mus: ArrayLike, k: int) -> tuple[FloatArray, int]:
    if not weights:
        raise SizeError("at least one weight vector is needed", weights, "Pass a mapping of names to weights")
    for w in weights.values():
        if not callable(w):
            pooling_weights(w, model)
    strengths = check.finite_array(mus, "mus", ndim=1)
    for mu in strengths:
        check.non_negative(float(mu), "mu")
    k = check.size(k, "k")
    rank = maximal_rank(model)
    if k > rank:
        raise SizeError(f"k must be at most {rank}, the largest rank S can have here", k, "Lower k, or raise d, N or V")
    return strengths, k


def _require(model: SequenceWorld, dtype: Any, weights: Any, extra: int = 0) -> None:
    """Refuse a draw that would not fit, before anything is drawn."""
    per_sequence = any(callable(w) or np.ndim(w) == 2 for w in weights)
    needed = (
        sample_bytes(model, table_dtype(dtype))
        + 8 * model.d * min(model.d, _KRYLOV_LIMIT) // 4
        + 8 * 6 * (model.N + model.V)
        + (16 * model.N * model.T if per_sequence else 0)
        + extra
    )
    require_memory(
        needed,
        f"simulating d={model.d}, V={model.V}, N={model.N}, T={model.T} in {np.dtype(dtype)}",
        "Lower V or d (the table), or N or T (the tokens), or pass dtype='float32'",
    )


def _threads(model: SequenceWorld) -> AbstractContextManager[Map]:
    """Threads over the pieces of one product, where it is large: small ones are bound by the interpreter."""
    return task_threads(large=max(model.V * model.d, model.N * model.T) > _THREADED_SIZE)


def _top(noise: PooledNoise, mus: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Top `k` eigenvalues and alignments, (m, k), of S(mu) for each of `mus`."""
    if min(noise.d, noise.N) > _DENSE_SIDE:
        found = _krylov_single(noise, float(mus[0]), k) if len(mus) == 1 else _krylov_grid(noise, mus, k)
        if found is not None:
            return found
        if min(noise.d, noise.N) > _DENSE_LIMIT:
            raise ConvergenceError(
                f"the top {k} eigenpairs did not separate in a Krylov space of dimension {_KRYLOV_LIMIT}",
                remedy="Lower k: eigenvalues inside the bulk are too close together at this size",
            )
    theta, U, G = dense.measure(noise, 0.0)
    rank = min(k, len(theta))
    values, vectors = secular.top_pairs(theta, U, G, float(noise.b @ noise.b) / noise.N, mus, rank)
    # tokens that repeat can leave a rank below k: the rest are zero eigenvalues, with no direction of their own
    rest = ((0, 0), (0, k - rank))
    return np.pad(values, rest), np.pad((vectors @ U) ** 2, rest)


def _excess(values: FloatArray, residuals: FloatArray) -> float:
    """Log of the largest (residual/gap)² over the tolerance, of Ritz values (m, k + 1), descending.

    The last value is not wanted and only bounds a gap.
    """
    steps = values[:, :-1] - values[:, 1:]
    gaps = steps.copy()
    gaps[:, 1:] = np.minimum(gaps[:, 1:], steps[:, :-1])
    if np.any(gaps <= 0):
        return math.inf
    worst = float(np.max(residuals[:, :-1] / gaps))
    return 2 * math.log(worst) - math.log(TOLERANCE) if worst else -math.inf


def _start(noise: PooledNoise, *vectors: FloatArray) -> FloatArray:
    """Starting block: the given vectors, and the mean of the columns when it makes an outlier of its own."""
    rows = [*vectors] if noise.centered else [*vectors, noise.mean_column()]
    return np.stack([row / np.linalg.norm(row) for row in rows])


def _krylov_single(noise: PooledNoise, mu: float, k: int) -> tuple[FloatArray, FloatArray] | None:
    """One mu: Krylov space of S(mu) at u; None when it did not converge."""
    found: list[tuple[FloatArray, FloatArray]] = []

    def excess(space: KrylovSpace) -> float:
        p = len(space.coupling)
        if len(space.projected) <= k + 1:
            return math.inf
        theta, Y = np.linalg.eigh(space.projected)
        values, vectors = theta[::-1][: k + 1], Y[:, ::-1][:, : k + 1]
        over = _excess(values[None], np.linalg.norm(space.coupling @ vectors[-p:], axis=0)[None])
        if over <= 0 and not space.invariant:
            found.append((values[None, :k], vectors[0:1, :k] ** 2))
        return over

    krylov_space(lambda x: noise.covariance(x, mu), _start(noise, noise.u), excess, max_dimension=_KRYLOV_LIMIT)
    return found[0] if found else None


def _krylov_grid(noise: PooledNoise, mus: FloatArray, k: int) -> tuple[FloatArray, FloatArray] | None:
    """Many mu: block Krylov space of the noise part at [u, g]; None when it did not converge."""
    g = noise.forward(noise.b) / noise.N
    if not g.any():
        return None
    c = float(noise.b @ noise.b) / noise.N
    length = float(np.linalg.norm(g))
    found: list[tuple[FloatArray, FloatArray]] = []

    def excess(space: KrylovSpace) -> float:
        p = len(space.coupling)
        if len(space.projected) <= k + 1:
            return math.inf
        theta, Y = np.linalg.eigh(space.projected)
        ends = space.coupling @ Y[-p:]
        # the noise part alone first: it is the hardest, and costs no search
        alone = _excess(theta[None, ::-1][:, : k + 1], np.linalg.norm(ends, axis=0)[None, ::-1][:, : k + 1])
        if alone > 0:
            return alone
        U, G = space.start[:, 0] @ Y, length * (space.start[:, 1] @ Y)
        values, vectors = secular.top_pairs(theta, U, G, c, mus, k + 1)
        over = _excess(values, np.linalg.norm(vectors @ ends.T, axis=2))
        if over <= 0 and not space.invariant:
            found.append((values[:, :k], (vectors[:, :k] @ U) ** 2))
        return over

    krylov_space(lambda x: noise.covariance(x, 0.0), _start(noise, noise.u, g), excess, max_dimension=_KRYLOV_LIMIT)
    return found[0] if found else None
