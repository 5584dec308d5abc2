"""Do the flags of predictions rise where the predictions are wrong, and only there?

    python benchmarks/studies/flags.py --positions 50 --tokens 40 --out benchmarks/results/flags.json

Random models with position weights and random models with token frequencies and token weights are drawn, each predicted
in closed form and given the tokens of one draw, and simulated in plain numpy: tokens, signs and the table are drawn
here, and the top eigenvector comes from a `eigh`. A *miss* is an alignment further than 3 standard errors plus
.01 from the mean of the draws. A flag is *right* where the prediction is a miss; flags whose error exceeds .01 by the
mean of the draws alone are counted too. One line per model is kept, so that a run that is stopped goes on where it
was.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

import spikepool as sp
from spikepool.world.frequencies import zipf_frequencies

MARGIN = 0.01


def correlation(rng: np.random.Generator, T: int) -> tuple[np.ndarray, str]:
    """A correlation of signs that this file can draw by itself."""
    kind = str(rng.choice(["prefix", "markov", "identity", "blocks"]))
    if kind == "prefix":
        return sp.prefix_correlation(T=T, L=int(rng.integers(1, T + 1))), kind
    if kind == "markov":
        return sp.markov_correlation(T, float(rng.uniform(0.1, 0.95))), kind
    if kind == "identity" or T == 1:
        return np.eye(T), "identity"
    block = np.repeat(np.arange(T), int(rng.integers(2, max(3, T // 2 + 1))))[:T]
    return (block[:, None] == block).astype(float), "prefix"  # equal signs where R is 1


def draw_signs(rng: np.random.Generator, R: np.ndarray, kind: str, n: int) -> np.ndarray:
    """(n, T) signs: a chain of flips, or one sign for all positions of correlation 1."""
    T = len(R)
    if kind == "markov":
        flips = np.where(rng.random((n, T)) < (1 + np.append(1.0, np.diag(R, 1))) / 2, 1, -1)
        flips[:, 0] = np.where(rng.random(n) < 0.5, 1, -1)
        return np.cumprod(flips, axis=1)
    first = np.argmax(R == 1, axis=1)
    return np.where(rng.random((n, T)) < 0.5, 1, -1)[:, first]


def position_weights(rng: np.random.Generator, R: np.ndarray) -> tuple[np.ndarray, str]:
    T = len(R)
    kind = str(rng.choice(["mean", "causal", "optimal", "random"]))
    if kind == "random":
        return rng.dirichlet(np.full(T, 1.0)), kind
    return {"mean": sp.mean_weights(T), "causal": sp.causal_weights(T), "optimal": sp.optimal_weights(R)}[kind], kind


def token_weights(rng: np.random.Generator, p: np.ndarray, N: int, T: int, G: float) -> tuple[Any, str]:
    kind = str(rng.choice(["none", "idf", "sif", "recovery", "random"]))
    if kind == "none":
        return None, kind
    if kind == "idf":
        return np.log(1 + 1 / p), kind
    if kind == "sif":
        return 1e-3 / (1e-3 + p), kind
    if kind == "recovery":
        return sp.recovery_token_weights(N * T * p, length=T, gain=G), kind
    return np.exp(rng.normal(0, 0.6, len(p))), kind


def random_model(seed: int, index: int, tokens: bool) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """Model number `index`."""
    rng = np.random.default_rng([seed, index, tokens])
    d = int(np.exp(rng.uniform(np.log(80), np.log(300))))
    V = 2 * max(20, int(d / np.exp(rng.uniform(np.log(0.1), np.log(1.5))) / 2))
    N = max(40, int(d / np.exp(rng.uniform(np.log(0.1), np.log(2.0)))))
    T = int(np.exp(rng.uniform(0 if not tokens else np.log(4), np.log(40))))
    R, kind = correlation(rng, T)
    w, weighting = position_weights(rng, R)
    table = str(rng.choice(["sampled", "class_centered"], p=[0.75, 0.25]))
    centered = bool(rng.random() < 0.75)
    fields: dict[str, Any] = {"d": d, "V": V, "N": N, "R": R, "table": table, "centered": centered}
    told: dict[str, Any] = {"signs": kind, "weights": weighting, "table": table, "centered": centered}
    if tokens:
        p = zipf_frequencies(V, float(rng.uniform(0.3, 1.2)))
        a, told["token weights"] = token_weights(rng, p, N, T, max(1.0, float(w @ R @ w / (w @ w))))
        fields |= {"frequencies": p, "token_weights": a}
    threshold = sp.SequenceModel(mu=1.0, **fields).predict(w).mu_sample
    factor = float(np.exp(rng.uniform(np.log(0.3), np.log(4.0))))
    mu = factor * threshold if 0 < threshold < 20 else factor
    return sp.SequenceModel(mu=mu, **fields), w, told | {"kind": kind}


def draw_ids(rng: np.random.Generator, model: Any, signs: np.ndarray) -> np.ndarray:
    """Token ids whose classes are the signs: even ids are +1, odd ids −1, with the model's frequencies."""
    p = np.full(model.V, 1 / model.V) if model.frequencies is None else np.asarray(model.frequencies)
    ids = np.empty(signs.shape, dtype=np.int64)
    for sign, members in ((1, np.arange(0, model.V, 2)), (-1, np.arange(1, model.V, 2))):
        where = signs == sign
        ids[where] = rng.choice(members, size=int(where.sum()), p=p[members] / p[members].sum())
    return ids


