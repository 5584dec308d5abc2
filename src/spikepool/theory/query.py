"""Content attention: the spectrum of sequences pooled by a query, and what attention gains by it.

Given the scores, the components of the tokens orthogonal to the query are fresh noise. The pooled vectors off the query
are c_n = mu u xi_n A_n + nu sqrt(1 − m²) k' A_n + sqrt(kappa_n) g_n, with k' the part of k off q. They follow the
separable equations (:mod:`spikepool.theory.general_spikes`) with B'B = diag(kappa_n). For isotropic noise these read,
with gamma = d/N and expectations over the N sequences,

    z(m) = −1/m + E[kappa/(1 + gamma kappa m)],      D(m) = −m E[A²/(1 + gamma kappa m)]      (m < 0 beyond the edge);
    signal: mu² D(m) = 1, eigenvalue z(m), alignment with u  m/(mu² dD/dz);
    key:    the same with nu² (1 − m²) for mu² and A − E[A] for A (S is centred, the signs are symmetric);
    query:  where q is NOT projected out, with b = (nu sqrt(1 − m²) (A − E A), f − E f), f = q·c,
            det(I + diag(m, −1/z) E[b b'/(1 + gamma kappa m)]) = 0.

Along q there is no noise but that of f, so −1/z stands where m stands for the others.

*Any stack.* The law only asks that the weights are functions of the scores. With scores along p orthonormal directions,
f has p coordinates, gamma = (d − p)/N, and the determinant has p + 1 rows. Layers of self-attention whose scores look
along these directions are such weights (:mod:`spikepool.world.self_attention`).

*Which weights.* Given what the weights may look at, E[c c'] = mu² (w'R_n w) uu' + |w|² I with R_n = E[r r' | that], so
that the best weights of a sequence are the top eigenvector of R_n (:mod:`spikepool.theory.limits`).

The law is that of N sequences, not of infinitely many: kappa has a heavy tail, and the few sequences whose attention
falls on one token are outliers of their own (kind "sequence").

With a finite vocabulary a token's score is frozen with the table. Given scores and tokens it is the same theorem in
dimension d − 1 with B'B the token usage and the signs +1, −1 and 0 of the tokens as signal.

*Coloured noise* z ~ N(0, S_0), with the query scaled to q'S_0q = 1 and B = S_0 q:

    c = xi A mu u + A nu (k − B q'k) + B f + sqrt(kappa) S_perp^{1/2} g,      S_perp = S_0 − B B'.

Projecting out q leaves B f; a regression of the pooled vectors on their scores f removes it for any S_0, and leaves A
its residual on f. The left covariance is then S_perp, at u and at k − B q'k.

References
----------
Benaych-Georges and Nadakuditi, The eigenvalues and eigenvectors of finite, low rank perturbations of large random
matrices (arXiv 0910.2120); Paul, Asymptotics of sample eigenstructure for a large dimensional spiked covariance model
(2007); Couillet and Hachem, separable covariance matrices (arXiv 1310.8094); Hong, Fessler and Balzano, optimally
weighted PCA (arXiv 1810.12862): the law with unequal kappa.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from spikepool.errors import InvalidInputError, UnreachableError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.measures import non_negative
from spikepool.theory.finite_size import crosses
from spikepool.theory.general_spikes import GeneralOutlier, GeneralSpikes, Measure
from spikepool.theory.prediction import Outlier, Prediction, Sizes
from spikepool.theory.token_usage import TOP, TopPairs, Usage, sample_usage
from spikepool.theory.usage_spectrum import Noise, UsageBulk, UsageSpectrum
from spikepool.theory.validity import WORTH, Caution, finite_size, neighbours, small_sizes, validity_of
from spikepool.world.pooling_matrix import Projection, token_matrix
from spikepool.world.query import KERNELS, QueryWorld, Vocabulary

World = TypeVar("World", bound=QueryWorld)

# Scores drawn for the law of (A, kappa, f), and draws per sequence at most. Quantiles of 32 draws per sequence leave
# .002 of the scatter of a single draw's alignment (d = 200, N = 800, T = 20).
_SCORES = 1 << 22
_DRAWS_PER_SEQUENCE = 32
# Sequences beyond this many are not drawn one by one; each draw then stands for several.
_SEQUENCES = 1 << 19
# Quantiles of kappa: the largest one per sequence, the rest in equal shares.
_SINGLE, _SHARES = 256, 1792
# Usage matrices up to this size are diagonalised once for all three vectors.
_DENSE = 3000
# Times that the grid of `best_beta` is doubled.
_DOUBLINGS = 4
# Draws of the tokens of a finite vocabulary: with about so many sequences together, and at most so many.
_DRAWN, _MOST_DRAWS = 2000, 10
# Uncertainty of a mean over draws that is worth a reason.
_UNCERTAIN = 0.025
# Score groups of relevant tokens, for the limit of infinitely many sequences.
_GROUPS = 160


@dataclass(frozen=True)
class _Usages:
    """One usage seen by the vectors xi A, A and f_1, ..., f_p, the last ones centred, with E[A²] and E[kappa].

    `right` has the coordinates of these 2 + p vectors; its first rows are the top pairs of `signal`. A usage too large
    to be diagonalised has none, but one usage more for each of A and f.
    """

    signal: Usage
    alpha: float
    kappa: float
    covariance: FloatArray  # of (A, f_1, ..., f_p)
    right: Measure | None
    others: tuple[Usage, ...] = ()
    spread: float = 0.0  # Var(A²)/E[A²]²


@dataclass(frozen=True)
class QueryPrediction(Prediction):
    """What theory says of sequences pooled by a query; made by :meth:`QueryModel.predict`.

    As :class:`Prediction`, with S the covariance of the pooled vectors off the query, and more kinds of outliers: "key"
    (the part of k that the query misses), "sequence" (one sequence whose attention falls on one token), "usage" (a
    token of a finite vocabulary that draws the attention), and "query", the outlier along q that S would have if q were
    not projected out. `alignment` and `eigenvalue` are about S, so the query's does not count there. `alpha` is E[A²],
    `kappa` is E[kappa]. `p_value` is approximate: at level .05 it rejects .02 to .09 of null draws (six settings at
    d = 100).
    """

    @property
    def eigenvalue(self) -> float:
        """Predicted largest eigenvalue of S, off the query."""
        return next((o.eigenvalue for o in self.outliers if o.kind != "query"), self.edge)

    @property
    def query(self) -> Outlier | None:
        """The outlier along q where it is not projected out, or None."""
        return next((o for o in self.outliers if o.kind == "query"), None)

    @property
    def threshold_note(self) -> str | None:
        """Why a threshold is 0 or infinite, in a sentence; None where it is an ordinary number."""
        if not self.mu_sample < float("inf"):
            return "no signal strength makes an outlier: the weights leave out the relevant tokens"
        if self.mu_sample == 0:
            return "a threshold of 0: the noise of the relevant tokens stands out by itself, without a signal"
        return None


def predict_query(world: QueryWorld, *, rng: int = 0) -> QueryPrediction:
    """Bulk, outliers and alignments of sequences pooled by a query.

    Parameters
    ----------
    world : QueryModel
        The model.
    rng : int
        Of the draws behind the law. Tokens that never repeat: the N quantiles of kappa, with the means of A² and f²
        around each, from up to 32 draws per sequence; another seed changes an alignment by about .002. A finite
        vocabulary: draws of the tokens, up to ten where N is small; the first has its scores at the quantiles of
        their law. Alignments and eigenvalues are means over the draws, and `validity` reports their scatter where the
        mean is uncertain by more than .025.
    """
    spectra = [_Spectrum(world, rng, draw=i) for i in range(_token_draws(world))]
    first = spectra[0]
    limit = _Limit(world, first.usages, first.left)
    found = _over_draws([[(name, o.eigenvalue, a) for name, o, a in one.named] for one in spectra])
    outliers = [Outlier(name, value, a, *limit.of(name)) for name, value, a in found]  # type: ignore[arg-type]
    visible = sorted(outliers, key=lambda o: -o.eigenvalue)
    queries = [place for one in spectra if (place := one.query()) is not None]
    if 2 * len(queries) >= len(spectra):
        outliers.append(Outlier("query", float(np.mean(queries)), 0.0, *limit.of("query")))
    tops = np.array([one.top for one in spectra])
    threshold = float(np.median([one.bulk.threshold for one in spectra]))
    bulk, alignment = first.bulk, float(tops.mean())
    detectable = any(name == "signal" for name, _, _ in found)
    mean = _mean_alignment(world, first, alignment, visible)
    return QueryPrediction(
        alpha=float(np.mean([one.usages.alpha for one in spectra])),
        kappa=float(np.mean([one.usages.kappa for one in spectra])),
        bulk=bulk.law,
        edge=bulk.edge,
        outliers=tuple(sorted(outliers, key=lambda o: -o.eigenvalue)),
        alignment=alignment,
        detectable=detectable,
        mu_population=limit.threshold,
        mu_sample=threshold,
        validity=validity_of(
            finite_size(alignment, mean, world.d),
            neighbours(visible[:2], world.d, world.N, bulk.edge),
            _scatter(tops) if world.V is not None else _single_sequences(world, first, rng),
            _few_relevant(world, first),
            small_sizes(d=world.d, N=world.N, **({} if world.V is None else {"V": world.V})),
        ),
        # tokens that never repeat: a vocabulary so large that its size plays no part
        sizes=Sizes(world.d - world.directions, world.V or 1 << 40, world.N, True),
        finite_size_alignment=mean,
    )


def _token_draws(world: QueryWorld) -> int:
    """Draws of the tokens of a finite vocabulary: so many that they have about as many sequences as _DRAWN."""
    return 1 if world.V is None else int(np.clip(round(_DRAWN / world.N), 1, _MOST_DRAWS))


def _over_draws(lists: list[list[tuple[str, float, float]]]) -> list[tuple[str, float, float]]:
    """Outliers that at least half of the draws have, by kind and rank, with the means of eigenvalue and alignment."""
    if len(lists) == 1:
        return lists[0]
    groups: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for outliers in lists:
        rank: Counter[str] = Counter()
        for name, value, alignment in sorted(outliers, key=lambda o: -o[1]):
            groups.setdefault((name, rank[name]), []).append((value, alignment))
            rank[name] += 1
    kept = {key: np.mean(pairs, axis=0) for key, pairs in groups.items() if 2 * len(pairs) >= len(lists)}
    return [(name, float(mean[0]), float(mean[1])) for (name, _), mean in kept.items()]


# -- where the numbers hold ------------------------------------------------------------------------------------------


def _mean_alignment(world: QueryWorld, spectrum: _Spectrum, alignment: float, visible: list[Outlier]) -> float | None:
    """Mean alignment over draws in d dimensions (:mod:`spikepool.theory.finite_size`), where the signal would lead.

    Below the threshold it leads unless another outlier is clear of the edge, by more than the d^{-2/3} over which the
    top of the bulk scatters. That one overlaps with u by chance, which a signal close to its threshold amplifies.
    """
    edge, crossing = spectrum.bulk.edge, spectrum.bulk.crossing
    if world.mu == 0 or crossing is None:
        return None
    if visible and not crosses(visible[0], edge) and visible[0].eigenvalue > edge * (1 + world.d ** (-2 / 3)):
        chance = spectrum.chance_overlap() if visible[0].kind != "signal" else None
        return None if chance is None else min(1.0, alignment + chance)
    mean = crossing.mean_alignment(alignment, world.mu, world.d)
    # below the threshold of the first draw of the tokens others may be above theirs
    return max(mean, alignment) if world.mu**2 < crossing.square else mean


def _scatter(tops: FloatArray) -> Caution | None:
    """Why the mean over draws of the tokens is uncertain."""
    if len(tops) < 2 or (error := float(tops.std(ddof=1) / np.sqrt(len(tops)))) <= _UNCERTAIN:
        return None
    return Caution(
        f"the alignment scatters by {tops.std(ddof=1):.2g} over draws of the tokens; its mean over {len(tops)} draws "
        f"is uncertain by {error:.2g}",
        error,
    )


def _few_relevant(world: QueryWorld, spectrum: _Spectrum) -> Caution | None:
    """Why draws have another mean: the signal gain of N sequences scatters, and the alignment is not linear in it.

    The mean of A² over N sequences has the relative deviation e = sqrt(Var(A²)/N)/E[A²], large where few sequences have
    relevant tokens; the mean alignment is about that at the gains 1 ± e.
    """
    relative = min(0.5, float(np.sqrt(spectrum.usages.spread / world.N)))
    if relative < 0.05 or not any(name == "signal" for name, _, _ in spectrum.named):
        return None

    def top(gain: float) -> float:
        outliers = UsageSpectrum(spectrum.bulk, world.mu * np.sqrt(gain)).outliers
        return float(outliers[0].overlaps[0]) if outliers else 0.0

    error = abs((top(1 + relative) + top(1 - relative)) / 2 - top(1.0))
    if error <= WORTH:
        return None
    return Caution(
        f"few sequences carry the signal: its gain scatters by {100 * relative:.2g} % over draws of {world.N} "
        f"sequences, and the mean alignment is about {error:.2g} lower",
        error,
    )


def _single_sequences(world: QueryWorld, spectrum: _Spectrum, rng: int) -> Caution | None:
    """Why quantiles are not what draws show: single sequences whose attention falls on one token."""
    count = sum(name == "sequence" for name, _, _ in spectrum.named)
    if count == 0:
        return None
    drawn = np.array([_Spectrum(world, rng, draw=i).top for i in range(1, 5)])
    error = abs(float(drawn.mean()) - spectrum.top)
    if error <= max(_UNCERTAIN, 0.75 * float(drawn.std(ddof=1))):  # 1.5 standard errors of a mean of four
        return None
    return Caution(
        f"{count} outlier{'s are' if count > 1 else ' is'} made of single sequences whose attention falls on one "
        f"token: the alignment is off by about {error:.2g}; a smaller beta or a bounded gate avoids them",
        error,
    )


def top_alignment(world: QueryWorld, *, rng: int = 0) -> tuple[float, float]:
    """Alignment of the top eigenvector with u, and the threshold of mu: what a search over models asks for.

    As :func:`predict_query`, but for one draw of the tokens of a finite vocabulary.
    """
    spectrum = _Spectrum(world, rng)
    return spectrum.top, spectrum.bulk.threshold


# -- outliers --------------------------------------------------------------------------------------------------------


class _Left:
    """The noise off the query, and the directions u, k' and q_1, ..., q_p among its eigenvectors.

    Attributes
    ----------
    noise : Noise
        Law of the noise, with its measure at u.
    directions : Measure
        Of the noise covariance at the unit vectors (u, k', q_1, ..., q_p); along q there is none.
    scales : numpy.ndarray of shape (2 + p,)
        Norms that multiply xi A, A and f.
    """

    def __init__(self, world: QueryWorld) -> None:
        p = world.directions
        if world.noise is None:
            self.noise = Noise(None, world.d - p, None)
            self.directions = Measure(np.array([1.0, 1.0, *np.zeros(p)]), np.eye(2 + p))
            self.scales = np.array([world.mu, world.missed, *np.ones(p)])
            self.mean_noise = Measure(np.ones(1), np.ones((1, 1)))
            return
        values = np.asarray(world.noise, dtype=np.float64)
        q, u, k = generic_directions(world)
        query = q / values if world.matched else q
        query = query / np.sqrt(query @ (values * query))
        B = values * query
        off, basis = np.linalg.eigh(np.diag(values) - np.outer(B, B))
        # equal eigenvalues stay equal: rounding must not spread an atom of the law
        off = np.maximum(np.round(off / values.max(), 11), 0.0) * values.max()
        key = k - (query @ k) * B
        size = np.array([1.0, np.linalg.norm(key), np.linalg.norm(B)])
        columns = basis.T @ np.column_stack([u, key, B]) / np.where(size > 0, size, 1.0)
        self.directions = Measure(off, columns)
        self.scales = np.array([world.mu, world.nu, 1.0]) * size
        self.noise = Noise(off, world.d, None)
        self.noise.left = Measure(off, columns[:, :1])
        # a random vector of noise: its direction in the eigenbasis
        self.mean_noise = Measure(off, np.sqrt(off / off.sum())[:, None])


def generic_directions(world: QueryWorld) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Unit vectors (d,) for the query's direction before filtering, u and k, in the eigenbasis of the noise.

    Signs alternate along the eigenvalues, in three patterns, so that v'f(S_0)v is the mean of f and v'f(S_0)w is small
    for two of them: the value for directions drawn at random, without their scatter.
    """
    i = np.arange(world.d)
    patterns = np.column_stack([1 - 2.0 * (i % 2), np.ones(world.d), 1 - 2.0 * (i // 2 % 2)])
    basis, triangle = np.linalg.qr(patterns)
    q, u, across = (basis * np.sign(np.diag(triangle))).T
    m = float(world.overlaps[0])
    return q, u, m * q + np.sqrt(1 - m**2) * across


class _Spectrum:
    """Outliers of the pooled covariance off the query, with their names, and the one along the query."""

    def __init__(self, world: QueryWorld, rng: int, *, draw: int = 0, regressed: bool = True) -> None:
        self.world, self.seed, self.draw, self.regressed = world, rng, draw, regressed
        self.usages = usages = _usages(world, rng, draw, regressed=regressed)
        self.left = _Left(world)
        self.bulk = UsageBulk(usages.signal, self.left.noise)
        self.other = "sequence" if world.V is None else "usage"
        self.spikes = usages.signal.top.values[self.bulk.spikes]

    @property
    def top(self) -> float:
        """Alignment of the largest outlier off the query, 0 without one."""
        return max(((o.eigenvalue, a) for _, o, a in self.named), default=(0.0, 0.0))[1]

    def chance_overlap(self) -> float | None:
        """Mean squared overlap with u, by chance, of a top outlier that is not the signal's.

        Its direction has 1/d of u, and the signal's own response at its eigenvalue z amplifies that to
        1/(d (1 − mu² D(z))²), D without the spikes of the usage.
        """
        top = max((o for _, o, _ in self.named), key=lambda o: o.eigenvalue, default=None)
        if top is None:
            return None
        y, yt, z = (float(x[0]) for x in self.bulk.law.right_curve(np.array([top.parameter])))
        left, right = self.left.noise.left, self.usages.signal.signal_measure
        kept = np.ones(len(right.values), dtype=bool)
        kept[self.bulk.spikes] = False
        g_u = -float(yt / (yt + left.values) @ left.coordinates[:, 0] ** 2) / z
        g_b = -float(y / (y + right.values[kept]) @ right.coordinates[kept, 0] ** 2) / z
        rest = 1 - self.world.mu**2 * z * g_u * g_b
        return 1 / (self.world.d * rest**2) if rest > 0 else None

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
            return _Spectrum(self.world, self.seed, draw=self.draw, regressed=False).query()
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


# -- the usage -------------------------------------------------------------------------------------------------------


def _usages(world: QueryWorld, rng: int, draw: int = 0, *, regressed: bool = True) -> _Usages:
    """Draw 0 is at quantiles, of kappa or of the scores of a vocabulary; the others are as simulations draw them."""
    seed = check.size(rng, "rng", minimum=0)
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(draw,) if draw else ()))
    if world.V is None:
        return _quantile_usages(world, generator, world.N if draw else sequence_draws(world))
    vocabulary = world.vocabulary(generator if draw else None)
    return _token_usages(world, vocabulary, generator, regressed and world.noise is not None)


def sequence_draws(world: QueryWorld) -> int:
    """Sequences to draw for the law of (A, kappa, f): up to 32 for each of the N, as far as their scores allow."""
    draws = min(world.N, max(_SEQUENCES // world.cost, _SINGLE + _SHARES))
    budget = _SCORES if world.cost == 1 else 2 * _SCORES
    return draws * int(np.clip(budget // (draws * world.T * world.cost), 1, _DRAWS_PER_SEQUENCE))


def _quantile_usages(world: QueryWorld, rng: np.random.Generator, draws: int) -> _Usages:
    """B'B = diag(kappa_n) at the quantiles of kappa, with the mean squares of xi A, A and f around each."""
    N = world.N
    pooled = world.draw_pooled(draws, rng)
    order = np.argsort(-pooled.kappa, kind="stable")
    kappa, square = pooled.kappa[order], pooled.square[order]
    b = np.column_stack([pooled.A, pooled.f])[order]
    b -= b.mean(axis=0)
    if N <= _SINGLE + _SHARES:
        starts = np.round(np.arange(N) * (draws / N)).astype(np.intp)
    else:  # the largest kappa one by one, the rest in equal shares
        single = np.arange(_SINGLE) * (draws / N)
        rest = np.linspace(_SINGLE * (draws / N), draws, _SHARES + 1)[:-1]
        starts = np.unique(np.concatenate([single, rest]).astype(np.intp))
    counts = np.diff(np.append(starts, draws))

    def mean(values: FloatArray) -> FloatArray:
        shape = (-1, *np.ones(values.ndim - 1, dtype=int))
        return np.asarray(np.add.reduceat(values, starts, axis=0) / counts.reshape(shape))

    values, weights = mean(kappa), counts / draws
    signal = np.sqrt(mean(square) * weights)
    usage = _diagonal_usage(values, weights, signal, N)
    # around each quantile (A, f) has a second moment matrix, whose square root are as many rows of coordinates; that of
    # a single sequence is its top eigenvector
    t, basis = np.linalg.eigh(mean(b[:, :, None] * b[:, None, :]))
    rows = np.sqrt(np.maximum(t, 0.0) * weights[:, None])[:, :, None] * basis.swapaxes(1, 2)
    k, r = len(usage.top), b.shape[1]
    top = np.column_stack([signal[:k], rows[:k, -1]])
    alone = np.column_stack([signal[k:], np.zeros((len(values) - k, r))])
    rest_rows = np.column_stack([np.zeros((len(values) - k) * r), rows[k:].reshape(-1, r)])
    right = Measure(np.concatenate([values, np.repeat(values[k:], r)]), np.concatenate([top, alone, rest_rows]))
    alpha, A2 = float(np.mean(square)), pooled.A**2
    spread = float(np.var(A2) / np.mean(A2) ** 2) if A2.any() else 0.0
    covariance = np.atleast_2d(np.cov(b.T, bias=True))
    return _Usages(usage, alpha, float(kappa.mean()), covariance, right, spread=spread)


def _diagonal_usage(values: FloatArray, weights: FloatArray, b: FloatArray, size: int) -> Usage:
    """A usage whose eigenvectors play no part: descending values, their masses, and coordinates of the signal."""
    single = int(np.argmin(np.append(weights * size < 1.5, False)))  # the first ones are one direction each
    k = min(TOP, single, len(values) - 1)
    nothing = np.broadcast_to(0.0, (size, k))
    top = TopPairs(values[:k], nothing, b[:k], np.zeros(k))
    measure = Measure(values[k:], b[k:, None])
    return Usage(top, values[k:], weights[k:], measure, np.broadcast_to(0.0, size), float(b @ b), False)


def _token_usages(world: QueryWorld, vocabulary: Vocabulary, rng: np.random.Generator, regressed: bool) -> _Usages:
    """B'B = (V/N) W'W of drawn tokens, centred, at the pooled signs, the pooled relevance and the pooled scores.

    Where pooled vectors are regressed on their scores, the scores are projected out of the sequences.
    """
    assert world.V is not None
    tokens, _ = world.draw_tokens(rng)
    W_t = token_matrix(tokens, world.weights(vocabulary.scores[tokens]), world.V)
    vectors = np.stack([vocabulary.signs, vocabulary.relevant, vocabulary.scores])
    pooled = np.asarray(W_t @ vectors.T)
    alpha = float(np.mean(pooled[:, 0] ** 2))
    kappa = float((W_t.data @ W_t.data) / world.N)
    b = (pooled - pooled.mean(axis=0)) / np.sqrt(world.N)
    covariance = b[:, 1:].T @ b[:, 1:]
    f = b[:, 2] / (float(np.linalg.norm(b[:, 2])) or 1.0)
    if regressed:
        b[:, :2] -= np.outer(f, f @ b[:, :2])
    if min(world.N, world.V) > _DENSE:
        three = [sample_usage(W_t, None, x, centered=True, project=Projection(None), rng=0) for x in vectors]
        return _Usages(three[0], alpha, kappa, covariance, None, (three[1], three[2]))
    scale = world.V / world.N
    if world.N <= world.V:
        M = scale * (W_t @ W_t.T).toarray()
        M += M.mean() - M.mean(axis=0) - M.mean(axis=1)[:, None]
        if regressed:
            image = M @ f
            M += (f @ image) * np.outer(f, f) - np.outer(f, image) - np.outer(image, f)
        t, basis = np.linalg.eigh(M)
        t, coordinates = non_negative(t, "usage", float(t[-1]))[::-1], (basis.T @ b)[::-1]
    else:
        mean = np.asarray(W_t.sum(axis=0)).ravel() / world.N
        M = scale * (W_t.T @ W_t).toarray() - world.V * np.outer(mean, mean)
        if regressed:
            along = np.sqrt(scale) * np.asarray(W_t.T @ f)
            M -= np.outer(along, along)
        t, basis = np.linalg.eigh(M)
        t = non_negative(t, "usage", float(t[-1]))[::-1]
        image = (basis.T @ (np.sqrt(scale) * np.asarray(W_t.T @ b)))[::-1]  # b is centred, so W need not be
        coordinates = np.divide(image, np.sqrt(t)[:, None], out=np.zeros_like(image), where=t[:, None] > 0)
    weights = np.full(len(t), 1 / world.V)
    usage = _diagonal_usage(t, weights, coordinates[:, 0], world.V)
    # eigenvalues that B'B does not show are zeros, as is the part of b off its range
    missing = np.maximum(0.0, np.einsum("ni,nj->ij", b, b) - coordinates.T @ coordinates)
    outside = np.sqrt(np.diag(missing))
    measure = Measure(np.append(usage.measure.values, 0.0), np.append(usage.measure.coordinates, outside[0])[:, None])
    values = np.append(usage.values, np.zeros(world.V - len(t)))
    masses = np.full(len(values), 1 / world.V)
    usage = Usage(usage.top, values, masses, measure, usage.remainder, float(b[:, 0] @ b[:, 0]), False)
    right = Measure(np.append(t, np.zeros(3)), np.vstack([coordinates, np.diag(outside)]))
    return _Usages(usage, alpha, kappa, covariance, right)


# -- infinitely many sequences ---------------------------------------------------------------------------------------


class _Limit:
    """Eigenvalues of the population covariance, infinitely many sequences.

    Tokens that never repeat: E[kappa] I + mu² E[A²] uu' + nu² (1 − m²) Var(A) k'k'', and Var(f) along q. A finite
    vocabulary: the usage V E[ww'] is diagonal, tau_v = V E[w_v²], but for the classes: in the space of the signs it is
    diag(tau) + c psi psi', psi_v the mean weight of token v, with c such that the pooled signs have the variance
    E[A²]. Means given the score are taken over drawn sequences, in groups of tokens with neighbouring scores.
    """

    def __init__(self, world: QueryWorld, usages: _Usages, left: _Left) -> None:
        self.edge, self.threshold = usages.kappa, 0.0
        self.key = usages.kappa + left.scales[1] ** 2 * float(usages.covariance[0, 0])
        self.query = float(np.linalg.eigvalsh(usages.covariance[1:, 1:])[-1]) * float(left.scales[2]) ** 2
        self.signal = (usages.kappa + world.mu**2 * usages.alpha, 1.0 if world.mu > 0 else 0.0)
        if world.V is not None:
            self._of_tokens(world, usages, left)
        elif world.noise is not None:
            self._coloured(world, usages, left)

    def _of_tokens(self, world: QueryWorld, usages: _Usages, left: _Left) -> None:
        bulk = UsageBulk(_limit_usage(world, usages.alpha), left.noise)
        spectrum = UsageSpectrum(bulk, world.mu)
        self.edge, self.threshold = bulk.edge, bulk.threshold
        named = zip(spectrum.kinds(), spectrum.outliers, strict=True)
        signals = ((o.eigenvalue, float(o.overlaps[0])) for kind, o in named if kind == "signal")
        self.signal = next(signals, (self.edge, 0.0))

    def _coloured(self, world: QueryWorld, usages: _Usages, left: _Left) -> None:
        off, columns = left.directions
        u, key = columns[:, 0], columns[:, 1]
        cov = usages.covariance
        residual = max(0.0, float(cov[0, 0] - (cov[0, 1] ** 2 / cov[1, 1] if cov[1, 1] > 0 else 0.0)))
        parts = world.mu**2 * usages.alpha * np.outer(u, u) + left.scales[1] ** 2 * residual * np.outer(key, key)
        values, vectors = np.linalg.eigh(np.diag(usages.kappa * off) + parts)
        overlaps = (vectors.T @ u) ** 2
        self.edge = usages.kappa * float(off.max())
        best = int(np.argmax(overlaps))
        self.signal = (float(values[best]), float(overlaps[best]) if world.mu > 0 else 0.0)
        self.key = float(values[int(np.argmax((vectors.T @ key) ** 2))])

    def of(self, kind: str) -> tuple[float, float]:
        """Eigenvalue and alignment of the outlier of this kind."""
        if kind == "signal":
            return self.signal
        return (self.key if kind == "key" else self.query if kind == "query" else self.edge), 0.0


def _limit_usage(world: QueryWorld, alpha: float) -> Usage:
    """V E[ww'] in the space of the signs, and the law of all its eigenvalues."""
    assert world.V is not None
    V, rng = world.V, np.random.default_rng(0)
    vocabulary = world.vocabulary()
    tokens = np.concatenate([world.draw_tokens(rng)[0] for _ in range(max(1, 200_000 // (world.N * world.T)))])
    w = world.weights(vocabulary.scores[tokens])
    tau, mean = np.empty(V), np.empty(V)
    for members in (np.flatnonzero(vocabulary.relevant > 0), np.flatnonzero(vocabulary.relevant == 0)):
        if len(members) == 0:  # every token is relevant
            continue
        groups = np.array_split(members, min(_GROUPS, len(members)))  # scores ascend within a kind
        of_token = np.full(V, -1)
        for i, group in enumerate(groups):
            of_token[group] = i
        place = of_token[tokens]
        inside = place >= 0
        size = np.array([len(group) for group in groups])
        first, second = (
            np.bincount(place[inside], weights=x[inside], minlength=len(groups)) / len(tokens) / size for x in (w, w**2)
        )
        tau[members], mean[members] = V * second[of_token[members]], first[of_token[members]]
    relevant = np.flatnonzero(vocabulary.relevant > 0)
    # groups of the same tau and mean: one direction each holds the signs
    key, group, size = np.unique(
        np.column_stack([tau[relevant], mean[relevant]]), axis=0, return_inverse=True, return_counts=True
    )
    unit = np.sqrt(size / V)
    psi = np.sqrt(size) * key[:, 1]
    total = float(np.sqrt(size) @ psi)
    excess = max(0.0, alpha - float(size @ key[:, 0]) / V)
    M = np.diag(key[:, 0]) + V * excess / total**2 * np.outer(psi, psi)
    t, basis = np.linalg.eigh(M)
    t, basis = np.maximum(t[::-1], 0.0), basis[:, ::-1]
    b = np.sqrt(t) * (basis.T @ unit)
    rest = np.concatenate([np.repeat(key[:, 0], size - 1), tau[vocabulary.relevant == 0]])
    values = np.concatenate([t, rest])
    order = np.argsort(-values, kind="stable")
    coordinates = np.concatenate([b, np.zeros(len(rest))])[order]
    return _diagonal_usage(values[order], np.full(V, 1 / V), coordinates, V)


# -- what attention gains --------------------------------------------------------------------------------------------


def gain(world: QueryWorld, *, rng: int = 0) -> float:
    """alpha/kappa = E[A²]/E[kappa] over that of mean pooling, L²/T, for tokens that never repeat."""
    usages = _usages(world.replace(V=None), rng)
    return usages.alpha / usages.kappa / world.mean_gain


def best_beta(world: QueryWorld, *, rng: int = 0) -> float:
    """The slope beta >= 0 with the largest predicted alignment.

    Where no slope makes the signal detectable it is the one with the lowest threshold. The maximum is looked for on a
    grid up to three times the usual slope (nu m, with a window nu m times its size), then around its best point, to one
    hundredth of that slope: it is flat. A grid whose last point is best is doubled, up to four times; a maximum beyond
    is hard attention, the limit beta → ∞, and a :class:`UserWarning` says that the largest slope tried is returned.
    """
    if callable(world.kernel) or world.kernel not in KERNELS:
        raise InvalidInputError(
            f"kernel {world.kernel!r} has no beta", world.kernel, "Compare predictions of several kernels"
        )

    def value(beta: float) -> float:
        alignment, threshold = top_alignment(world.replace(beta=float(beta)), rng=rng)
        return alignment if alignment > 0 else -threshold / max(world.mu, 1e-12)

    usual = world.strength * (world.window or 1)
    top = 3 * max(usual, 0.5)
    grid = np.linspace(0.0, top, 16)
    values = [value(beta) for beta in grid]
    for _ in range(_DOUBLINGS):
        # a plateau that ends the grid has its maximum inside
        if int(np.argmax(values)) < len(grid) - 1 or values[-1] <= values[-2]:
            break
        more = np.linspace(grid[-1], 2 * grid[-1], 9)[1:]
        grid, values = np.append(grid, more), [*values, *(value(beta) for beta in more)]
    i = int(np.argmax(values))
    if i == len(grid) - 1 and values[-1] > values[-2]:
        warnings.warn(
            f"the alignment still grows at beta = {grid[-1]:.4g}, the largest slope tried: hard attention is best",
            UserWarning,
            stacklevel=3,
        )
        return float(grid[-1])
    low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    ratio = (np.sqrt(5) - 1) / 2  # golden section
    inner = [high - ratio * (high - low), low + ratio * (high - low)]
    heights = [value(x) for x in inner]
    while high - low > 0.01 * max(top / 3, 0.1):
        if heights[0] < heights[1]:
            low, inner[0], heights[0] = inner[0], inner[1], heights[1]
            inner[1] = low + ratio * (high - low)
            heights[1] = value(inner[1])
        else:
            high, inner[1], heights[1] = inner[1], inner[0], heights[0]
            inner[0] = high - ratio * (high - low)
            heights[0] = value(inner[0])
    best = inner[int(np.argmax(heights))]
    return float(grid[i] if values[i] > max(heights) else best)


def gate(world: World, *, rng: int = 0) -> World:
    """`world` with the gate sigma(beta (h − nu m/2) + log(L/(T − L))).

    For tokens that never repeat, beta = nu m: the weights are the posterior probabilities of being relevant given a
    token's own score, which maximise E[A]²/E[kappa] among all functions of it. That is the criterion where signs are
    known, as for labels. The alignment of PCA follows E[A²] instead, and its best weights are the kernel "optimal"; for
    one relevant token that is hard attention, which can be far better than the gate. The gate's weights are divided by
    their sum or not, whichever has the larger predicted alignment. Tokens of a finite vocabulary keep their weights in
    all sequences, so that a gentler slope is best: that of :func:`best_beta`, for normalised weights.
    """
    normalised = world.replace(kernel="sigmoid", beta=None, normalize=True, window=None)
    if world.V is not None:
        return normalised.replace(beta=best_beta(normalised, rng=rng))
    either = (normalised, normalised.replace(normalize=False))
    return max(either, key=lambda one: top_alignment(one, rng=rng)[0])


def required_samples(world: QueryWorld, alignment: float = 0.8, *, rng: int = 0) -> int:
    """Smallest N at which the top eigenvector's predicted alignment reaches `alignment`.

    Raises
    ------
    UnreachableError
        When no number of sequences that can be computed reaches it; its ``limit`` is the alignment of infinitely many
        for a finite vocabulary, and that of the largest N tried otherwise.
    """
    target = check.fraction(alignment, "alignment", closed=False)
    largest = 1 << 40 if world.V is None else max(world.N, 20_000_000 // world.T)
    ceiling = 1.0 if world.V is None else _Limit(world, _usages(world, rng), _Left(world)).signal[1]

    def reached(N: int) -> bool:
        at = world.replace(N=N)
        return float(np.mean([_Spectrum(at, rng, draw=i).top for i in range(_token_draws(at))])) >= target

    low, high = 1, 2
    if world.mu > 0 and ceiling > target:
        high = max(2, world.d // 8)
        while high < largest and not reached(high):
            low, high = high, min(4 * high, largest)
    if world.mu == 0 or ceiling <= target or (high >= largest and not reached(high)):
        limit = ceiling if world.V is not None and world.mu > 0 else 0.0
        raise UnreachableError(
            f"no number of sequences reaches this alignment; the limit is {limit:.6g}",
            target,
            "Raise mu or nu, improve the query, lower beta, or lower the target",
            limit=limit,
        )
    # a finite vocabulary is drawn anew for every N, which a search for the last sequence would only follow
    while high - low > (1 if world.V is None else max(1, low // 100)):
        middle = (low + high) // 2 if high < 4 * low else round((low * high) ** 0.5)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
