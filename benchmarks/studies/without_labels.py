"""Mean-pooled embeddings for similarity, without labels: raw or centred, by layer.

    python benchmarks/studies/without_labels.py FILE.csv.gz [FILE.csv.gz ...]

Files have the columns text and label. 1,500 texts of each are encoded with MiniLM; the score is the share of the ten
nearest texts (cosine) that have the class of the text itself. Labels are used for this score only.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

import spikepool as sp

RESULTS = Path(__file__).parents[1] / "results" / "without_labels.json"
NEAREST, ROWS = 10, 1500


def precision(features: np.ndarray, labels: np.ndarray) -> float:
    """Share of the ten nearest rows of the same class, over all rows."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    similar = unit @ unit.T
    np.fill_diagonal(similar, -np.inf)
    nearest = np.argpartition(-similar, NEAREST, axis=1)[:, :NEAREST]
    return float(np.mean(labels[nearest] == labels[:, None]))


def measure(path: Path) -> dict[str, list[float]]:
    """Precision by layer, of the mean as it is and with the mean of all texts subtracted."""
    table = pd.read_csv(path).sample(ROWS, random_state=0)
    encoded = sp.encode(list(table["text"]), layers="all", progress=False)
    labels = np.unique(table["label"].to_numpy(), return_inverse=True)[1]
    weights = encoded.mask / encoded.mask.sum(axis=1, keepdims=True)
    pooled = np.einsum("nltd,nt->lnd", encoded.X, weights)
    return {
        "raw": [precision(layer, labels) for layer in pooled],
        "centred": [precision(layer - layer.mean(axis=0), labels) for layer in pooled],
    }


def main() -> None:
    """Measure the files given, print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    files = parser.parse_args().files
    if not files:
        raise SystemExit("needs files of labelled texts: pass CSV files with the columns text and label")
    results = {path.name.split(".")[0]: measure(path) for path in files}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print("| texts | last layer | centred | best layer, centred |")
    print("| --- | --- | --- | --- |")
    for name, scores in results.items():
        best = int(np.argmax(scores["centred"]))
        cells = (scores["raw"][-1], scores["centred"][-1], scores["centred"][best])
        print(f"| {name} | {cells[0]:.3f} | {cells[1]:.3f} | {cells[2]:.3f} ({best}) |")


if __name__ == "__main__":
    main()
