"""Random spectral laws, each held to what defines it: mass, equation, monotone cdf, inverse quantiles.

    python benchmarks/studies/laws_campaign.py --laws 2000 --out benchmarks/results/laws_campaign.json

A third are the closed laws, the rest `GeneralizedLaw` with populations of one atom to hundreds, continuous laws, and
mixtures, over ten decades of delta. Prints failures, refusals (named errors) and a table by kind of law.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import spikepool as sp


def population(rng: np.random.Generator) -> tuple[str, Any]:
    """A random population law and its kind."""
    kind = str(
        rng.choice(["one atom", "few atoms", "many atoms", "close atoms", "wide atoms", "zero atom", "continuous"])
    )
    if kind == "one atom":
        return kind, sp.AtomicLaw([float(np.exp(rng.normal(0, 2)))])
    if kind == "few atoms":
        return kind, sp.AtomicLaw(*few(rng, 1.5))
    if kind == "many atoms":
        return kind, sp.AtomicLaw(np.exp(rng.normal(0, 1.0, rng.integers(20, 300))))
    if kind == "close atoms":
        base = np.exp(rng.normal(0, 1.0, rng.integers(1, 4)))
        jitter = 1 + 10.0 ** rng.uniform(-13, -2) * rng.standard_normal((len(base), rng.integers(2, 5)))
        return kind, sp.AtomicLaw(np.abs(base[:, None] * jitter).ravel())
    if kind == "wide atoms":
        return kind, sp.AtomicLaw(*few(rng, 5.0))
    if kind == "zero atom":
        values, weights = few(rng, 1.0)
        return kind, sp.AtomicLaw(np.append(values, 0.0), np.append(weights * 0.5, 0.5))
    if rng.random() < 0.5:
        return kind, sp.MarchenkoPastur(float(np.exp(rng.normal(0, 1.0))), scale=float(np.exp(rng.normal(0, 1))))
    return kind, sp.FreeProductLaw(*np.exp(rng.normal(0, 1.0, 2)), scale=float(np.exp(rng.normal(0, 1))))


def few(rng: np.random.Generator, spread: float) -> tuple[np.ndarray, np.ndarray]:
    count = int(rng.integers(2, 6))
    return np.exp(rng.normal(0, spread, count)), rng.dirichlet(np.ones(count))


def random_law(rng: np.random.Generator) -> tuple[str, Any]:
    """Law number i of the campaign."""
    which = rng.random()
    if which < 0.1:
        return "Marchenko-Pastur", sp.MarchenkoPastur(
            float(10 ** rng.uniform(-4, 4)), scale=float(10 ** rng.uniform(-3, 3))
        )
    if which < 0.3:
        ratios = 10 ** rng.uniform(-4, 4, 2)
        return "free product", sp.FreeProductLaw(*ratios, scale=float(10 ** rng.uniform(-3, 3)))
    noise_kind, noise = population(rng)
    usage_kind, usage = population(rng)
    delta = float(10 ** rng.uniform(-2, 2)) if rng.random() < 0.8 else float(10 ** rng.uniform(-5, 5))
    return f"{noise_kind} x {usage_kind}", sp.GeneralizedLaw(noise=noise, usage=usage, delta=delta)


def equation_error(law: Any, z: np.ndarray) -> float:
    """Largest relative residual at complex points of the equation that defines the law's Stieltjes transform."""
    m = law.stieltjes(z)
    if isinstance(law, sp.GeneralizedLaw):
        return float(np.abs(iterated(law, z) / m - 1).max())
    if isinstance(law, sp.MarchenkoPastur):
        c, k = law.ratio, law.scale
        return float(np.abs(c * k * z * m**2 + (z + k * (c - 1)) * m + 1).max() / 1.0)
    d, g, k = law.delta, law.gamma, law.scale
    terms = (
        d * g * k * z**2 * m**3,
        -k * z * (d + g - 2 * d * g) * m**2,
        -(z + k * (d - 1) * (1 - g)) * m,
        -np.ones_like(m),
    )
    return float((np.abs(sum(terms)) / np.max(np.abs(terms), axis=0)).max())


def transform(law: Any, e: np.ndarray) -> np.ndarray:
    """∫ a/(1 + e a) dH(a) and ∫ dH/(1 + e a), from atoms or the Stieltjes transform."""
    if isinstance(law, sp.AtomicLaw):
        share = law.weights / (1 + e[:, None] * law.values)
        return np.array([share @ law.values, share.sum(axis=1)])
    whole = law.stieltjes(-1 / e) / e
    return np.array([(1 - whole) / e, whole])


