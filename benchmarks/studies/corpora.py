"""Labelled sequences for the benchmarks: texts from a folder or the Hugging Face hub, DNA, digits, time series.

Texts are not part of this repository. They come from

* a folder of ``NAME.csv`` or ``NAME.csv.gz`` with a header that names a column of texts and one of labels
  (``text`` and ``label``, or two names of your own), or
* with network, the Hugging Face hub: ``hub:PolyAI/banking77`` reads the Parquet files of that dataset (needs
  `huggingface-hub` and `pyarrow`).

Splice junctions lie beside this file, digits come with scikit-learn, and the series with the package aeon
(``pip install --no-deps aeon``), whose files are read directly.
"""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from encoders import package_folder

HERE = Path(__file__).resolve().parents[1]
TEXT_COLUMNS = ("text", "sentence", "utterance", "question", "content")
LABEL_COLUMNS = ("label", "intent", "category", "coarse_label", "label_text", "class")
SERIES = ("ItalyPowerDemand", "JapaneseVowels", "OSULeaf", "ElectricDevices", "ACSF1 windows", "OSULeaf arcs")
# Values per token, for series of one channel: single values have no direction to weigh.
WINDOWS = {"ItalyPowerDemand": 3, "OSULeaf": 7, "ACSF1": 7}
# Sets of few long series, cut into so many pieces of equal length: pieces of one series are a group.
PIECES = {"ACSF1 windows": 8, "OSULeaf arcs": 4}
# ElectricDevices is one long series with marked changes of regime: windows of so many values, a step apart, that lie
# within a block; blocks stay together, so that no value is seen both in training and in testing.
CHANGES, WINDOW, STEP, BLOCK, DELAY = (1090, 4436, 5712, 7923), 30, 5, 120, 3


@dataclass(frozen=True)
class Texts:
    """Distinct texts with their labels as numbers."""

    name: str
    texts: list[str]
    labels: NDArray[np.intp]

    def sample(self, rows: int, seed: int = 0) -> Texts:
        """At most `rows` of them, at random: files are often sorted by label."""
        order = np.random.default_rng(seed).permutation(len(self.texts))[:rows]
        return Texts(self.name, [self.texts[i] for i in order], self.labels[order])


@dataclass(frozen=True)
class Sequences:
    """(n, T, d) tokens, where they are, and labels; rows of one group are not independent."""

    name: str
    X: NDArray[np.floating]
    mask: NDArray[np.bool_]
    labels: NDArray[np.intp]
    groups: NDArray[np.intp] | None = None


def load_texts(name: str, folder: Path | None = None) -> Texts:
    """The corpus `name` from a folder, or ``hub:owner/dataset`` from the Hugging Face hub.

    Repeated texts are kept once, where they come last, with the label that they have first; empty ones are dropped.
    """
    if name.startswith("hub:"):
        records = _hub_records(name[4:])
        name = name[4:].replace("/", "_")
    else:
        records = _folder_records(name, folder)
    text = _column(records[0], TEXT_COLUMNS, name)
    label = _column(records[0], LABEL_COLUMNS, name)
    first = {str(r[text]): str(r[label]) for r in reversed(records) if str(r[text]).strip()}
    texts = list(first)[::-1]
    return Texts(name, texts, numbered([first[t] for t in texts]))


def numbered(labels: list[str]) -> NDArray[np.intp]:
    """Labels as numbers, in alphabetical order."""
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def _column(record: dict, known: tuple[str, ...], name: str) -> str:
    for column in known:
        if column in record:
            return column
    raise KeyError(f"{name} has columns {list(record)}; one must be called {' or '.join(known)}")


def _folder_records(name: str, folder: Path | None) -> list[dict]:
    if folder is None:
        raise FileNotFoundError(f"pass --texts FOLDER with {name}.csv or {name}.csv.gz, or --corpus hub:OWNER/NAME")
    for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv"):
        if path.exists():
            return read_csv(path)
    raise FileNotFoundError(f"no {name}.csv or {name}.csv.gz in {folder}")


