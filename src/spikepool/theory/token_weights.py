"""Token frequencies and token weights in closed form.

Positions weigh where a token stands; practice also weighs which token it is (IDF, SIF). With frequencies p_v and token
weights a_v a sequence pools to ``c = sum_t w_t a(x_t) e(x_t)``. Its covariance given the table E = mu u s' + Z is
``kappa E M E'``, for positions of ratio G = alpha/kappa and ±1 signs of balanced classes

    M = diag(p a²) + (G − 1)(p a s)(p a s)' − (p a)(p a)'          (centred; + (1/kappa − 1)(p a)(p a)' if not).

Its signal gain is s'M s = G ā² + Var(a). The outliers of E M E' are those of an ordinary matrix of V + 1 rows,

    L = [[d M, sqrt(d) mu M s], [., mu² s'M s]],    with eigenvalues theta and last coordinates xi of eigenvectors.

With x_v = d p_v a_v²/theta, E1 = (1/d) sum x/(1 − x), E2 = (1/d) sum x²/(1 − x)² and gamma = d/N, in units of kappa,

    eigenvalue = theta (1 + E1)(1 + gamma E1),
    alignment  = xi² [1 − E2 − gamma (1 + E1)(E1 + E2)/(1 + gamma E1)]_+ .

The first factor is the share of the signal in a direction of the table, the second what finitely many dimensions and
sequences leave of it; the edge of the bulk is where the bracket vanishes, and the population is gamma = 0. For p = 1/V
and a = 1 these are the rational functions of :mod:`spikepool.theory.spikes`. Frequent tokens that stand apart from the
others (``x_v`` near 1 there) are left out of E1 and E2 and make outliers of kind "usage".

The limit is that of spread-out positions: the weight of a rare token must not be so large that single occurrences
count. With A_k = sum p a^k that is ``kappa A_4/A_2² << 1``; the law given the tokens (``exact=True``) has no such
limit. A class-centred table replaces M by P M P next to Z, P the projection off the two plain class means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import FloatArray
from spikepool.laws.atomic import AtomicLaw
from spikepool.laws.base import SpectralLaw
from spikepool.laws.free_product import FreeProductLaw, MarchenkoPastur
from spikepool.laws.generalized import GeneralizedLaw
from spikepool.theory import spikes
from spikepool.theory.finite_size import (
    Threshold,
    leads,
    numerical_blur,
    numerical_threshold,
    of_top,
    over_gains,
    top_draws,
)
from spikepool.theory.isolated import isolated
from spikepool.theory.mixing import mixed, mixing, neighbours
from spikepool.theory.population_usage import group_tokens
from spikepool.theory.prediction import Outlier, Prediction, Sizes
from spikepool.theory.usage_spectrum import Kind
from spikepool.theory.validity import (
    Draws,
    Shift,
    few_tokens,
    mean_of_draws,
    no_signal,
    rare_tokens,
    small_sizes,
    validity_of,
)
from spikepool.world.frequencies import token_law
from spikepool.world.sequences import SequenceWorld

# Distinct values of p a² that are kept one by one; beyond them neighbours in rank share a bin, the largest apart.
_GROUPS = 100


class SpreadPopulation:
    """The population of spread-out positions for one pair of gains: everything that does not depend on mu and N.

    Parameters
    ----------
    world : SequenceWorld
        With isotropic noise.
    alpha, kappa : float
        Gains of the positions.

    Attributes
    ----------
    gain : float
        s'M s, the signal gain in units of kappa: G ā² + Var(a).
    square : float
        A_2 = sum p a², the noise gain in units of kappa.
    """

    def __init__(self, world: SequenceWorld, alpha: float, kappa: float) -> None:
        p, a = token_law(world)
        s = world.signs.astype(np.float64)
        self.d, self.kappa = world.d, kappa
        ratio, signs = alpha / kappa, world.latent == "signs"
        if not signs and np.ptp(a) > 0 and np.ptp(np.diag(world.R)) + abs(world.R[0, 0] - 1) > 1e-12:
            raise InvalidInputError(
                "the closed form of token weights with gaussian latents is for an R of unit diagonal",
                remedy="Use predict(w, exact=True)",
            )
        t, f = p * a**2, p * a
        self.square, self._moments = float(t.sum()), tuple(float(p @ a**k) for k in (1, 3, 4))
        self._bulk_values = np.sort(t)[::-1]
        self._apart: dict[bool, int] = {}
        columns = [f] if not signs else [f, f * s]
        weights = [-1.0 if world.centered else 1 / kappa - 1, ratio - 1][: len(columns)]
        if signs:
            q = t * s + sum(
                weight * column * float(column @ s) for weight, column in zip(weights, columns, strict=True)
            )
            self.gain = float(s @ q)
        else:  # latents that are independent of the tokens
            q, self.gain = np.zeros(len(p)), ratio * float(f.sum()) ** 2 + self.square - float(f.sum()) ** 2
        U, K = np.column_stack(columns), np.diag(weights)
        if world.table == "class_centered":
            q, U, K = _class_centred(q, t, U, K, s)
        self._mean_sign = float(f @ s) if signs else 0.0
        self._full = t, q, U
        grouped = group_tokens(t, np.column_stack([q, f, U]), _GROUPS)
        self._q, self._f, U = grouped.columns[:, 0], grouped.columns[:, 1], grouped.columns[:, 2:]
        self._t, self._U, self._K = grouped.diagonal, U, K

    def eigenpairs(self, mu: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Eigenvalues theta of L, descending; xi²; and the squared cosines of each with the signal and the mean."""
        n = len(self._q)
        L = np.empty((n + 1, n + 1))
        L[:n, :n] = self.d * (self._U @ self._K @ self._U.T)
        L[range(n), range(n)] += self.d * self._t
        L[n, :n] = L[:n, n] = math.sqrt(self.d) * mu * self._q
        L[n, n] = mu**2 * self.gain
        theta, vectors = np.linalg.eigh(L)
        theta, vectors = theta[::-1], vectors[:, ::-1]
        x, xi = vectors[:n], vectors[n]
        size = np.sqrt(np.maximum(theta, 1e-300))
        signal = (math.sqrt(self.d) * (self._q @ x) + mu * self.gain * xi) / size
        mean = (math.sqrt(self.d) * (self._f @ x) + mu * self._mean_sign * xi) / size
        return theta, xi**2, signal**2 / max(self.gain, 1e-300), mean**2 / self.kappa

    def gain_at(self, theta: float) -> float:
        """Y(theta) = s'M s + (d/theta) q'(1 − (d/theta) M)^{-1} q; the signal's theta solves theta = mu² Y(theta)."""
        h, (t, q, U), K = self.d / theta, self._full, self._K
        r = 1 / (1 - h * t)
        rq, rU = r * q, r[:, None] * U
        inner = np.linalg.solve(np.eye(len(K)) - h * K @ (U.T @ rU), K @ (U.T @ rq))
        return self.gain + h * float(q @ rq + h * (q @ rU) @ inner)

    def bulk(self, gamma: float, *, resolved: bool = False) -> SpreadBulk:
        """The bulk at d/N = `gamma`, tokens that stand apart left out."""
        tau = self.d * self._bulk_values
        if resolved not in self._apart:
            self._apart[resolved] = isolated(tau, np.full(len(tau), 1 / self.d), len(tau), 1.0, resolved=resolved)
        return SpreadBulk(tau[self._apart[resolved] :], self.d, gamma)

    def hidden_tokens(self, theta: float, gamma: float) -> tuple[int, float]:
        """Tokens that stand apart without an outlier of their own, and the share they take of the bracket at `theta`.

        They are left out of E1 and E2, as single tokens do not count in the limit. At finite d each is 1/d of these
        sums, which is the share of the token's noise in the eigenvector of the signal.
        """
        bulk = self.bulk(gamma)
        tau = self.d * self._bulk_values
        apart = tau[: len(tau) - len(bulk.tau)]
        hidden = apart[apart < bulk.star]
        if len(hidden) == 0:
            return 0, 0.0
        all_of_them = SpreadBulk(np.concatenate([hidden, bulk.tau]), self.d, gamma)
        whole = bulk.bracket(theta)
        return len(hidden), 1.0 if whole <= 0 else 1 - all_of_them.bracket(theta) / whole

    def threshold(self, gamma: float) -> float:
        """Signal strength at which its outlier leaves the bulk; 0 where the usage holds the classes by itself."""
        star = self.bulk(gamma, resolved=True).star
        gain = self.gain_at(star)
        if gain < 0 or self.gain == 0:
            return math.inf if self.gain == 0 else 0.0
        return math.sqrt(star / gain) if gain > 0 else math.inf

    def crossing(self, gamma: float) -> tuple[Threshold | None, float]:
        """What draws near the threshold need, and the blur of the edge.

        D = Y(theta)/theta, m = −1/(theta (1 + gamma E1)). The first is None where there is no threshold.
        """
        bulk = self.bulk(gamma, resolved=True)
        star = bulk.star
        step = 1e-4 * star
        theta = star + step * np.arange(3)
        D = np.array([self.gain_at(float(at)) for at in theta]) / theta
        m = np.array([-1 / (at * (1 + gamma * bulk.sums(float(at))[0])) for at in theta])
        z = np.array([bulk.eigenvalue(float(at)) for at in theta])
        return numerical_threshold(D, m, m, z, step), self.kappa * numerical_blur(m, z, step)

    def law(self, bulk: SpreadBulk) -> SpectralLaw:
        """Law of the bulk of S: kappa (MP_gamma with the law of M over the tokens, through a table of d/V)."""
        values, V = bulk.tau / self.d, len(self._bulk_values)
        if values[0] == values[-1] and len(values) == V:
            return FreeProductLaw(self.d / V, bulk.gamma, self.kappa * V * float(values[0]))
        atoms = np.concatenate([values, np.zeros(V - len(values))])
        return GeneralizedLaw(MarchenkoPastur(bulk.gamma), AtomicLaw(self.kappa * V * atoms), self.d / V)

    @property
    def weight_spread(self) -> float:
        """Relative variance A_4/A_2² − 1 of the squared token weights over occurrences."""
        return max(0.0, self._moments[2] / self.square**2 - 1)

    @property
    def concentration(self) -> float:
        """Kappa A_4/(A_2 Q): what single occurrences of rare tokens weigh, zero in the spread-out limit."""
        return self.kappa * self._moments[2] / (self.square * self.gain) if self.gain > 0 else 0.0

    def noise_with_signal(self, concentration: float, lean: float) -> float:
        """Relative covariance of the squared pooled sign of a sequence and its noise gain: both are large together.

        ``[c (A_4 − A_2²) + 2 lean (A_3 A_1 − A_2 A_1²)]/(A_2 Y)`` with c the `concentration` of the position weights
        and Y the signal gain in units of kappa.
        """
        (first, third, fourth), square = self._moments, self.square
        shared = concentration * (fourth - square**2) + 2 * lean * (third * first - square * first**2)
        return shared / (square * self.gain) if self.gain > 0 else 0.0

    def slope(self, mu: float, gamma: float, alignment: float, step: float = 0.005) -> float:
        """Derivative by log mu² of the alignment of the top eigenvector, which is `alignment` at mu."""
        ahead = spread_alignment(self, mu * (1 + step), gamma)
        return max(0.0, (ahead - alignment) / (2 * step))


