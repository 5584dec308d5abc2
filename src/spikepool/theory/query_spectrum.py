"""Outliers of sequences pooled by a query: which there are, what they are made of, and what they hold of u.

The equations are those of :mod:`spikepool.theory.query`. Their left side is :mod:`spikepool.theory.query_noise`, their
right side the usage of :mod:`spikepool.theory.query_usage`.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.theory.finite_size import leads, over_gains, top_draws
from spikepool.theory.general_spikes import GeneralOutlier, GeneralSpikes, Measure
from spikepool.theory.noise import Noise
from spikepool.theory.query_noise import QueryNoise
from spikepool.theory.query_usage import query_usage, token_draws
from spikepool.theory.token_usage import Usage
from spikepool.theory.usage_spectrum import UsageBulk, UsageSpectrum
from spikepool.theory.validity import Draws
from spikepool.world.query import QueryWorld


class _Top(NamedTuple):
    """An outlier off the query."""

    kind: str
    eigenvalue: float
    alignment: float
    outlier: GeneralOutlier


class QuerySpectrum:
    """Outliers of the pooled covariance off the query, with their names, and the one along the query."""

    def __init__(self, world: QueryWorld, rng: int, *, draw: int = 0, regressed: bool = True) -> None:
        self.world, self.seed, self.draw, self.regressed = world, rng, draw, regressed
        self.usages = usages = query_usage(world, rng, draw, regressed=regressed)
        self.left = QueryNoise(world)
        self.bulk = UsageBulk(usages.signal, self.left.noise)
        self.other = "sequence" if world.V is None else "usage"
        self.spikes = usages.signal.top.values[self.bulk.spikes]

    @property
    def top(self) -> float:
        """Alignment of the largest outlier off the query, 0 without one."""
        return self._tops[0].alignment if self._tops else 0.0

    @cached_property
    def _tops(self) -> list[_Top]:
        """The outliers, largest first."""
        found = (_Top(name, outlier.eigenvalue, a, outlier) for name, outlier, a in self.named)
        return sorted(found, key=lambda one: -one.eigenvalue)

    @cached_property
    def crossover(self) -> Draws | None:
        """Alignments of draws as far as the edge of the bulk decides (:func:`spikepool.theory.finite_size.top_draws`).

        None where it does not.
        """
        bulk, top = self.bulk, self._tops[0] if self._tops else None

        def strength() -> float:
            assert top is not None
            return bulk.strength(top.outlier.parameter)

        found = top_draws(top, bulk.edge, self.world.mu, self.world.d, bulk.crossing, lambda: bulk.blur, strength)
        if found is None or top is None or top.kind != "key" or leads(top, bulk.edge, self.world.d):
            return found
        # k is orthogonal to u: only what the eigenvector of the key's outlier holds off k meets u by chance
        off = 1 - float(top.outlier.overlaps[-1])
        return Draws(top.alignment + off * (found.mean - top.alignment), off * found.scatter)

    def draws(self) -> Draws | None:
        """Alignments of draws in d dimensions given this usage.

        To the `crossover` come, for tokens that never repeat, two terms: the signal gain scatters over N sequences, and
        the alignment bends in it (:meth:`bend`); signal and key overlap by chance (:meth:`key_loss`). With a finite
        vocabulary the usage is that of one draw of the tokens, whose frequent tokens make outliers that mix with the
        signal's.
        """
        found, world = self.crossover, self.world
        if not self._tops:
            crossing = self.bulk.crossing
            if crossing is None or found is None:
                return found
            return over_gains(lambda at, _: crossing.draws(at, world.d), world.mu, 0.0, self.usages.spread / world.N)
        top = self._tops[0]
        if world.V is not None:
            mean, scatter = (top.alignment, 0.0) if found is None else found
            return Draws(max(0.0, mean + self.mixing), scatter)
        if top.kind != "signal":
            return found
        bend, deviation = self.bend
        mean, scatter = (top.alignment, deviation) if found is None else found
        return Draws(max(0.0, mean + bend - top.alignment * self.key_loss(top.outlier)), scatter)

    @cached_property
    def mixing(self) -> float:
        """What the largest outlier gains or loses of its alignment by mixing with other directions."""
        found = [(top.outlier.parameter, top.alignment) for top in self._tops]
        first = self._tops[0] if self._tops else None
        shift = self.bulk.mixing(found, leads(first, self.bulk.edge, self.world.d))
        return 0.0 if shift is None else shift.change

    @cached_property
    def bend(self) -> tuple[float, float]:
        """Change of the mean alignment, and its deviation, by the scatter of the signal gain over N sequences.

        The mean of A² has the relative deviation e = sqrt(Var(A²)/N)/E[A²], large where few sequences have relevant
        tokens; the mean alignment is about that at the gains 1 ± e.
        """
        relative = min(0.5, float(np.sqrt(self.usages.spread / self.world.N)))
        squares, alignments = self.bulk.signal_curve()
        gains = self.world.mu**2 * np.array([1 - relative, 1.0, 1 + relative])
        low, middle, high = np.interp(gains, squares, alignments, left=0.0)
        return float((low + high) / 2 - middle), float(abs(high - low) / 2)

    def key_loss(self, outlier: GeneralOutlier) -> float:
        """Share of the signal's outlier that the key takes by chance.

        Their left directions overlap by 1/sqrt(d), their right vectors xi A and A − E A by the root of
        E[A⁴]/(N E[A²]²). The key responds to that by R/(1 − R)², R = nu² (1 − m²) D at the outlier.
        """
        if self.left.scales[1] == 0 or self.usages.right is None:
            return 0.0
        left, right = self._signals((1,), True)
        y, yt, z = (float(x[0]) for x in self.bulk.law.right_curve(np.array([outlier.parameter])))
        g_u = -float(yt / (yt + left.values) @ left.coordinates[:, 0] ** 2) / z
        g_b = -float(y / (y + right.values) @ right.coordinates[:, 0] ** 2) / z
        R = z * g_u * g_b
        chance = 1 / self.world.d + (1 + self.usages.spread) / self.world.N
        return min(0.5, chance * R / (1 - R) ** 2) if 0 <= R < 1 else 0.0

    @cached_property
    def named(self) -> list[tuple[str, GeneralOutlier, float]]:
        """Name, outlier and alignment with u of every outlier off the query."""
        world, usages = self.world, self.usages
        key = self.left.scales[1] > 0
        # white tokens that never repeat: the sign of a sequence makes signal and key independent of each other
        together = key and usages.right is not None and (world.V is not None or world.noise is not None)
        if together:
            return self._together()
        spectrum = UsageSpectrum(self.bulk, world.mu)
        found = [
            (kind if kind in ("signal", "noise") else self.other, outlier, float(outlier.overlaps[0]))
            for kind, outlier in zip(spectrum.kinds(), spectrum.outliers, strict=True)
        ]
        if key and usages.right is not None:
            outliers = self._outliers((1,))
            best = max(outliers, key=lambda o: float(o.overlaps[0]), default=None)
            if best is not None and self._is_largest(best, (1,), 0):
                found.append(("key", best, 0.0))
        elif key:
            place = _own_outlier(usages.others[0], self.left.noise, self.left.scales[1])
            found += [] if place is None else [("key", place, 0.0)]
        return found

    def _together(self) -> list[tuple[str, GeneralOutlier, float]]:
        """Signal and key with the usage spikes of a finite vocabulary; an outlier is what it overlaps with most.

        Where the noise has isolated eigenvalues, an outlier that is not mostly of one of these is the noise's.
        """
        threshold = self.bulk.threshold
        outliers = self._outliers((0, 1))
        if not outliers:
            return []
        shares = np.array([self._shares(o, (0, 1)) for o in outliers])
        present = threshold == 0 or self.world.mu > threshold
        first = int(np.argmax(shares[:, 0])) if present else -1
        found = []
        for i, outlier in enumerate(outliers):
            rest = shares[i, 1:]
            other = "key" if rest[0] >= rest.max() else self.other
            if len(self.bulk.noise_spikes) and rest.max() < 0.5:
                other = "noise"
            found.append(("signal" if i == first else other, outlier, float(outlier.overlaps[0])))
        return found

    def query(self) -> float | None:
        """Eigenvalue along the query of the covariance in which it is left, where it is an outlier."""
        if self.usages.right is None:
            noise = Noise(None, self.world.d - 1, None)
            noise.left = Measure(np.zeros(1), np.ones((1, 1)))  # no noise along q but that of f
            own = _own_outlier(self.usages.others[1], noise, 1.0)
            return None if own is None else own.eigenvalue
        if self.regressed and self.world.noise is not None and self.world.V is not None:
            return QuerySpectrum(self.world, self.seed, draw=self.draw, regressed=False).query()
        p = self.world.directions
        first = 1 if self.world.V is None else 0
        columns = tuple(i for i in range(first, 2 + p) if self.left.scales[i] > 0)
        at = len(columns) - p
        outliers = self._outliers(columns, regressed=False)
        best = max(outliers, key=lambda o: float(o.overlaps[at:].sum()), default=None)
        return best.eigenvalue if best is not None and self._is_largest(best, columns, at) else None

    def _signals(self, columns: tuple[int, ...], regressed: bool) -> tuple[Measure, Measure]:
        """Left and right measures at these vectors."""
        assert self.usages.right is not None
        values, coordinates = self.usages.right
        if regressed and self.world.noise is not None and self.world.V is None:
            covariance = self.usages.covariance
            slope = covariance[0, 1:] / np.where(np.diag(covariance)[1:] > 0, np.diag(covariance)[1:], 1.0)
            coordinates = coordinates.copy()
            coordinates[:, 1] -= coordinates[:, 2:] @ slope
        at = list(columns)
        scaled = coordinates[:, at] * self.left.scales[at]
        return Measure(self.left.directions.values, self.left.directions.coordinates[:, at]), Measure(values, scaled)

    def _outliers(self, columns: tuple[int, ...], *, regressed: bool = True) -> tuple[GeneralOutlier, ...]:
        left, right = self._signals(columns, regressed)
        law, noise = self.bulk.law, self.bulk.noise_spikes
        return GeneralSpikes(law, left, right, noise_spikes=noise, usage_spikes=self.spikes).outliers()

    def _shares(self, outlier: GeneralOutlier, columns: tuple[int, ...], *, regressed: bool = True) -> FloatArray:
        """Squared overlaps of an outlier's eigenvector with these directions, and with the noise of each usage spike.

        A spike t of the usage with right vector v is a signal as well: its direction is that of the noise that its
        token or sequence carries, a random vector of squared norm d E[a], and its coordinates are sqrt(d E[a] t/V) v.
        """
        left, right = self._signals(columns, regressed)
        spikes, r, noise = self.bulk.spikes, len(columns), self.left.mean_noise
        count, block = len(spikes), len(noise.values)
        rows = np.zeros((len(left.values) + count * block, r + count))
        rows[: len(left.values), :r] = left.coordinates
        for i in range(count):
            start = len(left.values) + i * block
            rows[start : start + block, r + i] = noise.coordinates[:, 0]
        values = right.values.copy()
        sides = np.hstack([right.coordinates, np.zeros((len(values), count))])
        mean = float(np.mean(noise.values)) if self.world.noise is not None else 1.0
        sides[spikes, r + np.arange(count)] = np.sqrt(self.bulk.noise.d * mean / self.usages.signal.V * self.spikes)
        values[spikes] = 0.0
        joined = Measure(np.concatenate([left.values, np.tile(noise.values, count)]), rows)
        return GeneralSpikes(self.bulk.law, joined, Measure(values, sides)).describe(outlier.parameter).overlaps

    def _is_largest(self, outlier: GeneralOutlier, columns: tuple[int, ...], at: int) -> bool:
        """Whether the directions from `at` on hold more of an outlier than any other direction does."""
        shares = self._shares(outlier, columns, regressed=False)
        mine = float(shares[at : len(columns)].sum())
        rest = np.concatenate([shares[:at], shares[len(columns) :]])
        return bool(rest.size == 0 or mine >= rest.max())


def _own_outlier(usage: Usage, noise: Noise, strength: float) -> GeneralOutlier | None:
    """The outlier of kind "signal" of a usage that is known for this vector alone."""
    spectrum = UsageSpectrum(UsageBulk(usage, noise), strength)
    pairs = zip(spectrum.kinds(), spectrum.outliers, strict=True)
    return next((outlier for kind, outlier in pairs if kind == "signal"), None)


def token_spectra(world: QueryWorld, rng: int, *, uncertainty: float = 0.004, most: int = 64) -> list[QuerySpectrum]:
    """One spectrum per draw of the tokens: as many as their mean alignment needs for this standard error.

    A draw costs about N² operations, which limits their number where N is large.
    """
    spectra = [QuerySpectrum(world, rng, draw=i) for i in range(token_draws(world))]
    if len(spectra) > 2:
        scatter = float(np.std([one.top for one in spectra], ddof=1))
        wanted = min(most, 8_000_000 // world.N**2, int((scatter / uncertainty) ** 2))
        spectra += [QuerySpectrum(world, rng, draw=i) for i in range(len(spectra), wanted)]
    return spectra


def top_alignment(world: QueryWorld, *, rng: int = 0) -> tuple[float, float]:
    """Alignment of the top eigenvector with u, and the threshold of mu: what a search over models asks for.

    As :func:`predict_query`, but for one draw of the tokens of a finite vocabulary.
    """
    spectrum = QuerySpectrum(world, rng)
    return spectrum.top, spectrum.bulk.threshold
