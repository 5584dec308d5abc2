"""Content attention: the spectrum of sequences pooled by a query, and what attention gains by it.

Given the scores, the components of the tokens orthogonal to the query are fresh noise. The pooled vectors off the query
are c_n = mu u xi_n A_n + nu sqrt(1 − m²) k' A_n + sqrt(kappa_n) g_n, with k' the part of k off q. They follow the
separable equations (:mod:`spikepool.theory.general_spikes`) with B'B = diag(kappa_n). For isotropic noise these read,
with gamma = d/N and expectations over the N sequences,

    z(m) = −1/m + E[kappa/(1 + gamma kappa m)],      D(m) = −m E[A²/(1 + gamma kappa m)]      (m < 0 beyond the edge);
    signal: mu² D(m) = 1, eigenvalue z(m), alignment with u  m/(mu² dD/dz);
    key:    the same with nu² (1 − m²) for mu² and A − E[A] for A (S is centred, the signs are symmetric);
    query:  z = E[f²/(1 + gamma kappa m)] with f = q·c centred, where the query is NOT projected out. Along q there is
            no noise but that of f, so 1/z stands where −m stands for the signal.

The law is that of N sequences, not of infinitely many: kappa has a heavy tail, and the few sequences whose attention
falls on one token are outliers of their own (kind "sequence").

With a finite vocabulary a token's score is frozen with the table. Given scores and tokens it is the same theorem in
dimension d − 1 with B'B the token usage and the signs +1, −1 and 0 of the tokens as signal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from spikepool.errors import InvalidInputError, UnreachableError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.measures import non_negative
from spikepool.theory.general_spikes import GeneralSpikes, Measure
from spikepool.theory.prediction import Outlier, Prediction, Sizes
from spikepool.theory.token_usage import TOP, TopPairs, Usage, sample_usage
from spikepool.theory.usage_spectrum import Noise, UsageBulk, UsageSpectrum
from spikepool.theory.validity import near_threshold, neighbours, small_sizes, validity_of
from spikepool.world.pooling_matrix import Projection, token_matrix
from spikepool.world.query import QueryWorld

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
# Score groups of relevant tokens, for the limit of infinitely many sequences.
_GROUPS = 160


class _Usages(NamedTuple):
    """One usage seen by the three vectors xi A, A and f, the last two centred, with E[A²] and E[kappa]."""

    signal: Usage
    key: Usage
    query: Usage
    alpha: float
    kappa: float
    key_query: Measure  # of the usage at (A, f) together


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
        vocabulary: scores at the quantiles of their law and one draw of the tokens; the alignment scatters over draws
        by about .005, and by .06 where tokens that draw the attention lie near the signal (`validity` reports it).
    """
    usages = _usages(world, rng)
    noise = Noise(None, world.d - 1, None)
    bulk = UsageBulk(usages.signal, noise)
    spectrum = UsageSpectrum(bulk, world.mu)
    limit = _Limit(world, usages)
    other = "sequence" if world.V is None else "usage"
    outliers = []
    for kind, outlier in zip(spectrum.kinds(), spectrum.outliers, strict=True):
        signal = kind == "signal"
        population = limit.signal if signal else (limit.edge, 0.0)
        name = "signal" if signal else other
        place, alignment = outlier.eigenvalue, float(outlier.overlaps[0])
        outliers.append(Outlier(name, place, alignment, *population))  # type: ignore[arg-type]
    key = _key_outlier(world, usages, noise)
    if key is not None:
        outliers.append(Outlier("key", key, 0.0, limit.key, 0.0))
    visible = sorted(outliers, key=lambda o: -o.eigenvalue)
    query = _query_outlier(world, usages)
    if query is not None:
        outliers.append(Outlier("query", query, 0.0, limit.query, 0.0))
    few = sum(o.kind == other for o in visible)
    return QueryPrediction(
        alpha=usages.alpha,
        kappa=usages.kappa,
        bulk=bulk.law,
        edge=bulk.edge,
        outliers=tuple(sorted(outliers, key=lambda o: -o.eigenvalue)),
        alignment=visible[0].alignment if visible else 0.0,
        detectable=spectrum.detectable,
        mu_population=limit.threshold,
        mu_sample=bulk.threshold,
        validity=validity_of(
            near_threshold(world.mu**2, bulk.threshold**2, world.d),
            neighbours(visible, world.d, world.N),
            _concentrated(few, other),
            small_sizes(d=world.d, N=world.N, **({} if world.V is None else {"V": world.V})),
        ),
        # tokens that never repeat: a vocabulary so large that its size plays no part
        sizes=Sizes(world.d - 1, world.V or 1 << 40, world.N, True),
    )


