"""What the library says of a state of the tab "Content": prediction, curves, limits and learned queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from spikepool.errors import UnreachableError
from spikepool.explorer.content_state import ContentState
from spikepool.model import QueryModel
from spikepool.theory.limits import QueryLimits
from spikepool.theory.query import QueryPrediction
from spikepool.theory.query_spectrum import top_alignment
from spikepool.world.query_fields import KERNELS

CURVE_STEPS, FINITE_STEPS = 10, 6
TRAINING = np.round(np.geomspace(30, 20_000, 16)).astype(int)


@dataclass(frozen=True)
class Answer:
    """What the library says of a state."""

    state: ContentState
    prediction: QueryPrediction
    mean: float  # alignment of mean pooling
    gain: float
    betas: np.ndarray[Any, np.dtype[np.float64]]
    curves: dict[str, list[float]]
    best: tuple[str, float, float]  # kernel, slope and alignment of the best point of the curves
    learned: list[tuple[float, float, float]]  # overlaps of token PCA, one step and three
    enough: int | None  # labelled sequences that teach an overlap of 0.8
    limits: QueryLimits | None  # of tokens that never repeat


@lru_cache(maxsize=64)
def solve_content(state: ContentState) -> Answer:
    """Prediction, curves and learned queries of a state."""
    model = state.model()
    mean = top_alignment(model.replace(kernel="softmax", beta=0.0, window=None))[0]
    betas, curves = _curves(model.replace(beta=None, kernel="softmax"), state.used)
    p = model.predict()
    points = [
        (alignment, -beta, kernel) for kernel in curves for beta, alignment in zip(betas, curves[kernel], strict=True)
    ]
    top = max(points)
    best = (top[2], -top[1], top[0])
    key = model.replace(kernel="softmax", beta=None, window=None)
    learner = key.replace(V=None, overlap=1.0, relevance="scattered")
    limits = None if model.V is not None else _limits(key)
    return Answer(
        state, p, mean, model.gain(), betas, curves, best, list(_learned_curve(learner)), _enough(learner), limits
    )


@lru_cache(maxsize=64)
def _curves(model: QueryModel, kernel: str) -> tuple[np.ndarray[Any, np.dtype[np.float64]], dict[str, list[float]]]:
    """Alignments against the slope, of all kernels, or of one with a finite vocabulary, which takes longer."""
    kernels = KERNELS if model.V is None and model.window is None else (kernel,)
    steps = CURVE_STEPS if model.V is None else FINITE_STEPS
    betas = 2 * max(model.strength, 0.5) * np.linspace(0.0, 1.0, steps) ** 1.5
    window = model.window or 1
    curves = {k: [top_alignment(model.replace(kernel=k, beta=float(b) * window))[0] for b in betas] for k in kernels}
    return betas, curves


@lru_cache(maxsize=64)
def _limits(model: QueryModel) -> QueryLimits:
    return model.limits()


@lru_cache(maxsize=64)
def _enough(model: QueryModel) -> int | None:
    try:
        return model.required_training(overlap=0.8)
    except UnreachableError:
        return None


@lru_cache(maxsize=64)
def _learned_curve(model: QueryModel) -> tuple[tuple[float, float, float], ...]:
    queries = [model.learned(int(n)) for n in TRAINING]
    return tuple((q.token_pca, q.first_step, q.overlap) for q in queries)
