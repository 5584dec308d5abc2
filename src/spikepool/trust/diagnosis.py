"""Is this component real? What the spectrum of pooled features alone says about the signal in them."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import DomainError, InvalidInputError, MemoryBudgetError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.free_product import FreeProductLaw
from spikepool.theory import spikes
from spikepool.theory.fluctuations import eigenvalue_std, spike_alignment_std
from spikepool.trust.bulk_fit import BulkFit, edge_factor, fit_bulk

# Kolmogorov-Smirnov distances up to which a fit is called good and fair, as (constant, multiple of 1/d). Eigenvalues
# are rigid: under the model the distance is 1/d to 2/d plus the departure of finite sequences from the limit
# (0.002 to 0.01 for ten or more effective tokens).
_GOOD_FIT = (0.01, 1.5)
_FAIR_FIT = (0.03, 3.0)
# The d x d covariance and its eigenvectors are formed; beyond this dimension that is no longer a quick look.
_LARGEST_DIMENSION = 20_000
# Squares of squares of larger features, and of the inverse of smaller ones, overflow.
_LARGEST_FEATURE = 1e70


class UncenteredWarning(UserWarning):
    """The top component of the uncentred covariance is the mean of the features, not a signal."""


@dataclass(frozen=True)
class DiagnosedOutlier:
    """One eigenvalue beyond the bulk.

    Attributes
    ----------
    eigenvalue, standard_error : float
        Observed eigenvalue, and the standard deviation of such an eigenvalue over draws.
    alignment, alignment_standard_error : float
        Estimated squared cosine between its eigenvector and the direction it estimates, with the error of that.
    excess : float
        The spike variable x of :mod:`spikepool.theory.spikes`.
    strength : float
        Estimated strength theta of the spike, the variance the signal adds along its direction.
    required_samples : int or None
        Samples that would bring the alignment to the target; None when no number is enough.
    """

    eigenvalue: float
    standard_error: float
    alignment: float
    alignment_standard_error: float
    excess: float
    strength: float
    required_samples: int | None


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`diagnose` found; print it, or use the fields.

    Attributes
    ----------
    verdict : {"signal", "no signal", "poor fit"}
        "poor fit" means that the bulk is not that of pooled noise: counts and alignments are then not to be trusted.
    outliers : tuple of DiagnosedOutlier
        Largest first.
    bulk : FreeProductLaw
        Fitted bulk; ``bulk.delta`` is the vocabulary ratio, ``bulk.scale`` the noise level.
    edge, margin, distance : float
        Right edge of the bulk, the margin beyond it that noise rarely exceeds, and the Kolmogorov-Smirnov distance.
    eigenvalues : numpy.ndarray
        All of them, descending.
    components : numpy.ndarray of shape (n_outliers, d)
        Unit eigenvectors of the outliers.
    mean_is_top : bool
        Whether the mean of the features is the top component of the uncentred covariance.
    """

    verdict: str
    outliers: tuple[DiagnosedOutlier, ...]
    bulk: FreeProductLaw
    edge: float
    margin: float
    distance: float
    eigenvalues: FloatArray
    components: FloatArray
    mean_is_top: bool
    n_samples: int
    target: float
    noise_variance: float | None

    def summary(self) -> str:
        """A readable report."""
        d = len(self.eigenvalues)
        lines = [
            f"{self.verdict}: {len(self.outliers)} outlier(s) in {self.n_samples} samples of dimension {d}",
            f"bulk: scale {self.bulk.scale:.4g}, d/V {self.bulk.delta:.3g}, edge {self.edge:.4g} (+{self.margin:.2g}); "
            f"distance {self.distance:.4f} ({_fit_word(self.distance, d)} fit)",
        ]
        for number, o in enumerate(self.outliers, 1):
            more = (
                f"{o.required_samples} samples for {self.target:g}"
                if o.required_samples is not None
                else f"no number of samples reaches {self.target:g}"
            )
            lines.append(
                f"  {number}. eigenvalue {o.eigenvalue:.4g} ± {o.standard_error:.2g}, alignment "
                f"{o.alignment:.3f} ± {o.alignment_standard_error:.3f}; {more}"
            )
        if self.mean_is_top:
            lines.append("  the top component of the uncentred features is their mean: centre them")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def plot(self, ax: Any = None) -> Any:
        """Histogram of the eigenvalues with the fitted bulk, its edge and the outliers; returns the axes."""
        from spikepool.errors import require

        if ax is None:
            _, ax = require("matplotlib.pyplot", "plot").subplots(figsize=(6, 3.6), layout="constrained")
        bulk = self.eigenvalues[len(self.outliers) :]
        bulk = bulk[bulk > 1e-10 * self.eigenvalues[0]]
        share = len(bulk) / len(self.eigenvalues)
        counts, bins = np.histogram(bulk, bins=min(60, max(10, len(bulk) // 8)), density=True)
        ax.stairs(counts * share, bins, fill=True, color="0.8", label="bulk eigenvalues")
        left, right = self.bulk.support()
        x = left + (right - left) * np.linspace(0, 1, 400)[1:-1] ** 2
        ax.plot(x, self.bulk.pdf(x), color="black", lw=1.5, label="fitted law")
        ax.axvline(self.edge + self.margin, color="tab:green", ls="--", lw=1, label="edge and margin")
        for number, o in enumerate(self.outliers):
            ax.axvline(o.eigenvalue, color="tab:red", lw=1.2, label="outliers" if number == 0 else None)
        ax.set(xlabel="eigenvalue of the covariance", ylabel="density", title=self.verdict)
        ax.set_ylim(0, 1.15 * max(float((counts * share).max()), float(self.bulk.pdf(x)[len(x) // 20 :].max())))
        ax.legend(framealpha=1, edgecolor="none")
        return ax


def _fit_word(distance: float, d: int) -> str:
    for word, (constant, multiple) in (("good", _GOOD_FIT), ("fair", _FAIR_FIT)):
        if distance <= constant + multiple / d:
            return word
    return "poor"


def diagnose(
    C: ArrayLike,
    V: int | None = None,
    weights: ArrayLike | None = None,
    *,
    alpha: float | None = None,
    target: float = 0.8,
) -> Diagnosis:
    """Bulk, outliers and their trustworthiness, from pooled features alone.

    The bulk law of pooled noise is fitted to the centred covariance; each eigenvalue beyond its edge and a
    Tracy-Widom margin is inverted to the spike that caused it, which gives the alignment of its eigenvector with the
    unseen direction, standard errors, and the number of samples that would bring the alignment to `target`.

    Parameters
    ----------
    C : array_like of shape (n_samples, d)
        Pooled features, one row a sequence; at least four of each. They are centred here.
    V : int, optional
        Vocabulary size; fitted from the bulk when not given.
    weights : array_like of shape (T,), optional
        Pooling weights; with them the variance of a token's noise is reported (``noise_variance``), and with `V` as
        well the edge is that of sequences of finite length.
    alpha : float, optional
        Signal gain w'Rw. The spectrum shows the direction mu·u + zeta along which *this table's* classes differ, and
        the alignment is with that direction. With `alpha` and `weights` it is turned into the alignment with u
        itself, by the factor mu²/(mu² + delta) = 1 − alpha·delta/theta (in units of the token noise).
    target : float
        Alignment to plan for.

    Returns
    -------
    Diagnosis

    Warns
    -----
    UncenteredWarning
        When the mean of the features dominates the uncentred covariance: a principal component of the raw
        features would be the mean, which carries no signal.

    Examples
    --------
    >>> import numpy as np, spikepool as sp
    >>> report = sp.diagnose(np.random.default_rng(0).standard_normal((400, 100)))
    >>> report.verdict
    'no signal'
    """
    features = check.finite_array(C, "C", ndim=2)
    n, d = features.shape
    if n < 4 or d < 4:
        raise ShapeError("C must have at least 4 samples and 4 features", features.shape, "Pass (n_samples, d)")
    if min(n, d) > _LARGEST_DIMENSION:
        raise MemoryBudgetError(
            f"the smaller side of C must be at most {_LARGEST_DIMENSION}", features.shape, "Reduce the dimension first"
        )
    target = check.fraction(target, "target", closed=False)
    V = None if V is None else check.size(V, "V", minimum=2)
    w = None if weights is None else check.weight_vector(weights)
    kappa = None if w is None else float(w @ w)
    if alpha is not None:
        alpha = check.positive(alpha, "alpha")
        if kappa is None:
            raise InvalidInputError("alpha needs the weights as well", alpha, "Pass weights=w")

    largest = float(np.abs(features).max())
    if largest > 0 and not 1 / _LARGEST_FEATURE <= largest <= _LARGEST_FEATURE:
        raise DomainError("squares of the features under- or overflow; the largest is", largest, "Rescale them")
    mean = features.mean(axis=0)
    centred = features - mean
    eigenvalues, right = _spectrum(centred)
    if eigenvalues[0] <= 1e-14 * max(float(np.sum(mean**2)), 1e-300):
        raise InvalidInputError("all rows of C are equal", remedy="Pass features that vary between samples")
    # centring takes one degree of freedom
    eigenvalues = eigenvalues * n / (n - 1)
    factor = 1.0 if V is None or w is None else edge_factor(w, d, V, n)
    fit = fit_bulk(eigenvalues, d / (n - 1), None if V is None else d / V, factor)
    mean_is_top = _mean_is_top(mean, fit, eigenvalues)
    if mean_is_top:
        warnings.warn(
            "the mean of the features dominates their uncentred covariance; centre them before taking components",
            UncenteredWarning,
            stacklevel=2,
        )
    noise = None if kappa is None else fit.law.scale / kappa
    outliers = tuple(
        _explain(float(value), fit, d, target, None if alpha is None or noise is None else alpha * noise)
        for value in eigenvalues[: fit.n_outliers]
    )
    verdict = "poor fit" if _fit_word(fit.distance, d) == "poor" else "signal" if outliers else "no signal"
    return Diagnosis(
        verdict=verdict,
        outliers=outliers,
        bulk=fit.law,
        edge=fit.edge,
        margin=fit.margin,
        distance=fit.distance,
        eigenvalues=eigenvalues,
        components=right[: fit.n_outliers],
        mean_is_top=mean_is_top,
        n_samples=n,
        target=target,
        noise_variance=noise,
    )


def _spectrum(centred: FloatArray) -> tuple[FloatArray, FloatArray]:
    """All d eigenvalues of centred'centred/n, descending with exact zeros, and the leading eigenvectors as rows."""
    n, d = centred.shape
    if d <= n:
        values, vectors = np.linalg.eigh(centred.T @ centred / n)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1].T
    values, left = np.linalg.eigh(centred @ centred.T / n)
    values, left = values[::-1], left[:, ::-1]
    rank = int(np.sum(values > 1e-12 * values[0]))
    right = (left[:, :rank].T @ centred) / np.sqrt(n * values[:rank])[:, None]
    return np.concatenate([values[:rank], np.zeros(d - rank)]), right


def _mean_is_top(mean: FloatArray, fit: BulkFit, eigenvalues: FloatArray) -> bool:
    """Whether adding mean mean' to the centred covariance puts an outlier along the mean on top.

    The sample mean of pure noise has squared norm scale·gamma, which stays inside the bulk; a spike of strength theta
    gives the outlier lambda(x) as any other.
    """
    law = fit.law
    x = float(np.sum(mean**2)) / law.scale - law.delta - law.gamma
    if x <= float(spikes.critical_excess(law.delta, law.gamma)):
        return False
    return bool(spikes.sample_outlier(x, law.delta, law.gamma, law.scale) > eigenvalues[0])


def _explain(value: float, fit: BulkFit, d: int, target: float, signal_noise: float | None) -> DiagnosedOutlier:
    """Invert an outlier to its spike; `signal_noise` is alpha times the token noise, when the gains are known."""
    delta, gamma, scale = fit.law.delta, fit.law.gamma, fit.law.scale
    x = float(spikes.excess_from_eigenvalue(value, delta, gamma, scale))
    # the strength itself scatters with the latent, whose law is unknown: a Gaussian one is assumed (signs scatter less)
    latent_std = math.sqrt(2 * gamma / d)
    error = eigenvalue_std(x, delta, gamma, scale, d, strength_std=latent_std)
    inner_error = eigenvalue_std(x, delta, gamma, scale, d)
    # the slope of the alignment in the eigenvalue, through x
    step = 1e-5 * x
    slope_a = float(spikes.total_alignment(x + step, delta, gamma) - spikes.total_alignment(x, delta, gamma)) / step
    rise = float(spikes.sample_outlier(x + step, delta, gamma, scale)) - value
    slope_l = rise / step
    transfer = slope_a / slope_l if slope_l > 0 else math.inf
    alignment = float(spikes.total_alignment(x, delta, gamma))
    alignment_error = min(math.hypot(transfer * inner_error, spike_alignment_std(x, delta, gamma, d)), 1.0)
    theta = scale * (x + delta)
    purity = 1.0 if signal_noise is None else max(0.0, 1 - signal_noise * delta / theta)
    reachable = purity * float(spikes.population_alignment(x, delta)) > target
    required = math.ceil(d / float(spikes.required_gamma(x, delta, target / purity))) if reachable else None
    return DiagnosedOutlier(
        eigenvalue=value,
        standard_error=error,
        alignment=purity * alignment,
        alignment_standard_error=purity * alignment_error,
        excess=x,
        strength=theta,
        required_samples=required,
    )
