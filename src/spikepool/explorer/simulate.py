"""A simulation of the present state, drawn over the theory: alignments of all weightings, and one whole spectrum."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import SizeError
from spikepool.explorer.state import State, parse_query
from spikepool.explorer.theory import solve
from spikepool.explorer.worker import Limits, Report, Worker
from spikepool.kit.statistics import standard_error


def histogram(
    eigenvalues: NDArray[np.float64], edge: float, *, bulk_bins: int = 60, most_bins: int = 600
) -> dict[str, list[float]]:
    """Density of the eigenvalues that are not rounding zeros, as a share of all of them.

    An atom at zero is left out, as it is from the density of the bulk law.

    Parameters
    ----------
    eigenvalues : numpy.ndarray
        All eigenvalues of a covariance.
    edge : float
        Right edge of the bulk.
    bulk_bins, most_bins : int
        Bins over the bulk, which keep their width for outliers beyond it, up to the second number in all.
    """
    values = np.asarray(eigenvalues, dtype=np.float64)
    top = float(values.max())
    positive = values[values > 1e-10 * max(top, 1e-300)]
    if len(positive) == 0 or not edge > 0:
        return {"edges": [0.0, 1.0], "density": [0.0]}
    width = max(edge / bulk_bins, top / most_bins)
    edges = np.arange(int(np.ceil(top / width)) + 2) * width
    counts, edges = np.histogram(positive, bins=edges)
    return {"edges": edges.tolist(), "density": (counts / (len(values) * width)).tolist()}


def check_simulation(state: State, trials: object, limits: Limits) -> int:
    """The number of trials, when the simulation is within `limits`."""
    if isinstance(trials, bool) or not isinstance(trials, int) or not 1 <= trials <= limits.trials:
        raise SizeError(f"draws must be a whole number from 1 to {limits.trials}", trials)
    cells = state.d * (state.V + state.N)
    if cells > limits.cells:
        raise SizeError(
            f"this simulation is too large: d (V + N) may be at most {limits.cells:,}",
            f"{cells:,}",
            "Lower d, V or N; the ratios d/V and d/N are what matters",
        )
    return trials


def finished_simulation(worker: Worker, id: object, query: str) -> dict[str, Any] | None:
    """The result of this id, if it simulated exactly this state."""
    job = worker.find(id)
    return job.result if job is not None and job.result is not None and job.result["query"] == query else None


def simulated_mus(state: State, more: int = 9) -> list[float]:
    """The present mu, then `more` along the axis that keep clear of it; they cost next to nothing on the same draws."""
    top = float(solve(state).mu[-1])
    grid = np.linspace(0, top, more + 2)[1:-1].tolist()
    return [state.mu, *(mu for mu in grid if abs(mu - state.mu) > 0.02 * top)]


def _left(seconds: float, done: int, trials: int) -> str:
    """How long the rest will take, judged by the draws that are done."""
    if not done:
        return ""
    return f", about {max(1, round(seconds / done * (trials - done)))} s left"


def simulate_task(payload: dict[str, Any], report: Report) -> dict[str, Any]:
    """Simulate every weighting on the same draws; runs in a worker process.

    The numbers are those of ``simulate_grid(model, weights, mus, trials, k=1, rng=seed)``, draw by draw.
    """
    from spikepool.simulation.drawn import spectrum
    from spikepool.simulation.simulate import simulate_draw
    from spikepool.world.seeds import child_seed, seed_sequence

    state = parse_query(payload["query"])
    trials, seed = int(payload["trials"]), int(payload["seed"])
    start = time.monotonic()
    report(0.0, "preparing")
    model, weights, mus = state.model(), state.all_weights(), simulated_mus(state)
    root = seed_sequence(seed)
    values, alignments = [], []
    began = time.monotonic()
    for i in range(trials):
        report(i / (trials + 1), f"draw {i + 1} of {trials}{_left(time.monotonic() - began, i, trials)}")
        value, alignment = simulate_draw(model, weights, mus, k=1, rng=child_seed(root, i))
        values.append(value[..., 0])
        alignments.append(alignment[..., 0])
    report(trials / (trials + 1), "whole spectrum of one draw")
    eigenvalues = spectrum(model, weights[state.w], rng=seed)
    mean = np.mean(alignments, axis=0)
    error = standard_error(alignments)
    names = list(weights)
    return {
        "query": state.query(),
        "trials": trials,
        "seed": seed,
        "mu": mus,
        "alignment": dict(zip(names, mean.tolist(), strict=True)),
        "error": dict(zip(names, error.tolist(), strict=True)),
        "top": [float(value[names.index(state.w), 0]) for value in values],
        "histogram": histogram(eigenvalues, solve(state).prediction.edge),
        "seconds": time.monotonic() - start,
    }
