"""Density of the separable law at 1,000 points with 2,000 atoms: certified Newton against plain iteration.

The baseline iterates e -> delta ∫ a dH_A/(−z(1 + ẽ a)), ẽ -> ∫ t dH/(−z(1 + e t)) at z = x + 1e-6 i until the change
is below 1e-10 of e, and drops settled points. Ours starts cold each time: the support is found in the timed part.
Both are compared with a 40-digit Newton solution (mpmath) at some of the points.
Run: python benchmarks/speed/generalized.py
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np

import spikepool as sp

POINTS, ATOMS, DELTA = 1000, 2000, 0.625
HEIGHT, TOLERANCE, MAX_STEPS = 1e-6, 1e-10, 100_000
REPEATS, BASELINE_REPEATS, CHECKED = 7, 3, 12
BLOCK = 1 << 16  # points x atoms at once; larger blocks are slower for the baseline as well


def plain_iteration(a: np.ndarray, t: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Density, total of iterations over the points, and how many points did not settle."""
    z = x + 1j * HEIGHT
    e = -DELTA * a.mean() / z
    et = np.zeros_like(e)
    active, total = np.arange(len(x)), 0

    def mean(values: np.ndarray, factor: np.ndarray) -> np.ndarray:
        out = np.empty(len(factor), dtype=complex)
        step = max(1, BLOCK // len(values))
        for i in range(0, len(factor), step):
            out[i : i + step] = (values / (1 + factor[i : i + step, None] * values)).mean(axis=1)
        return out

    for _ in range(MAX_STEPS):
        total += len(active)
        zz = z[active]
        new_t = -mean(t, e[active]) / zz
        new = -DELTA * mean(a, new_t) / zz
        moved = np.abs(new - e[active]) > TOLERANCE * np.abs(new)
        e[active], et[active] = new, new_t
        active = active[moved]
        if not len(active):
            break
    m = -(1 / (1 + et[:, None] * a)).mean(axis=1) / z if len(a) * len(x) <= 1 << 22 else None
    assert m is not None
    return m.imag / np.pi, total, len(active)


def reference(a: np.ndarray, t: np.ndarray, x: float, e0: complex) -> float:
    """Density at x from a 40-digit Newton solution started at e0."""
    with mpmath.workdps(40):
        delta = mpmath.mpf(DELTA)
        A, T = [mpmath.mpf(float(v)) for v in np.unique(a)], [mpmath.mpf(float(v)) for v in t]

        def tilde(e: mpmath.mpc) -> mpmath.mpc:
            return -mpmath.fsum(v / (1 + e * v) for v in T) / len(T) / x

        def miss(e: mpmath.mpc) -> mpmath.mpc:
            et = tilde(e)
            return e + delta * mpmath.fsum(v / (1 + et * v) for v in A) / len(A) / x

        e = mpmath.findroot(miss, (mpmath.mpc(e0), mpmath.mpc(e0) * (1 + mpmath.mpf("1e-9"))), tol=1e-60, verify=False)
        if abs(miss(e)) > mpmath.mpf("1e-30") * abs(e) or e.imag <= 0:
            raise SystemExit("the reference did not converge")
        et = tilde(e)
        m = -mpmath.fsum(1 / (1 + et * v) for v in A) / len(A) / x
        return float(m.imag / mpmath.pi)


def median_time(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def compare(name: str, a: np.ndarray, t: np.ndarray) -> dict[str, float | int | str]:
    noise, usage = sp.AtomicLaw(a), sp.AtomicLaw(t)
    law = sp.GeneralizedLaw(noise, usage, DELTA)
    left, right = law.support()
    x = np.linspace(left, right, POINTS + 2)[1:-1]
    ours = median_time(lambda: sp.GeneralizedLaw(noise, usage, DELTA).pdf(x), REPEATS)
    density = law.pdf(x)
    distinct = np.unique(a)  # the baseline gets the merged atoms as well
    baseline = median_time(lambda: plain_iteration(distinct, t, x), BASELINE_REPEATS)
    plain, iterations, unsettled = plain_iteration(distinct, t, x)
    checked = np.linspace(0, POINTS - 1, CHECKED).astype(int)
    e, _ = law.boundary_values(x[checked])
    exact = np.array([reference(a, t, float(x[i]), complex(e0)) for i, e0 in zip(checked, e, strict=True)])
    return {
        "case": name,
        "points": POINTS,
        "usage_atoms": len(t),
        "noise_atoms": len(distinct),
        "newton_seconds": ours,
        "plain_iteration_seconds": baseline,
        "ratio": baseline / ours,
        "plain_iterations_per_point": iterations / POINTS,
        "plain_points_not_settled": unsettled,
        "newton_error": float(np.abs(density[checked] - exact).max()),
        "plain_error": float(np.abs(plain[checked] - exact).max()),
    }


def main() -> None:
    quantiles = (np.arange(ATOMS) + 0.5) / ATOMS
    usage = np.asarray(sp.MarchenkoPastur(0.8).ppf(quantiles))
    cases = [
        compare("isotropic noise", np.ones(ATOMS), usage),
        compare("anisotropic noise", np.linspace(0.25, 1.75, ATOMS), usage),
    ]
    for row in cases:
        print(
            f"{row['case']}: Newton {row['newton_seconds']:.3f} s,"
            f" plain iteration {row['plain_iteration_seconds']:.2f} s"
            f" ({row['plain_iterations_per_point']:.0f} steps a point, {row['plain_points_not_settled']} not settled),"
            f" ratio {row['ratio']:.0f}; error {row['newton_error']:.1e} against {row['plain_error']:.1e}"
        )
        if row["newton_error"] > 1e-9 or row["newton_error"] > row["plain_error"]:
            raise SystemExit("the Newton solution is not the more accurate one")
    target = Path(__file__).parents[1] / "results" / "generalized.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(cases, indent=2) + "\n")


if __name__ == "__main__":
    main()
