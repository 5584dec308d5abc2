"""Pooling of DNA around splice junctions (UCI): the mean, the flattened sequence, and what the labels choose.

Sequences of 60 bases as 58 overlapping 3-mers; whether and how they are cut depends on a few positions in the middle.
The data are in benchmarks/data; poolings are compared on 1,500 sequences and tried on the others.
"""

import sys
from pathlib import Path

import numpy as np

import spikepool as sp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks" / "studies"))


def measure(rows=1500, seed=0):
    from corpora import splice

    data = splice()
    order = np.random.default_rng(seed).permutation(len(data.labels))
    train, test = order[:rows], order[rows:]
    fitted = sp.LearnedPoolingClassifier().fit(data.X[train], data.labels[train])
    tried = {}
    for rule in ("mean", "last", "concat", "flat"):
        one = sp.LearnedPoolingClassifier(pooling=rule).fit(data.X[train], data.labels[train])
        tried[rule] = one.score(data.X[test], data.labels[test])
    tried["auto"] = fitted.score(data.X[test], data.labels[test])
    return fitted, tried, len(test)


def main(path: str) -> None:
    import matplotlib.pyplot as plt

    fitted, tried, n = measure()
    print(fitted.summary())
    for rule, accuracy in tried.items():
        error = (accuracy * (1 - accuracy) / n) ** 0.5
        print(f"{rule:10} {accuracy:.3f} ± {error:.3f} on {n} other sequences")
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    fitted.plot(left)
    left.set_title("choosing a pooling for DNA at splice junctions", loc="left")
    fitted.plot(right, "weights")
    right.set_title("what is used: weight of each position", loc="left")
    fig.savefig(path, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "real_win.png")
