"""Files that people upload: checked, read by the safe loaders in a worker process, turned into a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import InvalidInputError, TableFormatError
from spikepool.explorer.histogram import histogram
from spikepool.explorer.jobs import Report

FloatArray = NDArray[np.float64]

KINDS: dict[str, tuple[str, ...]] = {
    "features": (".npy", ".csv"),
    "table": (".npy", ".npz", ".safetensors", ".gguf", ".parquet", ".arrow", ".csv"),
}
MAX_VOCABULARY = 10_000_000
MAX_CSV_COLUMNS = 20_000
LISTED_OUTLIERS = 20


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
    from spikepool.tables import TableSpectrum, open_table

    source: Any = read_csv(path) if path.suffix == ".csv" else open_table(path)
    report(0.2, "spectrum, nulls and held-out check")
    spectrum = TableSpectrum(progress=False).fit(source)
    V, d = spectrum.shape_
    return {
        "kind": "table",
        "shape": [int(V), int(d)],
        "verdict": str(spectrum.verdict_),
        "edge": float(spectrum.edge_),
        "histogram": histogram(spectrum.eigenvalues_, float(spectrum.edge_)),
        "outlier_count": int(spectrum.n_outliers_),
        "outliers": [
            {"eigenvalue": o.eigenvalue, "population_eigenvalue": o.population_eigenvalue, "statistic": o.statistic}
            for o in spectrum.outliers_[:LISTED_OUTLIERS]
        ],
        "counts": {str(name): int(count) for name, count in spectrum.counts_.items()},
    }


def _analyse_features(path: Path, V: int | None, report: Report) -> dict[str, Any]:
    from spikepool.diagnosis import diagnose

    C = read_matrix(path)
    report(0.3, "bulk, outliers and alignments")
    found = diagnose(C, V=V)
    eigenvalues = np.linalg.svd(C - C.mean(axis=0), compute_uv=False) ** 2 / len(C)
    return {
        "kind": "features",
        "shape": list(C.shape),
        "verdict": str(found.verdict),
        "edge": float(found.edge),
        "histogram": histogram(eigenvalues, float(found.edge)),
        "outlier_count": len(found.outliers),
        "outliers": [
            {"eigenvalue": o.eigenvalue, "standard_error": o.standard_error, "alignment": o.alignment}
            for o in found.outliers[:LISTED_OUTLIERS]
        ],
    }


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
