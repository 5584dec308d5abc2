"""Is the top component real? The same question for a signal and for pure noise."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt

import spikepool as sp


def main(out: str) -> None:
    R = sp.prefix_correlation(T=10, L=3)
    w = sp.causal_weights(10)
    fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for ax, mu in zip(axes, (1.6, 0.0), strict=True):
        model = sp.SequenceModel(d=200, V=400, N=500, R=R, mu=mu, table="class_centered")
        report = sp.diagnose(model.sample(rng=1).pooled(w).T, V=400, weights=w)
        print(report, "\n")
        report.plot(ax)
    fig.savefig(out, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "trust_component.png")
