"""What `diagnose` found, for people, programs, notebooks and pictures."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from spikepool.data.description import Caution
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.pages import html_table, html_text
from spikepool.kit.results import Result, plain
from spikepool.laws.free_product import FreeProductLaw
from spikepool.trust.isotropic import DiagnosedOutlier
from spikepool.trust.planning import Curve

# What the verdict and its technical words mean, printed below it.
_OUTLIERS = "the bulk is what noise of equal variances produces; an outlier is an eigenvalue beyond its edge"
_MEANINGS = {
    "signal": _OUTLIERS,
    "no signal": _OUTLIERS,
    "coloured": "coloured: variances are unequal; spans of components are compared with a simulated population",
    "poor fit": "poor fit: a simulated population does not reproduce the rows either, so no numbers are given",
}


@dataclass(frozen=True)
class Span:
    """Agreement of the span of the top k components with that of the population.

    Attributes
    ----------
    k : int
    overlap : float
        Expected ``‖P_k U_k‖²/k``: 1 for the same span, k/d for a random one.
    interval : (float, float)
        90 % interval.
    required_samples : (int, int) or None
        Independent rows between which the overlap reaches the target; None where no range is worth stating.
    """

    k: int
    overlap: float
    interval: tuple[float, float]
    required_samples: tuple[int, int] | None


@dataclass(frozen=True)
class Component:
    """One principal component.

    Attributes
    ----------
    alignment : float
        Expected squared cosine with the population's component of the same rank.
    interval : (float, float)
        90 % interval.
    resolved : bool
        Whether the interval is narrow (at most .5), the alignment at least .5, and the eigenvalue apart from its
        neighbours by more than chance. An unresolved component may be mixed with these; the span that holds them all
        may still be well known.
    eigenvalue : float
    vector : numpy.ndarray of shape (d,)
        The unit eigenvector; ``np.asarray(component)`` gives it as well.
    """

    alignment: float
    interval: tuple[float, float]
    resolved: bool
    eigenvalue: float
    vector: FloatArray = field(repr=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.vector, dtype=dtype) if copy or dtype is not None else self.vector

    def __matmul__(self, other: Any) -> Any:
        return self.vector @ np.asarray(other)

    def __rmatmul__(self, other: Any) -> Any:
        return np.asarray(other) @ self.vector


class SelfCheck(NamedTuple):
    """Agreement of random halves of the rows, observed and simulated, averaged over the spans of k >= 5."""

    observed: float
    simulated: float
    ok: bool


@dataclass(frozen=True)
class Diagnosis(Result, schema="diagnose"):
    """What :func:`spikepool.diagnose` found; print it, or use the fields.

    Attributes
    ----------
    verdict : {"signal", "no signal", "coloured", "poor fit"}
        "signal" and "no signal": the bulk is that of isotropic pooled noise, with or without outliers. "coloured": it
        is not, and spans are simulated. "poor fit": the simulation does not explain the rows either; there are
        no numbers.
    outliers : tuple of DiagnosedOutlier
        Largest first; for "signal" only.
    spans : tuple of Span, or None
        For "coloured" only: agreement of the top 1, 2, 5, 10, 20, 50 with the population the rows came from.
    components : tuple of Component
        The outliers' ("signal") or the first ten ("coloured").
    self_check : SelfCheck or None
        For "coloured" and "poor fit": (observed, simulated, ok).
    warnings : tuple of str
        What may be wrong with the rows; each has a `kind`.
    curve : Curve or None
        Overlaps against the number of rows, for "coloured".
    population : numpy.ndarray or None
        Fitted population spectrum, for "coloured".
    bulk : FreeProductLaw
        Fitted bulk of isotropic noise; ``bulk.delta`` is the vocabulary ratio, ``bulk.scale`` the noise level.
    edge, margin, distance : float
        Right edge of the bulk, the margin beyond it that noise rarely exceeds, and the Kolmogorov-Smirnov distance.
    eigenvalues : numpy.ndarray
        All of them, descending.
    mean_is_top : bool
        Whether the mean of the features is the top component of the uncentred covariance.
    isotropic : bool
        Whether the fitted bulk can be relied on.
    n_samples, n_effective : int
        Rows, and the independent rows they are worth.
    population_size : int or None
        Rows of the finite collection that spans are compared with; None for an unlimited population.
    """

    verdict: str
    outliers: tuple[DiagnosedOutlier, ...]
    spans: tuple[Span, ...] | None
    components: tuple[Component, ...]
    self_check: SelfCheck | None
    warnings: tuple[Caution, ...]
    curve: Curve | None
    population: FloatArray | None
    reason: str
    bulk: FreeProductLaw
    edge: float
    margin: float
    distance: float
    eigenvalues: FloatArray
    mean_is_top: bool
    isotropic: bool
    n_samples: int
    n_effective: int
    target: float
    population_size: int | None
    noise_variance: float | None

    def expected_spans(self, n: int) -> tuple[Span, ...]:
        """The spans expected of a sample of `n` independent rows, between a quarter of and 32 times the ones here.

        Raises
        ------
        InvalidInputError
            When the verdict is not "coloured", or `n` lies outside that range.
        """
        from spikepool.errors import DomainError, InvalidInputError

        if self.curve is None or self.spans is None:
            raise InvalidInputError(
                "spans are planned for coloured features only", self.verdict, "See outliers[i].required_samples"
            )
        n = check.size(n, "n")
        low, high = int(self.curve.rows[0]), int(self.curve.rows[-1])
        if not low <= n <= high:
            raise DomainError(f"n must lie between {low:,} and {high:,}", n, "Gather more rows to look further ahead")
        expected = zip(self.spans, *self.curve.at(n), strict=True)
        return tuple(Span(s.k, float(o), (float(lo), float(hi)), s.required_samples) for s, o, lo, hi in expected)

    def summary(self) -> str:
        """A readable report of a few lines."""
        return "\n".join([*self._head(), *self._body(), *(f"  warning: {text}" for text in self.warnings)])

    def _head(self) -> list[str]:
        d, n = len(self.eigenvalues), self.n_samples
        size = f"{n:,} rows of dimension {d:,}"
        if self.n_effective < n:
            size += f" (worth {self.n_effective:,} independent ones)"
        return [f"{self.verdict}: {size}; {self.reason}", f"  {_MEANINGS[self.verdict]}"]

    def _body(self) -> list[str]:
        if self.spans is not None:
            whole = "population the rows came from"
            if self.population_size is not None:
                whole = f"collection of {self.population_size:,} rows that these are part of"
            lines = [f"  agreement with the components of the {whole} (90 % interval):"]
            lines += [f"    {_span_text(span, self.n_effective, self.target)}" for span in self.spans]
            lines.append(f"  single: {_components_text(self.components)}")
        else:
            lines = [
                f"  {i}. eigenvalue {o.eigenvalue:.4g} ± {o.standard_error:.2g}, alignment {o.alignment:.3f} ± "
                f"{o.alignment_standard_error:.3f} (90 %: {o.interval[0]:.2f} to {o.interval[1]:.2f}); "
                f"{_samples_text(o, self.target)}"
                for i, o in enumerate(self.outliers[:8], 1)
            ]
            if len(self.outliers) > 8:
                lines.append(f"  and {len(self.outliers) - 8} more")
        if self.self_check is not None:
            observed, simulated, ok = self.self_check
            word = "ok" if ok else "not enough to rely on the simulation"
            lines.append(f"  self-check: halves of the rows agree {observed:.2f}, simulated {simulated:.2f}: {word}")
        if self.mean_is_top:
            lines.append("  the top component of the uncentred features is their mean: centre them")
        lines.append("  rows are taken as independent, unless groups= names those that belong together")
        return lines

    def _record(self) -> dict[str, Any]:
        # vectors, curve and spectrum are left to the fields
        values: dict[str, Any] = plain(
            {
                "verdict": self.verdict,
                "reason": self.reason,
                "n_samples": self.n_samples,
                "n_effective": self.n_effective,
                "dimension": len(self.eigenvalues),
                "target": self.target,
                "population_size": self.population_size,
                "spans": None if self.spans is None else [vars(span) for span in self.spans],
                "components": [
                    {name: getattr(c, name) for name in ("alignment", "interval", "resolved", "eigenvalue")}
                    for c in self.components
                ],
                "outliers": [vars(outlier) for outlier in self.outliers],
                "self_check": None if self.self_check is None else self.self_check._asdict(),
                "warnings": [{"kind": w.kind, "text": str(w)} for w in self.warnings],
                "edge": self.edge,
                "margin": self.margin,
                "distance": self.distance,
                "mean_is_top": self.mean_is_top,
                "noise_variance": self.noise_variance,
            }
        )
        return values

    def _repr_html_(self) -> str:
        if self.spans is None:
            return html_text(self.summary())
        rows = [
            (
                f"top {s.k}",
                f"{s.overlap:.2f}",
                f"{s.interval[0]:.2f} to {s.interval[1]:.2f}",
                "–" if s.required_samples is None else f"{s.required_samples[0]:,} to {s.required_samples[1]:,}",
            )
            for s in self.spans
        ]
        body = self._body()[len(self.spans) + 1 :] + [f"  warning: {text}" for text in self.warnings]
        header = ("span", "overlap", "90 % interval", f"rows for {self.target:g}")
        return html_table(header, rows, title=self._head()[0]) + html_text("\n".join(body))

    def plot(self, ax: Any = None, what: str | None = None) -> Any:
        """Draw one picture on `ax`; returns the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
        what : {"spectrum", "spans", "rows"}, optional
            "spectrum": eigenvalues with the fitted bulk or population. "spans": overlap against k with its band.
            "rows": overlap against the number of rows, past and future. The last two need a coloured verdict; "spans"
            is the default there, "spectrum" elsewhere.
        """
        from spikepool.drawing import diagnoses as draw

        return draw.draw_diagnosis(self, ax, what)


def _range(span: Span) -> str:
    return f"{span.interval[0]:.2f} to {span.interval[1]:.2f}"


def _rounded(rows: float) -> int:
    """Round to two significant digits."""
    return int(float(f"{rows:.2g}"))


def _span_text(span: Span, n: int, target: float) -> str:
    text = f"top {span.k:>2}: {span.overlap:.2f} ({_range(span)})"
    if span.required_samples is None:
        return text
    low, high = span.required_samples
    if high <= n:
        return f"{text}; {target:g} is reached"
    return f"{text}; {_rounded(low):,} to {_rounded(high):,} rows for {target:g}"


def _components_text(components: tuple[Component, ...]) -> str:
    """Intervals of the resolved components; neighbours that are unresolved are named together."""
    parts, numbers = [], list(range(1, len(components) + 1))
    for resolved, run in itertools.groupby(numbers, lambda i: components[i - 1].resolved):
        members = list(run)
        if resolved:
            parts += ["{} {:.2f} to {:.2f}".format(i, *components[i - 1].interval) for i in members]
        else:
            parts.append(f"{members[0]}{f' to {members[-1]}' if len(members) > 1 else ''} unresolved")
    return ", ".join(parts)


def _samples_text(outlier: DiagnosedOutlier, target: float) -> str:
    if outlier.required_samples is None:
        return f"no number of rows reaches {target:g}" if outlier.alignment > 0 else "too close to the edge to plan"
    return f"{outlier.required_samples} rows for {target:g}"
