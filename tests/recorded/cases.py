"""Named computations whose results are kept: what a reorganisation of the code may not change.

Every case calls public names only. ``python tests/recorded/cases.py FILE`` writes the results as they are now.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import spikepool as sp

R = sp.prefix_correlation(T=10, L=3)
SMALL = {"d": 60, "V": 100, "N": 140}
WEIGHTS = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}


def prediction(p: sp.Prediction) -> dict[str, Any]:
    """The numbers of a prediction."""
    return {
        "scalars": [p.alpha, p.kappa, p.edge, p.alignment, p.mu_population, p.mu_sample, p.detectable],
        "outliers": [[o.eigenvalue, o.alignment, o.population_eigenvalue, o.population_alignment] for o in p.outliers],
        "kinds": [o.kind for o in p.outliers],
    }


def drawn(model: sp.SequenceModel) -> dict[str, Any]:
    """The option that asks for a drawn table."""
    return {"table_drawn": True} if "table_drawn" in inspect.signature(model.simulate).parameters else {}


def closed_form() -> Any:
    results = {}
    for table in ("sampled", "class_centered"):
        for centered in (True, False):
            for mu in (0.0, 0.9, 1.6, 2.5):
                model = sp.SequenceModel(500, 800, 1000, R, mu, table=table, centered=centered)
                for name, w in WEIGHTS.items():
                    results[f"{table} {centered} {mu} {name}"] = prediction(model.predict(w))
    return results


def gaussian_latent() -> Any:
    S = sp.spiked_correlation(20, 10.0, 5)
    model = sp.SequenceModel(200, 300, 400, S, 1.1, latent="gaussian")
    return {
        name: prediction(model.predict(w))
        for name, w in (("mean", sp.mean_weights(20)), ("optimal", sp.optimal_weights(S)))
    }


def given_tokens() -> Any:
    plain = sp.SequenceModel(**SMALL, R=R, mu=1.8)
    coloured = plain.replace(covariance=np.linspace(0.5, 1.5, 60), direction=np.eye(60)[3])
    return {
        "plain": prediction(plain.predict(WEIGHTS["mean"], exact=True, rng=3)),
        "coloured": prediction(coloured.predict(WEIGHTS["causal"], exact=True, rng=4)),
    }


def planning() -> Any:
    model = sp.SequenceModel(500, 800, 1000, R, 1.6)
    w = WEIGHTS["causal"]
    span = model.required_vocabulary(w, alignment=0.5)
    return [model.required_samples(w, alignment=0.7), model.required_mu(w, alignment=0.6), span.minimum, span.maximum]


def simulations() -> Any:
    results = {}
    for table, latent, centered in (
        ("sampled", "signs", True),
        ("sampled", "signs", False),
        ("class_centered", "signs", True),
        ("sampled", "gaussian", True),
    ):
        model = sp.SequenceModel(**SMALL, R=R, mu=1.7, table=table, latent=latent, centered=centered)
        s = model.simulate(WEIGHTS["causal"], trials=3, k=2, rng=5, **drawn(model))
        results[f"{table} {latent} {centered}"] = [s.eigenvalues.tolist(), s.alignments.tolist()]
    laplace = sp.SequenceModel(**SMALL, R=R, mu=1.7, noise="laplace", frequencies=sp.zipf_frequencies(100, 0.7))
    s = laplace.simulate(WEIGHTS["mean"], trials=3, k=2, rng=6, **drawn(laplace))
    results["laplace zipf"] = [s.eigenvalues.tolist(), s.alignments.tolist()]
    results["spectrum"] = sp.SequenceModel(**SMALL, R=R, mu=1.7).spectrum(WEIGHTS["mean"], rng=7).tolist()
    return results


def laws() -> Any:
    law = sp.FreeProductLaw(delta=0.625, gamma=0.5, scale=0.1)
    x = np.linspace(*law.support(), 12)
    general = sp.GeneralizedLaw(noise=sp.AtomicLaw([1.0, 2.0]), usage=sp.AtomicLaw([0.5, 1.0, 1.7]), delta=0.6)
    y = np.linspace(*general.support(), 12)
    return {
        "free product": [law.pdf(x).tolist(), law.cdf(x).tolist(), law.ppf([0.1, 0.5, 0.9]).tolist(), law.moment(3)],
        "generalised": [general.pdf(y).tolist(), general.cdf(y).tolist(), general.moment(2)],
    }


def classes() -> Any:
    means = np.zeros((60, 3))
    means[0, 0], means[1, 1], means[2, 2] = 2.0, 1.5, 1.0
    model = sp.ClassModel(d=60, V=99, N=200, R=R, means=means)
    p = model.predict(WEIGHTS["mean"])
    return [list(map(float, p.strengths))] if hasattr(p, "strengths") else repr(type(p))


def ridge() -> Any:
    model = sp.SequenceModel(**SMALL, R=R, mu=1.4)
    return [model.ridge_accuracy(w, ridge=1.0, n_train=90) for w in WEIGHTS.values()]


def fits() -> Any:
    model = sp.SequenceModel(30, 60, 300, R, 2.0)
    sample = model.sample(rng=8)
    X = sample.table.T[sample.tokens]
    pooling = sp.SpectralPooling().fit(X)
    spectrum = sp.TableSpectrum().fit(np.random.default_rng(9).standard_normal((400, 60)))
    return {
        "correlation": pooling.correlation_.tolist(),
        "table": [spectrum.eigenvalues_.tolist(), float(spectrum.edge_), int(spectrum.n_outliers_)],
    }


def sweeps() -> Any:
    model = sp.SequenceModel(**SMALL, R=R, mu=1.0)
    options = {"table_drawn": True} if "table_drawn" in inspect.signature(sp.sweep).parameters else {}
    ds = sp.sweep(model, weights=WEIGHTS, mu=[0.5, 1.5], trials=2, seed=1, k=2, **options)
    return {
        name: np.asarray(ds[name].values, dtype=float).tolist()
        for name in ("alignment", "alignment_mean", "eigenvalue")
        if name in ds
    }


CASES: dict[str, Callable[[], Any]] = {
    f.__name__: f
    for f in (closed_form, gaussian_latent, given_tokens, planning, simulations, laws, classes, ridge, fits, sweeps)
}


def main() -> None:
    """Write every case to the file named on the command line."""
    results = {name: case() for name, case in CASES.items()}
    Path(sys.argv[1]).write_text(json.dumps(results, indent=0), encoding="utf-8")


if __name__ == "__main__":
    main()