def alignment(rng: np.random.Generator, model: Any, w: np.ndarray, ids: np.ndarray) -> float:
    """Squared cosine of the top eigenvector of one draw of the table with u, in plain numpy."""
    d, V = model.d, model.V
    Z = rng.standard_normal((d, V))
    s = np.where(np.arange(V) % 2 == 0, 1.0, -1.0)
    if model.table == "class_centered":
        Z[:, 0::2] -= Z[:, 0::2].mean(axis=1, keepdims=True)
        Z[:, 1::2] -= Z[:, 1::2].mean(axis=1, keepdims=True)
    Z[0] += model.mu * s
    if model.token_weights is not None:
        Z = Z * np.asarray(model.token_weights)
    N, T = ids.shape
    W = sparse.csr_array((np.tile(w, N), ids.ravel(), np.arange(0, N * T + 1, T)), shape=(N, V))
    C = (W @ Z.T).T
    if model.centered:
        C -= C.mean(axis=1, keepdims=True)
    if d <= N:
        return float(eigh(C @ C.T, subset_by_index=[d - 1, d - 1])[1][0, 0] ** 2)
    values, vectors = eigh(C.T @ C, subset_by_index=[N - 1, N - 1])
    return float((C[0] @ vectors[:, 0]) ** 2 / values[0])


def draw(rng: np.random.Generator, model: Any, w: np.ndarray, kind: str, draws: int, fixed: Any = None) -> np.ndarray:
    """Alignments of `draws` tables, with tokens of their own or the `fixed` ones."""
    found = []
    for _ in range(draws):
        ids = draw_ids(rng, model, draw_signs(rng, model.R, kind, model.N)) if fixed is None else fixed
        found.append(alignment(rng, model, w, ids))
    return np.asarray(found)


def run(seed: int, index: int, tokens: bool, draws: int) -> dict[str, Any]:
    """One model: both predictions, their flags, and the simulation of each."""
    model, w, told = random_model(seed, index, tokens)
    rng = np.random.default_rng([seed, index, tokens, 1])
    ids = draw_ids(rng, model, draw_signs(rng, model.R, told["kind"], model.N))
    a = None if model.token_weights is None else np.asarray(model.token_weights)
    signs = np.where(np.arange(model.V) % 2 == 0, 1.0, -1.0)
    given = sp.predict_tokens(
        ids, model.V, w, signs, model.mu, model.d, token_weights=a, centered=model.centered, table=model.table
    )
    record: dict[str, Any] = {"index": index, "tokens": tokens, "d": model.d, "V": model.V, "N": model.N, "T": model.T}
    record |= {"mu": model.mu, "effective": float((w @ w) ** 2 / np.sum(w**4)), **told}
    for name, prediction, fixed in (("closed", model.predict(w), None), ("exact", given, ids)):
        seen = draw(rng, model, w, told["kind"], draws, fixed)
        record[name] = {
            "alignment": prediction.alignment,
            "seen": float(seen.mean()),
            "error": float(seen.std(ddof=1) / np.sqrt(draws)),
            "ratio": model.mu / prediction.mu_sample if prediction.mu_sample > 0 else None,
            "finite": getattr(prediction, "finite_size_alignment", None),
            "expected": getattr(prediction.validity, "error", None),
            "reasons": list(prediction.validity.reasons),
        }
    return record


def judged(record: dict[str, Any], name: str) -> dict[str, Any]:
    r = record[name]
    off = abs(r["seen"] - r["alignment"])
    return {"flagged": bool(r["reasons"]), "miss": off > 3 * r["error"] + MARGIN, "off": off}


def show(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by kind of model and route."""
    table: dict[str, Any] = {}
    for tokens, what in ((False, "positions"), (True, "token weights")):
        for name in ("closed", "exact"):
            rows = [judged(r, name) for r in records if r["tokens"] is tokens]
            flagged = [r for r in rows if r["flagged"]]
            table[f"{what}, {name}"] = {
                "models": len(rows),
                "misses": sum(r["miss"] for r in rows),
                "unflagged misses": sum(r["miss"] and not r["flagged"] for r in rows),
                "flagged": len(flagged),
                "flagged misses": sum(r["miss"] for r in flagged),
                "flagged, off by more than .01": sum(r["off"] > MARGIN for r in flagged),
            }
    for name, row in table.items():
        print(name, row)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--positions", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--runs", type=Path, default=Path("flags.jsonl"), help="one line for each model")
    parser.add_argument("--out", type=Path, help="summary as JSON")
    options = parser.parse_args()
    records = [json.loads(line) for line in options.runs.read_text().splitlines()] if options.runs.exists() else []
    done = {(r["index"], r["tokens"]) for r in records}
    start = time.time()
    with options.runs.open("a") as lines:
        for tokens, count in ((False, options.positions), (True, options.tokens)):
            for index in range(count):
                if (index, tokens) in done:
                    continue
                records.append(run(options.seed, index, tokens, options.draws))
                lines.write(json.dumps(records[-1]) + "\n")
                lines.flush()
    print(f"{len(records)} models, {time.time() - start:.0f} s")
    table = show(records)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        settings = {"seed": options.seed, "draws": options.draws}
        options.out.write_text(json.dumps({**settings, "table": table, "models": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