@dataclass(frozen=True)
class SpreadBulk:
    """E1, E2 and the bracket over the tokens of the bulk, in units of kappa."""

    tau: FloatArray
    d: int
    gamma: float

    def sums(self, theta: float) -> tuple[float, float]:
        """E1 and E2."""
        ratio = self.tau / (theta - self.tau)
        return float(ratio.sum()) / self.d, float(ratio @ ratio) / self.d

    def bracket(self, theta: float, gamma: float | None = None) -> float:
        """What finitely many dimensions and sequences leave of an outlier's alignment; negative inside the bulk."""
        g = self.gamma if gamma is None else gamma
        if theta <= self.tau[0]:
            return -math.inf
        first, second = self.sums(theta)
        return 1 - second - g * (1 + first) * (first + second) / (1 + g * first)

    def eigenvalue(self, theta: float, gamma: float | None = None) -> float:
        """The eigenvalue of S, theta (1 + E1)(1 + gamma E1)."""
        first, _ = self.sums(theta)
        return theta * (1 + first) * (1 + (self.gamma if gamma is None else gamma) * first)

    @property
    def star(self) -> float:
        """The theta of the right edge, where the bracket vanishes."""
        low = float(self.tau[0])
        high = 2 * low
        while self.bracket(high) <= 0:
            high *= 2
        while self.bracket(low + (high - low) / 2) > 0 and high - low > 1e-12 * low:
            high = low + (high - low) / 2
        return float(brentq(self.bracket, low + (high - low) / 2, high, xtol=1e-300, rtol=1e-14, maxiter=500))


