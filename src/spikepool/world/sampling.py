"""One draw of the world: direction, table noise, tokens and latents.

A draw is made from four independent random streams (direction, noise, latent, tokens), so that the same seed
gives the same tokens whatever is done with the table, and the same table whatever the signal strength mu. Noise
is drawn in blocks of tokens, each with a stream of its own: the numbers depend neither on the number of threads
nor on the dtype, which only rounds them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.threads import thread_count
from spikepool.world.attention import attention_weights
from spikepool.world.pooled_latents import pooled_latents, pooling_weights, with_token_weights
from spikepool.world.pooling_matrix import PoolingMatrix
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld
from spikepool.world.tokens import draw_tokens, sequence_blocks, token_bytes

# Keys of the streams of a draw; 2 and 3 are those of the tokens (:mod:`spikepool.world.tokens`).
_DIRECTION, _NOISE = 0, 1


@dataclass(frozen=True, eq=False)
class Sample:
    """A drawn table and drawn sequences.

    Attributes
    ----------
    model : SequenceWorld
        What it was drawn from.
    direction : numpy.ndarray of shape (d,)
        The unit vector u.
    noise : numpy.ndarray of shape (V, d)
        Rows are the noise vectors z_v of the tokens.
    tokens : numpy.ndarray of int32, shape (N, T)
        Token ids.
    latent : numpy.ndarray of shape (N, T)
        The ±1 signs xi of the positions (int8), or the real latents of ``latent="gaussian"``.
    """

    model: SequenceWorld
    direction: FloatArray
    noise: NDArray[Any]
    tokens: NDArray[np.int32]
    latent: NDArray[Any]

    @property
    def signs(self) -> NDArray[np.int8]:
        """Class of each token of the vocabulary, (V,)."""
        return self.model.signs

    @property
    def table(self) -> NDArray[Any]:
        """The embedding table E = mu u s' + Z, (d, V); plain Z when the latent is gaussian."""
        table = self.noise.T.copy()
        if self.model.latent == "signs":
            table += (self.model.mu * self.direction).astype(table.dtype)[:, None] * self.signs
        return table

    def gain(self, w: ArrayLike) -> FloatArray:
        """Pooled latent ``b_n = sum_t w_nt a(x_nt) xi_nt`` of each sequence, (N,), a the model's token weights."""
        return pooled_latents(self.latent, with_token_weights(pooling_weights(w, self.model), self.model, self.tokens))

    def pooled(self, w: ArrayLike) -> FloatArray:
        """Pooled representations C = mu u b' + Z W, (d, N), not centred. For small models: it is held whole."""
        w = pooling_weights(w, self.model)
        pooling = PoolingMatrix(self.tokens, w, self.model.V, token_weights=self.model.token_weights)
        signal = self.model.mu * self.direction[:, None] * self.gain(w)
        return pooling.rows(self.noise, slice(0, self.model.N)).T + signal

    def attention_weights(self, tau: float = 1.0, scaling: str | float = "sqrt_d") -> FloatArray:
        """Weights (N, T) of the causal attention forward pass on these sequences.

        The embedded sequences are gathered a block at a time. Parameters as in
        :func:`spikepool.attention_weights`.
        """
        N, T = self.tokens.shape
        shift = self.model.mu * self.direction
        weights = np.empty((N, T))
        for rows in sequence_blocks(N, T * self.model.d):
            X = self.noise[self.tokens[rows]].astype(np.float64)
            X += self.latent[rows][:, :, None] * shift
            weights[rows] = attention_weights(X, tau, scaling)
        return weights


def sample_bytes(model: SequenceWorld, dtype: Any) -> int:
    """Memory that a sample keeps: table noise, tokens and latents."""
    return int(model.V * model.d * np.dtype(dtype).itemsize) + token_bytes(model)


def table_dtype(dtype: Any) -> np.dtype[Any]:
    """`dtype` if it is float32 or float64."""
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except TypeError as err:
        raise InvalidInputError("dtype must be float32 or float64", dtype, "Choose one of these") from err
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError("dtype must be float32 or float64", dtype, "Choose one of these")
    return kind


