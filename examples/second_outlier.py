"""Without centring, a second outlier: the mean of the vocabulary, real and useless."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np

import spikepool as sp


def main(out: str) -> None:
    R = sp.prefix_correlation(T=10, L=3)
    w = sp.mean_weights(10)
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharex=True, sharey=True)
    for ax, centered in zip(axes, (False, True), strict=True):
        model = sp.SequenceModel(d=500, V=800, N=1000, R=R, mu=1.3, centered=centered)
        p = model.predict(w)
        ax.hist(model.spectrum(w, rng=0), bins=70, density=True, color="0.8", label="simulated eigenvalues")
        x = np.linspace(*p.bulk.support(), 400)
        ax.plot(x, p.bulk.pdf(x), "k", lw=1.3, label="predicted bulk")
        for outlier in p.outliers:
            style = "-" if outlier.kind == "signal" else "--"
            ax.axvline(outlier.eigenvalue, ls=style, color="tab:red", lw=1, label=f"predicted: {outlier.kind}")
        ax.set(xlabel="eigenvalue of S", title="centred" if centered else "not centred", ylim=(0, 6))
        ax.legend(framealpha=1, edgecolor="none", fontsize=8, loc="upper center", bbox_to_anchor=(0.32, 1.0))
    axes[0].set_ylabel("density")
    fig.savefig(out, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "second_outlier.png")
