"""Learned pooling weights at the paper's size: envelope gradient and Cholesky against the direct implementation.

d = 300, V = 500, N = 800 of which 80% train, T = 10, L = 3, lam = 1; the same starts, optimiser and tolerances for
all. Baselines, both written plainly in NumPy from the paper's appendix:

* ``numerical``: every evaluation forms C(w) and solves the ridge; L-BFGS-B differentiates numerically.
* ``re-form``: the same loss with the envelope gradient, C(w) formed anew in each step.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import spikepool as sp
from spikepool.simulation.learned_weights import learn_weights, softmax

RESULTS = Path(__file__).parents[1] / "results" / "learned.json"
STARTS, REPEATS = 3, 3
OPTIONS = {"maxiter": 500, "ftol": 1e-12, "gtol": 1e-7, "maxfun": 10**6}


def direct(X, y, lam, starts, gradient: bool):
    n, _, d = X.shape

    def loss(phi):
        w = softmax(phi)
        C = np.einsum("t,ntd->nd", w, X)
        beta = np.linalg.solve(C.T @ C + lam * n * np.eye(d), C.T @ y)
        residual = y - C @ beta
        value = residual @ residual / n + lam * beta @ beta
        if not gradient:
            return value
        dC = -2 / n * np.outer(residual, beta)
        dw = np.einsum("nd,ntd->t", dC, X)
        return value, w * (dw - dw @ w)

    results = [minimize(loss, phi, jac=gradient, method="L-BFGS-B", options=OPTIONS) for phi in starts]
    return min(r.fun for r in results)


def main() -> None:
    model = sp.SequenceModel(d=300, V=500, N=800, R=sp.prefix_correlation(10, 3), mu=2.0)
    sample = model.sample(rng=0)
    X = sample.table.T[sample.tokens][:640]
    y = sample.latent[:640, 0].astype(np.float64)
    rng = np.random.default_rng(0)
    starts = [np.zeros(10)] + [rng.standard_normal(10) for _ in range(STARTS - 1)]
    contenders = {
        "spikepool": lambda: learn_weights(X, y, 1.0, restarts=STARTS, rng=0).loss,
        "re-form": lambda: direct(X, y, 1.0, starts, True),
        "numerical": lambda: direct(X, y, 1.0, starts, False),
    }
    seconds = {name: [] for name in contenders}
    losses = {}
    for _ in range(REPEATS):
        for name, run in contenders.items():
            start = time.perf_counter()
            losses[name] = float(run())
            seconds[name].append(time.perf_counter() - start)
    median = {name: float(np.median(times)) for name, times in seconds.items()}
    for name in contenders:
        print(
            f"{name:10s} {median[name]:8.3f} s  loss {losses[name]:.9f}  "
            f"{median[name] / median['spikepool']:6.1f} times the time of spikepool"
        )
    # numerical differences stop a little early: the same minimum to six digits
    np.testing.assert_allclose([losses["re-form"], losses["numerical"]], losses["spikepool"], rtol=1e-5)
    RESULTS.parent.mkdir(exist_ok=True)
    record = {
        "median_seconds": median,
        "losses": losses,
        "speedup": {name: median[name] / median["spikepool"] for name in ("re-form", "numerical")},
        "size": "d=300 V=500 N=640 (80% of 800) T=10 L=3 lam=1, 3 starts",
    }
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
