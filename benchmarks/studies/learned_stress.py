"""The automatic choice of a pooling against the mean, on generated sequences of many kinds.

Twenty kinds of sequences (long and short, padded on either side, with holes, sinks, a giant common component,
coordinates in unlike units, many classes, one class that is nearly all, many features for few rows, regression with
heavy tails), each with the label in every token, in the first, the last, a marked one, or nowhere. A fit that warns
fails. Losses are those beyond one standard error of the paired difference on 1,000 new rows.

    OMP_NUM_THREADS=1 python benchmarks/studies/learned_stress.py --draws 4       # four minutes of one core
    python benchmarks/studies/learned_stress.py --draws 10 --kind sink --kind common
    python benchmarks/studies/learned_stress.py --first 100 --draws 30 --signal keyword --kind d1024 --kind n150k10

A run of everything is kept in ``benchmarks/results/learned_stress.json``.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import spikepool as sp

RESULTS = Path(__file__).resolve().parents[1] / "results" / "learned_stress.json"
SIGNALS = ("all", "none", "first", "last", "keyword")
TEST_ROWS, WORDS = 1000, 2000
KINDS: dict[str, dict] = {
    "base": {"n": 400, "T": 16, "d": 64, "k": 5, "strength": 0.5},
    "T128": {"n": 300, "T": 128, "d": 64, "strength": 0.4},
    "n80": {"n": 80, "T": 16, "d": 96, "strength": 0.6},
    "d1024": {"n": 200, "T": 12, "d": 1024, "strength": 0.3},
    "manyclasses": {"n": 300, "T": 12, "d": 96, "k": 60, "strength": 1.0},
    "unbalanced": {"n": 300, "T": 12, "d": 64, "k": 4, "prior": (0.92, 0.05, 0.02, 0.01), "strength": 0.7},
    "common": {"n": 300, "T": 12, "d": 96, "common": 50.0, "strength": 0.5},
    "units": {"n": 300, "T": 12, "d": 96, "units": 3.0, "strength": 0.5},
    "anisotropic": {"n": 300, "T": 12, "d": 96, "decay": 2.5, "strength": 0.5},
    "sink": {"n": 300, "T": 12, "d": 96, "sink": 100.0, "strength": 0.5, "lengths": (1, 12)},
    "sinkleft": {"n": 300, "T": 12, "d": 96, "sink": 100.0, "strength": 0.5, "padding": "left"},
    "regression": {"n": 300, "T": 12, "d": 64, "regression": True, "strength": 0.3},
    "heavytails": {"n": 300, "T": 12, "d": 64, "regression": True, "strength": 0.3, "tail": 2.5},
    "short": {"n": 300, "T": 8, "d": 64, "strength": 0.5, "lengths": (1, 2), "padding": "left"},
    "holes": {"n": 300, "T": 16, "d": 64, "strength": 0.5, "padding": "holes", "zipf": 1.1},
    "half": {"n": 300, "T": 16, "d": 64, "strength": 0.5, "dtype": np.float16, "zipf": 1.1},
    "n60k20": {"n": 60, "T": 10, "d": 64, "k": 20, "strength": 1.0},
    "n150k10": {"n": 150, "T": 16, "d": 256, "k": 10, "strength": 0.6},
    "d1024strong": {"n": 200, "T": 12, "d": 1024, "strength": 0.45},
    "n120d768": {"n": 120, "T": 16, "d": 768, "strength": 0.35},
}


def sequences(
    rng: np.random.Generator,
    n: int,
    T: int,
    d: int,
    signal: str,
    *,
    strength: float,
    k: int = 3,
    prior: tuple[float, ...] | None = None,
    decay: float = 1.0,
    common: float = 0.0,
    units: float = 0.0,
    padding: str = "right",
    lengths: tuple[int, int] | None = None,
    sink: float = 0.0,
    zipf: float = 0.0,
    regression: bool = False,
    tail: float | None = None,
    dtype: type = np.float32,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, mask and labels of one kind; `strength` is per token, larger where one token has it all."""
    y = rng.choice(k, n, p=prior)
    spectrum = np.arange(1, d + 1) ** (-decay / 2)
    spectrum *= np.sqrt(d / np.sum(spectrum**2))
    frequency = 1 / np.arange(1, WORDS + 1) ** zipf
    words = rng.choice(WORDS, (n, T), p=frequency / frequency.sum())
    X = (rng.normal(size=(WORDS, d)) * spectrum)[words] + 0.5 * rng.normal(size=(n, T, d)) * spectrum
    if tail is not None:
        X *= 0.5 + 0.5 * rng.standard_t(tail, size=(n, 1, 1)) ** 2
    size = strength * (1.2 if k >= 20 else 0.8) * (0.8 if signal == "all" else 3.2) / np.sqrt(d)
    centres = rng.normal(size=(k, d)) * spectrum * size
    length = rng.integers(*(lengths or (max(1, T // 4), T)), n, endpoint=True)
    rows = np.arange(n)
    if regression:
        latent = rng.normal(size=n) if tail is None else rng.standard_t(tail, size=n)
        centre, y = latent[:, None] * centres[0], latent + 0.5 * rng.normal(size=n)
    else:
        centre = centres[y]
    if signal == "all":
        X += centre[:, None]
    elif signal == "first":
        X[:, 0] += 4 * centre
    elif signal == "last":
        X[rows, length - 1] += 4 * centre
    elif signal == "keyword":
        X[rows, (rng.random(n) * length).astype(int)] += 4 * centre + np.r_[6 * spectrum[:4], np.zeros(d - 4)]
    X += common * rng.normal(size=d)
    if sink:
        X[:, 0] = sink * (np.sqrt(d) * np.eye(d)[3] + 0.02 * rng.normal(size=(n, d)))
    X *= 10 ** rng.uniform(-units / 2, units / 2, d)
    mask = np.arange(T) < length[:, None]
    if padding == "left":
        place = np.arange(T) - (T - length)[:, None]
        X, mask = np.take_along_axis(X, np.maximum(place, 0)[..., None], 1), place >= 0
    elif padding == "holes":
        mask &= (rng.random((n, T)) > 0.2) | (np.arange(T) == 0)
    return (X * mask[..., None]).astype(dtype), mask, y


def measure(kind: str, signal: str, draw: int) -> dict:
    """The automatic choice and the mean, fitted on the rows of one draw and scored on new ones."""
    settings = dict(KINDS[kind])
    n = settings.pop("n")
    rng = np.random.default_rng([draw, list(KINDS).index(kind), SIGNALS.index(signal)])
    X, mask, y = sequences(rng, n + TEST_ROWS, signal=signal, **settings)
    model = sp.LearnedPoolingRegressor if settings.get("regression") else sp.LearnedPoolingClassifier
    scores, decisions = {}, {}
    start = time.process_time()
    for pooling in ("auto", "mean"):
        fitted = model(pooling=pooling).fit(X[:n], y[:n], mask=mask[:n])
        found = fitted.predict(X[n:], mask=mask[n:])
        if settings.get("regression"):
            scores[pooling] = 1 - (found - y[n:]) ** 2 / y[n:].var()
        else:
            scores[pooling] = (found == y[n:]).astype(float)
        decisions[pooling] = fitted.decision_
    gain = scores["auto"] - scores["mean"]
    return {
        "case": f"{kind}/{signal}",
        "draw": draw,
        "decision": decisions["auto"],
        "mean": float(scores["mean"].mean()),
        "gain": [float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(TEST_ROWS))],
        "seconds": round(time.process_time() - start, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--signal", action="append", choices=list(SIGNALS))
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    records = []
    for draw in range(arguments.first, arguments.first + arguments.draws):
        for kind in arguments.kind or KINDS:
            records += [measure(kind, signal, draw) for signal in arguments.signal or SIGNALS]
        if not arguments.kind and not arguments.signal:
            RESULTS.write_text(summary(records) + "\n")
    print(summary(records))


def summary(records: list[dict]) -> str:
    """Counts, the losses one by one, the gain of what was learned, and the largest gain, as JSON."""
    losses = [r for r in records if r["gain"][0] < -r["gain"][1]]
    left = [r for r in records if r["decision"] != "mean"]
    classified = [r for r in records if not KINDS[r["case"].split("/")[0]].get("regression")]
    learned = [r["gain"][0] for r in classified if r["decision"] in ("query", "positions")]
    best = max(records, key=lambda r: r["gain"][0] if r["mean"] > 0 else 0.0)
    return json.dumps(
        {
            "fits": len(records),
            "left_the_mean": len(left),
            "learned_classifiers": {"fits": len(learned), "gain": float(np.mean(learned)) if learned else None},
            "losses": losses,
            "largest_gain": best,
        },
        indent=1,
    )


if __name__ == "__main__":
    main()
