"""Peak memory and time of `pool`, `diagnose`, `forecast` and `report` at 200,000 rows, each in a separate process.

Features are (200,000, 256) float32 in npy (205 MB); tokens are (200,000, 16, 64) float32 in Zarr (819 MB); ten classes.

    python benchmarks/speed/many_rows.py [--rows 200000]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results" / "many_rows.json"
JOBS = ("diagnose", "forecast", "pool", "report")
BLOCK = 20_000


def write_data(folder: Path, n: int) -> None:
    import zarr

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    np.save(folder / "y.npy", y)
    centres = rng.normal(size=(10, 256)).astype(np.float32)
    scale = (1 / np.arange(1, 257) ** 0.5).astype(np.float32)
    features = np.lib.format.open_memmap(folder / "f.npy", "w+", np.float32, (n, 256))
    tokens = zarr.create_array(str(folder / "t.zarr"), shape=(n, 16, 64), chunks=(5000, 16, 64), dtype="f4")
    for start in range(0, n, BLOCK):
        rows = slice(start, min(start + BLOCK, n))
        count = rows.stop - start
        features[rows] = (rng.standard_normal((count, 256), dtype=np.float32) + 0.3 * centres[y[rows]]) * scale
        noise = rng.standard_normal((count, 16, 64), dtype=np.float32)
        tokens[rows] = noise + 0.05 * centres[y[rows], None, :64]


def run(job: str, folder: Path) -> None:
    import spikepool as sp

    warnings.simplefilter("ignore")
    start = time.process_time()
    features, tokens, labels = (str(folder / name) for name in ("f.npy", "t.zarr", "y.npy"))
    if job == "diagnose":
        sp.diagnose(features)
    elif job == "forecast":
        sp.forecast(features, labels)
    elif job == "report":
        sp.report(tokens, labels)
    else:
        fitted = sp.LearnedPoolingClassifier().fit(tokens, np.load(labels))
        sp.write_pooled(fitted, tokens, folder / "pooled.npy")
    # not ru_maxrss, which a child inherits from the process that starts it
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]
    print(json.dumps({"cpu_seconds": round(time.process_time() - start, 1), "peak_MB": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--job", choices=JOBS, help="run one job on --folder and print its cost")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.job:
        run(options.job, options.folder)
        return
    found = {}
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name), options.rows)
        for job in JOBS:
            command = [sys.executable, __file__, "--job", job, "--folder", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[job] = json.loads(done.stdout.splitlines()[-1])
            print(job, found[job], flush=True)
    RESULTS.write_text(json.dumps({"rows": options.rows, "jobs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
