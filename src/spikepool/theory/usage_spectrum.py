"""Bulk, outliers and threshold for one usage.

*Spikes.* Isolated eigenvalues of the usage are taken out of its law, as poles (:mod:`spikepool.theory.isolated`).

*Threshold.* Regress the pooled latents b out of the pooled matrix: Y = Y_0 + (Y b)b'/‖b‖². Y_0 knows nothing of the
classes, and YY' has as many eigenvalues beyond the edge as Y_0 Y_0', or one more. The signal is *detectable* where
there is one more. By inertia that is so, with D(z) = z g_u(z) g_b(z) at mu = 1 (of ``theory/general_spikes.py``),

    at any mu where D(edge) <= 0 (usage directions that hold the classes are outliers by themselves),
    above mu = D(edge)^{-1/2} otherwise.

For uniform tokens and long sequences it tends to the threshold of the closed form, zero where the table's own class
means leave the bulk. A frequent token does not change it by being an outlier: that outlier is there without the classes
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray
from spikepool.laws.atomic import AtomicLaw, discretise
from spikepool.laws.generalized import GeneralizedLaw
from spikepool.theory.finite_size import Threshold, numerical_blur, numerical_threshold
from spikepool.theory.general_spikes import GeneralOutlier, GeneralSpikes, Measure
from spikepool.theory.isolated import EQUAL, isolated
from spikepool.theory.mixing import mixed
from spikepool.theory.noise import Noise
from spikepool.theory.token_usage import Usage
from spikepool.theory.validity import Shift

Kind = Literal["signal", "classes", "mean", "usage", "noise"]

# A direction that holds more than this share of the signal is left out of the law of the bulk also where it makes no
# outlier; it moves the edge by O(1/V).
CONCENTRATED = 0.1
# An outlier this close to the pole of a spike, relative to its size, is that spike: rounding hides what moved it.
_ON_POLE = 1e-12


class UsageBulk:
    """The part of the separable equations that does not know mu: prepared once for one usage, asked at many mu.

    Attributes
    ----------
    usage, noise : Usage, Noise
        What it was made from.
    law : GeneralizedLaw
        Law of the bulk, spikes left out.
    edge : float
        Its right end.
    spikes : numpy.ndarray of int
        Which of the usage's top eigenvalues are spikes.
    noise_spikes : numpy.ndarray
        Eigenvalues of the noise covariance that are.
    threshold : float
        Least mu at which the signal is detectable.
    crossing : Threshold or None
        What the mean alignment of draws near the threshold needs; None where there is no threshold.
    blur : float
        That of the edge (:mod:`spikepool.theory.finite_size`).
    """

    def __init__(self, usage: Usage, noise: Noise) -> None:
        self.usage, self.noise = usage, noise
        spiked = _spiked(usage, noise, resolved=False)
        self.spikes = np.flatnonzero(spiked)
        self.law, self.noise_spikes = _bulk(usage, noise, spiked)
        self.edge = self.law.support()[1]
        # a spike that this size does not tell from the bulk may hold little of the signal and still decide the sign of
        # D at the edge: for the threshold it is bulk
        resolved = _spiked(usage, noise, resolved=True)
        same = bool(np.array_equal(resolved, spiked))
        told = self.law if same else _bulk(usage, noise, resolved)[0]
        self.threshold = self._threshold(told)
        self.crossing, self.blur = self._crossing(told)

    def null_law(self) -> tuple[GeneralizedLaw, FloatArray]:
        """Law of the bulk without the spikes that this size tells from it, and the outliers of these at mu = 0."""
        resolved = _spiked(self.usage, self.noise, resolved=True)
        law, noise_spikes = _bulk(self.usage, self.noise, resolved)
        places = [law.usage_outliers(self.usage.top.values[resolved]), law.noise_outliers(noise_spikes)]
        return law, np.concatenate(places)

    def _at(self, bulk: GeneralizedLaw, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """g_u, g_b, the Stieltjes transform of the bulk, and z at points of the curve beyond it."""
        y, yt, z = bulk.right_curve(s)
        left, right = self.noise.left, self.usage.signal_measure
        a = self.noise.law if isinstance(self.noise.law, AtomicLaw) else discretise(self.noise.law)
        with np.errstate(divide="ignore"):
            g_u = -(yt[:, None] / (yt[:, None] + left.values)) @ left.coordinates[:, 0] ** 2 / z
            g_b = -(y[:, None] / (y[:, None] + right.values)) @ right.coordinates[:, 0] ** 2 / z
            m = -(yt[:, None] / (yt[:, None] + a.values)) @ a.weights / z
        return g_u, g_b, m, z

    def strength(self, s: float) -> float:
        """D = z g_u g_b at the largest outlier, where that is the largest spike's: without this spike."""
        g_u, g_b, z = self._without_spikes(np.array([s]), self.spikes[:1])
        return float(z[0] * g_u[0] * g_b[0])

    def _without_spikes(self, s: FloatArray, spikes: NDArray[np.intp]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """g_u, g_b and z at points of the curve beyond the bulk, these spikes of the usage left out of g_b."""
        y, yt, z = self.law.right_curve(s)
        left, right = self.noise.left, self.usage.signal_measure
        kept = np.ones(len(right.values), dtype=bool)
        kept[spikes] = False
        held = left.coordinates[:, 0] != 0  # a noise spike orthogonal to u does not give a pole of g_u
        with np.errstate(divide="ignore"):  # on a pole D is infinite
            g_u = -(yt[:, None] / (yt[:, None] + left.values[held])) @ left.coordinates[held, 0] ** 2 / z
            g_b = -(y[:, None] / (y[:, None] + right.values[kept])) @ right.coordinates[kept, 0] ** 2 / z
        return g_u, g_b, z

    def mixing(self, found: Sequence[tuple[float, float]], signal: bool, step: float = 1e-5) -> Shift | None:
        """What the largest outlier gains or loses of its alignment at finite d because other directions mix with it.

        A direction of eigenvalue t of the usage adds ``(t/V)/(1 + t/y)`` to z on the curve beyond the bulk. The limit
        leaves that out for single directions, as it is of order 1/d. The alignment is proportional to the slope of z,
        so that a direction takes the share ``(t²/V) y'(z)/(y + t)²`` of the eigenvector. Any other outlier is such a
        direction, of t = −y where it lies, as is a spike too weak for an outlier. The eigenvector gains that share of
        what the other holds of u. For white noise; coloured noise counts with its mean variance, an approximation.

        Parameters
        ----------
        found : sequence of (parameter, alignment)
            The outliers, largest first.
        signal : bool
            Whether the largest is the signal's.
        """
        if not found:
            return None
        s, alignments = np.array(found).T
        start = self.law.right_curve_start
        y, _, z = self.law.right_curve(np.concatenate([s, [start], s[0] * (1 + step * np.array([-1.0, 1.0]))]))
        spikes, k = self.usage.top.values[self.spikes], len(s)
        hidden = spikes < -y[k]
        # what a weak spike holds of the classes is part of the signal
        outside = 1 - self.usage.top.signal[self.spikes] ** 2 / max(self.usage.gain, 1e-300)
        t = np.concatenate([-y[1:k], spikes[hidden]])
        held = np.concatenate([alignments[1:], np.zeros(hidden.sum())])
        slope = abs((y[k + 2] - y[k + 1]) / (z[k + 2] - z[k + 1])) * float(self.noise.law.moment(1))
        with np.errstate(divide="ignore"):
            taken = slope * t**2 / self.usage.V / (y[0] + t) ** 2
        taken[k - 1 :] *= outside[hidden]
        shares = np.array([mixed(float(one)) for one in taken])
        if not len(shares):
            return None
        # what u answers to the largest outlier through another is in finite_size.beside; the rest of that is random
        gained = held if signal else held * (1 - held)
        change = shares @ (gained - alignments[0])
        return Shift(
            "other directions lie so close to the largest outlier that they mix: in a draw one holds about "
            f"{100 * shares.max():.2g} % of its eigenvector",
            float(change),
        )

    def signal_curve(self, points: int = 96) -> tuple[FloatArray, FloatArray]:
        """Values of mu², ascending from the threshold, and the alignment of the signal's outlier at each.

        Along the curve beyond the bulk, mu² = 1/D and the alignment is g_u D/(dD/dz). Spikes of the usage are left out:
        a quick estimate of how the alignment bends, not the alignment itself.
        """
        start = self.law.right_curve_start
        s = start * (1 - np.linspace(0.0, 1.0, points, endpoint=False) ** 1.5)
        g_u, g_b, z = self._without_spikes(s, self.spikes)
        D = z * g_u * g_b
        with np.errstate(divide="ignore", invalid="ignore"):
            alignment = np.clip(g_u * D * np.gradient(z, s) / np.gradient(D, s), 0.0, 1.0)
        keep = np.isfinite(alignment) & (D > 0)
        order = np.argsort(1 / D[keep])
        return (1 / D[keep])[order], alignment[keep][order]

    def _threshold(self, bulk: GeneralizedLaw) -> float:
        (g_u,), (g_b,), _, (z,) = self._at(bulk, np.array([bulk.right_curve_start]))
        if g_u >= 0 or g_b > 0:
            return 0.0
        return float(1 / np.sqrt(z * g_u * g_b)) if g_b < 0 else float("inf")

    def _crossing(self, bulk: GeneralizedLaw) -> tuple[Threshold | None, float]:
        step = 1e-3 * bulk.right_curve_start
        g_u, g_b, m, z = self._at(bulk, np.array([bulk.right_curve_start - step * i for i in range(3)]))
        threshold = numerical_threshold(z * g_u * g_b, m, g_u, z, step) if 0 < self.threshold < np.inf else None
        return threshold, numerical_blur(m, z, step)


class UsageSpectrum:
    """What the separable equations say of S for one usage and one strength of the signal.

    Attributes
    ----------
    usage : Usage
        What it was made from.
    bulk : GeneralizedLaw
        Law of the bulk, spikes left out.
    edge : float
        Its right end.
    outliers : tuple of GeneralOutlier
        Largest first.
    contents : numpy.ndarray
        For each outlier, the squared cosine of its right singular vector with b: how far it is made of the signal.
    threshold : float
        Least mu at which the signal is detectable.
    detectable : bool
        Whether it is at this mu.
    """

    def __init__(self, prepared: UsageBulk, mu: float) -> None:
        self.usage, self.bulk, self.edge = prepared.usage, prepared.law, prepared.edge
        self._mu, self._left, self._right = mu, prepared.noise.left, self.usage.signal_measure
        self._spikes, self._noise_spikes = prepared.spikes, prepared.noise_spikes
        self.outliers: tuple[GeneralOutlier, ...] = GeneralSpikes(
            self.bulk,
            self._left,
            Measure(self._right.values, mu * self._right.coordinates),
            noise_spikes=prepared.noise_spikes,
            usage_spikes=self.usage.top.values[self._spikes],
        ).outliers()
        s = np.array([o.parameter for o in self.outliers])
        self._points = (*self.bulk.right_curve(s)[:2], s) if self.outliers else (s, s, s)
        self._untouched = self._spikes_alone()
        self._on_noise = self._noise_alone()
        self.contents = self._contents()
        self.threshold = prepared.threshold
        self.detectable = len(self.outliers) > 0 and (self.threshold == 0 or mu > self.threshold)

    def _spikes_alone(self) -> list[int | None]:
        """For each outlier the usage spike that it is, when no signal moves it by more than rounding."""
        places = self.bulk.usage_outliers(self.usage.top.values[self._spikes])
        alone: list[int | None] = []
        for outlier in self.outliers:
            near = np.flatnonzero(np.abs(places - outlier.eigenvalue) <= _ON_POLE * outlier.eigenvalue)
            # two of them at one place: which is which does not matter, but each is one
            free = [int(self._spikes[i]) for i in near if int(self._spikes[i]) not in alone]
            alone.append(free[0] if free else None)
        return alone

    def _noise_alone(self) -> NDArray[np.bool_]:
        """Which outliers are those of a noise spike that is orthogonal to u: the signal does not move them at all."""
        z = np.array([o.eigenvalue for o in self.outliers])[:, None]
        places = self.bulk.noise_outliers(self._noise_spikes)
        return np.asarray((np.abs(places - z) <= _ON_POLE * z).any(axis=1))

    def _contents(self) -> FloatArray:
        """Residues of b'(Y'Y − z)^{-1}b over ‖b‖²: g_b²/(g_b' + g_b² mu² (z g_u)')."""
        y, yt, s = self._points
        z = np.array([o.eigenvalue for o in self.outliers])
        turn, turn_t = self.bulk.right_curve_slopes(s, y, yt)
        p, q = self._left.coordinates[:, 0] ** 2, self._right.coordinates[:, 0] ** 2
        t = self._right.values
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at = y[:, None] + t
            g = -(y[:, None] / at) @ q / z
            slope = -g / z - ((y * turn)[:, None] * t / at**2) @ q / z**2
            near = yt[:, None] + self._left.values
            left_slope = -((yt * turn_t)[:, None] * self._left.values / near**2) @ p / z
            content = g**2 / (slope + g**2 * self._mu**2 * left_slope)
        for k, alone in enumerate(self._untouched):
            if alone is not None:  # the limit on the pole itself
                content[k] = self.usage.top.signal[alone] ** 2 / turn[k]
        content[self._on_noise] = 0.0
        return np.clip(np.asarray(content) / max(self.usage.gain, 1e-300), 0.0, 1.0)

    def kinds(self) -> list[Kind]:
        """What each outlier is made of, in the order of `outliers`.

        The signal's is the one with the largest content of b. The others follow the order of the spikes they come
        from, of the usage or of the noise covariance; the mean's is that of the usage spike with the largest share of
        the vector of ones.
        """
        kinds: list[Kind] = ["usage"] * len(self.outliers)
        top = self.usage.top
        places = self.bulk.usage_outliers(top.values[self._spikes])
        own = self._spikes[: len(places)]
        noise = self.bulk.noise_outliers(self._noise_spikes)
        # (place, share of the signal in the spike, share of the vector of ones, kind)
        poles: list[tuple[float, float, float, Kind]] = [
            (float(z), float(share), float(mean), "usage")
            for z, share, mean in zip(
                places, top.signal[own] ** 2 / max(self.usage.gain, 1e-300), top.mean[own], strict=True
            )
        ] + [(float(z), self._held_by(a), -1.0, "noise") for z, a in zip(noise, self._noise_spikes, strict=False)]
        poles.sort(key=lambda pole: -pole[0])
        if self.detectable:
            kinds[int(np.argmax(self.contents))] = "signal"
            if len(poles) >= len(self.outliers):  # the signal's outlier is that of a spike that holds the signal
                del poles[int(np.argmax([pole[1] for pole in poles]))]
        rest = [i for i, kind in enumerate(kinds) if kind != "signal"]
        for i, pole in zip(rest, poles, strict=False):
            kinds[i] = pole[3]
        means = [pole[2] for pole in poles[: len(rest)]]
        if means and max(means) > 0:
            kinds[rest[int(np.argmax(means))]] = "mean"
        return kinds

    def _held_by(self, a: float) -> float:
        """Share of u in the directions of the noise covariance with eigenvalue `a`."""
        return float(np.sum(self._left.coordinates[self._left.values == a, 0] ** 2))

    def profiles(self) -> FloatArray:
        """Unit vectors (len(top) + 1, len(outliers)): each outlier in terms of the usage's directions.

        A right singular vector is along (I + e B'B)^{-1} b = sum_i (v_i'b)/(1 + t_i/y) v_i; the last row is for the
        part off the top pairs. The outlier of a spike that no signal touches is that spike.
        """
        top, rest = self.usage.top, self.usage.measure
        table = np.zeros((len(top) + 1, len(self.outliers)))
        for k, (y, alone) in enumerate(zip(self._points[0], self._untouched, strict=True)):
            if alone is not None:
                table[alone, k] = 1.0
                continue
            table[:-1, k] = top.signal / (1 + top.values / y)
            table[-1, k] = np.sqrt(np.sum((rest.coordinates[:, 0] / (1 + rest.values / y)) ** 2))
            table[:, k] /= float(np.linalg.norm(table[:, k])) or 1.0
        return table


def _spiked(usage: Usage, noise: Noise, *, resolved: bool) -> NDArray[np.bool_]:
    """Which of the top eigenvalues of the usage are spikes."""
    V, top = usage.V, usage.top
    spiked: NDArray[np.bool_] = top.signal**2 > CONCENTRATED * usage.gain
    # (a direction: equal eigenvalues, as tokens of equal counts make them, hold it together and are bulk)
    gaps = np.abs(np.diff(np.concatenate([[np.inf], top.values, usage.values[:1], [-np.inf]])))
    alone = np.minimum(gaps[: len(top)], gaps[1 : len(top) + 1]) > EQUAL * top.values
    spiked &= alone
    if not ((top.values[~spiked] > 0).any() or (usage.values > 0).any()):
        spiked[:] = False  # a handful of sequences: all there is must be the bulk
    single = np.flatnonzero(~spiked)
    values = np.concatenate([top.values[single], usage.values])
    weights = np.concatenate([np.full(len(single), 1 / V), usage.weights])
    bound = noise.d / V * (1 - noise.law.atom)
    spiked[single[: isolated(values, weights, len(single), bound, resolved=resolved)]] = True
    return spiked


def _bulk(usage: Usage, noise: Noise, spiked: NDArray[np.bool_]) -> tuple[GeneralizedLaw, FloatArray]:
    """Law of the bulk without the spikes of the usage and of the noise, and the latter."""
    V, delta = usage.V, noise.d / usage.V
    values = np.concatenate([np.where(spiked, 0.0, usage.top.values), usage.values])  # masses of order 1/V go to zero
    weights = np.concatenate([np.full(len(spiked), 1 / V), usage.weights])
    law = AtomicLaw(values, weights / weights.sum())
    if noise.values is None:
        return GeneralizedLaw(noise.law, law, delta), np.empty(0)
    a = np.sort(noise.values)[::-1]
    j = isolated(a, np.full(len(a), delta / len(a)), len(a), 1 - law.atom, resolved=False)
    return GeneralizedLaw(AtomicLaw(a[j:]), law, delta * len(a[j:]) / len(a)), a[:j]
