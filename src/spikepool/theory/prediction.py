"""What a prediction is: the numbers theory gives for one model and one weighting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spikepool.laws.base import SpectralLaw


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


@dataclass(frozen=True)
class RidgePrediction:
    """Predicted test accuracy of a ridge classifier.

    Attributes
    ----------
    accuracy : float
        Probability that a fresh sequence is classified correctly.
    accuracy_error : float
        Standard error of that number: 0 when it is exact, else from the draws behind it.
    mean, std : float
        A test score is ``a·mean + std·g``, a = w'xi its pooled latent and g standard normal; for ``exact=True`` g
        has unit variance but need not be normal.
    """

    accuracy: float
    accuracy_error: float
    mean: float
    std: float