def _concentrated(count: int, what: str) -> str | None:
    if not count:
        return None
    which = "sequences whose attention falls on one token" if what == "sequence" else "tokens that draw the attention"
    return (
        f"{count} outlier{'s are' if count > 1 else ' is'} made of single {which}: eigenvalues and alignments change "
        "from draw to draw, by up to 0.2 where they lie near the signal; a smaller beta or a bounded gate avoids them"
    )


def top_alignment(world: QueryWorld, *, rng: int = 0) -> tuple[float, float]:
    """Alignment of the top eigenvector with u, and the threshold of mu: what a search over models asks for."""
    usages = _usages(world, rng)
    noise = Noise(None, world.d - 1, None)
    bulk = UsageBulk(usages.signal, noise)
    outliers = UsageSpectrum(bulk, world.mu).outliers
    alignment = float(outliers[0].overlaps[0]) if outliers else 0.0
    key = _key_outlier(world, usages, noise)
    hidden = key is not None and (not outliers or key > outliers[0].eigenvalue)
    return (0.0 if hidden else alignment), bulk.threshold


def _key_outlier(world: QueryWorld, usages: _Usages, noise: Noise) -> float | None:
    """Eigenvalue along the part of k that the query misses, where that is an outlier."""
    if world.missed == 0:
        return None
    spectrum = UsageSpectrum(UsageBulk(usages.key, noise), world.missed)
    return _signal_eigenvalue(spectrum)


def _query_outlier(world: QueryWorld, usages: _Usages) -> float | None:
    """Eigenvalue along q of the covariance from which q is not projected out, where that is an outlier."""
    noise = Noise(None, world.d - 1, None)
    noise.left = Measure(np.zeros(1), np.ones((1, 1)))  # no noise along q but that of f
    bulk = UsageBulk(usages.query, noise)
    alone = _signal_eigenvalue(UsageSpectrum(bulk, 1.0))
    if alone is None or world.missed == 0:
        return alone
    # the part of k that the query misses has weights A, which are correlated with f
    scaled = usages.key_query.coordinates * np.array([world.missed, 1.0])
    both = GeneralSpikes(
        bulk.law,
        Measure(np.array([1.0, 0.0]), np.eye(2)),
        Measure(usages.key_query.values, scaled),
        usage_spikes=usages.query.top.values[bulk.spikes],
    ).outliers()
    return max(both, key=lambda o: float(o.overlaps[1])).eigenvalue if both else None


def _signal_eigenvalue(spectrum: UsageSpectrum) -> float | None:
    """Eigenvalue of the outlier of kind "signal"."""
    pairs = zip(spectrum.kinds(), spectrum.outliers, strict=True)
    return next((outlier.eigenvalue for kind, outlier in pairs if kind == "signal"), None)


# -- the usage -------------------------------------------------------------------------------------------------------


def _usages(world: QueryWorld, rng: int) -> _Usages:
    seed = check.size(rng, "rng", minimum=0)
    generator = np.random.default_rng(np.random.SeedSequence(seed))
    return _quantile_usages(world, generator) if world.V is None else _token_usages(world, generator)


