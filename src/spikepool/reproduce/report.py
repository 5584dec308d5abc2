"""The reproduction report: figures, verdicts and how they were made, in one self-contained HTML file.

Beside ``index.html`` are written the pictures (PNG and SVG) and each figure's data set (netCDF), so that any number
of the report can be looked up and any picture drawn again without computing.
"""

from __future__ import annotations

import base64
import math
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikepool import __version__
from spikepool.data.targets import check_target
from spikepool.drawing.plotting import save_figure
from spikepool.errors import MissingDependencyError, SpikepoolError, require
from spikepool.kit.files import publishing, write_text
from spikepool.kit.progress import Progress, heard_by
from spikepool.reproduce.base import SIGMAS, Check, FigureSpec, Settings
from spikepool.reproduce.errata import PublishedRow, published_rows

if TYPE_CHECKING:
    import xarray as xr

PACKAGES = ("numpy", "scipy", "scikit-learn", "xarray", "zarr", "dask", "distributed", "matplotlib")


@dataclass(frozen=True)
class Entry:
    """One figure of a report.

    Attributes
    ----------
    spec : FigureSpec
        The figure.
    checks : tuple of Check
        Its comparisons of theory with simulation.
    seconds : float
        Time to compute and draw it.
    dataset : xarray.Dataset or None
        What was computed; None when that failed.
    image : str
        The picture as a ``data:`` address, or empty.
    files : tuple of str
        Files written beside the report, relative to it.
    error : str
        Why the figure is missing, or empty.
    skipped : bool
        Whether it is missing for want of an optional dependency rather than by a failure.
    command : str
        The command that makes this figure alone.
    """

    spec: FigureSpec
    checks: tuple[Check, ...]
    seconds: float
    dataset: xr.Dataset | None
    image: str
    files: tuple[str, ...]
    error: str
    skipped: bool
    command: str

    @property
    def agrees(self) -> bool:
        """Whether every comparison that is expected to hold holds."""
        return not self.error and (self.spec.descriptive or all(c.passed for c in self.checks if c.expected))

    @property
    def status(self) -> str:
        """One of "agrees", "disagrees", "described", "skipped", "failed"."""
        if self.error:
            return "skipped" if self.skipped else "failed"
        if self.spec.descriptive:
            return "described"
        return "agrees" if self.agrees else "disagrees"

    @property
    def verdict(self) -> str:
        """The status in words."""
        if self.status == "disagrees":
            beyond = sum(check.beyond for check in self.checks if check.expected)
            return f"{beyond} of {self.markers} disagree"
        words = {"agrees": "agrees", "described": "describes data", "skipped": "not drawn", "failed": "failed"}
        return words[self.status]

    @property
    def mark(self) -> str:
        """A sign that says the status without colour."""
        return {"agrees": "✓", "disagrees": "✗", "described": "•", "skipped": "–", "failed": "✗"}[self.status]

    @property
    def markers(self) -> int:
        """Number of compared pairs, those expected to differ left out."""
        return sum(check.markers for check in self.checks if check.expected)

    @property
    def worst_sigmas(self) -> float | None:
        """Largest discrepancy beyond bias, in standard errors; None without standard errors."""
        values = [check.sigmas for check in self.checks if check.expected and check.sigmas is not None]
        return max(values, default=None)

    @property
    def worst_share(self) -> float | None:
        """Largest discrepancy as a share of what is allowed, over comparisons of every unit; up to 1 they agree."""
        values = [check.share for check in self.checks if check.expected and math.isfinite(check.share)]
        return max(values, default=None)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Comparisons expected to agree, those of them that do, and those shown because they are known to differ."""
        expected = [check for check in self.checks if check.expected]
        return len(expected), sum(check.passed for check in expected), len(self.checks) - len(expected)

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Attributes of the data set, for the report."""
        if self.dataset is None:
            return []
        return [(str(key), str(value)) for key, value in self.dataset.attrs.items()]


