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
from spikepool.errors import CorrelationError, DomainError, InvalidInputError, ShapeError
from spikepool.laws.base import SpectralLaw
from spikepool.laws.free_product import FreeProductLaw
from spikepool.weights import alpha_kappa

if TYPE_CHECKING:
    from spikepool.planning import VocabularyRange
    from spikepool.sampling import Sample
    from spikepool.simulation import SimulationResult

FloatArray = NDArray[np.float64]

TABLES = ("sampled", "class_centered")
LATENTS = ("signs", "gaussian")
# Squares and products of larger signals would overflow; they would be detected by eye.
_LARGEST_MU = 1e100
NOISES = ("gaussian", "rademacher", "uniform", "laplace", "student-t")


@dataclass(frozen=True)
class Outlier:
    """One predicted eigenvalue outside the bulk.

    Attributes
    ----------
    kind : {"signal", "mean", "usage"}
        What it is made of: the hidden direction, the sample mean of the vocabulary's noise, or (in exact
        predictions only) a direction of the token usage such as a very frequent token.
    eigenvalue, alignment : float
        Eigenvalue of the sample covariance S, and squared cosine of its eigenvector with the true u.
    population_eigenvalue, population_alignment : float
        The same for the population covariance, the limit of infinitely many sequences.
    """

    kind: Literal["signal", "mean", "usage"]
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
        unit: FloatArray = u / norm if abs(norm - 1) > 1e-12 else u.copy()
        unit.setflags(write=False)
        return unit

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

    def signal_strength(self, w: ArrayLike) -> float:
        """Strength theta of the signal's spike: alpha·mu², plus alpha·delta for the class means of a sampled table."""
        alpha, _ = alpha_kappa(w, self.R)
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

    def predict(self, w: ArrayLike, *, exact: bool = False, rng: Any = None) -> Prediction:
        """Bulk, outliers and alignments of S for pooling weights `w`.

        The closed form is the limit d, V, N → ∞ of spread-out weights. A table drawn once has class means of its
        own: given the noise Z, the covariance of a pooled column is exactly

            kappa·Z P Z'/V + alpha (mu u + zeta)(mu u + zeta)' + zbar zbar',    zeta = Zs/V, zbar = Z1/V,

        with P the projection off the class means, and zeta, zbar of squared norm delta. So the signal's spike has
        strength alpha(mu² + delta), its eigenvector aligns with u up to the factor mu²/(mu² + delta), and without
        centring there is a second spike of strength delta along zbar. The paper leaves zeta and zbar out.

        Parameters
        ----------
        w : array_like of shape (T,)
            Weights summing to one.
        exact : bool
            Condition on a drawn token usage instead: right at any T, for any token frequencies and noise
            covariance. See :func:`spikepool.exact.predict_exact`.
        rng : optional
            Seed of that draw.
        """
        if check.flag(exact, "exact"):
            from spikepool.exact import predict_exact

            return predict_exact(self, w, rng=rng)
        return self.predict_gains(*alpha_kappa(w, self.R))

    def predict_gains(self, alpha: float, kappa: float) -> Prediction:
        """The closed form of :meth:`predict` for any weighting with signal gain `alpha` and noise gain `kappa`.

        Weights that vary by sequence enter through the means of their gains; see
        :func:`spikepool.attention_scalars`.
        """
        alpha, kappa = check.non_negative(alpha, "alpha"), check.positive(kappa, "kappa")
        if self.frequencies is not None or self.covariance is not None:
            raise InvalidInputError(
                "the closed form holds for uniform token frequencies and isotropic noise",
                remedy="Use predict(w, exact=True), which takes both into account",
            )
        delta, gamma = self.delta, self.gamma
        found = (
            self._outlier("signal", alpha * (self.mu**2 + self.class_mean_power), kappa, self.purity),
            self._outlier("mean", self.mean_strength, kappa, 0.0),
        )
        outliers = tuple(
            sorted((o for o in found if o is not None), key=lambda outlier: outlier.eigenvalue, reverse=True)
        )
        return Prediction(
            alpha=alpha,
            kappa=kappa,
            bulk=FreeProductLaw(delta, gamma, kappa),
            edge=float(spikes.bulk_edge(delta, gamma, kappa)),
            outliers=outliers,
            alignment=outliers[0].alignment if outliers else 0.0,
            detectable=found[0] is not None,
            mu_population=self._threshold(float(spikes.population_threshold(delta)), alpha, kappa),
            mu_sample=self._threshold(float(spikes.sample_threshold(delta, gamma)), alpha, kappa),
        )

    def _outlier(self, kind: Literal["signal", "mean"], theta: float, kappa: float, purity: float) -> Outlier | None:
        """The outlier of a spike of strength `theta`, or None below the sample threshold."""
        x = float(spikes.spike_excess(theta, self.delta, kappa))
        if x <= spikes.critical_excess(self.delta, self.gamma):
            return None
        return Outlier(
            kind=kind,
            eigenvalue=float(spikes.sample_outlier(x, self.delta, self.gamma, kappa)),
            alignment=purity * float(spikes.total_alignment(x, self.delta, self.gamma)),
            population_eigenvalue=float(spikes.population_outlier(x, self.delta, kappa)),
            population_alignment=purity * float(spikes.population_alignment(x, self.delta)),
        )

    def _threshold(self, ratio: float, alpha: float, kappa: float) -> float:
        """The mu at which theta/kappa reaches `ratio`; infinite when no signal gets through (alpha = 0)."""
        if alpha == 0:
            return math.inf
        return math.sqrt(max(0.0, kappa * ratio / alpha - self.class_mean_power))

    def required_samples(self, w: ArrayLike, alignment: float = 0.8) -> int:
        """Smallest N that reaches `alignment`; see :func:`spikepool.planning.required_samples`."""
        from spikepool.planning import required_samples

        return required_samples(self, w, alignment)

    def required_mu(self, w: ArrayLike, alignment: float = 0.8) -> float:
        """Smallest mu that reaches `alignment`; see :func:`spikepool.planning.required_mu`."""
        from spikepool.planning import required_mu

        return required_mu(self, w, alignment)

    def required_vocabulary(self, w: ArrayLike, alignment: float = 0.8) -> VocabularyRange:
        """Even V that reach `alignment`; see :func:`spikepool.planning.required_vocabulary`."""
        from spikepool.planning import required_vocabulary

        return required_vocabulary(self, w, alignment)

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

    def fluctuations(self, w: ArrayLike) -> Any:
        """Standard deviation of the outlier and of the alignment over draws; see :mod:`spikepool.fluctuations`."""
        from spikepool.fluctuations import fluctuations

        return fluctuations(self, w)

    def ridge_accuracy(self, w: ArrayLike, ridge: float = 1.0, n_train: int | None = None, **options: Any) -> float:
        """Test accuracy of the ridge classifier; see :func:`spikepool.ridge.ridge_accuracy`."""
        from spikepool.ridge import ridge_accuracy

        return ridge_accuracy(self, w, ridge=ridge, n_train=n_train, **options)
