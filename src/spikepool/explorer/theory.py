"""Everything the live panels show, computed from a state in a few milliseconds.

The numbers of the present point come from :meth:`spikepool.SequenceModel.predict`. Curves and the phase plane need
thousands of points at a time, so they broadcast the same closed forms (:mod:`spikepool.theory.spikes`) over arrays; the
tests hold the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spikepool.errors import DomainError, UnreachableError
from spikepool.explorer.state import State, StateError, parse_query
from spikepool.kit.arrays import FloatArray
from spikepool.model import Prediction, SequenceModel
from spikepool.theory.closed_form import signal_threshold, top_alignment


@dataclass(frozen=True)
class Plan:
    """Sequences needed for the target alignment, or why none are enough."""

    target: float
    samples: int | None
    limit: float | None


@dataclass(frozen=True)
class PhasePlane:
    """Alignment over mu and a size, with the detection thresholds of each weighting as curves mu(size)."""

    axis: str
    mu: FloatArray
    sizes: FloatArray
    alignment: FloatArray
    thresholds: dict[str, FloatArray]


@dataclass(frozen=True)
class Panels:
    """What theory says of one state."""

    state: State
    model: SequenceModel
    weights: dict[str, FloatArray]
    predictions: dict[str, Prediction]
    density_x: FloatArray
    density_y: FloatArray
    atom: float
    mu: FloatArray
    curves: dict[str, FloatArray]
    plane: PhasePlane
    plan: Plan

    @property
    def prediction(self) -> Prediction:
        """The prediction for the chosen weights."""
        return self.predictions[self.state.w]


def size_axis(d: int, size: int, points: int) -> FloatArray:
    """Logarithmic axis of N or V: from d/10 to 30 d, stretched when the present size lies outside."""
    low, high = max(2.0, min(d / 10, size / 1.5)), max(d * 30.0, size * 1.5)
    return np.geomspace(low, high, points)


def _plane(
    state: State, model: SequenceModel, predictions: dict[str, Prediction], mu: FloatArray, points: int = 64
) -> PhasePlane:
    sizes = size_axis(state.d, state.N if state.plane == "N" else state.V, points)
    ratio = state.d / sizes
    delta = ratio if state.plane == "V" else np.full(points, model.delta)
    gamma = ratio if state.plane == "N" else np.full(points, model.gamma)
    chosen = predictions[state.w]
    mu = np.linspace(mu[0], mu[-1], points)
    alignment = top_alignment(
        model, chosen.alpha, chosen.kappa, mu=mu[None, :], delta=delta[:, None], gamma=gamma[:, None]
    )
    has_class_means = model.class_mean_power > 0
    thresholds = {
        name: signal_threshold(p.alpha / p.kappa, delta, gamma, class_means=has_class_means)
        for name, p in predictions.items()
    }
    return PhasePlane(state.plane, mu, sizes, alignment, thresholds)


def _density(prediction: Prediction, points: int = 240) -> tuple[FloatArray, FloatArray]:
    """The bulk density on points that crowd at both edges, where it bends most."""
    low, high = prediction.bulk.support()
    angle = (np.arange(points) + 0.5) * np.pi / points
    x = low + (high - low) * (1 - np.cos(angle)) / 2
    return x, np.asarray(prediction.bulk.pdf(x), dtype=np.float64)


def _plan(model: SequenceModel, weights: FloatArray, target: float = 0.8) -> Plan:
    try:
        needed = model.required_samples(weights, alignment=target)
    except UnreachableError as err:
        return Plan(target, None, err.limit)
    return Plan(target, int(needed), None)


@lru_cache(maxsize=128)
def solve(state: State) -> Panels:
    """All panels of `state`."""
    model = state.model()
    weights = state.all_weights()
    predictions = {name: model.predict(w) for name, w in weights.items()}
    chosen = predictions[state.w]
    try:
        density_x, density_y = _density(chosen)
    except DomainError as err:
        raise StateError(str(err).rstrip(".")) from err
    # mean pooling is nearly always the last to see the signal: room for its rise as well
    ends = (2.0, 4.0, 8.0, 20.0)  # few and far between, so that the axis stays put under a moving slider
    wanted = max(state.mu, min(2.2 * predictions["mean"].mu_sample, ends[-1]))
    mu = np.linspace(0.0, next(end for end in ends if wanted <= end), 161)
    curves = {name: top_alignment(model, p.alpha, p.kappa, mu=mu) for name, p in predictions.items()}
    return Panels(
        state=state,
        model=model,
        weights=weights,
        predictions=predictions,
        density_x=density_x,
        density_y=density_y,
        atom=float(chosen.bulk.atom),
        mu=mu,
        curves=curves,
        plane=_plane(state, model, predictions, mu),
        plan=_plan(model, weights[state.w]),
    )


def solve_query(query: object) -> Panels:
    """Panels for a query string; every failure is a :class:`StateError` with a message for the reader."""
    return solve(parse_query(query))
