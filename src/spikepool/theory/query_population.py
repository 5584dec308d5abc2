"""Population covariance of sequences pooled by a query: infinitely many sequences."""

from __future__ import annotations

import numpy as np

from spikepool.theory.query_noise import QueryNoise
from spikepool.theory.query_usage import QueryUsage, diagonal_usage
from spikepool.theory.token_usage import Usage
from spikepool.theory.usage_spectrum import UsageBulk, UsageSpectrum
from spikepool.world.query import QueryWorld


class QueryPopulation:
    """Eigenvalues of the population covariance, infinitely many sequences.

    Tokens that never repeat: E[kappa] I + mu² E[A²] uu' + nu² (1 − m²) Var(A) k'k'', and Var(f) along q. A finite
    vocabulary: the usage V E[ww'] is diagonal, tau_v = V E[w_v²], but for the classes: in the space of the signs it is
    diag(tau) + c psi psi', psi_v the mean weight of token v, with c such that the pooled signs have the variance
    E[A²]. Means given the score are taken over drawn sequences, in groups of tokens with neighbouring scores.
    """

    def __init__(self, world: QueryWorld, usages: QueryUsage, left: QueryNoise) -> None:
        self.edge, self.threshold = usages.kappa, 0.0
        self.key = usages.kappa + left.scales[1] ** 2 * float(usages.covariance[0, 0])
        self.query = float(np.linalg.eigvalsh(usages.covariance[1:, 1:])[-1]) * float(left.scales[2]) ** 2
        self.signal = (usages.kappa + world.mu**2 * usages.alpha, 1.0 if world.mu > 0 else 0.0)
        if world.V is not None:
            self._of_tokens(world, usages, left)
        elif world.noise is not None:
            self._coloured(world, usages, left)

    def _of_tokens(self, world: QueryWorld, usages: QueryUsage, left: QueryNoise) -> None:
        bulk = UsageBulk(_limit_usage(world, usages.alpha), left.noise)
        spectrum = UsageSpectrum(bulk, world.mu)
        self.edge, self.threshold = bulk.edge, bulk.threshold
        named = zip(spectrum.kinds(), spectrum.outliers, strict=True)
        signals = ((o.eigenvalue, float(o.overlaps[0])) for kind, o in named if kind == "signal")
        self.signal = next(signals, (self.edge, 0.0))

    def _coloured(self, world: QueryWorld, usages: QueryUsage, left: QueryNoise) -> None:
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


def _limit_usage(world: QueryWorld, alpha: float, parts: int = 160) -> Usage:
    """V E[ww'] in the space of the signs, and the law of all its eigenvalues; tokens in so many `parts` by score."""
    assert world.V is not None
    V, rng = world.V, np.random.default_rng(0)
    vocabulary = world.vocabulary()
    tokens = np.concatenate([world.draw_tokens(rng)[0] for _ in range(max(1, 200_000 // (world.N * world.T)))])
    w = world.weights(vocabulary.scores[tokens])
    tau, mean = np.empty(V), np.empty(V)
    for members in (np.flatnonzero(vocabulary.relevant > 0), np.flatnonzero(vocabulary.relevant == 0)):
        if len(members) == 0:  # every token is relevant
            continue
        groups = np.array_split(members, min(parts, len(members)))  # scores ascend within a kind
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
    common = V * excess / total**2 if total else 0.0  # no relevant token has a weight
    M = np.diag(key[:, 0]) + common * np.outer(psi, psi)
    t, basis = np.linalg.eigh(M)
    t, basis = np.maximum(t[::-1], 0.0), basis[:, ::-1]
    b = np.sqrt(t) * (basis.T @ unit)
    rest = np.concatenate([np.repeat(key[:, 0], size - 1), tau[vocabulary.relevant == 0]])
    values = np.concatenate([t, rest])
    order = np.argsort(-values, kind="stable")
    coordinates = np.concatenate([b, np.zeros(len(rest))])[order]
    return diagonal_usage(values[order], np.full(V, 1 / V), coordinates, V)
