"""Spectrum of a 50257 x 768 float32 table: streaming Gram against numpy.linalg.svd of the centred table.

Each side runs in a separate process, starts from the same safetensors file and ends with the 768 eigenvalues of the
covariance. Time is from opening the file to the eigenvalues. Memory is the peak resident size of the process less what
it held after its imports, so it counts the table where a side loads it. Baselines:

* svd: ``numpy.linalg.svd(E - E.mean(0), full_matrices=False)`` in float32, the usual call;
* svd values: the same with ``compute_uv=False``, the least numpy can do;
* svd float64: values only in double precision, the reference for accuracy.

    python benchmarks/speed/tables.py [--repeats 3] [--threads 1]
"""

from __future__ import annotations

import argparse
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
    from spikepool.tables.gram import half_moments

    np.linalg.svd(np.eye(64))  # BLAS allocates its buffers on first use; they are not the method's
    before = peak_kilobytes()
    start = time.perf_counter()
    if side == "ours":
        eigenvalues = half_moments(open_table(path), np.random.default_rng(0), split=False)[0].eigenvalues()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads of every side")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        measure(options.side, options.path)
        return
    threads = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "OPENBLAS", "MKL")}
    target = Path(__file__).parents[1] / "results" / "tables.json"
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
    report = {
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
