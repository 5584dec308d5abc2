"""Do the predictions of query models hold, and are their cautions right?

Random query models (every relevance and kernel, tokens that repeat or not) are predicted by the library and simulated
by plain numpy code that draws every token in d dimensions and shares nothing with the library. A *miss* is a mean
alignment of the simulated draws that differs from the prediction by more than 3 standard errors + .01. A caution is
right where there is a miss. The script prints the number of models, of misses with and without a caution, and the
share of cautions that are right.

    python benchmarks/studies/query_models.py --models 100 --trials 40 --seed 1     # about 15 minutes on one core
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
from scipy.linalg import eigh

import spikepool as sp

RESULTS = Path(__file__).resolve().parents[1] / "results" / "query_models.json"


# -- plain code ------------------------------------------------------------------------------------------------------


def relevance(rng, spec, n):
    T, L = spec["T"], spec["L"]
    if spec.get("prior") is not None:
        return rng.random((n, T)) < np.array(spec["prior"])
    if spec["relevance"] == "span":
        start = rng.integers(0, T - L + 1, n)[:, None]
        return (np.arange(T) >= start) & (np.arange(T) < start + L)
    if spec["relevance"] == "chain":
        phi = L / T
        r = np.zeros((n, T), dtype=bool)
        r[:, 0] = rng.random(n) < phi
        for t in range(1, T):
            stay, enter = 1 - 1 / spec["run"], phi / (1 - phi) / spec["run"]
            r[:, t] = rng.random(n) < np.where(r[:, t - 1], stay, enter)
        return r
    return np.argsort(rng.random((n, T)), axis=1) < L


def configurations(spec):
    """All relevance vectors with their prior probabilities."""
    T, L = spec["T"], spec["L"]
    if spec["relevance"] == "span":
        rows = [[float(j <= t < j + L) for t in range(T)] for j in range(T - L + 1)]
        return np.array(rows), np.full(len(rows), 1 / len(rows))
    if spec["relevance"] == "chain":
        rows = np.array(list(itertools.product([0.0, 1.0], repeat=T)))
        phi, leave = L / T, 1 / spec["run"]
        step = {(0, 0): 1 - phi / (1 - phi) * leave, (0, 1): phi / (1 - phi) * leave, (1, 0): leave, (1, 1): 1 - leave}
        chance = [(phi if r[0] else 1 - phi) * np.prod([step[a, b] for a, b in itertools.pairwise(r)]) for r in rows]
        return rows, np.array(chance)
    rows = np.zeros((0, T))
    chosen = list(itertools.combinations(range(T), L))
    rows = np.zeros((len(chosen), T))
    for i, places in enumerate(chosen):
        rows[i, list(places)] = 1
    return rows, np.full(len(rows), 1 / len(rows))


def posterior_weights(spec, h, strength):
    evidence = strength * h - strength**2 / 2
    mu, optimal = spec["mu"], spec["kernel"] == "optimal"
    if spec.get("prior") is not None:
        odds = np.exp(evidence) * np.array(spec["prior"]) / (1 - np.array(spec["prior"]))
        p = odds / (1 + odds)
        R = p[:, :, None] * p[:, None, :] + np.array([np.diag(x * (1 - x)) for x in p]) if optimal else None
    else:
        rows, chance = configurations(spec)
        log = evidence @ rows.T + np.log(chance)
        weight = np.exp(log - log.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        p = weight @ rows
        pairs = (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        R = (weight @ pairs).reshape(-1, spec["T"], spec["T"]) if optimal else None
    if not optimal:
        return p / np.sqrt(1 + mu**2 * (p**2).sum(axis=1, keepdims=True))
    values, vectors = np.linalg.eigh(R)
    top, v = values[:, -1], vectors[:, :, -1]
    v = v * np.sign(v.sum(axis=1, keepdims=True))
    return v * np.sqrt(top / (1 + mu**2 * top))[:, None]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def stack_weights(stack, h):
    """Weights of a stack, from the tokens themselves: unit vectors go through the layers with the scores."""
    beta, layers, rho, causal, pool = (stack[k] for k in ("beta", "layers", "residual", "causal", "pool"))
    T = h.shape[1]
    W = np.broadcast_to(np.eye(T), (len(h), T, T))
    ahead = np.arange(T)[None, :] > np.arange(T)[:, None]
    for _ in range(layers):
        x = (W @ h[:, :, None])[:, :, 0]
        S = beta * x[:, :, None] * x[:, None, :]
        S = np.where(ahead, -np.inf, S) if causal else S
        W = rho * W + (1 - rho) * softmax(S) @ W
    last = {"mean": np.full((1, T), 1 / T), "last": np.eye(T)[-1:]}
    pooled = last[pool] if pool in last else softmax(beta * (W @ h[:, :, None])[:, :, 0])
    return np.einsum("nt,nts->ns", np.broadcast_to(pooled, h.shape), W)


def weights(spec, h):
    strength = spec["nu"] * spec["overlap"]
    kernel, beta = spec["kernel"], spec["beta"]
    if kernel in ("posterior", "optimal"):
        return posterior_weights(spec, h, strength)
    if spec.get("stack"):
        return stack_weights(spec["stack"], h)
    if spec.get("window"):
        m = spec["window"]
        means = np.stack([h[:, j : j + m].mean(axis=1) for j in range(h.shape[1] - m + 1)], axis=1)
        share = softmax(beta * means)
        w = np.zeros_like(h)
        for j in range(means.shape[1]):
            w[:, j : j + m] += share[:, [j]] / m
        return w
    if kernel == "softmax":
        w = np.exp(beta * h)
    elif kernel == "sigmoid":
        prior = np.array(spec["prior"]) if spec.get("prior") is not None else spec["L"] / spec["T"]
        w = 1 / (1 + np.exp(-beta * (h - strength / 2)) * (1 - prior) / prior)
    else:
        w = np.clip(1 + beta * h, 0, None)
    if not spec["normalize"]:
        return w
    total = w.sum(axis=1, keepdims=True)
    return np.where(total > 0, w / np.where(total > 0, total, 1), 1 / h.shape[1])


def draw(rng, spec):
    """Top eigenvalue off the query and its alignment with u, every token drawn."""
    d, N, T, V, m = (spec[k] for k in ("d", "N", "T", "V", "overlap"))
    q = np.zeros(d)
    q[1], q[2] = m, np.sqrt(1 - m**2)
    r = relevance(rng, spec, N)
    xi = rng.choice([-1.0, 1.0], N)
    if V is None:
        X = rng.standard_normal((N, T, d))
        X[..., 0] += spec["mu"] * xi[:, None] * r
        X[..., 1] += spec["nu"] * r
    else:
        share = np.mean(spec["prior"]) if spec.get("prior") is not None else spec["L"] / T
        each = round(V * share / 2)
        table = rng.standard_normal((V, d))
        table[:each, 0] += spec["mu"]
        table[each : 2 * each, 0] -= spec["mu"]
        table[: 2 * each, 1] += spec["nu"]
        ids = np.where(
            r,
            rng.integers(0, each, (N, T)) + np.where(xi > 0, 0, each)[:, None],
            rng.integers(2 * each, V, (N, T)),
        )
        X = table[ids]
    C = np.einsum("nt,ntd->nd", weights(spec, X @ q), X, optimize=True)
    C -= C.mean(axis=0)
    C -= np.outer(C @ q, q)
    values, vectors = eigh(C.T @ C / N, subset_by_index=[d - 1, d - 1])
    return values[0], vectors[0, 0] ** 2


# -- models ----------------------------------------------------------------------------------------------------------


def random_spec(rng):
    kernel = rng.choice(["softmax", "sigmoid", "linear", "posterior", "optimal", "window", "stack"])
    rel = rng.choice(["scattered", "span", "chain", "prior"])
    small = kernel in ("posterior", "optimal") and rel in ("chain", "scattered")
    T = int(rng.integers(6, 12 if small else 25))
    L = int(rng.integers(1, max(2, T // 3)))
    d = int(rng.integers(60, 151))
    N = int(d * np.exp(rng.uniform(np.log(0.8), np.log(6))))
    spec = {
        "d": d, "N": N, "T": T, "L": L, "mu": 1.0, "nu": float(rng.uniform(0.3, 2.2)),
        "overlap": 1.0 if rng.random() < 0.5 else float(rng.uniform(0.4, 0.95)),
        "kernel": str(kernel), "beta": None, "normalize": bool(rng.random() < 0.7), "V": None, "relevance": "scattered",
    }  # fmt: skip
    if rel == "prior":
        spec["prior"] = [float(x) for x in rng.uniform(0.02, 0.5, T) * (rng.random(T) < 0.7) + 0.02]
    else:
        spec["relevance"] = str(rel)
        if rel == "chain":
            spec["run"] = float(max(1.0, L / (T - L)) + rng.exponential(2.0))
    if rng.random() < 0.35:
        spec["V"] = int(rng.integers(max(150, int(8 * T / L)), 3000))
    strength = spec["nu"] * spec["overlap"]
    spec["beta"] = float(rng.uniform(0.2, 1.3) * max(strength, 0.3))
    if kernel == "window":
        spec["kernel"], spec["window"] = "softmax", int(rng.integers(2, max(3, L + 2)))
        spec["beta"], spec["normalize"] = spec["beta"] * spec["window"], True
    elif kernel == "stack":
        spec["kernel"], spec["normalize"] = "softmax", True
        spec["stack"] = {
            "beta": float(rng.uniform(0.1, 0.7)), "layers": int(rng.integers(1, 4)),
            "residual": float(rng.uniform(0, 0.7)), "causal": bool(rng.random() < 0.4),
            "pool": str(rng.choice(["mean", "last", "query"])),
        }  # fmt: skip
    spec["distance"] = float(np.exp(rng.uniform(np.log(0.4), np.log(3.0))))
    return spec


def model_of(spec):
    fields = {k: v for k, v in spec.items() if k not in ("stack", "distance")}
    if spec.get("stack"):
        fields["kernel"], fields["beta"] = sp.self_attention(**spec["stack"]), None
    if fields["kernel"] in ("posterior", "optimal"):
        fields["beta"] = None
    return sp.QueryModel(**fields)


def run(seed, trials):
    rng = np.random.default_rng([2026, seed])
    spec = random_spec(rng)
    threshold = model_of(spec).predict().mu_sample
    spec["mu"] = float(spec["distance"] * (threshold if 0 < threshold < 20 else 1.0))
    p = model_of(spec).predict()
    rows = np.array([draw(np.random.default_rng([2026, seed, i]), spec) for i in range(trials)])
    mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(trials)
    return {
        "seed": seed, **spec, "predicted": p.alignment, "simulated": float(mean[1]), "error": float(error[1]),
        "deviation": float(rows[:, 1].std(ddof=1)), "finite": p.finite_size_alignment,
        "expected": p.validity.error, "eigenvalue": p.eigenvalue, "simulated_eigenvalue": float(mean[0]),
        "eigenvalue_error": float(error[0]), "mu_sample": p.mu_sample, "edge": p.edge,
        "outliers": [(o.kind, o.eigenvalue, o.alignment) for o in p.outliers], "reasons": list(p.validity.reasons),
        "miss": bool(abs(p.alignment - mean[1]) > 3 * error[1] + 0.01),
    }  # fmt: skip


def summary(records):
    missed = [r for r in records if r["miss"]]
    flagged = [r for r in records if r["reasons"]]
    right = [r for r in flagged if r["miss"]]
    return {
        "models": len(records), "missed": len(missed), "missed_without_caution": len(missed) - len(right),
        "cautions": len(flagged), "cautions_right": len(right),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    records = []
    for seed in range(1000 * arguments.seed, 1000 * arguments.seed + arguments.models):
        records.append(run(seed, arguments.trials))
        r = records[-1]
        print(
            seed, f"{r['predicted']:.3f} {r['simulated']:.3f} ± {r['error']:.3f}", r["miss"], r["reasons"], flush=True
        )
        text = json.dumps({"summary": summary(records), "models": records}, indent=1)
        arguments.out.write_text(text + "\n")
    print(summary(records))


if __name__ == "__main__":
    main()
