"""Drawing functions: each takes a matplotlib ``ax``, draws one thing on it and returns the artists.

Nothing here computes a prediction and nothing below this module imports matplotlib. A pooling method has
one colour, one marker and one line style everywhere (:mod:`spikepool.drawing.palette`), so that figures can be compared
with one another and still be read in greyscale. Figures are made without pyplot, hence without a display, a backend or
global state.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.drawing.palette import GRID, HISTOGRAM, HISTOGRAM_RIM, INK, OUTLIERS, method_style
from spikepool.errors import InvalidInputError, ShapeError, require
from spikepool.kit import validation as check
from spikepool.kit.files import publishing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Density(Protocol):
    """A law with one density: every law of the library."""

    def support(self) -> tuple[float, float]: ...  # noqa: D102
    def pdf(self, x: ArrayLike) -> Any: ...  # noqa: D102


THEME: dict[str, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.8,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
    "svg.hashsalt": "spikepool",
    "pdf.fonttype": 42,
    "figure.constrained_layout.use": True,
}

FORMATS = ("png", "svg", "pdf")


@contextmanager
def theme() -> Iterator[None]:
    """Context in which figures get the library's look; restores the caller's settings on exit."""
    matplotlib = require("matplotlib", "plot")
    with matplotlib.rc_context(THEME):
        yield
        interactive = matplotlib.is_interactive()
    # pyplot's first figure makes a notebook interactive, which is the caller's setting and not a part of the look
    matplotlib.interactive(interactive)


def new_figure(rows: int = 1, columns: int = 1, *, width: float = 9.0, height: float = 3.6, **options: Any) -> Any:
    """A figure of the library's look and its axes as an object array of shape (rows, columns)."""
    require("matplotlib", "plot")

    with theme():
        figure = shown_figure(figsize=(width, height))
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def own_axes(ax: Any = None, *, width: float = 6.0, height: float = 3.6) -> Any:
    """`ax`, or the axes of a new pyplot figure: a notebook shows those, and ``plt.show()`` elsewhere."""
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", "plot")
    with theme():
        return pyplot.subplots(figsize=(width, height))[1]


def svg_text(figure: Figure) -> str:
    """`figure` as an ``<svg>`` element; the same figure gives the same text."""
    import io

    stream = io.StringIO()
    with theme():
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def save_figure(
    figure: Figure, path: str | Path, formats: tuple[str, ...] = ("png", "svg"), *, overwrite: bool = False
) -> list[Path]:
    """Write `figure` as ``path`` with each of the suffixes `formats`; the files carry no date, so reruns match."""
    for extension in formats:
        check.choice(extension, "format", FORMATS)
    base = Path(path)
    base.parent.mkdir(parents=True, exist_ok=True)
    written = [base.with_name(f"{base.name}.{extension}") for extension in formats]
    for target, extension in zip(written, formats, strict=True):
        write_figure(figure, target, extension, overwrite=overwrite)
    return written


def write_figure(figure: Figure, target: Path, extension: str, *, overwrite: bool = False) -> None:
    """Write `figure` to the file `target` in the format `extension`; see :func:`spikepool.kit.files.publishing`."""
    stamps = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with theme(), publishing(target, overwrite=overwrite) as temporary:
        figure.savefig(temporary, format=extension, metadata=stamps[extension])