def draw_sample(model: SequenceWorld, *, rng: Any = None, dtype: Any = np.float64) -> Sample:
    """Draw a table, tokens and latents.

    Parameters
    ----------
    model : SequenceWorld
        All of its fields are honoured. With ``table="class_centered"`` the plain mean of the noise vectors of
        each class is subtracted from them (also when `frequencies` are not uniform).
    rng : int, SeedSequence, Generator or BitGenerator, optional
        The draw of the table does not depend on `mu`, nor that of the tokens on d or on the noise law.
    dtype : {float64, float32}
        Precision in which the table's noise is kept; the same numbers up to rounding.
    """
    kind = table_dtype(dtype)
    require_memory(
        sample_bytes(model, kind),
        f"a sample of d={model.d}, V={model.V}, N={model.N}, T={model.T}",
        "Lower V or d (the table), or N or T (the tokens), or pass dtype='float32'",
    )
    root = seed_sequence(rng)
    tokens, latent = draw_tokens(model, root)
    return Sample(model, draw_direction(model, root), draw_noise(model, root, kind), tokens, latent)


def draw_direction(model: SequenceWorld, rng: Any = None) -> FloatArray:
    """The model's direction u, or one drawn uniformly on the sphere when it has none."""
    if model.direction is not None:
        return model.direction
    u = np.random.default_rng(child_seed(seed_sequence(rng), _DIRECTION)).standard_normal(model.d)
    return u / np.linalg.norm(u)


def noise_seed(root: np.random.SeedSequence) -> np.random.SeedSequence:
    """Seed of the stream of the table's noise in the draw that `root` belongs to."""
    return child_seed(root, _NOISE)


def draw_noise(model: SequenceWorld, rng: Any = None, dtype: Any = np.float64) -> NDArray[Any]:
    """Noise vectors of the tokens as the rows of a (V, d) array, with the model's law and covariance."""
    root = noise_seed(seed_sequence(rng))
    entries = _unit_noise(model)
    color = coloring(model)
    noise: NDArray[Any] = np.empty((model.V, model.d), dtype=table_dtype(dtype))

    def fill(block: tuple[int, slice]) -> None:
        index, rows = block
        generator = np.random.default_rng(child_seed(root, index))
        noise[rows] = color(entries(generator, (rows.stop - rows.start, model.d)))

    blocks = list(enumerate(sequence_blocks(model.V, model.d)))
    if len(blocks) == 1:
        fill(blocks[0])
    else:
        with ThreadPoolExecutor(min(thread_count(), len(blocks))) as pool:
            list(pool.map(fill, blocks))
    if model.table == "class_centered":
        for first in (0, 1):
            noise[first::2] -= noise[first::2].mean(axis=0, dtype=np.float64).astype(noise.dtype)
    return noise


def _unit_noise(model: SequenceWorld) -> Callable[[np.random.Generator, tuple[int, int]], FloatArray]:
    """Sampler of independent entries of mean 0 and variance 1 with the model's noise law."""
    df = model.noise_df
    return {
        "gaussian": lambda g, size: g.standard_normal(size),
        "rademacher": lambda g, size: 2.0 * g.integers(0, 2, size, dtype=np.int8) - 1.0,
        "uniform": lambda g, size: g.uniform(-np.sqrt(3.0), np.sqrt(3.0), size),
        "laplace": lambda g, size: g.laplace(0.0, np.sqrt(0.5), size),
        "student-t": lambda g, size: np.sqrt((df - 2) / df) * g.standard_t(df, size),
    }[model.noise]


def coloring(model: SequenceWorld) -> Callable[[FloatArray], FloatArray]:
    """Map of rows z to rows A^{1/2} z, with the symmetric square root."""
    A = model.covariance
    if A is None:
        return lambda rows: rows
    if A.ndim == 1:
        scale = np.sqrt(A)
        return lambda rows: rows * scale
    values, vectors = np.linalg.eigh(A)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # PSD up to rounding: checked by the model
    return lambda rows: rows @ root