@dataclass(frozen=True)
class FigureReport:
    """A finished report; `path` is its HTML file."""

    path: Path
    entries: tuple[Entry, ...]
    published: tuple[PublishedRow, ...]
    settings: Settings
    seconds: float
    environment: tuple[tuple[str, str], ...] = field(default=())

    def summary(self) -> dict[str, Any]:
        """Verdicts and numbers as plain data."""
        return {
            "report": str(self.path),
            "full": self.settings.full,
            "seed": self.settings.seed,
            "seconds": self.seconds,
            "figures": [
                {
                    "number": e.spec.number,
                    "name": e.spec.name,
                    "verdict": e.status,
                    "markers": e.markers,
                    "worst_sigmas": e.worst_sigmas,
                    "worst_share_of_allowed": e.worst_share,
                    "comparisons_expected_to_agree": e.counts[0],
                    "comparisons_that_agree": e.counts[1],
                    "comparisons_known_to_differ": e.counts[2],
                    "seconds": e.seconds,
                    "error": e.error or None,
                    "checks": [asdict(check) for check in e.checks],
                }
                for e in self.entries
            ],
            "published": [asdict(row) for row in self.published],
            "environment": dict(self.environment),
        }


def make_report(
    specs: Sequence[FigureSpec], settings: Settings, out: str | Path, *, overwrite: bool = False, n_jobs: int = 1
) -> FigureReport:
    """Compute, judge and draw `specs`, and write ``index.html`` with pictures and data sets to `out`.

    A figure that fails is reported with its error and the others go on. Files of an earlier report are replaced with
    `overwrite` alone; others never are. The numbers do not depend on `n_jobs`, the number of processes: each figure
    has its own random streams.
    """
    from joblib import Parallel, delayed

    require("jinja2", "reproduce")
    directory = Path(out)
    inputs = [] if settings.table is None else [settings.table]
    for kind, file in (
        ("page", directory / "index.html"),
        *(item for spec in specs for item in _files(spec, directory)),
    ):
        check_target(file, kind, overwrite=overwrite, inputs=inputs)
    directory.mkdir(parents=True, exist_ok=True)
    start, started = time.perf_counter(), datetime.now(UTC)
    entries = []
    with Progress(len(specs), "figures") as progress:
        make = _make_entry if n_jobs == 1 else _make_silently
        runs = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(make)(spec, settings, directory, overwrite) for spec in specs
        )
        for entry in runs:
            entries.append(entry)
            progress.advance()
    seconds = time.perf_counter() - start
    errata = next((e.dataset for e in entries if e.spec.number == 8 and e.dataset is not None), None)
    report = FigureReport(
        directory / "index.html",
        tuple(entries),
        () if errata is None else published_rows(errata),
        settings,
        seconds,
        _environment(settings),
    )
    write_text(report.path, _render(report, started), overwrite=overwrite)
    return report


def _files(spec: FigureSpec, directory: Path) -> list[tuple[str, Path]]:
    """Data set and pictures of a figure, each with its kind."""
    base = f"figure-{spec.number:02d}-{spec.name}"
    pictures = [(kind, directory / "figures" / f"{base}.{kind}") for kind in ("png", "svg")]
    return [("netcdf", directory / "data" / f"{base}.nc"), *pictures]


def _make_entry(spec: FigureSpec, settings: Settings, directory: Path, overwrite: bool) -> Entry:
    start = time.perf_counter()
    checks: tuple[Check, ...] = ()
    files: tuple[str, ...] = ()
    dataset, image, error, skipped = None, "", "", False
    try:
        dataset = spec.compute(settings)
        checks = spec.judge(dataset)
        (_, data), (_, png), (_, svg) = _files(spec, directory)
        save_figure(spec.picture(dataset), png.with_suffix(""), ("png", "svg"), overwrite=overwrite)
        image = _data_address(svg)
        save_dataset(dataset, data, overwrite=overwrite)
        files = tuple(str(path.relative_to(directory)) for path in (data, png, svg))
    except MissingDependencyError as missing:
        error, skipped = str(missing), True
    except (SpikepoolError, OSError, ArithmeticError, ValueError, RuntimeError) as failure:
        # one figure's failure must not lose the others; it is reported and makes the command fail
        error = f"{type(failure).__name__}: {failure}"
    return Entry(
        spec,
        checks,
        time.perf_counter() - start,
        dataset,
        image,
        files,
        error,
        skipped,
        _command(settings, [spec.number]),
    )


