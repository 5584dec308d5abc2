"""Labels of sequences: y = sign of the sum of the latents at chosen positions, and its joint law with a = w'xi.

The accuracy of a noisy score of a is the probability of its right sign, found by inversion of a characteristic
function. For a real Y with characteristic function phi, the midpoint form of the Gil-Pelaez integral

    P(Y > 0) = 1/2 + (h/pi) sum_{j>=0} Im phi(t_j)/t_j,    t_j = (j + 1/2) h

is exact (not an approximation) when |Y| < 2 pi/h almost surely: the sum is the Fourier series of the square wave. Here
Y is bounded plus Gaussian noise, so that both the wrap-around and the truncation are below rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from spikepool.errors import ConvergenceError, DomainError, InvalidInputError, ShapeError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import ComplexArray, FloatArray
from spikepool.kit.statistics import standard_error
from spikepool.world.sequences import SequenceWorld
from spikepool.world.signs import SignBlocks, sign_blocks, sign_patterns, sign_sampler

# Gaussian tails beyond this many standard deviations, and exp(−t²/2) beyond this t, are below 1e-18.
_TAIL = 9.0
_MAX_NODES = 1_000_000
_CHUNK = 1 << 12


def node_count(bound: float, noise: float) -> float:
    """Terms of the sum that :func:`positive_probability` needs."""
    return _TAIL * bound / (2 * np.pi * noise) + 1 if noise > 0 else np.inf


def positive_probability(transform: Callable[[FloatArray], ComplexArray], bound: float, noise: float) -> float:
    """P(Y > 0) for Y of characteristic function `transform`.

    Parameters
    ----------
    transform : callable
        phi at an array of points t >= 0.
    bound : float
        Bound of |Y|: that of its bounded part plus nine standard deviations of its Gaussian part.
    noise : float
        Smallest standard deviation of the Gaussian part: |phi(t)| <= exp(−noise² t²/2).
    """
    step = 2 * np.pi / bound
    nodes = node_count(bound, noise)
    if nodes > _MAX_NODES:
        raise ConvergenceError(
            "the noise of the score is too small against its signal for an exact sum over many signs",
            noise / bound,
            "Lower mu: the accuracy has converged long before",
            residual=noise / bound,
        )
    total = 0.0
    for start in range(0, int(np.ceil(nodes)), _CHUNK):
        t: FloatArray = (np.arange(start, min(start + _CHUNK, np.ceil(nodes)), dtype=np.float64) + 0.5) * step
        total += float(np.sum(transform(t).imag / t))
    # outside [0, 1] by rounding only
    return float(min(max(0.5 + step / np.pi * total, 0.0), 1.0))


def sign_sum_probability(offset: float, steps: FloatArray, noise: float) -> float:
    """P(offset + sum_j steps_j s_j + noise·g > 0) for independent uniform signs s and standard normal g."""

    def transform(t: FloatArray) -> ComplexArray:
        value: ComplexArray = np.exp(1j * offset * t - (noise * t) ** 2 / 2)
        for step in steps:
            value *= np.cos(step * t)
        return value

    bound = abs(offset) + float(np.abs(steps).sum()) + _TAIL * noise
    return positive_probability(transform, bound, noise)


# Sums over all sign patterns are done outright up to this many free signs, by Fourier inversion beyond.
_ENUMERATED_SIGNS = 16


def label_positions(label: int | ArrayLike, T: int) -> NDArray[np.intp]:
    """Distinct 0-based positions whose latents are summed to give the label."""
    check.finite_array(label, "label")
    positions = np.atleast_1d(np.asarray(label))
    if positions.dtype.kind not in "iu" or positions.ndim != 1 or positions.size == 0:
        raise ShapeError("label must be a position or a list of positions", label, "Pass integers")
    if positions.min() < 0 or positions.max() >= T:
        raise SizeError(f"label positions must lie in [0, {T})", label, "Count positions from 0")
    if len(np.unique(positions)) < len(positions):
        raise InvalidInputError("label positions must be distinct", label, "Remove the repeated ones")
    return positions.astype(np.intp)


def flip_probability(label_noise: float) -> float:
    """A probability in [0, 1/2) that a training label is flipped."""
    value = check.finite_number(label_noise, "label_noise")
    if not 0 <= value < 0.5:
        raise DomainError("label_noise must lie in [0, 1/2)", value, "Pass the share of flipped training labels")
    return value


def flipped(y: FloatArray, probability: float, rng: np.random.Generator) -> FloatArray:
    """Labels, each flipped with this probability."""
    if probability == 0:
        return y
    return np.where(rng.random(len(y)) < probability, -y, y)


def labels_of(latent: NDArray[Any], positions: NDArray[np.intp]) -> FloatArray:
    """Labels y, the sign of the sum over `positions` of each row of (n, T) latents; raises on a tie."""
    total = latent[:, positions].sum(axis=1, dtype=np.float64)
    if np.any(total == 0):
        raise _tie(positions)
    return np.asarray(np.sign(total), dtype=np.float64)


def _tie(positions: NDArray[np.intp]) -> InvalidInputError:
    return InvalidInputError(
        "the label is undefined: the signs at these positions can sum to zero",
        positions,
        "Choose an odd number of positions",
    )


class LabelLaw(Protocol):
    """Joint law of the label y and the pooled latent a = w'xi."""

    @property
    def covariance(self) -> float:
        """E[y a]."""

    def accuracy(self, ratio: float) -> tuple[float, float]:
        """P(y (ratio·a + g) > 0) for standard normal g, and the standard error of that number (0 when exact)."""