def iterated(law: Any, z: np.ndarray, steps: int = 100_000) -> np.ndarray:
    """m(z) by plain iteration of the two equations, which contracts in the upper half plane: slow, and never lost."""
    e = -law.delta * law.noise.mean() / z
    for _ in range(steps):
        et = transform(law.usage, e)[0] / -z
        fresh = law.delta * transform(law.noise, et)[0] / -z
        change = np.abs(fresh / e - 1).max()
        e = fresh
        if change < 1e-12:
            break
    return transform(law.noise, transform(law.usage, e)[0] / -z)[1] / -z


def check(law: Any, rng: np.random.Generator) -> list[str]:
    """What the law fails of, in words."""
    wrong = []
    high = law.support()[1]
    pieces = law.intervals()
    x = np.sort(np.concatenate([a + (b - a) * rng.beta(0.5, 0.5, 40) for a, b in pieces]))
    F = law.cdf(x)
    if not np.isfinite(F).all() or F.min() < -1e-12 or F.max() > 1 + 1e-12:
        wrong.append("cdf outside [0, 1]")
    if np.diff(F).min(initial=0.0) < -1e-9:
        wrong.append(f"cdf falls by {-np.diff(F).min():.1e}")
    if abs(float(law.cdf(high)) - 1) > 1e-9 or abs(float(law.cdf(-1.0))) > 0:
        wrong.append("mass is not one")
    q = np.concatenate([rng.random(20), [1e-6, 0.5, 1 - 1e-6]])
    back = law.cdf(law.ppf(q))
    # a level within the atom, or in the jump-free gap between two intervals, is reached at its end
    if np.abs(np.maximum(q, law.atom) - back).max() > 1e-6:
        wrong.append(f"ppf is off by {np.abs(np.maximum(q, law.atom) - back).max():.1e}")
    density = law.pdf(x)
    if not (np.isfinite(density).all() and density.min() >= 0):
        wrong.append("pdf negative or not finite")
    # the density integrates to the distribution function over the middle of the widest piece
    a, b = pieces[np.argmax(np.diff(law.cdf(pieces.ravel()))[::2])]
    nodes, weights = np.polynomial.legendre.leggauss(400)
    theta = np.pi / 2 * (nodes + 1)
    at = (a + b) / 2 - (b - a) / 2 * np.cos(theta)
    inside = (at > a) & (at < b)
    mass = float(
        np.sum((weights * np.pi / 2 * (b - a) / 2 * np.sin(theta) * law.pdf(np.where(inside, at, (a + b) / 2)))[inside])
    )
    expected = float(law.cdf(b) - law.cdf(a)) if a > 0 else float(law.cdf(b) - law.atom)
    smooth = b - a > 1e-9 * b and a > 0
    if smooth and abs(mass - expected) > 2e-3:
        wrong.append(f"density integrates to {mass:.6f} instead of {expected:.6f}")
    mean = law.mean()
    z = mean * np.exp(rng.normal(0, 1, 6)) * np.exp(1j * rng.uniform(0.2, 2.9, 6))
    error = equation_error(law, z)
    if not error < 1e-7:
        wrong.append(f"equation off by {error:.1e}")
    return wrong


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laws", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    failures, refused, kinds = [], [], Counter()
    start = time.time()
    warnings.simplefilter("error", RuntimeWarning)
    for i in range(options.first, options.first + options.laws):
        rng = np.random.default_rng([options.seed, i])
        kind, law = random_law(rng)
        kinds[kind] += 1
        try:
            wrong = check(law, rng)
        except sp.SpikepoolError as err:
            refused.append({"law": i, "kind": kind, "error": f"{type(err).__name__}: {err}"})
            print(f"{i} {kind}: refused: {type(err).__name__}: {err} | {law!r}"[:300], flush=True)
            continue
        except Exception as err:
            wrong = [f"{type(err).__name__}: {err}"]
        if wrong:
            failures.append({"law": i, "kind": kind, "wrong": wrong})
            print(f"{i} {kind}: {'; '.join(wrong)} | {law!r}"[:300], flush=True)
    print(f"{options.laws} laws, {len(failures)} wrong, {len(refused)} refused, {time.time() - start:.0f} s")
    if options.out:
        result = {"laws": options.laws, "seed": options.seed, "wrong": failures, "refused": refused, "kinds": kinds}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
