"""How often tokens are used: Zipf's law, and the probabilities of the tokens of a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.world.sequences import SequenceWorld


def zipf_frequencies(V: int, s: float = 1.0) -> NDArray[np.float64]:
    """Zipf's law, ``f_v ∝ (rank of v)^(−s)``, with unit sum.

    Tokens 2k and 2k+1, one of each class, share the rank k+1, so that both classes are used equally often.

    Parameters
    ----------
    V : int
        Size of the vocabulary, even.
    s : float
        Exponent, at least 0; 0 gives uniform frequencies, natural language is near 1.

    Examples
    --------
    >>> from spikepool.world.frequencies import zipf_frequencies
    >>> zipf_frequencies(6, 1.0).round(3)
    array([0.273, 0.273, 0.136, 0.136, 0.091, 0.091])
    """
    V = check.vocabulary_size(V)
    exponent = check.non_negative(s, "s")
    require_memory(24 * V, f"frequencies of {V} tokens", "Lower V")
    f = (np.arange(V) // 2 + 1.0) ** -exponent
    return np.asarray(f / f.sum())


def token_law(model: SequenceWorld) -> tuple[FloatArray, FloatArray]:
    """Probabilities (V,) of the tokens, half in each class where signs choose the class, and the token weights a."""
    p = np.full(model.V, 1 / model.V) if model.frequencies is None else model.frequencies.copy()
    if model.latent == "signs":
        for first in (0, 1):
            p[first::2] /= 2 * p[first::2].sum()
    return p, np.ones(model.V) if model.token_weights is None else model.token_weights
