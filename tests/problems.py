"""The one table of named problems, used by theory and simulation tests alike.

A problem is a model, weights, and what is expected of the top of the spectrum. Theory is a limit; at size d the mean
over draws differs from it by a finite-size bias, whose rate depends on where the problem lies:

* ``outlier``: the top eigenvalue leaves the bulk. Its mean and that of its alignment are off by O(1/d).
* ``edge``: nothing is detectable. The top eigenvalue is the edge less O(d^(-2/3)) (Tracy-Widom), the alignment
  O(1/d).
* ``critical``: at the threshold. Alignment O(d^(-1/3)), top eigenvalue O(d^(-2/3)).
* ``second``: not centred, and the outlier of the vocabulary's mean noise is on top: off by O(1/d), and the signal
  is second.

`CONSTANTS` bound the bias, from 400 draws of every problem at d = 250; the largest seen there were 3.4 and 1.7
(outlier; the 3.4 is the -1/N of centring few sequences), 1.3 and 1.7 (edge), 0.4 and 1.2 (critical), 0.1 and 2.7
(second).

Weights with one or two effective positions 1/kappa are not spread out. Far above the threshold the closed form
still holds; near it and at the edge it is an approximation, and `discrepancy` holds what simulation gave less the
closed form (eigenvalue, relative; alignment) over 200 draws at d = 400, standard errors 0.004 and 0.01 at most. It
does not shrink with d: with single tokens the most frequent ones make a top of the bulk that grows like a maximum
of Poisson counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import spikepool as sp

# Bias constants by place: c in c·d^(-rate), for the relative error of the top eigenvalue and for the alignment.
RATES = {"outlier": (1.0, 1.0), "edge": (2 / 3, 1.0), "critical": (2 / 3, 1 / 3), "second": (1.0, 1.0)}
CONSTANTS = {"outlier": (4.0, 2.5), "edge": (1.6, 2.0), "critical": (0.6, 1.3), "second": (3.0, 3.5)}


@dataclass(frozen=True)
class Problem:
    name: str
    model: sp.SequenceModel
    weights: np.ndarray
    place: str
    marks: frozenset[str] = frozenset()
    discrepancy: tuple[float, float] = (0.0, 0.0)

    @property
    def approximate(self) -> bool:
        return self.discrepancy != (0.0, 0.0)

    def at(self, d: int) -> Problem:
        """The same aspect ratios at another d (V kept even)."""
        m = self.model
        V = 2 * max(1, round(d * m.V / m.d / 2))
        model = m.replace(d=d, V=V, N=max(1, round(d * m.N / m.d)))
        return Problem(self.name, model, self.weights, self.place, self.marks, self.discrepancy)

    def bias(self) -> tuple[float, float]:
        """Bound on the bias at this d: of the top eigenvalue (relative) and of the alignment."""
        value, alignment = (
            c * self.model.d**-rate for c, rate in zip(CONSTANTS[self.place], RATES[self.place], strict=True)
        )
        return value, alignment


PREFIX = sp.prefix_correlation(T=10, L=3)
WEIGHTS = {
    "mean": sp.mean_weights(10),
    "causal": sp.causal_weights(10),
    "optimal": sp.optimal_weights(PREFIX),
    "layers": sp.causal_weights(10, layers=3),
    "residual": sp.causal_weights(10, residual=0.5),
}


def _model(mu, *, d=400, V=640, N=800, R=PREFIX, **options):
    return sp.SequenceModel(d, V, N, R, mu, **options)


def _critical(w, **options):
    """The model exactly at the sample threshold of `w`."""
    return _model(_model(1.0, **options).predict(w).mu_sample, **options)


def _problem(name, model, weights, place, *marks, **more):
    return Problem(name, model, np.asarray(weights), place, frozenset(marks), **more)


_mean, _causal, _optimal = WEIGHTS["mean"], WEIGHTS["causal"], WEIGHTS["optimal"]
_markov = sp.markov_correlation(12, 0.8)
_mixed = sp.equicorrelation(10, 0.3)
_spiked = sp.spiked_correlation(12, 4.0, 8)
_long = sp.prefix_correlation(T=50, L=10)
_T2 = sp.prefix_correlation(T=2, L=2)

PROBLEMS = [
    # the paper's prefix model, three weights, three places
    _problem("prefix-mean-supercritical", _model(2.5), _mean, "outlier", "prefix", "mean", "supercritical", "bulk"),
    _problem(
        "prefix-mean-subcritical", _model(0.3, N=400), _mean, "edge", "prefix", "mean", "subcritical", "edge", "bulk"
    ),
    _problem("prefix-mean-critical", _critical(_mean), _mean, "critical", "prefix", "mean", "critical"),
    _problem("prefix-mean-near-threshold", _model(1.6), _mean, "outlier", "prefix", "mean", "supercritical"),
    _problem(
        "prefix-causal-supercritical", _model(2.5), _causal, "outlier", "prefix", "causal", "supercritical", "bulk"
    ),
    _problem("prefix-causal-moderate", _model(1.3), _causal, "outlier", "prefix", "causal", "supercritical"),
    _problem(
        "prefix-causal-subcritical", _model(0.2, N=300), _causal, "edge", "prefix", "causal", "subcritical", "edge"
    ),
    _problem("prefix-optimal-supercritical", _model(2.5), _optimal, "outlier", "prefix", "optimal", "supercritical"),
    _problem("prefix-optimal-moderate", _model(0.8), _optimal, "outlier", "prefix", "optimal", "supercritical"),
    _problem("prefix-three-layers", _model(2.5), WEIGHTS["layers"], "outlier", "prefix", "layers"),
    _problem("prefix-residual", _model(1.5), WEIGHTS["residual"], "outlier", "prefix", "residual"),
    _problem("prefix-long-causal", _model(1.5, R=_long), sp.causal_weights(50), "outlier", "prefix", "causal", "bulk"),
    # other correlations
    _problem("markov-mean", _model(1.5, R=_markov), sp.mean_weights(12), "outlier", "markov", "mean"),
    _problem("markov-causal", _model(1.5, R=_markov), sp.causal_weights(12), "outlier", "markov", "causal"),
    _problem("markov-optimal", _model(1.2, R=_markov), sp.optimal_weights(_markov), "outlier", "markov", "optimal"),
    _problem("equicorrelated-mean", _model(1.5, R=_mixed), _mean, "outlier", "equicorrelation", "mean"),
    _problem("independent-positions", _model(2.5, R=np.eye(10)), _mean, "outlier", "independent", "mean"),
    _problem(
        "spiked-gaussian-optimal",
        _model(1.0, R=_spiked, latent="gaussian"),
        sp.optimal_weights(_spiked),
        "outlier",
        "spiked-gaussian",
        "optimal",
    ),
    _problem(
        "spiked-gaussian-mean",
        _model(1.2, R=_spiked, latent="gaussian"),
        sp.mean_weights(12),
        "outlier",
        "spiked-gaussian",
        "mean",
    ),
    _problem(
        "spiked-gaussian-subcritical",
        _model(0.2, R=_spiked, latent="gaussian"),
        sp.mean_weights(12),
        "edge",
        "spiked-gaussian",
        "subcritical",
    ),
    # the table's own class means taken out: the paper's printed formulas
    _problem(
        "class-centred-causal", _model(1.3, table="class_centered"), _causal, "outlier", "class_centered", "causal"
    ),
    _problem(
        "class-centred-mean-subcritical",
        _model(0.5, table="class_centered"),
        _mean,
        "edge",
        "class_centered",
        "subcritical",
        "edge",
    ),
    _problem(
        "class-centred-critical",
        _critical(_mean, table="class_centered"),
        _mean,
        "critical",
        "class_centered",
        "critical",
    ),
    # not centred
    _problem("second-outlier-on-top", _model(1.0, centered=False), _mean, "second", "uncentered", "second-outlier"),
    _problem("second-outlier-below", _model(2.5, centered=False), _causal, "outlier", "uncentered", "second-outlier"),
    # aspect ratios
    _problem("atom-few-sequences", _model(2.5, N=200), _mean, "outlier", "atom", "gamma-above-1", "bulk"),
    _problem("atom-small-vocabulary", _model(1.5, V=200), _mean, "outlier", "atom", "delta-above-1", "bulk"),
    _problem("atom-both", _model(2.0, V=200, N=160), _causal, "outlier", "atom", "gamma-above-1", "bulk"),
    _problem("square", _model(1.5, V=400, N=400), _mean, "outlier", "hard-edge", "bulk"),
    _problem("delta-near-0", _model(1.5, d=200, V=10_000, N=400), _mean, "outlier", "delta-near-0", "bulk"),
    _problem("gamma-near-0", _model(1.0, d=200, V=320, N=20_000), _mean, "outlier", "gamma-near-0"),
    _problem("gamma-above-1-subcritical", _model(0.2, N=200, V=1600), _mean, "edge", "gamma-above-1", "subcritical"),
    # noise laws
    *(
        _problem(f"noise-{law}", _model(1.3, noise=law), _causal, "outlier", "noise", law)
        for law in ("gaussian", "rademacher", "uniform", "laplace", "student-t")
    ),
    # one effective position: right far above the threshold, approximate near it and at the edge
    _problem("single-token", _model(3.0, R=np.eye(1)), np.ones(1), "outlier", "T1", "supercritical"),
    _problem("one-position-of-ten", _model(3.0), np.eye(10)[0], "outlier", "supercritical"),
    _problem(
        "single-token-moderate",
        _model(1.5, R=np.eye(1)),
        np.ones(1),
        "outlier",
        "T1",
        "small-T",
        discrepancy=(0.012, -0.113),
    ),
    _problem(
        "single-token-subcritical",
        _model(0.2, R=np.eye(1)),
        np.ones(1),
        "edge",
        "T1",
        "small-T",
        discrepancy=(0.026, 0.003),
    ),
    _problem(
        "two-tokens-subcritical",
        _model(0.2, N=200, R=_T2),
        sp.mean_weights(2),
        "edge",
        "small-T",
        discrepancy=(0.012, 0.003),
    ),
    _problem(
        "three-layers-moderate",
        _model(1.5),
        WEIGHTS["layers"],
        "outlier",
        "prefix",
        "small-T",
        discrepancy=(0.004, -0.041),
    ),
]

BY_NAME = {problem.name: problem for problem in PROBLEMS}


def marked(*marks: str) -> list[Problem]:
    """Problems that carry all of `marks`."""
    return [problem for problem in PROBLEMS if set(marks) <= problem.marks]