def read_csv(path: Path) -> list[dict]:
    """Rows of a CSV file, compressed or not, as dictionaries."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def _hub_records(name: str) -> list[dict]:
    """All rows of the Parquet files into which the hub converts every dataset."""
    import pyarrow.parquet as parquet
    from huggingface_hub import HfApi, hf_hub_download

    where = {"repo_id": name, "repo_type": "dataset", "revision": "refs/convert/parquet"}
    files = sorted(f for f in HfApi().list_repo_files(**where) if f.endswith(".parquet"))
    configuration = files[0].split("/")[0]  # of several, the first
    chosen = [f for f in files if f.split("/")[0] == configuration]
    return [row for f in chosen for row in parquet.read_table(hf_hub_download(filename=f, **where)).to_pylist()]


def splice() -> Sequences:
    """Distinct splice-junction sequences as 58 overlapping 3-mers, one-hot in 64 features.

    A 3-mer with an ambiguous base is a token of zeros.
    """
    records = {r["sequence"].strip(): r["label"] for r in read_csv(HERE / "data" / "splice.csv.gz")}
    bases = np.array([["ACGT".find(base) for base in sequence] for sequence in records])
    kmers = 16 * bases[:, :-2] + 4 * bases[:, 1:-1] + bases[:, 2:]
    clear = (bases[:, :-2] >= 0) & (bases[:, 1:-1] >= 0) & (bases[:, 2:] >= 0)
    X = np.eye(64, dtype=np.float32)[np.where(clear, kmers, 0)] * clear[..., None]
    return Sequences("splice", X, np.ones(kmers.shape, dtype=bool), numbered(list(records.values())))


def digits() -> Sequences:
    """scikit-learn's handwritten digits, read as sequences of 8 rows of 8 pixels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = data.images.astype(np.float32)
    return Sequences("digits", images, np.ones(images.shape[:2], dtype=bool), data.target.astype(np.intp))


def series(name: str) -> Sequences:
    """A labelled set of time series bundled with aeon, train and test parts together; whole or in pieces."""
    if name == "ElectricDevices":
        return regimes(name)
    source = name.split()[0]
    cases, labels = _read_series(source)
    width, groups = WINDOWS.get(source, 1), None
    if name in PIECES:
        pieces = PIECES[name]
        length = len(cases[0]) // pieces // width * width  # whole tokens; what is left over at the end is not used
        cases = [case[i * length : (i + 1) * length] for case in cases for i in range(pieces)]
        groups = np.repeat(np.arange(len(labels)), pieces)
        labels = [label for label in labels for _ in range(pieces)]
    tokens = [case[: len(case) // width * width].reshape(-1, width * case.shape[1]) for case in cases]
    T = max(map(len, tokens))
    X = np.zeros((len(tokens), T, tokens[0].shape[1]), dtype=np.float32)
    mask = np.zeros((len(tokens), T), dtype=bool)
    for i, token in enumerate(tokens):
        X[i, : len(token)], mask[i, : len(token)] = token, True
    return Sequences(name, X, mask, numbered(labels), groups)


def _read_series(name: str) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Every series (steps, channels) of both parts, and its label."""
    folder = package_folder("aeon") / "datasets" / "data" / name
    cases: list[NDArray[np.float64]] = []
    labels: list[str] = []
    for part in ("TRAIN", "TEST"):
        for line in (folder / f"{name}_{part}.ts").read_text().splitlines():
            if not line.strip() or line[0] in "#@":
                continue
            *channels, label = line.strip().split(":")
            cases.append(np.array([[float(v) for v in channel.split(",")] for channel in channels]).T)
            labels.append(label)
    return cases, labels


def regimes(name: str) -> Sequences:
    """Windows of a long series whose label is the regime they lie in; a token is DELAY successive values.

    Windows begin anywhere in a cycle, so that a position means nothing.
    """
    path = package_folder("aeon") / "datasets" / "data" / "segmentation" / f"{name}.csv"
    values = np.array([float(line.split(",")[1]) for line in path.read_text().splitlines()])
    borders = np.concatenate([[0], CHANGES, [len(values)]])
    starts, labels, groups = [], [], []
    for label, (first, last) in enumerate(pairwise(borders)):
        for block in range(first, last, BLOCK):
            inside = range(block, min(block + BLOCK, last) - WINDOW + 1, STEP)
            starts += inside
            labels += [label] * len(inside)
            groups += [block] * len(inside)
    tokens = np.lib.stride_tricks.sliding_window_view(values, DELAY)
    X = np.stack([tokens[start : start + WINDOW - DELAY + 1] for start in starts]).astype(np.float32)
    number = np.unique(groups, return_inverse=True)[1].reshape(-1)
    return Sequences(name, X, np.ones(X.shape[:2], dtype=bool), np.array(labels, dtype=np.intp), number)
