"""How many sequences a target alignment needs, and where no number is enough."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np

import spikepool as sp


def main(out: str) -> None:
    R = sp.prefix_correlation(T=10, L=3)
    weights = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}
    model = sp.SequenceModel(d=500, V=8000, N=1000, R=R, mu=1.0)
    mus = np.linspace(0.2, 3, 80)
    fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for (name, w), style in zip(weights.items(), ("--", "-.", "-"), strict=True):
        needed = []
        for mu in mus:
            try:
                needed.append(model.replace(mu=mu).required_samples(w, alignment=0.8))
            except sp.UnreachableError:
                needed.append(np.nan)  # the curve starts where a number of sequences exists
        ax.semilogy(mus, needed, style, label=name)
    ax.set(
        xlabel="signal strength", ylabel="sequences for an alignment of 0.8", title="d = 500, V = 8000, T = 10, L = 3"
    )
    ax.legend(title="weights", frameon=False)
    ax.grid(alpha=0.3)
    fig.savefig(out, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "plan_study.png")
