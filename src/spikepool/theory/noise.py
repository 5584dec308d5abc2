"""Noise of the table as the separable equations see it: the law of its covariance and its measure at u."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.atomic import AtomicLaw, discretise
from spikepool.laws.base import SpectralLaw
from spikepool.theory.general_spikes import Measure


class Noise:
    """Law of the noise covariance A, its measure at u, and its eigenvalues one by one where they are known."""

    def __init__(self, covariance: Any, d: int, direction: ArrayLike | None) -> None:
        self.d = d
        self.values: FloatArray | None = None
        u = None if direction is None else check.finite_array(direction, "direction", ndim=1)
        if u is not None and (len(u) != d or not u.any()):
            raise ShapeError(f"direction must be a non-zero vector of length d = {d}", u, "Match d")
        if covariance is None:
            self.law: SpectralLaw = AtomicLaw([1.0])
            self.left = Measure(np.ones(1), np.ones((1, 1)))
            return
        if isinstance(covariance, SpectralLaw):
            if u is not None:
                raise InvalidInputError(
                    "a direction needs a noise covariance, not the law of its eigenvalues",
                    remedy="Pass the covariance matrix, or leave the direction out",
                )
            self.law = covariance
            atoms = discretise(covariance)
            self.left = Measure(atoms.values, np.sqrt(atoms.weights)[:, None])
            return
        A = check.finite_array(covariance, "noise")
        if A.ndim not in (1, 2) or len(A) != d:
            raise ShapeError(f"noise must be ({d},) or ({d}, {d})", A, "Match d")
        if A.ndim == 1:
            values, coordinates = A, u
            if A.min() < 0:
                raise InvalidInputError("noise has a negative variance", float(A.min()), "Pass variances >= 0")
        else:
            values, basis = np.linalg.eigh(check.symmetric_psd(A, "noise"))
            values = np.maximum(values, 0.0)
            coordinates = None if u is None else basis.T @ u
        if coordinates is None:
            coordinates = np.full(d, 1 / np.sqrt(d))
        self.values = np.asarray(values, dtype=np.float64)
        self.law = AtomicLaw(self.values)
        self.left = Measure(self.values, (coordinates / np.linalg.norm(coordinates))[:, None])
