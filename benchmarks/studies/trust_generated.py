"""Spans that `diagnose` reports, against generated populations whose components are known exactly.

    python benchmarks/studies/trust_generated.py measure  # 20 draws of each kind; appends what is missing
    python benchmarks/studies/trust_generated.py table

The corpora of ``trust_corpora.py`` have spectra that fall like a power of the rank. Here are also spectra with flat
parts, inside of which the population does not define its components, rows of unequal scale, and counts.
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from pathlib import Path

import numpy as np
from scipy.linalg import toeplitz

import spikepool as sp
from trust_corpora import top

RESULTS = Path(__file__).parents[1] / "results" / "trust_generated.jsonl"
D = 120


def gaussian(sigma):
    root = np.linalg.cholesky(sigma)
    return lambda n, rng: rng.standard_normal((n, len(sigma))) @ root.T


def factors(noise, strengths):
    """Noise with directions of given strengths added."""
    q = np.linalg.qr(np.random.default_rng(5).standard_normal((len(noise), len(strengths))))[0]
    return noise + (q * strengths) @ q.T


def falling(power=1.0, d=D):
    return np.diag(np.arange(1.0, d + 1) ** -power)


def scaled(sigma, scale):
    """Rows of `sigma` times a random scale, of mean square one or not: components are the same."""
    plain = gaussian(sigma)
    return lambda n, rng: plain(n, rng) * scale(n, rng)[:, None]


def counts(n, rng):
    """Logarithms of Poisson counts of 150 words under a mixture of six topics."""
    fixed = np.random.default_rng(0)
    rate = 20 / np.arange(1, 151)
    topics = fixed.dirichlet(np.full(150, 0.1), 6) * rate.sum()
    return np.log1p(rng.poisson(0.5 * rng.dirichlet(np.full(6, 0.5), n) @ topics + 0.5 * rate))


def two_populations(n, rng):
    plain, shifted = rng.standard_normal((n, 100)), rng.random(n) < 0.3
    first = plain * np.arange(1, 101) ** -0.5 + np.where(np.arange(100) < 10, 1.0, 0.0)
    second = plain * np.sqrt(0.5 * (np.arange(1, 101) ** -0.5)[::-1])
    return np.where(shifted[:, None], first, second)


def unit_rows(n, rng):
    x = gaussian(falling())(n, rng) + 0.3
    return x / np.linalg.norm(x, axis=1, keepdims=True)


STEPS = np.diag(np.repeat([10.0, 3.0, 1.0], [10, 30, 80]))
NOISE = toeplitz(0.6 ** np.arange(D))
# sampler, and the population covariance, or None: of 60,000 rows
KINDS = {
    "variances 1/rank": (gaussian(falling()), falling()),
    "the same, 300 dimensions": (gaussian(falling(1.0, 300)), falling(1.0, 300)),
    "the same, rows of unit length": (unit_rows, None),
    "the same, rounded to eight bits": (lambda n, rng: np.round(30 * gaussian(falling())(n, rng)), None),
    "the same, t with 3 degrees": (scaled(falling(), lambda n, rng: (rng.chisquare(3, n) / 3) ** -0.5), falling()),
    "the same, one row in ten five times as large": (
        scaled(falling(), lambda n, rng: np.where(rng.random(n) < 0.1, 5.0, 1.0)),
        falling(),
    ),
    "3 factors over Toeplitz noise": (gaussian(factors(NOISE, [12.0, 8.0, 4.0])), factors(NOISE, [12.0, 8.0, 4.0])),
    "two populations": (two_populations, None),
    "logarithms of counts": (counts, None),
    "12 factors over isotropic noise": (
        gaussian(factors(np.eye(100), np.linspace(6, 1, 12))),
        factors(np.eye(100), np.linspace(6, 1, 12)),
    ),
    "three levels (10, 30, 80 equal)": (gaussian(STEPS), STEPS),
}
ROWS = 400


def measure(draws: int, out: Path) -> None:
    done = {(c["kind"], c["seed"]) for c in map(json.loads, out.read_text().splitlines())} if out.exists() else set()
    for name, (sample, sigma) in KINDS.items():
        missing = [seed for seed in range(draws) if (name, seed) not in done]
        if not missing:
            continue
        if sigma is None:
            sigma = np.cov(sample(60_000, np.random.default_rng(9)).T)
        truth = np.linalg.eigh(sigma)[1][:, ::-1]
        for seed in missing:
            x = sample(ROWS, np.random.default_rng([zlib.crc32(name.encode()), seed]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = sp.diagnose(x, random_state=seed)
            u = top(x)
            spans = [
                (s.k, s.overlap, *s.interval, float(np.linalg.norm(u[:, : s.k].T @ truth[:, : s.k]) ** 2 / s.k))
                for s in found.spans or ()
            ]
            record = {"kind": name, "seed": seed, "verdict": found.verdict, "spans": np.round(spans, 4).tolist()}
            with out.open("a") as file:
                file.write(json.dumps(record) + "\n")


def print_table(out: Path) -> None:
    cells = [json.loads(line) for line in out.read_text().splitlines()]
    print("| rows | draws | given | " + " | ".join(f"top {k}" for k in (5, 10, 20, 50)) + " | coverage |")
    print("| --- | --- | --- | " + "--- | " * 5)
    for name in KINDS:
        mine = [c for c in cells if c["kind"] == name]
        spans = np.array([s for c in mine for s in c["spans"]])
        row = []
        for k in (5, 10, 20, 50):
            at = spans[spans[:, 0] == k]
            row.append(f"{at[:, 1].mean():.2f} ({at[:, 4].mean():.2f})" if len(at) else "")
        steady = spans[spans[:, 0] >= 5]
        inside = np.mean((steady[:, 2] <= steady[:, 4]) & (steady[:, 4] <= steady[:, 3]))
        given = sum(c["verdict"] == "coloured" for c in mine)
        print(f"| {name} | {len(mine)} | {given} | " + " | ".join(row) + f" | {inside:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="table", choices=("measure", "table"))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    measure(options.draws, options.out) if options.what == "measure" else print_table(options.out)
