"""SpectralPooling on Zarr with two worker processes: rows a second, memory, and the time of merely reading.

    python benchmarks/speed/scale.py                       # 10,000, 100,000 and 400,000 rows of 32 x 384 half floats
    python benchmarks/speed/scale.py --rows 4000 10000     # a quick look, nothing stored

Stores (2.4 GB for 100,000 rows) are made in a temporary folder and removed. Each size is fitted on a
``distributed.LocalCluster`` of two processes with one thread each; "read" loads every chunk through the same cluster
and Dask and drops it, and takes turns with the fits. A fit is a pass over the rows and a conclusion from those that it
keeps; the time of the latter, a fit to these rows in memory, does not depend on the number of rows. The ratio to
reading counts both, and the exponent is that of the pass. Memory is the peak resident size of the driver and of each
worker, sampled every 20 ms. Once a worker process is killed in the middle of another pass, and the result must
be the same. A prefix is fitted from a store with other chunks and in memory; the two must agree to 1e-10.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import spikepool as sp
from spikepool.data.tokens import TokenForm
from spikepool.pooling.spectral import probe_stride

RESULTS = Path(__file__).parents[1] / "results" / "scale.json"
ROWS = (10_000, 100_000, 400_000)
T, D, SHARED, CHUNK = 32, 384, 8, 1000
PREFIX = 3000
LARGEST_RATIO, LARGEST_GIGABYTES, EXPONENT_TOLERANCE = 4.0, 1.5, 0.1


def make_store(path: Path, n: int) -> None:
    """Token embeddings (n, T, D) in half floats, chunk by chunk; the first positions share a sign."""
    import zarr

    array = zarr.create_array(path, shape=(n, T, D), chunks=(CHUNK, T, D), dtype="float16")
    # one pool of noise, shifted from row to row: drawing all of it would take longer than everything else
    pool = np.random.default_rng(0).standard_normal((CHUNK + 997, T, D), dtype=np.float32)
    direction = np.zeros(D, dtype=np.float32)
    direction[0] = 1.0
    for start in range(0, n, CHUNK):
        rng = np.random.default_rng([1, start])
        rows = min(CHUNK, n - start)
        shift = int(rng.integers(997))
        signs = rng.choice(np.float32([-1, 1]), size=(rows, T))
        signs[:, :SHARED] = signs[:, :1]
        block = pool[shift : shift + rows] * np.float32(rng.uniform(0.9, 1.1)) + signs[..., None] * direction
        array[start : start + rows] = block.astype(np.float16)


class PeakMemory:
    """Peak resident size of processes while inside, in gigabytes."""

    def __init__(self, pids: dict[str, int]) -> None:
        import psutil

        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self.peak = dict.fromkeys(pids, 0.0)
        self._end = threading.Event()

    def _watch(self) -> None:
        import psutil

        while not self._end.wait(0.02):
            for name, process in self._processes.items():
                with contextlib.suppress(psutil.Error):
                    self.peak[name] = max(self.peak[name], process.memory_info().rss / 1e9)

    def __enter__(self) -> PeakMemory:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        self._thread.join()


def worker_pids(client: Any) -> dict[str, int]:
    return {f"worker {i}": pid for i, pid in enumerate(client.run(os.getpid).values())}


def read_through_dask(path: Path) -> float:
    """Seconds to load every chunk on the cluster, keeping one number of each."""
    import dask.array as da

    start = time.perf_counter()
    da.from_zarr(path).map_blocks(lambda block: block[:, :1, :1].sum(axis=0)[None], chunks=(1, 1, 1)).compute()
    return time.perf_counter() - start


def cpu_seconds(pids: dict[str, int]) -> float:
    """Processor time that the processes have used."""
    import psutil

    times = [psutil.Process(pid).cpu_times() for pid in pids.values()]
    return sum(time.user + time.system for time in times)


def measure(path: Path, client: Any, repeats: int) -> dict[str, Any]:
    """Times of reading and fitting, which take turns, and the peak memory of the fits."""
    import zarr

    reads, passes, conclusions, processor = [], [], [], []
    stored = zarr.open_array(path, mode="r")
    kept = stored[:: probe_stride(stored.shape[0], TokenForm(T, D, None))]
    pids = {"driver": os.getpid(), **worker_pids(client)}
    with PeakMemory(pids) as memory:
        for _ in range(repeats):
            reads.append(read_through_dask(path))
            start, start_cpu = time.perf_counter(), cpu_seconds(pids)
            pooling = sp.SpectralPooling(progress=False).fit(path)
            middle, middle_cpu = time.perf_counter(), cpu_seconds(pids)
            sp.SpectralPooling(progress=False).fit(kept)
            conclusions.append(time.perf_counter() - middle)
            passes.append(max(middle - start - conclusions[-1], 1e-3))
            processor.append(max(2 * middle_cpu - start_cpu - cpu_seconds(pids), 1e-3))
    ratios = [(p + c) / r for p, c, r in zip(passes, conclusions, reads, strict=True)]
    return {
        "read_seconds": min(reads),
        "pass_seconds": min(passes),
        "pass_cpu_seconds": min(processor),
        "conclusion_seconds": min(conclusions),
        "ratio": float(np.median(ratios)),
        "ratios": ratios,
        "gigabytes": memory.peak,
        "pooling": pooling,
    }


def check_prefix(path: Path) -> float:
    """Largest difference between a prefix fitted from its store and in memory."""
    import zarr

    x = zarr.open_array(path, mode="r")[:PREFIX]
    prefix = path.with_name("prefix.zarr")
    zarr.create_array(prefix, shape=x.shape, chunks=(700, T, D), dtype=x.dtype)[:] = x
    stored, dense = sp.SpectralPooling().fit(prefix), sp.SpectralPooling().fit(x)
    shutil.rmtree(prefix)
    return max(
        float(np.abs(getattr(stored, name) - getattr(dense, name)).max()) for name in ("weights_", "correlation_")
    )


def check_killed_worker(path: Path, client: Any, expected: Any, seconds: float) -> float:
    """Largest difference of a fit during which a worker process is killed."""
    import psutil

    victim = psutil.Process(next(iter(worker_pids(client).values())))
    timer = threading.Timer(seconds / 2, victim.kill)
    timer.start()
    found = sp.SpectralPooling(progress=False).fit(path)
    timer.join()
    if victim.is_running():
        raise SystemExit("the worker was not killed")
    return float(np.abs(found.correlation_ - expected.correlation_).max())


def exponents(found: list[dict[str, Any]]) -> dict[str, float]:
    """Slopes of log time in log rows: elapsed time and processor time of the pass."""
    rows = np.log([row["rows"] for row in found])
    names = ("pass_seconds", "pass_cpu_seconds")
    return {name: float(np.polyfit(rows, np.log([row[name] for row in found]), 1)[0]) for name in names}


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--kill", type=int, default=100_000, help="Rows at which a worker is killed in another fit.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="Where to make the stores; a temporary folder by default.")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spikepool-scale-", dir=options.folder))
    found: list[dict[str, Any]] = []
    print("    rows   read s   pass s    cpu s  concl s  ratio    rows/s  driver GB  workers GB")
    try:
        for n in options.rows:
            path = folder / f"{n}.zarr"
            make_store(path, n)
            # a new cluster for every size: the peak of one is not that of another
            with (
                LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                sp.SpectralPooling(progress=False).fit(np.zeros((4, T, D)))  # imports are not what is measured
                client.run(lambda: __import__("spikepool.pooling.spectral"))
                row = {"rows": n, **measure(path, client, options.repeats)}
                pooling = row.pop("pooling")
                row["prefix_difference"] = check_prefix(path)
                if n == options.kill:
                    row["killed_difference"] = check_killed_worker(path, client, pooling, row["pass_seconds"])
            row["decision"] = pooling.decision_
            row["rows_per_second"] = n / row["pass_seconds"]
            found.append(row)
            peak = row["gigabytes"]
            workers = max(value for name, value in peak.items() if name != "driver")
            print(
                f"{n:8d} {row['read_seconds']:8.2f} {row['pass_seconds']:8.2f} {row['pass_cpu_seconds']:8.2f} "
                f"{row['conclusion_seconds']:8.2f} {row['ratio']:6.2f} {row['rows_per_second']:9.0f} "
                f"{peak['driver']:10.2f} {workers:11.2f}",
                flush=True,
            )
            shutil.rmtree(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if len(found) > 1:
        for name, exponent in exponents(found).items():
            print(f"exponent in rows of {name}: {exponent:.3f}")
    if options.rows == list(ROWS):
        RESULTS.parent.mkdir(exist_ok=True)
        report = {"T": T, "d": D, "dtype": "float16", "cpus": os.cpu_count(), "sizes": found} | exponents(found)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    for row in found:
        if "killed_difference" in row:
            print(f"a worker killed at {row['rows']} rows: same fit to {row['killed_difference']:.1e}")
    print(f"store and memory agree on {PREFIX} rows to {max(row['prefix_difference'] for row in found):.1e}")
    failures = [f"{row['rows']} rows: differs from memory" for row in found if row["prefix_difference"] > 1e-10]
    failures += [
        f"{row['rows']} rows: differs after a kill" for row in found if row.get("killed_difference", 0) > 1e-10
    ]
    failures += [
        f"{row['rows']} rows: more than {LARGEST_GIGABYTES} GB"
        for row in found
        if max(row["gigabytes"].values()) > LARGEST_GIGABYTES
    ]
    failures += [
        f"{row['rows']} rows: more than {LARGEST_RATIO} times reading"
        for row in found
        if row["rows"] >= 100_000 and row["ratio"] > LARGEST_RATIO
    ]
    if len(found) > 2 and abs(exponents(found)["pass_cpu_seconds"] - 1) > EXPONENT_TOLERANCE:
        failures.append("the work is not proportional to rows")
    if failures:
        raise SystemExit("; ".join(failures))


if __name__ == "__main__":
    main()
