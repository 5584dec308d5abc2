"""Parameters of a query model: their checks, and the numbers that follow from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from spikepool.errors import DomainError, InvalidInputError, ShapeError, SizeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.world.relevance import Chain, Independent, Relevance, Scattered, Span, prior_moments

# Kernels that are functions of one score with a slope beta, and those that use the law of the relevance.
KERNELS = ("softmax", "sigmoid", "linear")
POSTERIORS = ("posterior", "optimal")
RELEVANCE = ("scattered", "span", "chain")
Kernel = Callable[[FloatArray], Any]
# Beyond this the squares of a signal or the exponential of a score are no longer doubles.
_LARGEST_STRENGTH = 1e6
_LARGEST_BETA = 1e3


@dataclass(frozen=True)
class QueryFields:
    """The data of :class:`spikepool.QueryModel`, whose docstring has the parameters; checked when it is made."""

    d: int
    N: int
    T: int
    L: int
    mu: float
    nu: float
    overlap: float | Sequence[float] = 1.0
    kernel: str | Kernel = "softmax"
    beta: float | None = None
    normalize: bool = True
    V: int | None = None
    relevance: str = "scattered"
    run: float | None = None
    prior: ArrayLike | None = None
    window: int | None = None
    noise: ArrayLike | None = None
    matched: bool = False

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("d", check.size(self.d, "d", minimum=4))
        put("N", check.size(self.N, "N", minimum=2))
        put("T", check.size(self.T, "T"))
        put("L", check.size(self.L, "L"))
        if self.L > self.T:
            raise SizeError(f"L must be at most T = {self.T}", self.L, "At most all tokens are relevant")
        for name in ("mu", "nu"):
            value = check.non_negative(getattr(self, name), name)
            if value > _LARGEST_STRENGTH:
                raise DomainError(f"{name} must be at most {_LARGEST_STRENGTH:g}", value, "Use units of the noise")
            put(name, value)
        put("overlap", self._checked_overlap())
        if not callable(self.kernel):
            put("kernel", check.choice(self.kernel, "kernel", KERNELS + POSTERIORS))
        if self.beta is not None:
            beta = check.finite_number(self.beta, "beta")
            if abs(beta) > _LARGEST_BETA:
                raise DomainError(f"beta must be at most {_LARGEST_BETA:g} in size", beta, "Scores are of order one")
            put("beta", beta)
        put("normalize", check.flag(self.normalize, "normalize"))
        put("matched", check.flag(self.matched, "matched"))
        self._check_relevance(put)
        self._check_directions(put)
        if self.V is not None:
            put("V", check.size(self.V, "V", minimum=2))
            if self.relevant_per_sign < 1 or (self.share < 1 and 2 * self.relevant_per_sign >= self.V):
                raise SizeError(
                    f"V must hold relevant tokens of both signs, and others, at a share of {self.share:.3g}",
                    self.V,
                    f"Use V of at least {int(np.ceil(2 / self.share))}",
                )

    def _checked_overlap(self) -> float | tuple[float, ...]:
        if np.ndim(self.overlap) == 0:
            return check.fraction(self.overlap, "overlap")
        overlaps = check.finite_array(self.overlap, "overlap", ndim=1)
        if overlaps @ overlaps > 1 + check.IDENTITY_TOLERANCE:
            raise DomainError(
                "the squares of the overlaps must sum to at most 1", float(overlaps @ overlaps), "k has unit norm"
            )
        return tuple(overlaps.tolist())

    def _check_relevance(self, put: Callable[[str, Any], None]) -> None:
        put("relevance", check.choice(self.relevance, "relevance", RELEVANCE))
        if self.prior is not None:
            prior = check.finite_array(self.prior, "prior", ndim=1)
            if self.relevance != "scattered":
                raise InvalidInputError("prior is for scattered relevance", self.relevance, "Leave one of them out")
            if len(prior) != self.T or prior.min() < 0 or prior.max() > 1 or prior.sum() == 0:
                raise ShapeError(
                    f"prior must be {self.T} probabilities that are not all 0", prior, "Pass one for each position"
                )
            put("prior", tuple(prior.tolist()))
        if (self.run is not None) != (self.relevance == "chain"):
            raise InvalidInputError("run is the mean run length of a chain", self.run, 'Use both run and "chain"')
        if self.run is not None:
            put("run", check.positive(self.run, "run"))
            if self.L == self.T:
                raise SizeError(f"L must be below T = {self.T} for a chain", self.L, "Leave some tokens irrelevant")
            least = max(1.0, self.L / (self.T - self.L))
            if self.run < least:
                raise DomainError(f"run must be at least {least:.4g} at L/T = {self.L}/{self.T}", self.run, "Raise it")

    def _check_directions(self, put: Callable[[str, Any], None]) -> None:
        if self.window is not None:
            put("window", check.size(self.window, "window"))
            if self.window > self.T:
                raise SizeError(f"window must be at most T = {self.T}", self.window, "Use fewer neighbours")
            if self.kernel != "softmax" and not callable(self.kernel):
                raise InvalidInputError("a window needs a softmax or a callable", self.kernel, 'Use kernel="softmax"')
        if self.directions > 1:
            if self.window is not None or self.V is not None or self.noise is not None:
                raise InvalidInputError(
                    "several directions are for white tokens that never repeat, without a window",
                    self.overlap,
                    "Leave out window, V and noise, or use one overlap",
                )
            if self.kernel in KERNELS:
                raise InvalidInputError(
                    f"kernel {self.kernel!r} takes one score", self.overlap, "Use a callable of scores (n, T, p)"
                )
        if self.noise is None:
            if self.matched:
                raise InvalidInputError("a matched filter needs noise", self.matched, "Pass noise, or matched=False")
            return
        A = check.finite_array(self.noise, "noise")
        if A.ndim not in (1, 2) or len(A) != self.d:
            raise ShapeError(f"noise must be ({self.d},) or ({self.d}, {self.d})", A, "Match d")
        values = A if A.ndim == 1 else np.linalg.eigvalsh(check.symmetric_psd(A, "noise"))
        if values.min() <= 0:
            raise DomainError("noise must be positive definite", float(values.min()), "Pass variances above 0")
        put("noise", tuple(np.sort(values)[::-1].tolist()))

    @property
    def gamma(self) -> float:
        """Aspect ratio d/N."""
        return self.d / self.N

    @property
    def overlaps(self) -> FloatArray:
        """Overlaps of the p directions with k, (p,)."""
        return np.atleast_1d(np.asarray(self.overlap, dtype=np.float64))

    @property
    def directions(self) -> int:
        """p, the number of directions along which tokens are scored."""
        return len(self.overlaps)

    @property
    def expected(self) -> float:
        """Expected number of relevant tokens of a sequence: L, or the sum of the prior."""
        return float(self.L) if self.prior is None else float(np.sum(self.prior))

    @property
    def share(self) -> float:
        """Expected share of relevant tokens."""
        return self.expected / self.T

    @property
    def relevant_per_sign(self) -> int:
        """Tokens of the vocabulary that are relevant with sign +1; as many have sign −1."""
        assert self.V is not None
        return self.V // 2 if self.share == 1 else round(self.V * self.expected / self.T / 2)

    @property
    def strength(self) -> float:
        """Strength s = nu q·k: what a mark adds to the score of a token, in units of the score's noise."""
        if self.noise is None:
            return self.nu * (float(self.overlaps[0]) if self.directions == 1 else self._seen)
        values = np.asarray(self.noise)
        factor = np.sqrt(np.mean(1 / values)) if self.matched else 1 / np.sqrt(np.mean(values))
        return self.nu * float(self.overlaps[0]) * float(factor)

    @property
    def _seen(self) -> float:
        """Norm of k on the directions."""
        return min(1.0, float(np.linalg.norm(self.overlaps)))

    @property
    def missed(self) -> float:
        """Norm of the mark nu k off the query, nu sqrt(1 − m²)."""
        return self.nu * float(np.sqrt(1 - self._seen**2))

    @property
    def slope(self) -> float:
        """`beta`, or what it is when not given."""
        if self.beta is not None:
            return self.beta
        if self.kernel != "softmax":
            return self.strength
        if self.window is not None:
            return self.strength * self.window
        return dilute_beta(self.strength, self.expected, self.T)

    @cached_property
    def relevance_law(self) -> Relevance:
        """The law of the relevant places."""
        if self.prior is not None:
            return Independent(np.asarray(self.prior))
        if self.relevance == "span":
            return Span(self.T, self.L)
        if self.run is not None:
            return Chain(self.T, self.L / self.T, self.run)
        return Scattered(self.T, self.L)

    @cached_property
    def mean_gain(self) -> float:
        """alpha/kappa of mean pooling, E[(sum_t r_t)²]/T; L²/T where exactly L tokens are relevant."""
        if self.prior is None and self.run is None:
            return self.L**2 / self.T
        return float(prior_moments(self.relevance_law).sum()) / self.T

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **check.fields(self, changes))

    def whitened(self) -> Self:
        """The model of the whitened tokens S_0^{-1/2} e, which have white noise.

        mu² and nu² are multiplied by the mean of the inverse eigenvalues of S_0 (u'S_0^{-1}u for a generic u), and the
        overlap is that of S_0^{1/2} q with S_0^{-1/2} k, which is `overlap` for the matched filter.
        """
        if self.noise is None:
            return self.replace()
        scale = float(np.sqrt(np.mean(1 / np.asarray(self.noise))))
        overlap = self.strength / (self.nu * scale) if self.nu > 0 else self.overlap
        return self.replace(noise=None, matched=False, mu=self.mu * scale, nu=self.nu * scale, overlap=overlap)

    def token_alignment(self, alignment: float) -> float:
        """Alignment with u in token space, from that of a direction found in whitened tokens.

        a/(a + (1 − a) c) with c the mean of the inverse eigenvalues of S_0 times the mean of its eigenvalues, at
        least 1: S_0^{1/2} brings a direction v = sqrt(a) u~ + sqrt(1 − a) noise back to the tokens.
        """
        a = check.fraction(alignment, "alignment")
        values = np.ones(1) if self.noise is None else np.asarray(self.noise)
        return float(a / (a + (1 - a) * np.mean(1 / values) * np.mean(values)))


def dilute_beta(strength: float, L: float, T: int) -> float:
    """The beta that maximises E[A]²/E[kappa] of weights exp(beta h) that are not normalised.

    With ``strength = nu m``, E[A] = L e^{beta nu m + beta²/2} and E[kappa] = e^{2 beta²}(L e^{2 beta nu m} + T − L), so

        beta = nu m (1 − pi),    pi = L e^{2 beta nu m}/(L e^{2 beta nu m} + T − L),

    which has one root; for L << T it is nu m, with a gain over the mean of e^{(nu m)²}.
    """
    if strength == 0 or L == T:
        return 0.0
    low, high = 0.0, strength
    odds = np.log(L) - np.log(T - L)
    for _ in range(200):
        beta = (low + high) / 2
        if beta < strength * float(expit(-(2 * beta * strength + odds))):
            low = beta
        else:
            high = beta
    return (low + high) / 2
