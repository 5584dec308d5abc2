"""The choice of weights decides whether a signal can be found: predicted curves, simulated points."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np

import spikepool as sp


def main(out: str) -> None:
    R = sp.prefix_correlation(T=12, L=4)
    model = sp.SequenceModel(d=250, V=400, N=500, R=R, mu=1.0)
    weights = {"mean": sp.mean_weights(12), "causal": sp.causal_weights(12), "optimal": sp.optimal_weights(R)}
    fine, coarse = np.linspace(0, 3, 121), np.linspace(0.25, 3, 8)
    fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for (name, w), style in zip(weights.items(), ("--", "-.", "-"), strict=True):
        (line,) = ax.plot(fine, [model.replace(mu=mu).predict(w).alignment for mu in fine], style, label=name)
        runs = [model.replace(mu=mu).simulate(w, trials=6, rng=0).alignment for mu in coarse]
        error = [run.std(ddof=1) / np.sqrt(len(run)) for run in runs]
        ax.errorbar(coarse, [run.mean() for run in runs], error, fmt="o", ms=4, color=line.get_color())
    ax.set(xlabel="signal strength", ylabel="alignment of the top eigenvector with u", ylim=(0, 1))
    ax.legend(title="weights", frameon=False)
    fig.savefig(out, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "weights_decide.png")
