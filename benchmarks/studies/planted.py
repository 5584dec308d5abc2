"""Planted outliers in coloured noise: how often is the right number found, over d/V and sizes?

Tables of Gaussian rows whose variances are drawn log-uniformly over [.2, 5], with and without three spikes in the
population, each a stated multiple of its detection threshold ℓ, c ∫ t²/(ℓ − t)² dH = 1. Beside `TableSpectrum`: an
oracle that knows the population and counts beyond the true edge at the 99 % Tracy-Widom level, which no method that
has to estimate the edge can beat by much, and white Marchenko-Pastur at the same level.

    python benchmarks/studies/planted.py [--draws 100] [--quick]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import spikepool as sp

TRACY_WIDOM_99 = 2.0234
SPREAD, EQUAL, STRONG = (1.5, 2.0, 3.0), (1.5, 1.5, 1.5), (2.0, 2.5, 3.0)
# (d, V): the ratios .01, .1, .5, 1.5 at d = 300, and larger tables where 200 x 300 is too small for the oracle;
# the last has as many entries as the first.
SIZES = [(300, 3000), (300, 600), (300, 200), (300, 30000), (900, 600), (1162, 775)]


def critical_value(population: np.ndarray, ratio: float) -> float:
    """Detection threshold of a population spike."""
    top = population.max()
    return float(
        brentq(lambda s: 1 - ratio * np.mean((population / (s - population)) ** 2), top * (1 + 1e-9), 50 * top)
    )


def oracle_threshold(population: np.ndarray, ratio: float, n: int) -> float:
    """True edge plus the 99 % Tracy-Widom margin."""
    s = critical_value(population, ratio)
    edge = s + ratio * s * np.mean(population / (s - population))
    scale = np.cbrt(s**3 + ratio * np.mean((population * s / (s - population)) ** 3)) * n ** (-2 / 3)
    return float(edge + TRACY_WIDOM_99 * scale)


def table(d: int, V: int, multiples: tuple[float, ...], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A (V, d) table with a mean, and its noise population."""
    noise = np.exp(rng.uniform(np.log(0.2), np.log(5), d - len(multiples)))
    spikes = np.array(multiples) * critical_value(noise, d / V)
    E = rng.standard_normal((V, d), dtype=np.float32)
    E *= np.sqrt(np.concatenate([spikes, noise])).astype(np.float32)
    E += rng.standard_normal(d, dtype=np.float32)
    return E, noise


def run(d: int, V: int, multiples: tuple[float, ...], draws: int) -> dict[str, object]:
    found, oracle, white = [], [], []
    start = time.perf_counter()
    for draw in range(draws):
        rng = np.random.default_rng([d, V, draw, *(int(10 * m) for m in multiples)])
        E, noise = table(d, V, multiples, rng)
        fit = sp.TableSpectrum(null_draws=0, repetitions=0, influential=0).fit(E)
        found.append(fit.n_outliers_)
        oracle.append(int(np.sum(fit.eigenvalues_ > oracle_threshold(noise, d / V, V))))
        white.append(fit.counts_["white"])
    planted = len(multiples)
    return {
        "d": d,
        "V": V,
        "ratio": d / V,
        "multiples": list(multiples),
        "draws": draws,
        "right": int(np.sum(np.array(found) == planted)),
        "oracle_right": int(np.sum(np.array(oracle) == planted)),
        "counts": {str(k): int(v) for k, v in zip(*np.unique(found, return_counts=True), strict=True)},
        "white_median": float(np.median(white)),
        "seconds_each": (time.perf_counter() - start) / draws,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="the four ratios at d = 300, spikes at 1.5, 2, 3")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    path = Path(__file__).parents[1] / "results" / "planted.json"
    path.parent.mkdir(exist_ok=True)
    print(f"{'d':>5} {'V':>6} {'d/V':>5} {'spikes/threshold':>17} {'right':>9} {'oracle':>7} {'white MP':>9}")
    for d, V in SIZES[:4] if options.quick else SIZES:
        extra = () if options.quick else (EQUAL, STRONG) if d > V else (EQUAL,)
        for multiples in ((), SPREAD, *extra):
            row = run(d, V, multiples, options.draws)
            rows.append(row)
            label = " ".join(f"{m:g}" for m in multiples) or "none"
            print(
                f"{d:5d} {V:6d} {d / V:5.2f} {label:>17} {row['right']:4d}/{options.draws:4d} {row['oracle_right']:7d} "
                f"{row['white_median']:9.0f}",
                flush=True,
            )
            result = {"machine": platform.machine(), "python": platform.python_version(), "rows": rows}
            path.write_text(json.dumps(result, indent=1) + "\n")  # after each row: the whole takes long


if __name__ == "__main__":
    main()
