"""Three laws that freealg has too: density against a 40-digit root of the defining polynomial, and time.

    pip install freealg mpmath && python benchmarks/studies/freealg_laws.py

Marchenko–Pastur at gamma = 1/2; the free product of two Marchenko–Pastur laws at delta = gamma = 1 (Fuss–Catalan,
p = 2); and a covariance whose population has two levels (compound free Poisson). Each density is taken at 200
points inside the support with default arguments. Errors are median and largest over the points, relative to the largest
density; times are the median of five calls, the first not counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import mpmath
import numpy as np

import spikepool as sp

try:
    import freealg
    from freealg import distributions
except ImportError as error:
    raise SystemExit(f"{error}: pip install freealg") from None

mpmath.mp.dps = 40
POINTS = 200
HALF = mpmath.mpf(1) / 2


def density(coefficients: Callable[[mpmath.mpf], list[mpmath.mpf]], x: float) -> float:
    """Im m / pi of the root of the polynomial in m with the largest imaginary part."""
    roots = mpmath.polyroots(coefficients(mpmath.mpf(x)), maxsteps=500, extraprec=200)
    return float(max(root.imag for root in roots) / mpmath.pi)


def marchenko_pastur(x: mpmath.mpf) -> list[mpmath.mpf]:
    """The law with gamma = 1/2: gamma x m² + (x + gamma − 1) m + 1 = 0."""
    return [x / 2, x - HALF, mpmath.mpf(1)]


def fuss_catalan(x: mpmath.mpf) -> list[mpmath.mpf]:
    """x² m³ = 1 + x m: the moments are 1, 1, 3, 12, 55, …"""
    return [x * x, mpmath.mpf(0), -x, mpmath.mpf(-1)]


LEVELS, SHARES, DELTA = (1.0, 4.0), (0.7, 0.3), 0.4


def two_levels(x: mpmath.mpf) -> list[mpmath.mpf]:
    """−1/m = x − sum_i w_i t_i/(1 + delta t_i m), times the denominators: the usage with two levels and unit noise."""
    a, b = (mpmath.mpf(DELTA) * level for level in LEVELS)
    wa, wb = (mpmath.mpf(share) * level for share, level in zip(SHARES, LEVELS, strict=True))
    # 1 + x m − m [wa (1 + b m) + wb (1 + a m)] / ((1 + a m)(1 + b m)) = 0
    return [x * a * b, a * b + x * (a + b) - (wa * b + wb * a), (a + b) + x - (wa + wb), mpmath.mpf(1)]


def timed(function: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """The values and the median milliseconds of five calls after a first one."""
    values = np.asarray(function(), dtype=float)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return values, 1e3 * statistics.median(times)


def main() -> None:
    """Print one row for each law."""
    delta = DELTA
    cases = {
        "Marchenko–Pastur, gamma = .5": (
            sp.MarchenkoPastur(0.5),
            distributions.MarchenkoPastur(0.5),
            marchenko_pastur,
        ),
        "free product, delta = gamma = 1": (sp.FreeProductLaw(1.0, 1.0), distributions.FussCatalan(p=2), fuss_catalan),
        "two levels, delta = .4": (
            sp.GeneralizedLaw(sp.AtomicLaw([1.0]), sp.AtomicLaw(LEVELS, weights=SHARES), delta),
            distributions.CompoundFreePoisson([delta * level for level in LEVELS], list(SHARES), 1 / delta),
            two_levels,
        ),
    }
    print(f"spikepool {sp.__version__}, freealg {freealg.__version__}; {POINTS} points")
    print("| law | error, spikepool | error, freealg | ms, spikepool | ms, freealg |")
    print("| --- | --- | --- | --- | --- |")
    for name, (ours, theirs, polynomial) in cases.items():
        low, high = (float(end) for end in (ours.intervals()[0, 0], ours.intervals()[-1, 1]))
        x = low + (high - low) * np.linspace(0.02, 0.98, POINTS)
        truth = np.array([density(polynomial, value) for value in x])
        (a, fast), (b, slow) = timed(lambda law=ours, x=x: law.pdf(x)), timed(lambda law=theirs, x=x: law.density(x))
        scale = truth.max()
        errors = [np.abs(values - truth) / scale for values in (a, b)]
        shown = [f"{np.median(error):.0e}, {error.max():.0e}" for error in errors]
        print(f"| {name} | {shown[0]} | {shown[1]} | {fast:.2g} | {slow:.2g} |")


if __name__ == "__main__":
    main()
