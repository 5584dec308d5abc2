"""Outliers and alignments over the separable bulk, forward and inverse, of any rank.

The pooled matrix is ``Y = A^{1/2} Z B/sqrt(V) + sum_k u_k b_k'`` with Z (d x V) noise, B'B the token usage seen by the
sequences and u_k, b_k the signals (their strength is in b_k). With e, ẽ of :mod:`spikepool.laws.generalized` at a real
point z beyond the bulk,

    G_u(z) = −(1/z) U'(I + ẽ A)^{-1} U,        G_b(z) = −(1/z) b'(I + e B'B)^{-1} b           (r x r matrices),

and U'(YY' − z)^{-1}U → (G_u^{-1} − z G_b)^{-1}. Outliers are its poles, det(I − z G_u G_b) = 0, which for rank one is
z g_u g_b = 1; the squared projections of the eigenvector on the u_k are the residues.

Isolated eigenvalues of A or of B'B (heavy tokens, the class structure of a finite table, the mean) are *spikes* of the
noise: they are left out of the bulk, give outliers of their own at 1 + ẽ a = 0 or 1 + e t = 0, and interact with the
signal through G_u and G_b. Outliers are counted by inertia: the number above z is

    #{spike outliers above z} + (positive eigenvalues of [[−G_u, I/√z], [I/√z, −G_b]]) − r,

so that none is missed, however close two of them are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import ConvergenceError, DomainError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.generalized import GeneralizedLaw

# Points counted at once, over the brackets of all outliers, and at least so many in each: rounds cost most of the time.
_POINTS, _LEAST = 64, 7


class Measure(NamedTuple):
    """Spectral measure of a PSD matrix at r vectors: v_k' f(A) v_l = sum_i f(values_i) c_ik c_il.

    `values` has shape (n,), `coordinates` (n, r).
    """

    values: FloatArray
    coordinates: FloatArray


@dataclass(frozen=True)
class GeneralOutlier:
    """One eigenvalue beyond the bulk.

    Attributes
    ----------
    eigenvalue : float
        Of the pooled covariance.
    overlaps : numpy.ndarray of shape (r,)
        Squared inner products of its unit eigenvector with the directions u_k.
    parameter : float
        Its s on the curve of points beyond the bulk (:meth:`GeneralizedLaw.right_curve`).
    """

    eigenvalue: float
    overlaps: FloatArray
    parameter: float


class GeneralSpikes:
    """Signals of rank r over a separable bulk.

    Parameters
    ----------
    bulk : GeneralizedLaw
        Law of the bulk, spikes left out.
    left : Measure
        Of A at the directions u_k.
    right : Measure
        Of B'B at the signals b_k.
    noise_spikes, usage_spikes : array_like
        Isolated eigenvalues of A and of B'B that are not part of `bulk`.
    """

    def __init__(
        self,
        bulk: GeneralizedLaw,
        left: Measure,
        right: Measure,
        *,
        noise_spikes: FloatArray | tuple[float, ...] = (),
        usage_spikes: FloatArray | tuple[float, ...] = (),
    ) -> None:
        self.bulk = bulk
        self.left, self.right = _checked(left, "left"), _checked(right, "right")
        if self.left.coordinates.shape[1] != self.right.coordinates.shape[1]:
            raise ShapeError(
                "left and right must have as many vectors",
                (self.left.coordinates.shape, self.right.coordinates.shape),
                "Pass one b_k for each u_k",
            )
        self.rank = self.left.coordinates.shape[1]
        self._poles = np.sort(
            np.concatenate(
                [bulk.usage_outliers(np.asarray(usage_spikes)), bulk.noise_outliers(np.asarray(noise_spikes))]
            )
        )

    @property
    def spike_outliers(self) -> FloatArray:
        """Outliers without any signal: those of the spikes of A and of the usage, ascending."""
        return self._poles.copy()

    def _transforms(self, y: FloatArray, yt: FloatArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """G_u and G_b at n points: arrays (n, r, r)."""
        with np.errstate(divide="ignore"):
            f = yt[:, None] / (yt[:, None] + self.left.values) / -z[:, None]
            g = y[:, None] / (y[:, None] + self.right.values) / -z[:, None]
        L, R = self.left.coordinates, self.right.coordinates
        return np.einsum("ni,ik,il->nkl", f, L, L), np.einsum("ni,ik,il->nkl", g, R, R)

    def _count(self, s: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Number of outliers above the points at parameters s of the last gap, and these points."""
        y, yt, z = self.bulk.right_curve(s)
        Gu, Gb = self._transforms(y, yt, z)
        r = self.rank
        block = np.zeros((len(s), 2 * r, 2 * r))
        block[:, :r, :r], block[:, r:, r:] = -Gu, -Gb
        link = np.eye(r) / np.sqrt(z)[:, None, None]
        block[:, :r, r:], block[:, r:, :r] = link, link
        # a point on top of a pole has an infinite entry; its neighbours decide
        block = np.nan_to_num(block, posinf=1e300, neginf=-1e300)
        positive = (np.linalg.eigvalsh(block) > 0).sum(axis=1)
        above = len(self._poles) - np.searchsorted(self._poles, z, side="right")
        return above + positive - r, z

    def outliers(self) -> tuple[GeneralOutlier, ...]:
        """All outliers to the right of the bulk, largest first."""
        edge = self.bulk.right_curve_start
        low = np.array([edge * (1 - 1e-9)])
        total = int(self._count(low)[0][0])
        if total <= 0:
            return ()
        high = low / 2
        while self._count(high)[0][0] > 0:
            high = high / 4
        return tuple(self.describe(s) for s in self._locate(total, float(low[0]), float(high[0])))

    def _locate(self, total: int, low: float, high: float) -> list[float]:
        """Parameters s of the outliers, largest first: the k-th lies where the count falls below k."""
        ranks = np.arange(1, total + 1)
        lows, highs = np.full(total, low), np.full(total, high)
        for _ in range(60):
            wide = highs - lows > 4e-16 * np.abs(lows)
            if not wide.any():
                return [float(s) for s in lows]
            sections = max(_LEAST, _POINTS // int(wide.sum()))
            steps = np.arange(1, sections + 1) / (sections + 1)
            ends = lows[wide, None], highs[wide, None]
            nodes = np.clip(ends[0] + (ends[1] - ends[0]) * steps, *ends)
            counts = self._count(nodes.ravel())[0].reshape(nodes.shape)
            last = (counts >= ranks[wide, None]).sum(axis=1)  # the count decreases with s
            grid = np.hstack([ends[0], nodes, ends[1]])
            rows = np.arange(len(last))
            lows[wide], highs[wide] = grid[rows, last], grid[rows, last + 1]
        point = int(np.argmax(highs - lows))
        raise ConvergenceError(
            "an outlier was not located; its bracket is still",
            float((highs - lows)[point]),
            "Check for coinciding spikes",
            point=float(lows[point]),
            residual=float((highs - lows)[point]),
        )

    def _derivatives(self, s: float) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        """G_u, F = G_u^{-1} − z G_b, z, and dF/dz at one point."""
        at = np.array([s])
        y, yt, z = self.bulk.right_curve(at)
        Gu, Gb = self._transforms(y, yt, z)
        turn, turn_t = self.bulk.right_curve_slopes(at, y, yt)  # d log y/d log z and d log ỹ/d log z
        L, R = self.left.coordinates, self.right.coordinates
        a, t = self.left.values, self.right.values
        zz = float(z[0])
        dGu = -Gu[0] / zz - np.einsum("i,ik,il->kl", yt * a / (yt + a) ** 2 * turn_t, L, L) / zz**2
        dzGb = -np.einsum("i,ik,il->kl", y * t / (y + t) ** 2 * turn, R, R) / zz
        inverse = np.linalg.inv(Gu[0])
        return Gu[0], inverse - zz * Gb[0], zz, -inverse @ dGu @ inverse - dzGb

    def describe(self, s: float) -> GeneralOutlier:
        """The outlier at parameter `s` of the curve beyond the bulk."""
        _, _, z = self.bulk.right_curve(np.array([s]))
        value = float(z[0])
        near = np.abs(self._poles - value) <= 1e-13 * value
        if near.any():
            # a spike that no signal touches: its eigenvector is orthogonal to all of them
            return GeneralOutlier(value, np.zeros(self.rank), s)
        _, F, _, dF = self._derivatives(s)
        values, vectors = np.linalg.eigh(F)
        x = vectors[:, int(np.argmin(np.abs(values)))]
        overlaps = x**2 / -(x @ dF @ x)
        return GeneralOutlier(value, np.clip(overlaps, 0.0, 1.0), s)

    def threshold(self) -> float:
        """Factor on the signals at which the first outlier made of them leaves the bulk; infinite if none does.

        The share of the signals on spikes that make outliers of their own is left out: next to an isolated usage
        spike the signal has an outlier at any strength.
        """
        y, yt, z = self.bulk.right_curve(np.array([self.bulk.right_curve_start]))
        noise, usage = self.left.values < -yt[0], self.right.values < -y[0]
        if not noise.any() or not usage.any():
            return float("inf")
        inner = GeneralSpikes(
            self.bulk,
            Measure(self.left.values[noise], self.left.coordinates[noise]),
            Measure(self.right.values[usage], self.right.coordinates[usage]),
        )
        Gu, Gb = inner._transforms(y, yt, z)
        top = float(np.max(np.linalg.eigvals(z[0] * Gu[0] @ Gb[0]).real))
        return float(1 / np.sqrt(top)) if top > 0 else float("inf")

    def invert(self, eigenvalue: float) -> tuple[tuple[float, FloatArray], ...]:
        """Factors c on the signals that put an outlier at an observed eigenvalue, with the overlaps there.

        One pair ``(c, overlaps)`` for each combination of the signals that can explain it, smallest c first: 1/c²
        are the positive eigenvalues of z G_u G_b.

        Raises
        ------
        DomainError
            If the eigenvalue is not beyond the bulk.
        """
        value = check.positive(eigenvalue, "eigenvalue")
        edge = self.bulk.support()[1]
        if value <= edge:
            raise DomainError(
                f"eigenvalue must exceed the bulk edge {edge:.12g}", value, "Keep only eigenvalues beyond the bulk"
            )
        y, yt, s = self.bulk.real_solution(np.array([value]))
        Gu, Gb = self._transforms(y, yt, np.array([value]))
        root = np.linalg.cholesky(-Gu[0]) if np.all(np.linalg.eigvalsh(-Gu[0]) > 0) else None
        if root is None:
            raise DomainError(
                "eigenvalue lies below an outlier of the noise covariance itself", value, "Remove that spike first"
            )
        strengths = np.linalg.eigvalsh(root.T @ (-Gb[0]) @ root) * value
        pairs = []
        for strength in strengths[strengths > 0][::-1]:
            factor = float(1 / np.sqrt(strength))
            scaled = GeneralSpikes(self.bulk, self.left, Measure(self.right.values, factor * self.right.coordinates))
            pairs.append((factor, scaled.describe(float(s[0])).overlaps))
        return tuple(pairs)


def _checked(measure: Measure, name: str) -> Measure:
    values = check.finite_array(measure.values, f"{name} values", ndim=1)
    coordinates = check.finite_array(measure.coordinates, f"{name} coordinates", ndim=2)
    if len(values) != len(coordinates):
        raise ShapeError(f"{name} needs one row of coordinates for each value", coordinates, "Match the lengths")
    if values.min() < 0:
        raise DomainError(f"{name} values must be at least 0", float(values.min()), "Pass eigenvalues of a PSD matrix")
    return Measure(values, coordinates)
