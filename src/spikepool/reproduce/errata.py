"""Published, closed form and simulated: the paper's numbers side by side with what holds and what is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spikepool.kit import validation as check
from spikepool.reproduce.base import Settings, Sizes, mean_and_error, prefix_model, weights_for
from spikepool.simulation.simulate import simulate_grid
from spikepool.theory import spikes
from spikepool.theory.as_printed import published_alignment, published_outlier, published_thresholds

if TYPE_CHECKING:
    import xarray as xr

# (weights, mu) at which alignments are compared; the centred S of the prefix model at the paper's sizes.
ALIGNMENTS = (("mean", 1.6), ("causal", 1.0), ("causal", 1.3), ("optimal", 0.8), ("optimal", 2.5))
BULK_MU = 2.5
QUOTED = {"mean": 1.17, "causal": 3.17}

CLASS_MEANS = "The class means of a finite table differ by chance"
SECOND = "Without centring the vocabulary's mean makes the top eigenvector"


@dataclass(frozen=True)
class PublishedRow:
    """One line of the table.

    Attributes
    ----------
    quantity : str
        What is compared, and where.
    published, exact, simulated : float
        The paper's number, the exact one, and the mean of simulations.
    standard_error : float
        Of the simulated mean.
    reason : str
        Why the published number differs.
    """

    quantity: str
    published: float
    exact: float
    simulated: float
    standard_error: float
    reason: str


def published_table(trials: int = 12, seed: int = 0) -> tuple[PublishedRow, ...]:
    """The paper's numbers against exact and simulated ones, at its own sizes (d = 500, V = 800, N = 1000).

    Parameters
    ----------
    trials : int
        Simulated draws, at least 2.
    seed : int
        Root seed.
    """
    trials = check.size(trials, "trials", minimum=2)
    model = prefix_model(Sizes.scaled())
    weights = weights_for(model.R)
    mus = sorted({mu for _, mu in ALIGNMENTS} | {BULK_MU})
    settings = Settings(seed=seed)
    centred = simulate_grid(model, weights, mus, trials, rng=settings.rng(8, 0))
    raw_model = model.replace(centered=False)
    raw = simulate_grid(raw_model, weights, [1.6, BULK_MU], trials, rng=settings.rng(8, 1))
    names = list(weights)
    delta, gamma = model.delta, model.gamma

    rows = []
    for method, mu in ALIGNMENTS:
        values = centred.alignments[names.index(method), mus.index(mu), :, 0]
        rows.append(
            _row(
                f"alignment, {method} weights, mu = {mu:g}",
                float(published_alignment(mu, *model.gains(weights[method]), delta, gamma)),
                model.replace(mu=mu).predict(weights[method]).alignment,
                values,
                CLASS_MEANS,
            )
        )
    rows.append(
        _row(
            "alignment, mean weights, mu = 1.6, not centred",
            float(published_alignment(1.6, *model.gains(weights["mean"]), delta, gamma)),
            raw_model.replace(mu=1.6).predict(weights["mean"]).alignment,
            raw.alignments[names.index("mean"), 0, :, 0],
            SECOND,
        )
    )
    for method in ("mean", "causal"):
        formula = float(published_outlier(BULK_MU, *model.gains(weights[method]), delta, gamma))
        reason = CLASS_MEANS
        if abs(formula - QUOTED[method]) > 0.01:
            reason += f"; the paper's own formula gives {formula:.2f}"
        rows.append(
            _row(
                f"top eigenvalue, {method} weights, mu = {BULK_MU:g}, not centred",
                QUOTED[method],
                raw_model.replace(mu=BULK_MU).predict(weights[method]).eigenvalue,
                raw.eigenvalues[names.index(method), 1, :, 0],
                reason,
            )
        )
    top = raw.eigenvalues[names.index("mean"), 1, :, 0]
    rows.append(
        _row(
            "the same, mean weights, by the larger root of Theorem 3",
            float(published_outlier(BULK_MU, *model.gains(weights["mean"]), delta, gamma, root="larger")),
            raw_model.replace(mu=BULK_MU).predict(weights["mean"]).eigenvalue,
            top,
            "The eigenvalue is the smaller root",
        )
    )
    rows.append(
        _threshold_row(model, weights["mean"], centred.eigenvalues[names.index("mean"), mus.index(BULK_MU), :, 0])
    )
    return tuple(rows)


def _row(quantity: str, published: float, exact: float, values: Any, reason: str) -> PublishedRow:
    mean, error = mean_and_error(values)
    return PublishedRow(quantity, published, exact, float(mean), float(error), reason)


def _threshold_row(model: Any, w: Any, top: Any) -> PublishedRow:
    """mu_samp; in place of a simulated one, the closed form at the alpha/kappa that the outlier shows at a large mu."""
    alpha, kappa = model.gains(w)
    x = np.asarray(spikes.excess_from_eigenvalue(top, model.delta, model.gamma, kappa))
    ratio = (x + model.delta) / (BULK_MU**2 + model.delta)
    needed = float(spikes.sample_threshold(model.delta, model.gamma))
    measured = np.sqrt(np.maximum(needed / ratio - model.delta, 0.0))
    return _row(
        "threshold mu_samp, mean weights (simulated: inferred from the outlier at mu = 2.5)",
        float(published_thresholds(alpha, kappa, model.delta, model.gamma).sample),
        model.predict(w).mu_sample,
        measured,
        CLASS_MEANS,
    )


_FIELDS = ("quantity", "published", "exact", "simulated", "standard_error", "reason")


def row_variables(rows: tuple[PublishedRow, ...]) -> dict[str, tuple[tuple[str], list[Any]]]:
    """The rows as variables of a data set, ``row_*`` along the dimension ``row``."""
    return {f"row_{name}": (("row",), [getattr(row, name) for row in rows]) for name in _FIELDS}


def published_rows(dataset: xr.Dataset) -> tuple[PublishedRow, ...]:
    """The rows back from a data set made with :func:`row_variables`."""
    columns = [dataset[f"row_{name}"].values.tolist() for name in _FIELDS]
    return tuple(PublishedRow(*values) for values in zip(*columns, strict=True))
