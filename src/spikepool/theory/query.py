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

from collections import Counter
from dataclasses import dataclass

import numpy as np

from spikepool.theory.mixing import mixing, neighbours
from spikepool.theory.prediction import Outlier, Prediction, Sizes
from spikepool.theory.query_population import QueryPopulation
from spikepool.theory.query_spectrum import token_spectra
from spikepool.theory.query_validity import finite_cause, finite_draws, single_sequences, uncertain_mean
from spikepool.theory.validity import mean_of_draws, small_sizes, validity_of
from spikepool.world.query import QueryWorld


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
            return "the threshold is 0 because the noise of the relevant tokens forms an outlier without any signal"
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
        vocabulary: draws of the tokens, up to ten where N is small and up to 64 where their alignments scatter;
        the first has its scores at the quantiles of their law. Alignments and eigenvalues are means over the draws, and
        `validity` reports their scatter where the mean is uncertain by more than .01.
    """
    spectra = token_spectra(world, rng)
    first = spectra[0]
    limit = QueryPopulation(world, first.usages, first.left)
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
    draws = finite_draws(spectra)
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
            mean_of_draws(
                alignment,
                draws,
                world.d,
                # with a finite vocabulary it is part of each draw of the tokens
                mixing(visible, world.d, world.N, bulk.edge) if world.V is None else None,
                cause=finite_cause(world, first),
            ),
            neighbours(visible, world.d, world.N if world.V is None else None, bulk.edge, top=False),
            uncertain_mean(tops) if world.V is not None else single_sequences(world, first, rng),
            small_sizes(d=world.d, N=world.N, **({} if world.V is None else {"V": world.V})),
        ),
        # tokens that never repeat: a vocabulary so large that its size plays no part
        sizes=Sizes(world.d - world.directions, world.V or 1 << 40, world.N, True),
        finite_size_alignment=None if draws is None else draws.mean,
    )


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
