"""One token per sequence: the closed form misses the spectrum, the law given the tokens does not."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np

import spikepool as sp


def main(out: str) -> None:
    model = sp.SequenceModel(d=500, V=800, N=1000, R=np.eye(1), mu=0.0, table="class_centered")
    w = [1.0]
    limit, exact = model.predict(w).bulk, model.predict(w, exact=True, rng=0).bulk
    fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    values = np.concatenate([model.spectrum(w, rng=seed) for seed in range(4)])
    # singular values: the square root opens up the crowded end near zero
    ax.hist(np.sqrt(np.maximum(values, 0)), bins=70, density=True, color="0.8", label="simulated (4 draws)")
    for law, style, name in (
        (limit, "--", "closed form (spread-out weights)"),
        (exact, "-", "given the tokens"),
    ):
        left, right = np.sqrt(law.support())
        s = np.linspace(left, right, 500)[1:-1]
        ax.plot(s, 2 * s * law.pdf(s**2), style, color="black" if style == "-" else "tab:orange", lw=1.4, label=name)
    ax.set(xlabel="square root of an eigenvalue of S", ylabel="density", title="one token per sequence")
    ax.legend(frameon=False)
    fig.savefig(out, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "finite_sequences.png")
