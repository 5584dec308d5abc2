"""Files that people upload: checked, read by the safe readers in a worker process, turned into answers.

One request carries up to three files, one after the other in its body: the rows, their labels and the mask of their
tokens. The request's arguments say how long each is and how its name ends; nothing else of a name is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.formats import suffixes
from spikepool.errors import InvalidInputError, SpikepoolError
from spikepool.explorer.histogram import histogram
from spikepool.explorer.jobs import Report

# What is uploaded by kind: the role of its rows in the registry of formats.
KINDS = {"features": "rows", "table": "table"}
LISTED_OUTLIERS = 20


class UploadError(InvalidInputError):
    """An upload is not of a kind that can be analysed."""


@dataclass(frozen=True)
class Part:
    """One file of an upload: what it is, how its name ends, and its length (None: what is left of the body)."""

    role: str
    ending: str
    size: int | None


@dataclass(frozen=True)
class Upload:
    """What a request asks for."""

    kind: str
    parts: tuple[Part, ...]
    target: float | None


def check_upload(arguments: Mapping[str, str]) -> Upload:
    """Kind, files and options of an upload, from the request's arguments."""
    kind = arguments.get("kind", "")
    if kind not in KINDS:
        raise UploadError("kind must be 'features' or 'table'", kind)
    beside = [
        Part(role, _ending(arguments[role], role, role), _length(arguments.get(f"{role}_size", ""), role))
        for role in (("labels", "mask") if kind == "features" else ())
        if arguments.get(role)
    ]
    rows = Part("data", _ending(arguments.get("name", ""), KINDS[kind], "file"), None)
    # what has a stated length comes first
    return Upload(kind, (*beside, rows), _target(arguments.get("target", "")) if kind == "features" else None)


def endings_for(role: str) -> tuple[str, ...]:
    """Endings of files that may be uploaded as `role`: those of its formats, without stores that are folders."""
    return tuple(ending for ending in suffixes((role,)) if ending != ".zarr")


def _ending(name: str, role: str, what: str) -> str:
    endings = endings_for(role)
    found = next((ending for ending in endings if name.lower().endswith(ending)), None)
    if found is None:
        raise UploadError(f"the {what} must be one of {', '.join(endings)}", name[-40:])
    return found


def _length(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) > 0):
        raise UploadError(f"the length of the {what} must be a whole number above 0", text[:40])
    return int(text)


def _target(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text) if text.isascii() and len(text) <= 12 else float("nan")
    except ValueError:
        value = float("nan")
    if not 0 < value < 1:
        raise UploadError("the target must be a number between 0 and 1", text[:40])
    return value


def upload_task(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Read and analyse the files of ``payload["paths"]``; runs in a worker process."""
    report(0.05, "reading the file")
    paths = {role: Path(path) for role, path in payload["paths"].items()}
    try:
        if payload["kind"] == "table":
            return _analyse_table(paths["data"], report)
        from spikepool.explorer.your_data import answer

        return answer(paths, payload.get("target"), report)
    except SpikepoolError as err:
        # where the server keeps its files is nobody's business
        text = str(err).replace(f"{paths['data'].parent}{os.sep}", "")
        raise SpikepoolError(text.rstrip(".")) from err


def _analyse_table(path: Path, report: Report) -> dict[str, Any]:
    from spikepool.drawing.dark import themed
    from spikepool.drawing.plotting import svg_text
    from spikepool.drawing.tables import draw, smooth_density
    from spikepool.kit.showing import html_page, plain
    from spikepool.tables import TableSpectrum, open_table
    from spikepool.tables.report import as_dict, as_html

    source = open_table(path)
    report(0.2, "spectrum, nulls and held-out check")
    fit = TableSpectrum(progress=False).fit(source)
    x, density = smooth_density(fit)
    # the curve is of the nonzero bulk alone, the histogram a share of all eigenvalues
    share = (fit.rank_ - fit.n_outliers_) / len(fit.eigenvalues_)
    return {
        "kind": "table",
        "shape": [int(size) for size in fit.shape_],
        "verdict": str(fit.verdict_),
        "edge": float(fit.edge_),
        "curve": [np.asarray(x).tolist(), (share * np.asarray(density)).tolist()],
        "histogram": histogram(fit.eigenvalues_, float(fit.edge_)),
        "outlier_count": int(fit.n_outliers_),
        "outliers": [
            {"eigenvalue": o.eigenvalue, "population_eigenvalue": o.population_eigenvalue, "distance": o.distance}
            for o in fit.outliers_[:LISTED_OUTLIERS]
        ],
        "counts": {str(name): int(count) for name, count in fit.counts_.items()},
        "record": plain(as_dict(fit)),
        "html": html_page(
            "spikepool: an embedding table", f'<div class="picture">{themed(svg_text(draw(fit)))}</div>{as_html(fit)}'
        ),
    }
