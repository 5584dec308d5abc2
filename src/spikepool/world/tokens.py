"""Draw the token ids of sequences and the latents behind them, without the table.

Latents and choices of tokens come from two independent streams, so that at large sizes each has its own thread and
the numbers are the same. Ids are 32-bit integers, written once, in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import SizeError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.threads import thread_count
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld
from spikepool.world.signs import sign_sampler

# Keys of the streams of a draw; those of direction and noise are 0 and 1 (:mod:`spikepool.world.sampling`).
_LATENT, _TOKENS = 2, 3

# Token ids are 32-bit integers.
_LARGEST_VOCABULARY = 2**31 - 2
# Numbers drawn at a time; part of what a seed means, so changing it changes every draw.
_BLOCK_ELEMENTS = 1 << 20

Pick = Callable[[np.random.Generator, tuple[int, int]], NDArray[Any]]


class TokenSampler:
    """Draws tokens (N, T) and their latents; what does not depend on the draw is prepared once.

    With ``latent="signs"`` position t draws a token of class xi_t (even ids are +1, odd ids −1) and the latents
    are ±1 of type int8. With ``latent="gaussian"`` tokens come from the whole vocabulary, independent of the
    latents, which are N(0, R) and of type float64.
    """

    def __init__(self, model: SequenceWorld) -> None:
        if model.V > _LARGEST_VOCABULARY:
            raise SizeError(f"V must be at most {_LARGEST_VOCABULARY} to draw tokens", model.V, "Lower V")
        require_memory(
            token_bytes(model),
            f"tokens of {model.N} sequences of length {model.T}",
            "Lower N or T, or use the closed form",
        )
        self.model = model
        frequencies = model.frequencies
        self._draw_latent = latent_sampler(model)
        if model.latent == "gaussian":
            self._picks: tuple[Pick, ...] = (_token_picker(model.V, frequencies),)
        else:
            # within a class, and equal for both unless there are frequencies
            classes = (None,) if frequencies is None else (frequencies[0::2], frequencies[1::2])
            self._picks = tuple(_token_picker(model.V // 2, shares) for shares in classes)

    def __call__(self, rng: Any = None) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Tokens and latents of one draw."""
        root = seed_sequence(rng)
        model = self.model
        signs = model.latent == "signs"
        latents = np.random.default_rng(child_seed(root, _LATENT))
        choices = np.random.default_rng(child_seed(root, _TOKENS))
        tokens = np.empty((model.N, model.T), dtype=np.int32)
        latent: NDArray[Any] = np.empty((model.N, model.T), dtype=np.int8 if signs else np.float64)
        blocks = list(sequence_blocks(model.N, model.T))

        def draw_latent(rows: slice) -> None:
            latent[rows] = self._draw_latent(latents, rows.stop - rows.start)

        def draw_choice(rows: slice) -> tuple[NDArray[Any], ...]:
            size = (rows.stop - rows.start, model.T)
            return tuple(pick(choices, size) for pick in self._picks)

        def write(rows: slice, block: tuple[NDArray[Any], ...]) -> None:
            if not signs:
                tokens[rows] = block[0]
                return
            negative = latent[rows] < 0
            within = block[0] if len(block) == 1 else np.where(negative, block[1], block[0])
            np.multiply(within, 2, out=tokens[rows], casting="same_kind")
            tokens[rows] += negative

        if len(blocks) == 1 or thread_count() == 1:
            for rows in blocks:
                draw_latent(rows)
                write(rows, draw_choice(rows))
            return tokens, latent
        with ThreadPoolExecutor(1) as other:  # one thread, in which the blocks keep their order
            drawn = [other.submit(draw_latent, rows) for rows in blocks]
            for rows, done in zip(blocks, drawn, strict=True):
                block = draw_choice(rows)
                done.result()
                write(rows, block)
        return tokens, latent


def latent_sampler(model: SequenceWorld) -> Callable[[np.random.Generator, int], NDArray[Any]]:
    """A function of a generator and n that draws the latents (n, T) of a model: ±1 signs, or N(0, R)."""
    if model.latent == "gaussian":
        values, vectors = np.linalg.eigh(model.R)
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        return lambda g, n: g.standard_normal((n, model.T)) @ factor.T
    signs = sign_sampler(model.R)
    return lambda g, n: signs(n, rng=g)


def draw_tokens(model: SequenceWorld, rng: Any = None) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Tokens (N, T) and the latents (N, T) behind them; those of every other draw with the same `rng`.

    See :class:`TokenSampler`, which is to be kept where many draws are made.
    """
    root = seed_sequence(rng)
    return TokenSampler(model)(root)


def _token_picker(count: int, frequencies: FloatArray | None) -> Pick:
    """Sampler of ids below `count`, uniform or in proportion to `frequencies`."""
    if frequencies is None:
        return lambda g, size: g.integers(0, count, size, dtype=np.int32)
    cumulative = np.cumsum(frequencies)
    cumulative /= cumulative[-1]
    return lambda g, size: np.searchsorted(cumulative, g.random(size), side="right")


def token_bytes(model: SequenceWorld) -> int:
    """Memory of the tokens and the latents of a draw."""
    latent = 1 if model.latent == "signs" else 8
    return model.N * model.T * (4 + latent)


def sequence_blocks(N: int, width: int) -> Iterator[slice]:
    """Slices of sequences of at most about a million entries each when a sequence takes `width`."""
    step = max(1, _BLOCK_ELEMENTS // width)
    for start in range(0, N, step):
        yield slice(start, min(start + step, N))