@dataclass(frozen=True)
class BlockLabel:
    """Signs in independent blocks: y·a is one of `offsets`, equally likely, plus ``sum steps_j s_j``."""

    offsets: FloatArray
    steps: FloatArray

    @property
    def covariance(self) -> float:
        """E[y a]: the free signs average out."""
        return float(self.offsets.mean())

    def accuracy(self, ratio: float) -> tuple[float, float]:
        """Exact, by enumeration of up to 16 signs or Fourier inversion for more."""
        if ratio == 0:
            return 0.5, 0.0
        if len(self.steps) <= _ENUMERATED_SIGNS:
            sums = sign_patterns(len(self.steps)) @ self.steps if len(self.steps) else np.zeros(1)
            return float(np.mean([ndtr(ratio * (c + sums)).mean() for c in self.offsets])), 0.0
        noise, sign = 1 / abs(ratio), np.sign(ratio)
        return float(np.mean([sign_sum_probability(sign * c, self.steps, noise) for c in self.offsets])), 0.0


@dataclass(frozen=True)
class SampledLabel:
    """Any other signs: `values` are draws of y·a."""

    values: FloatArray
    covariance: float

    def accuracy(self, ratio: float) -> tuple[float, float]:
        """Average over the draws."""
        if ratio == 0:
            return 0.5, 0.0
        probabilities = ndtr(ratio * self.values)
        return float(probabilities.mean()), float(standard_error(probabilities))


@dataclass(frozen=True)
class GaussianLabel:
    """Gaussian latents: a and the label's latent are jointly normal with correlation `correlation`."""

    variance: float
    correlation: float

    @property
    def covariance(self) -> float:
        """E[y a] = correlation · sd(a) · sqrt(2/pi)."""
        return self.correlation * float(np.sqrt(2 * self.variance / np.pi))

    def accuracy(self, ratio: float) -> tuple[float, float]:
        """1/2 + arcsin(rho)/pi with rho the correlation of the label's latent and ratio·a + g (Sheppard)."""
        gain = ratio * np.sqrt(self.variance)
        rho = self.correlation * gain / np.sqrt(1 + gain**2)
        return 0.5 + float(np.arcsin(rho)) / np.pi, 0.0


def block_label(blocks: SignBlocks, w: FloatArray, positions: NDArray[np.intp]) -> BlockLabel:
    """The label's law when the signs come in independent blocks."""
    totals = blocks.totals(w)
    member = np.zeros(len(w))
    member[positions] = 1.0
    votes = blocks.totals(member)
    voting = np.flatnonzero(votes)
    if len(voting) > _ENUMERATED_SIGNS:
        raise SizeError(
            f"the label depends on {len(voting)} independent signs; at most {_ENUMERATED_SIGNS} are enumerated",
            len(positions),
            "Use fewer label positions",
        )
    patterns = sign_patterns(len(voting))
    sums = patterns @ votes[voting]
    if len(voting) == 0 or np.any(sums == 0):
        raise _tie(positions)
    free = np.setdiff1d(np.arange(blocks.count), voting)
    steps = totals[free]
    return BlockLabel(np.sign(sums) * (patterns @ totals[voting]), steps[steps != 0])


def label_law(model: SequenceWorld, w: FloatArray, positions: NDArray[np.intp], draws: int, rng: Any) -> LabelLaw:
    """The joint law of label and pooled latent under `model`; `draws` and `rng` serve signs without block structure."""
    if model.latent == "gaussian":
        row = model.R[positions].sum(axis=0)
        latent_variance = float(row[positions].sum())
        variance = float(w @ model.R @ w)
        if latent_variance <= 0:
            raise InvalidInputError("the label's latent is identically zero", positions, "Choose other positions")
        if variance <= 0:
            return GaussianLabel(0.0, 0.0)
        return GaussianLabel(variance, float(row @ w) / float(np.sqrt(variance * latent_variance)))
    blocks = sign_blocks(model.R)
    if blocks is not None:
        return block_label(blocks, w, positions)
    xi = sign_sampler(model.R)(check.size(draws, "draws", minimum=2), rng=rng)
    values = labels_of(xi, positions) * (xi @ w)
    single = len(positions) == 1
    return SampledLabel(values, float(model.R[positions[0]] @ w) if single else float(values.mean()))
