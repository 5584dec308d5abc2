"""What a simulation gives: top eigenpairs of every draw, and the route by which they were found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spikepool.kit.arrays import FloatArray
from spikepool.kit.showing import html_table, mean_table, record
from spikepool.kit.statistics import standard_error


@dataclass(frozen=True)
class SimulationResult:
    """Top eigenpairs over independent draws.

    Attributes
    ----------
    eigenvalues : numpy.ndarray of shape (trials, k)
        Largest eigenvalues of S, descending.
    alignments : numpy.ndarray of shape (trials, k)
        Squared cosine of each of their eigenvectors with u.
    table_drawn : bool
        The route: whether tables were drawn, or only their products.
    """

    eigenvalues: FloatArray
    alignments: FloatArray
    table_drawn: bool

    @property
    def alignment(self) -> FloatArray:
        """Alignment of the top eigenvector with u in each trial, (trials,)."""
        return self.alignments[:, 0]

    @property
    def eigenvalue(self) -> FloatArray:
        """Largest eigenvalue in each trial, (trials,)."""
        return self.eigenvalues[:, 0]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: every eigenpair of every trial, and the route."""
        return record(self)

    def _repr_html_(self) -> str:
        return html_table(*mean_table(self.eigenvalues, self.alignments), title=f"{len(self.alignments)} draws")

    def plot(self, ax: Any = None, *, predicted: float | None = None) -> Any:
        """Alignment of the top eigenvector in each draw, with their mean, beside a prediction; returns the axes."""
        from spikepool.drawing.predictions import draw_trials

        return draw_trials(self.alignments[:, :1], ax, predicted=None if predicted is None else [predicted])


@dataclass(frozen=True)
class GridResult:
    """Top eigenpairs for several weights and signal strengths that share their draws.

    Attributes
    ----------
    names : tuple of str
        Names of the weights.
    mus : numpy.ndarray of shape (m,)
        Signal strengths.
    eigenvalues, alignments : numpy.ndarray of shape (weights, m, trials, k)
        As in :class:`SimulationResult`.
    table_drawn : bool
        As there.
    """

    names: tuple[str, ...]
    mus: FloatArray
    eigenvalues: FloatArray
    alignments: FloatArray
    table_drawn: bool

    def _repr_html_(self) -> str:
        rows = []
        for name, by_mu in zip(self.names, self.alignments[..., 0], strict=True):
            cells = [f"{draws.mean():.4g} ± {standard_error(draws):.1g}" for draws in by_mu]
            rows.append((name, *cells))
        title = f"Alignment of the top eigenvector, {self.alignments.shape[2]} draws"
        return html_table(("weights", *(f"mu = {mu:.4g}" for mu in self.mus)), rows, title=title)

    def plot(self, ax: Any = None) -> Any:
        """Alignment of the top eigenvector against mu, for each of the weights; returns the axes."""
        from spikepool.drawing.predictions import draw_grid

        return draw_grid(self.mus, self.alignments[..., 0], self.names, ax)
