"""The data of a model: a two-class embedding table and correlated positions, checked once.

:class:`PooledSizes` is what every model of pooled sequences has: sizes, their ratios, and the gains of weights.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import CorrelationError, DomainError, InvalidInputError, ShapeError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray


class PooledSizes:
    """Embedding dimension d, vocabulary V, number of sequences N, and the positional correlation R, proved."""

    d: int
    V: int
    N: int
    R: FloatArray

    @property
    def T(self) -> int:
        """Sequence length."""
        return len(self.R)

    @property
    def delta(self) -> float:
        """Aspect ratio d/V."""
        return self.d / self.V

    @property
    def gamma(self) -> float:
        """Aspect ratio d/N."""
        return self.d / self.N

    def gains(self, w: ArrayLike) -> tuple[float, float]:
        """Signal gain alpha = w'Rw and noise gain kappa = w'w; R was proved when the model was made."""
        w = check.weight_vector(w, self.T)
        return max(float(w @ self.R @ w), 0.0), float(w @ w)


TABLES = ("sampled", "class_centered")
LATENTS = ("signs", "gaussian")
# Squares and products of larger signals would overflow; they would be detected by eye.
_LARGEST_MU = 1e100
NOISES = ("gaussian", "rademacher", "uniform", "laplace", "student-t")


@dataclass(frozen=True, eq=False)
class SequenceWorld(PooledSizes):
    """The data of :class:`spikepool.SequenceModel`, whose docstring has the parameters; checked when it is made."""

    d: int
    V: int
    N: int
    R: FloatArray
    mu: float
    table: str = "sampled"
    centered: bool = True
    latent: str = "signs"
    noise: str = "gaussian"
    noise_df: float = 6.0
    frequencies: FloatArray | None = None
    covariance: FloatArray | None = None
    direction: FloatArray | None = None
    token_weights: FloatArray | None = None

    def __init__(
        self,
        d: int,
        V: int,
        N: int,
        R: ArrayLike,
        mu: float,
        table: str = "sampled",
        centered: bool = True,
        latent: str = "signs",
        noise: str = "gaussian",
        noise_df: float = 6.0,
        frequencies: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        direction: ArrayLike | None = None,
        token_weights: ArrayLike | None = None,
    ) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("d", check.size(d, "d"))
        put("V", check.vocabulary_size(V))
        put("N", check.size(N, "N"))
        put("latent", check.choice(latent, "latent", LATENTS))
        put("R", check.symmetric_psd(R, "R"))
        if latent == "signs":
            check.unit_diagonal(self.R, "R")
        put("mu", check.non_negative(mu, "mu"))
        if self.mu > _LARGEST_MU:
            raise DomainError(f"mu must be at most {_LARGEST_MU:g}", mu, "Measure it in units of the noise")
        put("table", check.choice(table, "table", TABLES))
        put("centered", check.flag(centered, "centered"))
        put("noise", check.choice(noise, "noise", NOISES))
        put("noise_df", check.positive(noise_df, "noise_df"))
        if noise == "student-t" and self.noise_df <= 4:
            raise InvalidInputError(
                "student-t noise needs more than 4 degrees of freedom", noise_df, "Pass noise_df above 4"
            )
        put("frequencies", None if frequencies is None else self._check_frequencies(frequencies))
        put("covariance", None if covariance is None else self._check_covariance(covariance))
        put("direction", None if direction is None else self._check_direction(direction))
        put("token_weights", None if token_weights is None else self._check_token_weights(token_weights))

    def _check_frequencies(self, value: ArrayLike) -> FloatArray:
        f = check.finite_array(value, "frequencies", ndim=1)
        if len(f) != self.V:
            raise ShapeError(f"frequencies must have V = {self.V} entries", f, "Pass one per token")
        if f.min() < 0 or f[0::2].sum() <= 0 or f[1::2].sum() <= 0:
            raise InvalidInputError(
                "frequencies must be non-negative with some mass in each class (even and odd tokens)",
                f,
                "Pass counts or probabilities",
            )
        # what is normalised already keeps its bits, so that `replace` and a copy through text change nothing
        total = float(f.sum())
        shares: FloatArray = f / total if abs(total - 1) > 1e-12 else f.copy()
        shares.setflags(write=False)
        return shares

    def _check_covariance(self, value: ArrayLike) -> FloatArray:
        a = check.finite_array(value, "covariance")
        if a.ndim not in (1, 2) or a.shape[0] != self.d:
            raise ShapeError(f"covariance must be ({self.d},) or ({self.d}, {self.d})", a, "Match d")
        if a.ndim == 2:
            return check.symmetric_psd(value, "covariance")
        if a.min() < 0:
            raise CorrelationError("covariance has a negative variance", float(a.min()), "Pass variances >= 0")
        a = a.copy()
        a.setflags(write=False)
        return a

    def _check_direction(self, value: ArrayLike) -> FloatArray:
        u = check.finite_array(value, "direction", ndim=1)
        norm = float(np.linalg.norm(u))
        if len(u) != self.d or norm == 0:
            raise ShapeError(f"direction must be a non-zero vector of length d = {self.d}", u, "Match d")
        unit: FloatArray = u / norm if abs(norm - 1) > 1e-12 else u.copy()
        unit.setflags(write=False)
        return unit

    def _check_token_weights(self, value: ArrayLike) -> FloatArray:
        a = check.token_weights(value, self.V).copy()
        p = np.ones(self.V) if self.frequencies is None else self.frequencies
        if self.latent == "signs" and not (p[0::2] @ a[0::2] > 0 and p[1::2] @ a[1::2] > 0):
            raise WeightsError(
                "token_weights must be above 0 for some token of each class (even and odd tokens) that occurs",
                a,
                "Pass positive weights",
            )
        a.setflags(write=False)
        return a

    @cached_property
    def signs(self) -> NDArray[np.int8]:
        """Class of each token: +1 for even, −1 for odd token ids."""
        s = np.ones(self.V, dtype=np.int8)
        s[1::2] = -1
        s.setflags(write=False)
        return s

    @classmethod
    def from_ratios(cls, delta: float, gamma: float, *, d: int, R: ArrayLike, mu: float, **fields: Any) -> Self:
        """A model of dimension `d` whose ratios d/V and d/N are as close to `delta` and `gamma` as sizes allow.

        V is rounded to an even number of tokens, N to a whole number of sequences; `fields` are the other fields.
        """
        ratios = check.positive(delta, "delta"), check.positive(gamma, "gamma")
        size = check.size(d, "d")
        V, N = 2 * max(1, round(size / ratios[0] / 2)), max(1, round(size / ratios[1]))
        return cls(size, V, N, R, mu, **fields)

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a model of the same kind with equal fields, arrays entry by entry."""
        if type(other) is not type(self):
            return NotImplemented
        for field in dataclasses.fields(self):
            value, expected = getattr(self, field.name), getattr(other, field.name)
            if isinstance(value, np.ndarray) or isinstance(expected, np.ndarray):
                if value is None or expected is None or not np.array_equal(value, expected):
                    return False
            elif value != expected:
                return False
        return True

    def __hash__(self) -> int:
        """Of the fields that are numbers or words; arrays decide in comparisons only."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return hash((type(self), *(value for value in values if not isinstance(value, np.ndarray))))

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; everything is checked, but no matrix is proved twice."""
        return dataclasses.replace(self, **check.fields(self, changes))

    def signal_strength(self, w: ArrayLike) -> float:
        """Strength theta of the signal's spike: alpha·mu², plus alpha·delta for the class means of a sampled table."""
        alpha, _ = self.gains(w)
        return alpha * (self.mu**2 + self.class_mean_power)

    @property
    def class_mean_power(self) -> float:
        """Squared norm of zeta = Zs/V, the noise that every sequence shares with the signal; delta or 0."""
        return self.delta if self.table == "sampled" and self.latent == "signs" else 0.0

    @property
    def mean_strength(self) -> float:
        """Strength of the uninformative spike along zbar = Z1/V; delta (the weights sum to one) or 0."""
        return self.delta if self.table == "sampled" and not self.centered else 0.0

    @property
    def purity(self) -> float:
        """Squared cosine between the spike's direction mu·u + zeta and u."""
        power = self.mu**2 + self.class_mean_power
        return self.mu**2 / power if power > 0 else 0.0


def checked_model(value: Any) -> SequenceWorld:
    """`value` if it is a model of sequences."""
    if not isinstance(value, SequenceWorld):
        raise InvalidInputError("model must be a SequenceModel", value, "Pass a SequenceModel")
    return value