def _class_centred(
    q: FloatArray, t: FloatArray, U: FloatArray, K: FloatArray, s: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P q and P (diag t + U K U') P as diag t plus a product of the same form, P the projection off the class means.

    With Q the two normalised class indicators and D = diag t, P D P = D + [Q DQ] [[Q'DQ, −I], [−I, 0]] [Q DQ]'.
    """
    Q = np.column_stack([s > 0, s < 0]).astype(np.float64)
    Q /= np.sqrt(Q.sum(axis=0))
    DQ = t[:, None] * Q
    k = U.shape[1]
    wide = np.zeros((k + 4, k + 4))
    wide[:k, :k] = K
    wide[k : k + 2, k : k + 2] = Q.T @ DQ
    wide[k : k + 2, k + 2 :] = wide[k + 2 :, k : k + 2] = -np.eye(2)
    return q - Q @ (Q.T @ q), np.column_stack([U - Q @ (Q.T @ U), Q, DQ]), wide


def predict_spread(
    world: SequenceWorld, alpha: float, kappa: float, concentration: float, gain_variance: float, lean: float
) -> Prediction:
    """Bulk, outliers and thresholds for token frequencies and token weights; see the module's formulas.

    `concentration`, `gain_variance` and `lean` are those of :class:`spikepool.theory.closed_form.Positions`.

    The prediction's `alpha` and `kappa` are those of the weighted tokens: alpha ā² + kappa Var(a) and kappa A_2.
    """
    population = SpreadPopulation(world, alpha, kappa)
    mu, d, gamma = world.mu, world.d, world.gamma
    bulk = population.bulk(gamma)
    mu_sample = population.threshold(gamma)
    outliers, contents, means = _outliers(population, bulk, mu)
    detectable = bool(outliers) and (mu_sample == 0 or mu > mu_sample)
    kinds: list[Kind] = ["usage"] * len(outliers)
    if detectable:
        kinds[int(np.argmax(contents))] = "signal"
    rest = [i for i, kind in enumerate(kinds) if kind != "signal"]
    if not world.centered and rest:
        leading = max(rest, key=lambda i: means[i])
        if means[leading] > 0.5:
            kinds[leading] = "mean"
    if mu == 0:
        kinds = ["classes" if kind == "signal" else kind for kind in kinds]
    placed = tuple(replace(outlier, kind=kind) for outlier, kind in zip(outliers, kinds, strict=True))
    alignment = placed[0].alignment if placed else 0.0
    edge = kappa * bulk.eigenvalue(bulk.star)
    height = max(1.0, placed[0].eigenvalue / edge) if placed else 1.0

    def strength() -> float:
        if placed[0].kind != "mean":  # made of frequent tokens: its response has their poles
            return 0.0
        theta = float(population.eigenpairs(mu)[0][0])
        return population.gain_at(theta) / theta

    crossing, blur = population.crossing(gamma) if mu > 0 and height < 2 else (None, 0.0)

    def draws(at: float, factor: float) -> Draws:
        """Draws at strength `at`, for `factor` times the alignment there."""
        limit = min(1.0, factor * spread_alignment(population, at, gamma))
        return of_top(crossing, limit, at, d, lambda: distance(at))

    def distance(at: float) -> float:
        return (kappa * bulk.eigenvalue(float(population.eigenpairs(at)[0][0])) - edge) / blur if blur > 0 else math.inf

    if mu > 0 and leads(placed[0] if placed else None, edge, d):
        variance = (gain_variance + concentration * population.weight_spread) / world.N
        finite: Draws | None = over_gains(draws, mu, world.class_mean_power, variance)
    else:
        finite = top_draws(placed[0] if placed else None, edge, mu, d, crossing, lambda: blur, strength)
    # a token that occurs NT/V times on average has as few occurrences to average over as a sequence has positions
    spread = (concentration + world.V / (world.N * world.T)) * population.weight_spread
    slope = population.slope(mu, gamma, alignment) if spread > 0.02 or concentration > 0.1 else 0.0
    together = population.noise_with_signal(concentration, lean)
    # of the strong signal's loss (d/N) A_2/(mu² Y), which takes the two for independent
    loss = gamma * population.square / (mu**2 * population.gain) * together if alignment > 0 else 0.0
    heavy = Shift("sequences of large token weights carry more of the signal and of the noise", -min(alignment, loss))
    return Prediction(
        alpha=kappa * population.gain,
        kappa=kappa * population.square,
        bulk=population.law(bulk),
        edge=edge,
        outliers=placed,
        alignment=alignment,
        detectable=detectable and mu > 0,
        mu_population=population.threshold(0.0),
        mu_sample=mu_sample,
        validity=validity_of(
            no_signal(mu, placed),
            mean_of_draws(
                alignment,
                finite,
                d,
                few_tokens(kappa, mu, mu_sample, slope, concentration) if mu_sample > 0 else None,
                heavy,
                rare_tokens(spread, gamma, slope, height, heavy) if alignment > 0 else None,
                _hidden(population, mu, gamma, alignment) if placed else None,
                mixing(placed, d, world.N, edge),
            ),
            neighbours(placed, d, world.N, edge, top=False),
            small_sizes(d=d, V=world.V, N=world.N),
        ),
        sizes=Sizes(d, world.V, world.N, world.centered),
        table_alignment=None if world.latent == "gaussian" else _table_alignment(world),
        finite_size_alignment=None if finite is None else finite.mean,
    )


def _hidden(population: SpreadPopulation, mu: float, gamma: float, alignment: float) -> Shift | None:
    """What frequent tokens without an outlier take of the signal's alignment at finite d."""
    theta, _, _, _ = population.eigenpairs(mu)
    count, taken = population.hidden_tokens(float(theta[0]), gamma)
    if count == 0:
        return None
    return Shift(
        f"{count} frequent tokens without an outlier of their own mix with the signal", -alignment * mixed(taken)
    )


def _table_alignment(world: SequenceWorld) -> float:
    """Alignment of the top eigenvector of the table itself, which knows neither frequencies nor weights."""
    power = world.mu**2 + world.class_mean_power
    return world.purity * float(spikes.population_alignment(power - world.delta, world.delta))


def _outliers(
    population: SpreadPopulation, bulk: SpreadBulk, mu: float
) -> tuple[list[Outlier], FloatArray, FloatArray]:
    theta, share, contents, means = population.eigenpairs(mu)
    keep = theta > bulk.star
    kappa = population.kappa
    outliers = [
        Outlier(
            kind="usage",
            eigenvalue=kappa * bulk.eigenvalue(float(at)),
            alignment=float(xi) * max(0.0, bulk.bracket(float(at))),
            population_eigenvalue=kappa * bulk.eigenvalue(float(at), 0.0),
            population_alignment=float(xi) * max(0.0, bulk.bracket(float(at), 0.0)),
        )
        for at, xi in zip(theta[keep], share[keep], strict=True)
    ]
    return outliers, contents[keep], means[keep]


def spread_alignment(population: SpreadPopulation, mu: float, gamma: float) -> float:
    """Alignment of the top eigenvector, as `Prediction.alignment`, at any mu and d/N."""
    bulk = population.bulk(gamma)
    theta, share, _, _ = population.eigenpairs(mu)
    return float(share[0]) * max(0.0, bulk.bracket(float(theta[0])))
