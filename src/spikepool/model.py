"""The world: a two-class embedding table, correlated positions, and what pooling makes of them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool import _validation as check
from spikepool import spikes
from spikepool.errors import CorrelationError, InvalidInputError, ShapeError, UnreachableError
from spikepool.laws.base import SpectralLaw
from spikepool.laws.free_product import FreeProductLaw
from spikepool.weights import alpha_kappa

if TYPE_CHECKING:
    from spikepool.sampling import Sample
    from spikepool.simulation import SimulationResult

FloatArray = NDArray[np.float64]

TABLES = ("sampled", "class_centered")
LATENTS = ("signs", "gaussian")
NOISES = ("gaussian", "rademacher", "uniform", "laplace", "student-t")


@dataclass(frozen=True)
class Outlier:
    """One predicted eigenvalue outside the bulk.

    Attributes
    ----------
    kind : {"signal", "mean"}
        What it is made of: the hidden direction, or the sample mean of the vocabulary's noise.
    eigenvalue, alignment : float
        Eigenvalue of the sample covariance S, and squared cosine of its eigenvector with the true u.
    population_eigenvalue, population_alignment : float
        The same for the population covariance, the limit of infinitely many sequences.
    """

    kind: Literal["signal", "mean"]
    eigenvalue: float
    alignment: float
    population_eigenvalue: float
    population_alignment: float


@dataclass(frozen=True)
class Prediction:
    """What theory says of the pooled covariance S; made by :meth:`SequenceModel.predict`.

    Attributes
    ----------
    alpha, kappa : float
        Signal gain w'Rw and noise gain ‖w‖².
    bulk : SpectralLaw
        Limiting law of the bulk of S.
    edge : float
        Its right edge.
    outliers : tuple of Outlier
        Predicted outliers of S, largest first.
    alignment : float
        Squared cosine of the TOP eigenvector of S with u; 0 when the top is the bulk edge or the mean's outlier.
    detectable : bool
        Whether S has an outlier made of the signal.
    mu_population, mu_sample : float
        Signal strengths at which the signal's outlier appears in the population and in the sample.
    """

    alpha: float
    kappa: float
    bulk: SpectralLaw
    edge: float
    outliers: tuple[Outlier, ...]
    alignment: float
    detectable: bool
    mu_population: float
    mu_sample: float

    @property
    def eigenvalue(self) -> float:
        """Predicted largest eigenvalue of S: the top outlier, or the bulk edge."""
        return self.outliers[0].eigenvalue if self.outliers else self.edge

    @property
    def signal(self) -> Outlier | None:
        """The signal's outlier, or None when it is not detectable."""
        return next((outlier for outlier in self.outliers if outlier.kind == "signal"), None)


@dataclass(frozen=True)
class VocabularyRange:
    """Vocabulary sizes that reach a target; `maximum` is ``math.inf`` when every larger one does."""

    minimum: int
    maximum: float


