"""Density of the bulk at many points: closed form against one `numpy.roots` a point.

Both sides evaluate the same law at the same points in one run; the results are compared before anything is timed.
Run: python benchmarks/speed/density.py
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import spikepool as sp

DELTA, GAMMA = 0.625, 0.5
POINTS = 100_000
BASELINE_POINTS = 10_000  # numpy.roots is timed on a tenth of the points and scaled
REPEATS = 7


def roots_density(x: np.ndarray) -> np.ndarray:
    """Im m/π from the three roots of the bulk cubic, one call of `numpy.roots` a point."""
    out = np.empty(len(x))
    for i, z in enumerate(x):
        cubic = [
            DELTA * GAMMA * z * z,
            -z * (DELTA + GAMMA - 2 * DELTA * GAMMA),
            -(z + (DELTA - 1) * (1 - GAMMA)),
            -1.0,
        ]
        out[i] = np.roots(cubic).imag.max() / np.pi
    return out


def median_time(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    law = sp.FreeProductLaw(DELTA, GAMMA)
    left, right = law.support()
    x = np.linspace(left, right, POINTS + 2)[1:-1]
    sample = x[:: POINTS // BASELINE_POINTS]
    disagreement = float(np.abs(law.pdf(sample) - roots_density(sample)).max() / law.pdf(sample).max())
    if disagreement > 1e-12:
        raise SystemExit(f"the two sides disagree by {disagreement:.2e} of the largest density")
    ours = median_time(lambda: law.pdf(x), REPEATS)
    baseline = median_time(lambda: roots_density(sample), 3) * POINTS / len(sample)
    result = {
        "points": POINTS,
        "closed_form_seconds": ours,
        "numpy_roots_seconds": baseline,
        "ratio": baseline / ours,
        "largest_difference_relative_to_peak": disagreement,
    }
    print(
        f"{POINTS} points: closed form {ours * 1e3:.2f} ms, numpy.roots {baseline:.2f} s, ratio {baseline / ours:.0f}"
    )
    print(f"largest difference {disagreement:.1e} of the peak density")
    target = Path(__file__).parents[1] / "results" / "density.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
