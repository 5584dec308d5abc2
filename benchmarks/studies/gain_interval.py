"""Coverage of `SpectralPooling.gain_interval_` on draws of the model, where the gain of any weights is known.

    python benchmarks/studies/gain_interval.py --draws 12  # 18 settings, a few minutes on one core

For each setting: fits whose weights are accepted, the share of nominal 95 % intervals that hold the true gain of these
weights, and the share of lower ends beyond the best possible gain.
"""

from __future__ import annotations

import argparse

import numpy as np

import spikepool as sp

T = 10
CORRELATIONS = {
    "prefix 3": sp.prefix_correlation(T, 3),
    "prefix 6": sp.prefix_correlation(T, 6),
    "spiked 3": sp.spiked_correlation(T, 4.0, 3, normalize=True),
}
SIZES = ({"d": 60, "V": 100, "N": 500}, {"d": 200, "V": 320, "N": 1000})
STRENGTHS = (1.2, 2.0, 3.5)


def ratio(w: np.ndarray, R: np.ndarray) -> float:
    alpha, kappa = sp.gains(w, R)
    return alpha / kappa


def one_setting(R: np.ndarray, mu: float, sizes: dict[str, int], draws: int) -> np.ndarray:
    """Covered and beyond the best (accepted fits, 2)."""
    mean, best, found = ratio(sp.mean_weights(T), R), float(np.linalg.eigvalsh(R)[-1]), []
    for seed in range(draws):
        sample = sp.SequenceModel(**sizes, R=R, mu=mu).sample(rng=seed)
        pooling = sp.SpectralPooling(table=sample.table.T).fit(sample.tokens)
        if pooling.decision_ == "spectral":
            low, high = pooling.gain_interval_
            found.append((low <= ratio(pooling.weights_, R) / mean <= high, low > best / mean))
    return np.array(found, bool).reshape(-1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=12)
    options = parser.parse_args()
    print("| correlation | d | mu | accepted | coverage | lower end beyond the best |")
    print("| --- | --- | --- | --- | --- | --- |")
    everything = []
    for sizes in SIZES:
        for name, R in CORRELATIONS.items():
            for mu in STRENGTHS:
                found = one_setting(R, mu, sizes, options.draws)
                everything.append(found)
                shares = " | ".join(f"{v:.2f}" for v in found.mean(axis=0)) if len(found) else "– | –"
                print(f"| {name} | {sizes['d']} | {mu} | {len(found)} | {shares} |", flush=True)
    total = np.concatenate(everything)
    print(f"\n{len(total)} accepted fits: coverage {total[:, 0].mean():.3f}, beyond {total[:, 1].mean():.3f}")


if __name__ == "__main__":
    main()