@dataclass(frozen=True, eq=False)
class SequenceModel:
    """Sequences of tokens from a fixed two-class embedding table.

    Column v of the table is ``s_v * mu * u + z_v`` with balanced signs s and noise z of unit variance; position t of
    a sequence draws a sign with positional correlation R, then a token of that class. Pooling with weights w
    gives ``c = sum_t w_t e_{x_t}`` and the covariance ``S = C C'/N``.

    Parameters
    ----------
    d, V, N : int
        Embedding dimension, vocabulary size (even), number of sequences.
    R : array_like of shape (T, T)
        Positional correlation; T is read from it. Unit diagonal unless ``latent="gaussian"``.
    mu : float
        Norm of the hidden signal.
    table : {"sampled", "class_centered"}
        ``"sampled"``: the model as the paper states it; each class of a finite table then has a sample mean of
        noise of its own. ``"class_centered"``: noise centred within each class, for which the paper's printed
        formulas are exact.
    centered : bool
        Whether the sample mean of the columns of C is subtracted before S is formed.
    latent : {"signs", "gaussian"}
        ``"gaussian"``: the latent of a sequence is N(0, R) and real-valued, tokens are drawn from the whole
        vocabulary, and ``C = mu u a' + Z W``; R may then have any diagonal.
    noise : {"gaussian", "rademacher", "uniform", "laplace", "student-t"}
        Law of the entries of z in simulations, scaled to unit variance; limits do not depend on it.
    noise_df : float
        Degrees of freedom of ``noise="student-t"``; above 4.
    frequencies : array_like of shape (V,), optional
        Token frequencies; within its class a token is drawn in proportion to them. Uniform when not given. Token
        v belongs to class ``+1`` when v is even, ``−1`` when it is odd.
    covariance : array_like of shape (d,) or (d, d), optional
        Covariance A of the noise, or the diagonal of it; identity when not given.
    direction : array_like of shape (d,), optional
        The direction u (normalised). When not given, simulations draw it uniformly.
    """

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
        put("table", check.choice(table, "table", TABLES))
        if not isinstance(centered, (bool, np.bool_)):
            raise InvalidInputError("centered must be True or False", centered, "Pass a bool")
        put("centered", bool(centered))
        put("noise", check.choice(noise, "noise", NOISES))
        put("noise_df", check.positive(noise_df, "noise_df"))
        if noise == "student-t" and self.noise_df <= 4:
            raise InvalidInputError(
                "student-t noise needs more than 4 degrees of freedom", noise_df, "Pass noise_df above 4"
            )
        put("frequencies", None if frequencies is None else self._check_frequencies(frequencies))
        put("covariance", None if covariance is None else self._check_covariance(covariance))
        put("direction", None if direction is None else self._check_direction(direction))

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
        f = f / f.sum()
        f.setflags(write=False)
        return f

    def _check_covariance(self, value: ArrayLike) -> FloatArray:
        a = check.finite_array(value, "covariance")
        if a.ndim == 2:
            a = check.symmetric_psd(a, "covariance")
        if a.ndim not in (1, 2) or a.shape[0] != self.d:
            raise ShapeError(f"covariance must be ({self.d},) or ({self.d}, {self.d})", a, "Match d")
        if a.ndim == 1 and a.min() < 0:
            raise CorrelationError("covariance has a negative variance", float(a.min()), "Pass variances >= 0")
        a = a.copy()
        a.setflags(write=False)
        return a

    def _check_direction(self, value: ArrayLike) -> FloatArray:
        u = check.finite_array(value, "direction", ndim=1)
        norm = float(np.linalg.norm(u))
        if len(u) != self.d or norm == 0:
            raise ShapeError(f"direction must be a non-zero vector of length d = {self.d}", u, "Match d")
        u = u / norm
        u.setflags(write=False)
        return u

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

    @cached_property
    def signs(self) -> NDArray[np.int8]:
        """Class of each token: +1 for even, −1 for odd token ids."""
        s = np.ones(self.V, dtype=np.int8)
        s[1::2] = -1
        s.setflags(write=False)
        return s

    def replace(self, **changes: Any) -> SequenceModel:
        """A copy with some fields changed; everything is checked again."""
        return dataclasses.replace(self, **changes)

    def predict(self, w: ArrayLike, *, exact: bool = False, rng: Any = None) -> Prediction:
        """Bulk, outliers and alignments of S for pooling weights `w`."""
        raise NotImplementedError

    def sample(self, rng: Any = None, *, dtype: Any = np.float64) -> Sample:
        """Draw a table, tokens and signs; see :func:`spikepool.sampling.draw_sample`."""
        from spikepool.sampling import draw_sample

        return draw_sample(self, rng=rng, dtype=dtype)

    def simulate(
        self, w: ArrayLike, trials: int = 20, k: int = 2, *, rng: Any = None, **options: Any
    ) -> SimulationResult:
        """Top `k` eigenpairs of S over independent draws; see :func:`spikepool.simulation.simulate`."""
        from spikepool.simulation import simulate

        return simulate(self, w, trials=trials, k=k, rng=rng, **options)

    def spectrum(self, w: ArrayLike, *, rng: Any = None, **options: Any) -> FloatArray:
        """All d eigenvalues of S for one draw, ascending; see :func:`spikepool.simulation.spectrum`."""
        from spikepool.simulation import spectrum

        return spectrum(self, w, rng=rng, **options)

    def ridge_accuracy(self, w: ArrayLike, ridge: float = 1.0, n_train: int | None = None, **options: Any) -> float:
        """Test accuracy of the ridge classifier; see :func:`spikepool.ridge.ridge_accuracy`."""
        from spikepool.ridge import ridge_accuracy

        return ridge_accuracy(self, w, ridge=ridge, n_train=n_train, **options)


_ = (math, spikes, UnreachableError, FreeProductLaw, alpha_kappa)
