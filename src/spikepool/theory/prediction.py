"""What a prediction is: the numbers theory gives for one model and one weighting.

Its p-values need the top eigenvalue of S under noise alone. The largest of d eigenvalues is ``E + (A d)^{-2/3} TW``
with E the right edge of the bulk law and ``A sqrt(E − x)/pi`` its density next to it. Sizes enter the law as d − 1/2, V
− 2 − 1/2 (the two class means are not part of the bulk) and N − 1/2, or N − 1 − 1/2 where S is centred; without these
halves the centre is off by half a standard deviation at d = 100. p-values of null draws then pass a Kolmogorov-Smirnov
test from d = 100 on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.results import Result, Table, record
from spikepool.kit.text import number
from spikepool.laws.base import SpectralLaw
from spikepool.laws.free_product import FreeProductLaw
from spikepool.laws.tracy_widom import edge_amplitude, tracy_widom_isf, tracy_widom_sf
from spikepool.theory.validity import SOUND, Validity


class Sizes(NamedTuple):
    """Dimension, vocabulary, sequences, and whether S is centred."""

    d: int
    V: int
    N: int
    centered: bool


@dataclass(frozen=True)
class NoiseEdge:
    """Centre and scale of the top eigenvalue under noise alone, whose standardised law is Tracy-Widom.

    Attributes
    ----------
    centre, scale : float
        The top eigenvalue of noise is ``centre + scale·TW``.
    """

    centre: float
    scale: float

    def p_value(self, eigenvalue: ArrayLike) -> Any:
        """P(top eigenvalue of noise > `eigenvalue`)."""
        return tracy_widom_sf((check.finite_array(eigenvalue, "eigenvalue") - self.centre) / self.scale)

    def critical(self, level: float) -> float:
        """The eigenvalue that noise exceeds with probability `level`."""
        return self.centre + self.scale * tracy_widom_isf(level)


def noise_edge(bulk: SpectralLaw, kappa: float, sizes: Sizes) -> NoiseEdge:
    """The law of the top eigenvalue of noise for a bulk with these sizes.

    Parameters
    ----------
    bulk : SpectralLaw
        Limiting law; where it is not the closed form its edge is corrected by the same factor as that one's.
    kappa : float
        Noise gain.
    sizes : Sizes
        d, V and N at least 4.
    """
    d, V, N = (check.size(value, name, minimum=4) for value, name in zip(sizes[:3], "dVN", strict=True))
    tokens, sequences = V - 2.5, N - (1.5 if sizes.centered else 0.5)
    finite = FreeProductLaw((d - 0.5) / tokens, (d - 0.5) / sequences, kappa * tokens / V * sequences / N)
    centre = finite.support()[1]
    law: SpectralLaw = finite
    if not isinstance(bulk, FreeProductLaw):
        law, centre = bulk, bulk.support()[1] * centre / FreeProductLaw(d / V, d / N, kappa).support()[1]
    return NoiseEdge(float(centre), (edge_amplitude(law) * d) ** (-2 / 3))


@dataclass(frozen=True)
class NullTop:
    """Law of the top eigenvalue of S at mu = 0 of a model, as an equal mixture over draws of the tokens.

    Attributes
    ----------
    edges : tuple of NoiseEdge
        Where the top is the edge of the bulk.
    outliers : tuple of pairs of float
        Mean and standard deviation, where it is an outlier that needs no signal: the table's own class means, the
        vocabulary mean of an S that is not centred, or a frequent token.
    reasons : tuple of str
        Why the level of a test may not hold.
    """

    edges: tuple[NoiseEdge, ...] = ()
    outliers: tuple[tuple[float, float], ...] = ()
    reasons: tuple[str, ...] = ()

    def p_value(self, eigenvalue: ArrayLike) -> Any:
        """P(top eigenvalue at mu = 0 > `eigenvalue`)."""
        x = check.finite_array(eigenvalue, "eigenvalue")
        parts = [edge.p_value(x) for edge in self.edges] + [ndtr((mean - x) / std) for mean, std in self.outliers]
        return np.mean(parts, axis=0)[()]

    def critical(self, level: float) -> float:
        """The eigenvalue that is exceeded at mu = 0 with probability `level`."""
        single = [edge.critical(level) for edge in self.edges]
        single += [mean - std * float(ndtri(level)) for mean, std in self.outliers]
        low, high = min(single), max(single)
        if high - low <= 1e-12 * high:
            return high
        return float(brentq(lambda x: float(self.p_value(x)) - level, low, high, xtol=1e-13 * high))


@dataclass(frozen=True)
class Outlier:
    """One predicted eigenvalue outside the bulk.

    Attributes
    ----------
    kind : {"signal", "classes", "mean", "usage", "noise", "key", "query", "sequence"}
        What it is made of: the hidden direction together with the table's own class means; these class means alone,
        at mu = 0; the sample mean of the vocabulary's noise; a direction of the token usage such as a very frequent
        token; or an isolated eigenvalue of the noise covariance. The last three are those of :class:`QueryModel`.
    eigenvalue, alignment : float
        Eigenvalue of the sample covariance S, and squared cosine of its eigenvector with the true u.
    population_eigenvalue, population_alignment : float
        The same for the population covariance, the limit of infinitely many sequences.
    """

    kind: Literal["signal", "classes", "mean", "usage", "noise", "key", "query", "sequence"]
    eigenvalue: float
    alignment: float
    population_eigenvalue: float
    population_alignment: float


@dataclass(frozen=True)
class Prediction(Result, schema="prediction"):
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
        Whether S has an outlier made of the signal: one outlier more than it would have with the pooled signs
        regressed out of the pooled columns. A frequent token's outlier is there either way and does not count. False at
        mu = 0, where the class means of the drawn table may still make an outlier (of kind "classes").
    mu_population, mu_sample : float
        Signal strengths at which that outlier appears in the population and in the sample; zero when the table's own
        class means make one without any signal.
    validity : Validity
        Whether `alignment` and the signal's outlier lie in the range where their theory holds, and why not. Outliers of
        frequent tokens that lie close to each other mix in a draw; that is not reported.
    sizes : Sizes or None
        d, V, N and whether S is centred, which p-values need.
    table_alignment : float or None
        Alignment of the top eigenvector of the table itself, which is known without any sequence: the baseline that
        pooling has to beat. None where no formula is known.
    finite_size_alignment : float or None
        Mean alignment of the top eigenvector over draws at this d, where it is known: below the threshold the floor of
        order ``1/(d (1 − mu²/mu_c²)²)``, near it the crossover, far above it `alignment`; see
        :mod:`spikepool.theory.finite_size`.
    null : callable or None
        Gives the law of the top eigenvalue at mu = 0 of the same model.
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
    validity: Validity = SOUND
    sizes: Sizes | None = None
    table_alignment: float | None = None
    finite_size_alignment: float | None = None
    null: Callable[[], NullTop] | None = field(default=None, repr=False, compare=False)

    def summary(self) -> str:
        """The numbers in a few lines, with what speaks against them."""
        lines = [
            f"top eigenvector: alignment {self.alignment:.4g}, eigenvalue {self.eigenvalue:.4g} (edge {self.edge:.4g})",
            f"{'detectable' if self.detectable else 'not detectable'}: "
            f"thresholds {self.mu_population:.4g} (population), {self.mu_sample:.4g} (sample)",
        ]
        if self.table_alignment is not None:
            lines.append(f"PCA of the table itself: alignment {self.table_alignment:.4g}")
        lines += [f"{o.kind}: eigenvalue {o.eigenvalue:.4g}, alignment {o.alignment:.4g}" for o in self.outliers]
        lines += [f"caution: {reason}" for reason in self.validity.reasons]
        return "\n".join(lines)

    @property
    def eigenvalue(self) -> float:
        """Predicted largest eigenvalue of S: the top outlier, or the bulk edge."""
        return self.outliers[0].eigenvalue if self.outliers else self.edge

    @cached_property
    def noise_edge(self) -> NoiseEdge:
        """Law of the top eigenvalue under noise alone, the bulk without any outlier."""
        if self.sizes is None:
            raise InvalidInputError("this prediction does not know its sizes", remedy="Use model.predict")
        return noise_edge(self.bulk, self.kappa, self.sizes)

    def p_value(self, eigenvalue: ArrayLike) -> Any:
        """Probability that S has a larger top eigenvalue than `eigenvalue` at mu = 0 of the same model.

        Parameters
        ----------
        eigenvalue : float or array_like
            Observed largest eigenvalues of S.

        Returns
        -------
        float or numpy.ndarray
            Tracy-Widom at the edge of the bulk, or a normal law where an outlier needs no signal: the class means of a
            sampled table, the vocabulary mean of an S that is not centred. `null_top.reasons` say where the level may
            not hold.
        """
        return self.null_top.p_value(eigenvalue)

    @cached_property
    def null_top(self) -> NullTop:
        """Law of the top eigenvalue at mu = 0 of the same model; noise alone where the model is not known."""
        return NullTop((self.noise_edge,)) if self.null is None else self.null()

    @property
    def signal(self) -> Outlier | None:
        """The signal's outlier, or None when it is not detectable."""
        return next((outlier for outlier in self.outliers if outlier.kind == "signal"), None)

    @property
    def threshold_note(self) -> str | None:
        """Why a threshold is 0 or infinite, in a sentence; None where it is an ordinary number.

        The class means of a table that was drawn once differ by chance, by a vector of squared norm 4 delta. Where that
        difference alone is a spike beyond the threshold, an outlier stands out at any mu, also at 0; its alignment
        with u then grows from 0 with mu.
        """
        if not self.mu_sample < float("inf"):
            return "no signal strength makes an outlier: the weights cancel the signal"
        if self.mu_sample > 0 and self.mu_population > 0:
            return None
        where = "at this number of sequences" if self.mu_sample == 0 else "given enough sequences"
        return (
            f"the threshold is 0 because the class means of a sampled table differ by chance: {where} they form an "
            "outlier without any signal, whose alignment grows with mu"
        )

    def _record(self) -> dict[str, Any]:
        # None for a threshold that no signal strength reaches
        names = ("alpha", "kappa", "edge", "outliers", "alignment", "detectable", "mu_population", "mu_sample")
        more = ("table_alignment", "finite_size_alignment", "threshold_note")
        return record(self, *names, *more, "validity", atom_at_zero=float(self.bulk.atom))

    def _tables(self) -> list[Table]:
        title = f"Prediction: alignment {number(self.alignment)} of the top component with the signal"
        header = ("alignment", "detectable", "alpha/kappa", "bulk edge", "mu_pop", "mu_samp")
        gain = self.alpha / self.kappa
        row = (self.alignment, self.detectable, gain, self.edge, self.mu_population, self.mu_sample)
        pairs = ("outlier", "eigenvalue", "alignment", "eigenvalue, N → ∞", "alignment, N → ∞")
        rows = [
            (o.kind, o.eigenvalue, o.alignment, o.population_eigenvalue, o.population_alignment) for o in self.outliers
        ]
        return [(title, header, [row]), *([("", pairs, rows)] if rows else [])]

    def _notes(self) -> list[str]:
        return [*([] if self.outliers else ["No eigenvalue outside the bulk."]), *super()._notes()]

    def plot(self, ax: Any = None) -> Any:
        """Density of the bulk with its edge and the predicted outliers; returns the axes."""
        from spikepool.drawing.predictions import draw_prediction

        return draw_prediction(self, ax)


@dataclass(frozen=True)
class RidgePrediction(Result, schema="ridge"):
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
    validity : Validity
        Whether the number lies in the range where its theory holds, and why not.
    """

    accuracy: float
    accuracy_error: float
    mean: float
    std: float
    validity: Validity = SOUND

    def _tables(self) -> list[Table]:
        header = ("accuracy", "standard error", "mean of the score", "its deviation")
        row = (self.accuracy, self.accuracy_error, self.mean, self.std)
        return [("Ridge classifier: predicted test accuracy", header, [row])]

    def plot(self, ax: Any = None) -> Any:
        """Densities of the test score of the two classes, one at +mean and one at −mean; returns the axes."""
        from spikepool.drawing.predictions import draw_scores

        return draw_scores(self, ax)
