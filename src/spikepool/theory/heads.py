"""Heads side by side: what concatenation costs against the best recombination (open problem iv of the paper).

Pooling with H heads, rows of W (H, T), and keeping their outputs side by side gives features of dimension d H. Rescaled
so that W W' = I (which a linear model behind them undoes), their population covariance is

    I_H ⊗ ZPZ'/V + (W R W') ⊗ h h',      h = mu u + zeta,

so that the spikes have strengths lambda_i (mu² + delta), lambda_i the eigenvalues of W R W', over the bulk of kappa = 1
and gamma H. The largest lambda is the alpha/kappa of the best recombination (:func:`spikepool.optimal_heads`): the
signal is as strong, and the sample has H times the dimensions to hide it in. Concatenation therefore costs what a
factor H in the number of sequences is worth, and it shows every direction of W R W' that is strong enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.results import Result, Table
from spikepool.theory.closed_form import predict_arrays, predict_gains, require_plain
from spikepool.theory.prediction import Prediction
from spikepool.world.heads import optimal_heads
from spikepool.world.sequences import SequenceWorld, checked_model


@dataclass(frozen=True)
class HeadPrediction(Result, schema="heads"):
    """Predicted spectrum of concatenated heads, beside the best recombination.

    Attributes
    ----------
    eigenvalues, alignments : numpy.ndarray
        Outliers of the covariance of the concatenated, orthonormalised heads, largest first, and the squared length of
        each eigenvector's projection on the copies of u.
    edge : float
        Right edge of its bulk.
    recombined : Prediction
        What the best single combination of the heads shows.
    """

    eigenvalues: FloatArray
    alignments: FloatArray
    edge: float
    recombined: Prediction

    def _tables(self) -> list[Table]:
        rows = [
            ("concatenated", *pair) for pair in zip(self.eigenvalues.tolist(), self.alignments.tolist(), strict=True)
        ]
        rows.append(("recombined", self.recombined.eigenvalue, self.recombined.alignment))
        return [("Heads", ("heads", "eigenvalue", "alignment"), rows)]

    def plot(self, ax: Any = None) -> Any:
        """Alignments of the concatenated heads' outliers and of the recombination; returns the axes."""
        from spikepool.drawing.predictions import draw_alignments

        named = {f"concatenated {i}": float(a) for i, a in enumerate(self.alignments, 1)}
        return draw_alignments(named | {"recombined": self.recombined.alignment}, ax)


def predict_heads(model: SequenceWorld, heads: ArrayLike) -> HeadPrediction:
    """Outliers of concatenated heads and of their best recombination; S is centred.

    Parameters
    ----------
    model : SequenceWorld
        Centred, with isotropic noise and uniform token frequencies.
    heads : array_like of shape (H, T)
        Weights of each head; linearly dependent ones count once.
    """
    model = checked_model(model)
    require_plain(model)
    W = check.finite_array(heads, "heads", ndim=2)
    if W.shape[1] != model.T:
        raise ShapeError(f"heads must have one column for each of the {model.T} positions", W, "Pass (H, T)")
    mix = optimal_heads(W, model.R)
    _, sizes, basis = np.linalg.svd(W, full_matrices=False)
    basis = basis[sizes > 1e-10 * sizes[0]]
    strengths = np.linalg.eigvalsh(basis @ model.R @ basis.T)[::-1]
    found = predict_arrays(
        mu=model.mu,
        alpha=np.maximum(strengths, 0.0),
        kappa=1.0,
        delta=model.delta,
        gamma=model.gamma * len(basis),
        table=model.table,
    )
    seen = np.isfinite(found.signal_eigenvalue)
    return HeadPrediction(
        eigenvalues=found.signal_eigenvalue[seen],
        alignments=found.signal_alignment[seen],
        edge=float(found.edge[0]),
        recombined=predict_gains(model, mix.alpha, mix.kappa),
    )
