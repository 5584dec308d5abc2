"""Planning: alignment over many settings at once, and the sequences, signal or vocabulary a target needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import UnreachableError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.results import Result, record
from spikepool.kit.text import number
from spikepool.theory import spikes
from spikepool.theory.closed_form import predict_gains, require_isotropic, require_plain, top_alignment
from spikepool.theory.token_weights import SpreadPopulation, spread_alignment
from spikepool.theory.validity import SOUND, Validity
from spikepool.world.sequences import SequenceWorld

# Vocabularies of up to this size are searched; a larger one is taken for infinite.
_LARGEST_VOCABULARY = 1 << 53


@dataclass(frozen=True)
class VocabularyRange(Result, schema="vocabulary"):
    """Vocabulary sizes that reach a target; `maximum` is ``math.inf`` when every larger one does.

    Attributes
    ----------
    minimum : int
    maximum : float
    target : float or None
        The alignment to reach.
    curve : pair of ndarrays, or None
        Vocabulary sizes, and the alignment predicted at each.
    validity : Validity
        That of the prediction at the smallest of them.
    """

    minimum: int
    maximum: float
    target: float | None = field(default=None, compare=False)
    curve: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False, compare=False)
    validity: Validity = field(default=SOUND, compare=False)

    def _record(self) -> dict[str, Any]:
        return record(self, "minimum", "maximum", "validity")  # a maximum of None: every larger vocabulary is enough

    def summary(self) -> str:
        """The range in a line."""
        if math.isinf(self.maximum):
            return f"V ≥ {number(self.minimum)}"
        return f"{number(self.minimum)} ≤ V ≤ {number(int(self.maximum))}"

    def _notes(self) -> list[str]:
        return [f"Vocabularies that reach the target: {self}"]

    def plot(self, ax: Any = None) -> Any:
        """Alignment against the size of the vocabulary, with the range and the target; returns the axes."""
        from spikepool.drawing.predictions import draw_vocabulary_range

        return draw_vocabulary_range(ax, self.minimum, self.maximum, self.curve, self.target)


class _Required:
    """A plain number with `validity`, that of the prediction there, worked out when asked for."""

    _plain: ClassVar[type]
    _ask: Callable[[], Validity]

    def __new__(cls, value: float, ask: Callable[[], Validity]) -> Self:
        """The number, with a function that gives its validity."""
        found = super().__new__(cls, value)  # type: ignore[call-arg]
        found._ask = ask
        return found

    @property
    def validity(self) -> Validity:
        """Whether the prediction at this number lies in the range where its theory holds."""
        return self._ask()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._plain, (self._plain(self),)


class RequiredSamples(_Required, int):
    """A number of sequences; an int with `validity`, that of the prediction at this number."""

    _plain = int


class RequiredSignal(_Required, float):
    """A signal strength; a float with `validity`, that of the prediction at this strength."""

    _plain = float


def required_samples(model: SequenceWorld, w: ArrayLike, alignment: float = 0.8) -> RequiredSamples:
    """Smallest N at which the top eigenvector's predicted alignment reaches `alignment`.

    Returns
    -------
    RequiredSamples
        An int, at least 2 where S is centred. Its `validity` is that of the prediction at this N; a strong signal may
        need so few sequences that a limit says little about them.

    Raises
    ------
    UnreachableError
        When no N is enough; its ``limit`` is the alignment of infinitely many sequences.
    """
    target = check.fraction(alignment, "alignment", closed=False)
    alpha, kappa = model.gains(w)
    require_isotropic(model)
    if model.frequencies is not None or model.token_weights is not None:
        return _required_samples_spread(model, alpha, kappa, target)
    theta = alpha * (model.mu**2 + model.class_mean_power)
    if theta <= model.mean_strength:
        raise UnreachableError(
            "without centring the top eigenvector follows the vocabulary mean, not the signal",
            target,
            "Use centered=True",
            limit=0.0,
        )
    x = float(spikes.spike_excess(theta, model.delta, kappa))
    limit = model.purity * float(spikes.population_alignment(x, model.delta))
    if limit <= target:
        raise UnreachableError(
            f"no number of sequences reaches this alignment; the limit is {limit:.6g}",
            target,
            "Raise mu, change V, use better weights, or lower the target",
            limit=limit,
        )
    gamma = float(spikes.required_gamma(x, model.delta, target / model.purity))

    def reached(N: int) -> bool:
        return float(top_alignment(model, alpha, kappa, gamma=model.d / N)) >= target

    # the formula is exact; rounding can move the integer by one near a tie
    least = 2 if model.centered else 1  # one centred sequence is zero
    N = max(least, math.ceil(model.d / gamma))
    if least < N and reached(N - 1):
        N -= 1
    elif not reached(N):
        N += 1
    return RequiredSamples(N, lambda: predict_gains(model.replace(N=N), alpha, kappa).validity)


def _required_samples_spread(model: SequenceWorld, alpha: float, kappa: float, target: float) -> RequiredSamples:
    """The same with token frequencies or token weights: bisection, the alignment increases with N."""
    population = SpreadPopulation(model, alpha, kappa)

    def reached(N: int) -> bool:
        return spread_alignment(population, model.mu, model.d / N) >= target

    limit = spread_alignment(population, model.mu, 0.0)
    if limit <= target:
        raise UnreachableError(
            f"no number of sequences reaches this alignment; the limit is {limit:.6g}",
            target,
            "Raise mu, use better weights of positions or tokens, or lower the target",
            limit=limit,
        )
    low = 1 if model.centered else 0  # one centred sequence is zero
    high = max(2, model.N)
    while not reached(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return RequiredSamples(high, lambda: predict_gains(model.replace(N=high), alpha, kappa).validity)


def required_mu(model: SequenceWorld, w: ArrayLike, alignment: float = 0.8) -> RequiredSignal:
    """Smallest mu at which the top eigenvector's predicted alignment reaches `alignment`; a float with `validity`.

    Without centring the alignment jumps from 0 where the signal overtakes the vocabulary mean; the jump itself is
    then the answer to every target below its height.
    """
    from scipy.optimize import bisect

    target = check.fraction(alignment, "alignment", closed=False)
    alpha, kappa = model.gains(w)
    require_isotropic(model)
    plain = model.frequencies is None and model.token_weights is None
    population = None if plain else SpreadPopulation(model, alpha, kappa)
    if (alpha if population is None else population.gain) == 0:
        raise UnreachableError("these weights cancel the signal (alpha = 0)", target, "Use other weights", limit=0.0)

    def gap(mu: float) -> float:
        if population is not None:
            return spread_alignment(population, mu, model.gamma) - target
        return float(top_alignment(model, alpha, kappa, mu=mu)) - target

    high = max(predict_gains(model, alpha, kappa).mu_sample, 1e-8)
    while gap(high) < 0:  # the alignment tends to 1/(1 + 0) = 1 as mu grows, so this ends
        high *= 2
    root = float(bisect(gap, 0.0, high, xtol=1e-15 * high, rtol=1e-14, maxiter=200))
    while gap(root) < 0:
        root = min(math.nextafter(root * (1 + 1e-14), math.inf), high)
    return RequiredSignal(root, lambda: predict_gains(model.replace(mu=root), alpha, kappa).validity)


def required_vocabulary(model: SequenceWorld, w: ArrayLike, alignment: float = 0.8) -> VocabularyRange:
    """Range of even V whose predicted alignment reaches `alignment`; it need not be one-sided.

    For a sampled table a smaller vocabulary adds class structure (theta grows with delta) while it adds noise, so
    the best V may be finite. V is scanned on a fine geometric grid, then the ends of the run around the best grid
    point are bisected.
    """
    target = check.fraction(alignment, "alignment", closed=False)
    alpha, kappa = model.gains(w)
    require_plain(model)

    def value(V: ArrayLike) -> FloatArray:
        return top_alignment(model, alpha, kappa, delta=model.d / np.asarray(V, dtype=np.float64))

    grid = sorted({2 * max(1, round(v / 2)) for v in np.geomspace(2, _LARGEST_VOCABULARY, 600)})
    values = value(grid)
    best = int(np.argmax(values))
    if values[best] < target:
        raise UnreachableError(
            f"no vocabulary reaches this alignment; the best, near V = {grid[best]}, gives {values[best]:.6g}",
            target,
            "Raise mu or N, use better weights, or lower the target",
            limit=float(values[best]),
        )
    low, high = best, best
    while low > 0 and values[low - 1] >= target:
        low -= 1
    while high < len(grid) - 1 and values[high + 1] >= target:
        high += 1
    minimum = grid[0] if low == 0 else _bisect_even(value, grid[low - 1], grid[low], target)
    unbounded = high == len(grid) - 1
    maximum = math.inf if unbounded else _bisect_even(value, grid[high + 1], grid[high], target)
    validity = predict_gains(model.replace(V=minimum), alpha, kappa).validity
    return VocabularyRange(minimum, maximum, target, (np.asarray(grid, dtype=np.float64), values), validity)


def _bisect_even(value: Callable[[int], FloatArray], outside: int, inside: int, target: float) -> int:
    """The even V nearest to `outside` that still reaches the target."""
    while abs(inside - outside) > 2:
        middle = 2 * ((inside + outside) // 4)
        if value(middle) >= target:
            inside = middle
        else:
            outside = middle
    return inside