def _make_silently(spec: FigureSpec, settings: Settings, directory: Path, overwrite: bool) -> Entry:
    """Make an entry without progress bars, for processes that share a terminal."""
    with heard_by(lambda _what, _share: None):
        return _make_entry(spec, settings, directory, overwrite)


def save_dataset(dataset: xr.Dataset, path: Path, *, overwrite: bool = False) -> None:
    """Write a data set as one netCDF file; read it back with ``xarray.open_dataset(path, engine="scipy")``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # netCDF 3 has no booleans and no 64-bit integers
    plain = dataset.copy()
    for name, variable in plain.variables.items():
        if variable.dtype.kind in "bi":
            plain[name] = plain[name].astype("int32")
    plain.attrs = {k: int(v) if isinstance(v, bool) else v for k, v in plain.attrs.items()}
    with publishing(path, overwrite=overwrite) as temporary:
        plain.to_netcdf(temporary, engine="scipy")


def _data_address(svg: Path) -> str:
    """The picture as an address inside the page."""
    text = svg.read_text(encoding="utf-8")
    picture = text[text.index("<svg") :]
    return "data:image/svg+xml;base64," + base64.b64encode(picture.encode()).decode("ascii")


def _command(settings: Settings, numbers: Sequence[int] = ()) -> str:
    parts = ["spikepool reproduce", *map(str, numbers)]
    if settings.full:
        parts.append("--full")
    parts.append(f"--seed {settings.seed}")
    if settings.table is not None:
        parts.append(f"--table {settings.table.name}")
    return " ".join(parts)


def _environment(settings: Settings) -> tuple[tuple[str, str], ...]:
    versions = []
    for package in PACKAGES:
        try:
            versions.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            versions.append((package, "not installed"))
    return (
        ("root seed", str(settings.seed)),
        ("streams", "numpy SeedSequence(root seed, spawn_key=(figure, part))"),
        ("scheduler", settings.scheduler or "local"),
        ("spikepool", __version__),
        ("Python", platform.python_version()),
        *versions,
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
    )


def _headline(entries: Sequence[Entry]) -> str:
    agreeing = sum(e.status == "agrees" for e in entries)
    tests = [e for e in entries if not e.spec.descriptive]
    expected, passed, known = (sum(e.counts[i] for e in tests) for i in range(3))
    parts = [
        f"{passed} of {expected} comparisons that are expected to agree do so.",
        f"{agreeing} of {len(tests)} figures agree in all of theirs.",
    ]
    if known:
        words = "comparison is shown because it is" if known == 1 else "comparisons are shown because they are"
        parts.append(f"{known} more {words} known to differ.")
    for status, one, several in (
        ("disagrees", "disagrees somewhere", "disagree somewhere"),
        ("described", "describes real data and tests no theory", "describe real data and test no theory"),
        ("failed", "failed", "failed"),
        ("skipped", "was not drawn", "were not drawn"),
    ):
        numbers = [str(e.spec.number) for e in entries if e.status == status]
        if len(numbers) == 1:
            parts.append(f"Figure {numbers[0]} {one}.")
        elif numbers:
            parts.append(f"Figures {', '.join(numbers[:-1])} and {numbers[-1]} {several}.")
    return " ".join(parts)


def _short(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    return f"{value:.2g}" if abs(value) < 10 else f"{value:,.0f}"


def _percent(share: float | None) -> str:
    if share is None or not math.isfinite(share):
        return "–"
    return f"{100 * share:.0f} %" if share < 10 else f"{share:,.0f} ×"


def _fixed(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"


def _render(report: FigureReport, started: datetime) -> str:
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["short"] = _short
    environment.filters["fixed"] = _fixed
    environment.filters["percent"] = _percent
    source = resources.files("spikepool.reproduce").joinpath("report_template.html").read_text(encoding="utf-8")
    return environment.from_string(source).render(
        entries=report.entries,
        published=report.published,
        environment=report.environment,
        command=_command(report.settings),
        headline=_headline(report.entries),
        mode="Full" if report.settings.full else "Quick",
        seed=report.settings.seed,
        started=started.strftime("%Y-%m-%d %H:%M UTC"),
        total_seconds=report.seconds,
        sigmas=SIGMAS,
        version=__version__,
    )