def _pair(x: ArrayLike, y: ArrayLike, names: tuple[str, str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = check.finite_array(x, names[0], ndim=1)
    second = check.finite_array(y, names[1], ndim=1)
    if len(first) != len(second):
        raise ShapeError(
            f"{names[0]} and {names[1]} must have the same length", (len(first), len(second)), "Match them"
        )
    return first, second


def plot_theory(ax: Axes, x: ArrayLike, y: ArrayLike, method: str, *, label: str | None = None) -> Any:
    """Theoretical curve of a method: a solid line in its colour."""
    x, y = _pair(x, y, ("x", "y"))
    style = method_style(method)
    return ax.plot(x, y, color=style.color, linestyle="-", label=label)[0]


def plot_published(ax: Axes, x: ArrayLike, y: ArrayLike, method: str, *, label: str | None = None) -> Any:
    """Curve of the paper's printed formula: thin and dotted, in the method's colour."""
    x, y = _pair(x, y, ("x", "y"))
    style = method_style(method)
    return ax.plot(x, y, color=style.color, linestyle=":", linewidth=1.4, label=label)[0]


def plot_method(ax: Axes, x: ArrayLike, y: ArrayLike, method: str, *, label: str | None = None) -> Any:
    """Curve of a method in its own colour and line style, for pictures without markers."""
    x, y = _pair(x, y, ("x", "y"))
    style = method_style(method)
    return ax.plot(x, y, color=style.color, linestyle=style.linestyle, label=style.label if label is None else label)[0]


def plot_simulated(
    ax: Axes,
    x: ArrayLike,
    mean: ArrayLike,
    standard_error: ArrayLike,
    method: str,
    *,
    label: str | None = None,
    filled: bool = True,
) -> Any:
    """Simulated means as the method's markers with error bars of two standard errors."""
    x, mean = _pair(x, mean, ("x", "mean"))
    x, error = _pair(x, standard_error, ("x", "standard_error"))
    style = method_style(method)
    return ax.errorbar(
        x,
        mean,
        yerr=2 * error,
        fmt=style.marker,
        color=style.color,
        markerfacecolor=style.color if filled else "white",
        markeredgecolor=style.color,
        elinewidth=1.0,
        capsize=1.8,
        linestyle="none",
        label=label,
        zorder=3,
    )


def plot_histogram(ax: Axes, eigenvalues: ArrayLike, bins: ArrayLike, total: int | None = None) -> Any:
    """Density histogram of eigenvalues.

    Bars have the mass of the eigenvalues that fall in `bins` as a share of `total`, so that outliers left
    outside the picture do not inflate the rest.
    """
    values = check.finite_array(eigenvalues, "eigenvalues").ravel()
    edges = check.finite_array(bins, "bins", ndim=1)
    if len(edges) < 2 or np.any(np.diff(edges) <= 0):
        raise InvalidInputError("bins must be increasing edges, at least two", edges, "Pass np.linspace(...)")
    counts, _ = np.histogram(values, bins=edges)
    heights = counts / (np.diff(edges) * (len(values) if total is None else check.size(total, "total")))
    return ax.stairs(heights, edges, fill=True, color=HISTOGRAM, edgecolor=HISTOGRAM_RIM, linewidth=0.4)


def plot_density(ax: Axes, law: Density, points: int = 600, **line: Any) -> Any:
    """Density of a spectral law over its support, densest near the edges, where it varies fastest."""
    lower, upper = law.support()
    t = np.linspace(0.0, 1.0, check.size(points, "points", minimum=2) + 2)[1:-1]
    x = lower + (upper - lower) * np.sin(np.pi * t / 2) ** 2
    return ax.plot(x, law.pdf(x), **{"color": INK, **line})[0]


def mark_edge(ax: Axes, edge: float, *, label: str | None = "bulk edge $\\lambda_+$") -> Any:
    """Dotted vertical line at the right edge of the bulk."""
    return ax.axvline(check.finite_number(edge, "edge"), color=INK, linestyle=(0, (1, 1.5)), linewidth=1.3, label=label)


def mark_outlier(ax: Axes, eigenvalue: float, kind: str, *, label: str | None = None) -> Any:
    """Vertical line at a predicted outlier: solid for the signal's, broken for the mean's and a frequent token's."""
    check.choice(kind, "kind", tuple(OUTLIERS))
    color, style = OUTLIERS[kind]
    return ax.axvline(
        check.finite_number(eigenvalue, "eigenvalue"),
        color=color,
        linestyle=style,
        linewidth=1.3,
        label=label,
    )


def mark_observed(ax: Axes, eigenvalues: ArrayLike, *, label: str | None = None) -> Any:
    """Observed top eigenvalues as open diamonds just above the axis."""
    values = check.finite_array(eigenvalues, "eigenvalues").ravel()
    return ax.plot(
        values,
        np.full(len(values), 0.035),
        transform=ax.get_xaxis_transform(),
        linestyle="none",
        marker="d",
        markersize=6,
        markerfacecolor="white",
        markeredgecolor=INK,
        label=label,
        zorder=4,
        clip_on=False,
    )[0]


def plot_phase_diagram(ax: Axes, mu: ArrayLike, ratio: ArrayLike, alignment: ArrayLike) -> Any:
    """Heat map of alignment, rows along `ratio` (vertical axis) and columns along `mu`; returns the mesh."""
    columns = check.finite_array(mu, "mu", ndim=1)
    rows = check.finite_array(ratio, "ratio", ndim=1)
    values = check.finite_array(alignment, "alignment", ndim=2)
    if values.shape != (len(rows), len(columns)):
        raise ShapeError("alignment must have one row per ratio and one column per mu", values, "Transpose it")
    ax.grid(False)
    return ax.pcolormesh(columns, rows, values, cmap="viridis", vmin=0, vmax=1, shading="gouraud", rasterized=True)


def panel_label(ax: Axes, letter: str, title: str) -> Any:
    """Title of a panel, ``(a) ...``, flush left."""
    return ax.set_title(f"({letter}) {title}", loc="left")


def shown_figure(**options: Any) -> Figure:
    """A matplotlib figure that a notebook shows although pyplot did not make it.

    A figure of pyplot is shown by the notebook's backend; one made without it would appear as its ``repr``.
    """
    from matplotlib.figure import Figure

    figure = Figure(**options)
    figure.__dict__["_repr_png_"] = partial(_png, figure)  # the method by which notebooks ask an object for its picture
    return figure


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    return stream.getvalue()
