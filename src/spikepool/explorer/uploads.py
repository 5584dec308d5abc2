"""Files that people upload: checked, read by the safe loaders in a worker process, turned into a verdict."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spikepool.errors import InvalidInputError, TableFormatError
from spikepool.explorer.histogram import histogram
from spikepool.explorer.jobs import Report
from spikepool.kit.arrays import FloatArray

if TYPE_CHECKING:
    from spikepool.trust.diagnosis import Diagnosis


KINDS: dict[str, tuple[str, ...]] = {
    "features": (".npy", ".csv"),
    "table": (".npy", ".npz", ".safetensors", ".gguf", ".parquet", ".arrow", ".csv"),
}
MAX_VOCABULARY = 10_000_000
MAX_CSV_COLUMNS = 20_000
LISTED_OUTLIERS = 20
CURVE_POINTS = 240
TARGET_ALIGNMENT = 0.8


class UploadError(InvalidInputError):
    """An upload is not of a kind that can be analysed."""


def check_upload(arguments: Mapping[str, str]) -> dict[str, Any]:
    """Kind, file ending and options of an upload, from the request's arguments."""
    kind = arguments.get("kind", "")
    if kind not in KINDS:
        raise UploadError("kind must be 'features' or 'table'", kind)
    name = arguments.get("name", "").lower()
    ending = next((e for e in KINDS[kind] if name.endswith(e)), None)
    if ending is None:
        raise UploadError(f"the file must be one of {', '.join(KINDS[kind])}", name[-40:])
    text = arguments.get("V", "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= 8 and 2 <= int(text) <= MAX_VOCABULARY):
        raise UploadError(f"V must be a whole number from 2 to {MAX_VOCABULARY:,}", text)
    return {"kind": kind, "ending": ending, "V": int(text) if text else None}


def upload_task(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Read and analyse the file; runs in a worker process."""
    report(0.05, "reading the file")
    path = Path(payload["path"])
    if payload["kind"] == "table":
        return _analyse_table(path, report)
    return _analyse_features(path, payload["V"], report)


def _analyse_table(path: Path, report: Report) -> dict[str, Any]:
    from spikepool.drawing.tables import smooth_density
    from spikepool.tables import TableSpectrum, open_table

    source: Any = read_csv(path) if path.suffix == ".csv" else open_table(path)
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
    }


def _analyse_features(path: Path, V: int | None, report: Report) -> dict[str, Any]:
    from spikepool.trust.diagnosis import UncenteredWarning, diagnose

    C = read_matrix(path)
    report(0.3, "bulk, outliers and alignments")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncenteredWarning)  # it is part of the verdict below
        found = diagnose(C, V=V, target=TARGET_ALIGNMENT)
    low, high = found.bulk.support()
    x = low + (high - low) * np.linspace(0, 1, CURVE_POINTS + 2)[1:-1] ** 2
    return {
        "kind": "features",
        "shape": list(C.shape),
        "verdict": features_verdict(found),
        "edge": float(found.edge),
        "curve": [x.tolist(), np.asarray(found.bulk.pdf(x)).tolist()],
        "histogram": histogram(found.eigenvalues, float(found.edge)),
        "outlier_count": len(found.outliers),
        "outliers": [
            {
                "eigenvalue": o.eigenvalue,
                "standard_error": o.standard_error,
                "alignment": o.alignment,
                "alignment_standard_error": o.alignment_standard_error,
                "required_samples": o.required_samples,
            }
            for o in found.outliers[:LISTED_OUTLIERS]
        ],
    }


def features_verdict(found: Diagnosis) -> str:
    """What `diagnose` found, in plain words."""
    if found.verdict == "poor fit":
        text = (
            "The bulk of these features does not look like pooled noise, so neither the number of outliers nor their "
            "alignments can be trusted."
        )
    elif found.spans is not None:
        steady = [span for span in found.spans if span.k >= 5] or list(found.spans)
        listed = ", ".join(
            f"{span.overlap:.2f} for the top {span.k} ({span.interval[0]:.2f} to {span.interval[1]:.2f})"
            for span in steady
        )
        text = (
            "These features are not isotropic noise with a signal; spans of components are compared with those of the "
            f"population the rows came from. Agreement, with 90 % intervals: {listed}."
        )
    elif found.verdict == "no signal":
        text = f"Nothing stands out from the noise: with {found.n_samples:,} sequences no component can be trusted."
    else:
        top = found.outliers[0]
        count = len(found.outliers)
        text = (
            f"{count} component{'s' if count > 1 else ''} can be trusted: the top one aligns {top.alignment:.2f} "
            f"(± {top.alignment_standard_error:.2f}) with the direction behind it."
        )
        if top.required_samples is None:
            text += f" No number of sequences brings it to {found.target:g}."
        elif top.required_samples > found.n_samples:
            text += f" {top.required_samples - found.n_samples:,} more sequences bring it to {found.target:g}."
    if found.mean_is_top:
        text += " Centre the features before use: without that their mean is the top component."
    return text


def read_matrix(path: Path) -> FloatArray:
    """A matrix of numbers from .npy or .csv; nothing that could run code is loaded."""
    if path.suffix == ".csv":
        return read_csv(path)
    from spikepool.tables import open_table

    return np.concatenate(list(open_table(path).blocks()))


def read_csv(path: Path) -> FloatArray:
    """Comma-separated numbers, with or without one line of column names."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            first = file.readline(1 << 20)
        columns = first.split(",")
        if len(columns) > MAX_CSV_COLUMNS:
            raise TableFormatError(f"the file has more than {MAX_CSV_COLUMNS:,} columns", len(columns))
        values = np.loadtxt(path, delimiter=",", ndmin=2, skiprows=int(not _numeric(columns)), encoding="utf-8")
    except (ValueError, UnicodeDecodeError) as err:
        if isinstance(err, TableFormatError):
            raise
        raise TableFormatError(
            "the file is not a table of numbers separated by commas", str(err)[:120], "Save it as .npy or plain .csv"
        ) from err
    if values.size == 0 or not np.isfinite(values).all():
        raise TableFormatError("the table is empty or contains NaN or infinities", values.shape, "Repair it first")
    return values


def _numeric(cells: list[str]) -> bool:
    try:
        [float(cell) for cell in cells]
    except ValueError:
        return False
    return True
