"""K classes with any shares and means (open problem i of the paper).

Token v of class k has embedding m_k + z_v. Let A_k be the weight that a sequence puts on class k, the sum of w_t over
positions whose token is of that class, and Gamma the covariance of (A_1, ..., A_K) over sequences. Given the table,
the covariance of a pooled column is exactly

    kappa · Z P Z'/V + (M + Z̄) Gamma (M + Z̄)',    M = (m_1, ..., m_K),  Z̄ the class means of the noise,

with P the projection off the class means, and Z̄ independent of ZP with columns of squared norm d/V_k, V_k the number
of tokens of class k. So the spikes have as strengths the eigenvalues theta_i of

    Gamma^{1/2} (M'M + d diag(1/V_k)) Gamma^{1/2}

and directions (M + Z̄) b_i, b_i = Gamma^{1/2} q_i/sqrt(theta_i) with q_i the eigenvectors. Each goes through the
formulas of :mod:`spikepool.theory.spikes` by itself. Its eigenvector's squared projection on the span of the true class
differences is A(x_i)·‖M b_i‖². Without centring, Gamma is replaced by the second moment Gamma + pi pi', and M b_i by
its projection on that span.

For positions that share a class with probability R_ts and are independent otherwise,
``Gamma = (w'Rw)(diag(pi) − pi pi')``: the same weights are optimal as for two classes. Two balanced classes at ±mu u
give the formulas of :class:`spikepool.SequenceModel`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.results import Result, Table, record
from spikepool.kit.text import number
from spikepool.laws.base import SpectralLaw
from spikepool.laws.free_product import FreeProductLaw
from spikepool.theory import spikes
from spikepool.theory.mixing import neighbours, repelling
from spikepool.theory.validity import (
    SMALL,
    SOUND,
    Validity,
    few_tokens,
    near_threshold,
    small_sizes,
    too_high,
    validity_of,
)
from spikepool.world.class_tables import ClassWorld


@dataclass(frozen=True)
class ClassOutlier:
    """One predicted eigenvalue outside the bulk.

    Attributes
    ----------
    eigenvalue : float
        Eigenvalue of the sample covariance S.
    alignment : float
        Squared length of its eigenvector's projection on the span of the true class differences.
    overlaps : tuple of float
        Squared cosines with the principal directions of the true class differences (``ClassModel.directions``),
        which add up to `alignment`. Where strengths coincide only the sum is determined.
    strength : float
        theta, the size of the spike.
    population_eigenvalue, population_alignment : float
        The same for infinitely many sequences.
    """

    eigenvalue: float
    alignment: float
    overlaps: tuple[float, ...]
    strength: float
    population_eigenvalue: float
    population_alignment: float


@dataclass(frozen=True)
class ClassPrediction(Result, schema="classes"):
    """What theory says of the pooled covariance of K classes.

    Attributes
    ----------
    alpha, kappa : float
        Signal gain w'Rw and noise gain ‖w‖².
    bulk : SpectralLaw
        Limiting law of the bulk.
    edge : float
        Its right edge.
    strengths : tuple of float
        Strengths of all spikes, largest first, also of those that no outlier shows.
    outliers : tuple of ClassOutlier
        The outliers, largest first.
    validity : Validity
        Whether these numbers lie in the range where their theory holds, and why not.
    """

    alpha: float
    kappa: float
    bulk: SpectralLaw
    edge: float
    strengths: tuple[float, ...]
    outliers: tuple[ClassOutlier, ...]
    validity: Validity = SOUND

    def _record(self) -> dict[str, Any]:
        names = ("alpha", "kappa", "edge", "strengths", "outliers", "validity")
        return record(self, *names, atom_at_zero=float(self.bulk.atom))

    def _tables(self) -> list[Table]:
        header = ("outlier", "eigenvalue", "alignment", "strength", "eigenvalue, N → ∞", "alignment, N → ∞")
        rows = [
            (str(i), o.eigenvalue, o.alignment, o.strength, o.population_eigenvalue, o.population_alignment)
            for i, o in enumerate(self.outliers, 1)
        ]
        title = f"{len(self.outliers)} of {len(self.strengths)} spikes stand out of the bulk (edge {number(self.edge)})"
        return [(title, header, rows)]

    def plot(self, ax: Any = None) -> Any:
        """Density of the bulk with its edge and the predicted outliers; returns the axes."""
        from spikepool.drawing.predictions import draw_prediction

        return draw_prediction(self, ax)

    @property
    def detectable(self) -> bool:
        """Whether there is any outlier."""
        return bool(self.outliers)

    @property
    def alignment(self) -> float:
        """Alignment of the top eigenvector; 0 when nothing is detectable."""
        return self.outliers[0].alignment if self.outliers else 0.0


def predict_classes(world: ClassWorld, w: ArrayLike, *, class_covariance: ArrayLike | None = None) -> ClassPrediction:
    """Bulk and every spike's outlier for pooling weights `w`.

    Parameters
    ----------
    w : array_like of shape (T,)
        Weights summing to one.
    class_covariance : array_like of shape (K, K), optional
        Gamma, when positions depend on each other in another way than through R.
    """
    alpha, kappa = world.gains(w)
    gamma_matrix = world.class_covariance(w)
    if class_covariance is not None:
        gamma_matrix = check.symmetric_psd(class_covariance, "class_covariance")
        if gamma_matrix.shape != (world.K, world.K):
            raise ShapeError(f"class_covariance must be ({world.K}, {world.K})", gamma_matrix, "Match the classes")
    if not world.centered:
        gamma_matrix = gamma_matrix + np.outer(world.shares, world.shares)
    power = world.means.T @ world.means
    if world.table == "sampled":
        power = power + np.diag(world.d / world.class_sizes())
    values, vectors = np.linalg.eigh(gamma_matrix)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # PSD up to rounding
    theta, q = np.linalg.eigh(root @ power @ root)
    rank = world.K - 1 if world.centered else world.K
    theta, q = theta[::-1][:rank], q[:, ::-1][:, :rank]
    threshold = float(spikes.sample_threshold(world.delta, world.gamma)) * kappa
    # component of M b_i along each direction, times sqrt(theta)
    loadings = world.directions.T @ world.means @ root @ q
    outliers = tuple(
        _outlier(world, float(theta[i]), kappa, loadings[:, i] ** 2 / theta[i])
        for i in range(rank)
        if theta[i] > threshold
    )
    return ClassPrediction(
        alpha=alpha,
        kappa=kappa,
        bulk=FreeProductLaw(world.delta, world.gamma, kappa),
        edge=float(spikes.bulk_edge(world.delta, world.gamma, kappa)),
        strengths=tuple(float(max(t, 0.0)) for t in theta),
        outliers=outliers,
        validity=_validity(world, np.asarray(w, dtype=np.float64), kappa, theta, threshold, outliers),
    )


def _validity(
    world: ClassWorld,
    w: FloatArray,
    kappa: float,
    theta: FloatArray,
    threshold: float,
    outliers: tuple[ClassOutlier, ...],
) -> Validity:
    """Few tokens, small sizes, spikes near the threshold or near each other, and classes that are hardly ever seen."""
    critical = float(spikes.critical_excess(world.delta, world.gamma))
    excess = theta / kappa - world.delta
    nearest = float(excess[np.argmin(np.abs(excess - critical))])
    rarest = int(np.argmin(world.shares))
    seen = world.N * (1 - (1 - world.shares[rarest]) ** int(np.count_nonzero(w)))
    return validity_of(
        too_high(few_tokens(kappa, math.sqrt(float(theta[0])), math.sqrt(threshold))),
        near_threshold(nearest, critical, world.d),
        neighbours(outliers, world.d, world.N),
        repelling(outliers, world.d, world.N),
        small_sizes(d=world.d, V=world.V, N=world.N),
        None
        if seen >= SMALL
        else (
            f"class {rarest} occurs in about {seen:.2g} of the {world.N} sequences, too few for a limit: its spike "
            "need not show as an outlier"
        ),
    )


def _outlier(world: ClassWorld, theta: float, kappa: float, purities: FloatArray) -> ClassOutlier:
    """The outlier of a spike whose direction has squared components `purities` along the true directions."""
    x = float(spikes.spike_excess(theta, world.delta, kappa))
    total = float(spikes.total_alignment(x, world.delta, world.gamma))
    purity = float(purities.sum())
    return ClassOutlier(
        eigenvalue=float(spikes.sample_outlier(x, world.delta, world.gamma, kappa)),
        alignment=total * purity,
        overlaps=tuple(float(total * value) for value in purities),
        strength=theta,
        population_eigenvalue=float(spikes.population_outlier(x, world.delta, kappa)),
        population_alignment=float(spikes.population_alignment(x, world.delta)) * purity,
    )
