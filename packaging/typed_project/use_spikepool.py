"""A small program as a user writes it, checked by mypy in strict mode against the installed wheel."""

from pathlib import Path

import numpy as np

import spikepool as sp


def plan(d: int, mu: float) -> int:
    """Sequences for an alignment of 0.7."""
    model = sp.SequenceModel(d=d, V=800, N=1000, R=sp.prefix_correlation(T=10, L=3), mu=mu)
    prediction: sp.Prediction = model.predict(sp.causal_weights(10))
    outliers: tuple[sp.Outlier, ...] = prediction.outliers
    print(prediction.alignment, [outlier.eigenvalue for outlier in outliers])
    return model.required_samples(sp.causal_weights(10), alignment=0.7)


def read(path: Path) -> dict[str, int]:
    """Outliers of a table under each null."""
    table = sp.TableSpectrum.from_file(path)
    counts: dict[str, int] = table.counts_
    return counts


if __name__ == "__main__":
    print(plan(500, 1.3))
    print(sp.diagnose(np.random.default_rng(0).standard_normal((200, 50))).verdict)