def _quantile_usages(world: QueryWorld, rng: np.random.Generator) -> _Usages:
    """B'B = diag(kappa_n) at the quantiles of kappa, with the mean squares of xi A, A and f around each."""
    N = world.N
    draws = min(N, _SEQUENCES)
    draws *= int(np.clip(_SCORES // (draws * world.T), 1, _DRAWS_PER_SEQUENCE))
    pooled = world.draw_pooled(draws, rng)
    order = np.argsort(-pooled.kappa, kind="stable")
    kappa = pooled.kappa[order]
    A, key, f = (x[order] for x in (pooled.A, pooled.A - pooled.A.mean(), pooled.f - pooled.f.mean()))
    if N <= _SINGLE + _SHARES:
        starts = np.round(np.arange(N) * (draws / N)).astype(np.intp)
    else:  # the largest kappa one by one, the rest in equal shares
        single = np.arange(_SINGLE) * (draws / N)
        rest = np.linspace(_SINGLE * (draws / N), draws, _SHARES + 1)[:-1]
        starts = np.unique(np.concatenate([single, rest]).astype(np.intp))
    counts = np.diff(np.append(starts, draws))

    def mean(values: FloatArray) -> FloatArray:
        return np.add.reduceat(values, starts) / counts

    values, weights = mean(kappa), counts / draws
    squares = {name: mean(x * x) for name, x in (("A", A), ("key", key), ("f", f))}

    def usage(square: FloatArray) -> Usage:
        return _diagonal_usage(values, weights, np.sqrt(square * weights), N)

    # around each quantile the pair (A, f) has a second moment matrix: two rows of coordinates, its Cholesky factor
    first = np.sqrt(squares["key"])
    across = np.divide(mean(key * f), first, out=np.zeros_like(first), where=first > 0)
    rest = np.sqrt(np.maximum(squares["f"] - across**2, 0.0))
    rows = np.concatenate([np.column_stack([first, across]), np.column_stack([np.zeros_like(rest), rest])])
    both = Measure(np.tile(values, 2), rows * np.sqrt(np.tile(weights, 2))[:, None])
    return _Usages(
        usage(squares["A"]),
        usage(squares["key"]),
        usage(squares["f"]),
        float(np.mean(A * A)),
        float(kappa.mean()),
        both,
    )


def _diagonal_usage(values: FloatArray, weights: FloatArray, b: FloatArray, size: int) -> Usage:
    """A usage whose eigenvectors play no part: descending values, their masses, and coordinates of the signal."""
    single = int(np.argmin(np.append(weights * size < 1.5, False)))  # the first ones are one direction each
    k = min(TOP, single, len(values) - 1)
    nothing = np.broadcast_to(0.0, (size, k))
    top = TopPairs(values[:k], nothing, b[:k], np.zeros(k))
    measure = Measure(values[k:], b[k:, None])
    return Usage(top, values[k:], weights[k:], measure, np.broadcast_to(0.0, size), float(b @ b), False)


def _token_usages(world: QueryWorld, rng: np.random.Generator) -> _Usages:
    """B'B = (V/N) W'W of drawn tokens, centred, at the pooled signs, the pooled relevance and the pooled scores."""
    assert world.V is not None
    vocabulary = world.vocabulary()
    tokens, _ = world.draw_tokens(rng)
    W_t = token_matrix(tokens, world.weights(vocabulary.scores[tokens]), world.V)
    vectors = np.stack([vocabulary.signs, vocabulary.relevant, vocabulary.scores])
    pooled = np.asarray(W_t @ vectors.T)
    alpha = float(np.mean(pooled[:, 0] ** 2))
    kappa = float((W_t.data @ W_t.data) / world.N)
    b = (pooled - pooled.mean(axis=0)) / np.sqrt(world.N)
    if min(world.N, world.V) > _DENSE:
        three = [sample_usage(W_t, None, x, centered=True, project=Projection(None), rng=0) for x in vectors]
        both = _apart(three[1].signal_measure, three[2].signal_measure)
        return _Usages(three[0], three[1], three[2], alpha, kappa, both)
    scale = world.V / world.N
    if world.N <= world.V:
        M = scale * (W_t @ W_t.T).toarray()
        M += M.mean() - M.mean(axis=0) - M.mean(axis=1)[:, None]
        t, basis = np.linalg.eigh(M)
        t, coordinates = non_negative(t, "usage", float(t[-1]))[::-1], (basis.T @ b)[::-1]
    else:
        mean = np.asarray(W_t.sum(axis=0)).ravel() / world.N
        t, basis = np.linalg.eigh(scale * (W_t.T @ W_t).toarray() - world.V * np.outer(mean, mean))
        t = non_negative(t, "usage", float(t[-1]))[::-1]
        image = (basis.T @ (np.sqrt(scale) * np.asarray(W_t.T @ b)))[::-1]  # b is centred, so W need not be
        coordinates = np.divide(image, np.sqrt(t)[:, None], out=np.zeros_like(image), where=t[:, None] > 0)
    weights = np.full(len(t), 1 / world.V)
    usages = []
    for i in range(3):
        usage = _diagonal_usage(t, weights, coordinates[:, i], world.V)
        # eigenvalues that B'B does not show are zeros, as is the part of b off its range
        outside = np.sqrt(max(0.0, float(b[:, i] @ b[:, i]) - usage.gain))
        measure = Measure(np.append(usage.measure.values, 0.0), np.append(usage.measure.coordinates, outside)[:, None])
        values = np.append(usage.values, np.zeros(world.V - len(t)))
        masses = np.full(len(values), 1 / world.V)
        usages.append(Usage(usage.top, values, masses, measure, usage.remainder, float(b[:, i] @ b[:, i]), False))
    return _Usages(usages[0], usages[1], usages[2], alpha, kappa, Measure(t, coordinates[:, 1:]))


def _apart(first: Measure, second: Measure) -> Measure:
    """Two measures as one of two vectors that have no direction in common."""
    zeros = np.zeros_like
    rows = [
        np.hstack([first.coordinates, zeros(first.coordinates)]),
        np.hstack([zeros(second.coordinates), second.coordinates]),
    ]
    return Measure(np.concatenate([first.values, second.values]), np.concatenate(rows))


# -- infinitely many sequences ---------------------------------------------------------------------------------------


class _Limit:
    """Eigenvalues of the population covariance, infinitely many sequences.

    Tokens that never repeat: E[kappa] I + mu² E[A²] uu' + nu² (1 − m²) Var(A) k'k'', and Var(f) along q. A finite
    vocabulary: the usage V E[ww'] is diagonal, tau_v = V E[w_v²], but for the classes: in the space of the signs it is
    diag(tau) + c psi psi', psi_v the mean weight of token v, with c such that the pooled signs have the variance
    E[A²]. Means given the score are taken over drawn sequences, in groups of tokens with neighbouring scores.
    """

    def __init__(self, world: QueryWorld, usages: _Usages) -> None:
        self.edge, self.threshold = usages.kappa, 0.0
        self.key = usages.kappa + world.missed**2 * usages.key.gain
        self.query = usages.query.gain
        self.signal = (usages.kappa + world.mu**2 * usages.alpha, 1.0 if world.mu > 0 else 0.0)
        if world.V is None:
            return
        noise = Noise(None, world.d - 1, None)
        bulk = UsageBulk(_limit_usage(world, usages.alpha), noise)
        spectrum = UsageSpectrum(bulk, world.mu)
        self.edge, self.threshold = bulk.edge, bulk.threshold
        named = zip(spectrum.kinds(), spectrum.outliers, strict=True)
        signals = ((o.eigenvalue, float(o.overlaps[0])) for kind, o in named if kind == "signal")
        self.signal = next(signals, (self.edge, 0.0))


def _limit_usage(world: QueryWorld, alpha: float) -> Usage:
    """V E[ww'] in the space of the signs, and the law of all its eigenvalues."""
    assert world.V is not None
    V, rng = world.V, np.random.default_rng(0)
    vocabulary = world.vocabulary()
    tokens = np.concatenate([world.draw_tokens(rng)[0] for _ in range(max(1, 200_000 // (world.N * world.T)))])
    w = world.weights(vocabulary.scores[tokens])
    tau, mean = np.empty(V), np.empty(V)
    for members in (np.flatnonzero(vocabulary.relevant > 0), np.flatnonzero(vocabulary.relevant == 0)):
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
    """alpha/kappa = E[A²]/E[kappa] over that of mean pooling, L²/T."""
    usages = _usages(world.replace(V=None), rng)
    return usages.alpha / usages.kappa * world.T / world.L**2


def best_beta(world: QueryWorld, *, rng: int = 0) -> float:
    """The slope beta >= 0 with the largest predicted alignment.

    Where no slope makes the signal detectable it is the one with the lowest threshold. The maximum is looked for on a
    grid up to three times nu m, then around its best point, to one hundredth of nu m: it is flat.
    """
    if callable(world.kernel):
        raise InvalidInputError("a callable kernel has no beta", world.kernel, "Compare predictions of several kernels")

    def value(beta: float) -> float:
        alignment, threshold = top_alignment(world.replace(beta=float(beta)), rng=rng)
        return alignment if alignment > 0 else -threshold / max(world.mu, 1e-12)

    top = 3 * max(world.nu * world.overlap, 0.5)
    grid = np.linspace(0.0, top, 16)
    values = [value(beta) for beta in grid]
    i = int(np.argmax(values))
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

    For tokens that never repeat, beta = nu m: the weights are the posterior probabilities of being relevant, which
    maximise E[A]²/E[kappa] among all functions of the score. They are divided by their sum or not, whichever has the
    larger predicted alignment. Tokens of a finite vocabulary keep their weights in all sequences, so that a gentler
    slope is best: that of :func:`best_beta`, for normalised weights.
    """
    normalised = world.replace(kernel="sigmoid", beta=None, normalize=True)
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
    ceiling = 1.0 if world.V is None else _Limit(world, _usages(world, rng)).signal[1]

    def reached(N: int) -> bool:
        return top_alignment(world.replace(N=N), rng=rng)[0] >= target

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
