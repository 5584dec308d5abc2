r"""Labelling in rounds: how many rows next, when the curve may be measured again before the next decision.

The curves that may be true are drawn from the forecast. A policy is simulated on each of them: in round r the plan is
to label up to the size at which a share q_r of the curves that are still likely reach the target; then the score is
measured there, with the error of so many rows, and curves are reweighted by how well they agree with it. The shares of
the earlier rounds are the same, q, that of the last is the probability that was asked for; q is the value on a grid
with the least expected rows among those with the stated probability of success (Mahmood et al. 2022, "How much more
data do I need?": one large order overshoots or fails, a few rounds do not).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spikepool.errors import InvalidInputError, UnreachableError
from spikepool.forecasting.score_scale import FURTHEST, MULTIPLES
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.showing import Result

_DRAWS = 600
_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Rounds(Result, schema="rounds"):
    """A plan of labelling in rounds; print it, or use the fields.

    Attributes
    ----------
    estimator, score_name : str
    target : float
    rounds : int
    next_rows : int
        Rows to label next, beside those at hand.
    next_total : int
        All rows after that round.
    expected_total : float
        Expected number of rows after the last round, over the curves that can reach the target.
    probability : float
        Share of these curves on which the policy meets the target.
    reachable : float
        Share of all curves that reach the target within 64 times the rows.
    one_shot : int or None
        Rows that one order would need for the same probability; None beyond 64 times the rows.
    cost : float
        Expected cost of the rows that are labelled.
    """

    estimator: str
    score_name: str
    target: float
    rounds: int
    next_rows: int
    next_total: int
    expected_total: float
    probability: float
    reachable: float
    one_shot: int | None
    cost: float

    def _notes(self) -> list[str]:
        once = f"more than {FURTHEST} times the rows" if self.one_shot is None else f"{self.one_shot:,} rows"
        return [
            f"{self.rounds} rounds to {self.score_name} {self.target:g} with {self.estimator}: label "
            f"{self.next_rows:,} rows next ({self.next_total:,} in all), then forecast again.",
            f"Expected total {self.expected_total:,.0f} rows, cost {self.cost:,.0f}; the target is met in "
            f"{self.probability:.0%} of the curves that can meet it ({self.reachable:.0%} can). One order for the same "
            f"probability: {once}.",
        ]


def plan_rounds(
    forecast: Any,
    target: float | None,
    *,
    rounds: int,
    probability: float,
    cost_per_row: float,
    random_state: Any,
) -> Rounds:
    """See :meth:`spikepool.forecasting.result.Forecast.rounds`."""
    target = forecast.target if target is None else float(target)
    if target is None:
        raise InvalidInputError("rounds need a target", None, "Pass target=0.9")
    rounds = check.size(rounds, "rounds")
    probability = check.fraction(probability, "probability", closed=False)
    cost_per_row = check.positive(cost_per_row, "cost_per_row")
    rng = check.generator(random_state)
    curve, here = forecast.curve, max(forecast.pilot_rows, 4)
    sizes = np.ceil(here * MULTIPLES[(MULTIPLES >= 1) & (MULTIPLES <= FURTHEST)]).astype(np.intp)
    drawn = curve.draw(sizes.astype(np.float64), _DRAWS, rng)
    paths = np.maximum.accumulate(drawn, axis=1)
    scores = curve.to_score(paths)
    sign = 1.0 if forecast.higher_is_better else -1.0
    reached = sign * scores >= sign * target
    # index of the size at which each curve reaches the target; beyond the last for those that do not
    first = np.where(reached.any(axis=1), reached.argmax(axis=1), len(sizes))
    possible = first < len(sizes)
    if possible.mean() < (1 - forecast.level) / 2:  # the band's better end does not reach it
        raise UnreachableError(
            f"{forecast.estimator} is not forecast to reach {forecast.score_name} {target:g} within {FURTHEST} times "
            f"the rows; its limit is about {forecast.limit:.2f}"
        )
    error = _measurement_errors(forecast, sizes)
    best: tuple[float, float, int] | None = None
    for share in _SHARES:
        start, totals, met = _simulate(first, possible, paths, error, sizes, rounds, share, probability, rng)
        candidate = (float(totals.mean()), float(met.mean()), start)
        enough = candidate[1] >= probability
        if best is None or (enough, -candidate[0] if enough else candidate[1]) > (
            best[1] >= probability,
            -best[0] if best[1] >= probability else best[1],
        ):
            best = candidate
    assert best is not None
    once = _order(first[possible], np.ones(int(possible.sum())), probability)
    return Rounds(
        estimator=forecast.estimator,
        score_name=forecast.score_name,
        target=target,
        rounds=rounds,
        next_rows=int(sizes[best[2]] - forecast.pilot_rows),
        next_total=int(sizes[best[2]]),
        expected_total=best[0],
        probability=best[1],
        reachable=float(possible.mean()),
        one_shot=int(sizes[once]) if once < len(sizes) else None,
        cost=cost_per_row * (best[0] - forecast.pilot_rows),
    )


def _measurement_errors(forecast: Any, sizes: IntArray) -> FloatArray:
    """Standard errors, on the transformed scale, of a score measured at each size: those of the pilot, as n^(-1/2)."""
    _, low, high = forecast.curve.band([float(max(forecast.pilot_rows, 4))], 0.9)
    pilot_error = float((high - low)[0]) / 3.29
    return np.asarray(np.maximum(pilot_error, 1e-3) * np.sqrt(sizes[0] / sizes))


def _order(first: IntArray, weights: FloatArray, share: float) -> int:
    """Index of the smallest size at which a weighted share of the curves has reached the target."""
    order = np.argsort(first, kind="stable")
    total = np.cumsum(weights[order]) / weights.sum()
    return int(first[order][min(int(np.searchsorted(total, share)), len(first) - 1)])


def _simulate(
    first: IntArray,
    possible: np.ndarray,
    paths: FloatArray,
    error: FloatArray,
    sizes: IntArray,
    rounds: int,
    share: float,
    probability: float,
    rng: np.random.Generator,
) -> tuple[int, FloatArray, np.ndarray]:
    """First order, total rows, and whether the target was met, for each of the curves that can meet it."""
    able = np.flatnonzero(possible)
    start = _order(first[able], np.ones(len(able)), probability if rounds == 1 else share)
    totals, met = np.empty(len(able)), np.zeros(len(able), dtype=bool)
    for i, true in enumerate(able):
        at, log = start, np.zeros(len(able))
        for number in range(1, rounds + 1):
            if at >= first[true]:
                met[i] = True
                break
            if number == rounds:
                break
            seen = paths[true, at] + error[at] * rng.standard_normal()
            log -= 0.5 * ((paths[able, at] - seen) / error[at]) ** 2
            # the round has shown that the target is not met yet
            weights = np.exp(log - log.max()) * (first[able] > at)
            if not weights.sum() > 0:
                weights = (first[able] > at).astype(np.float64)
            last = number + 1 == rounds
            at = max(_order(first[able], weights, probability if last else share), at + 1)
            at = min(at, len(sizes) - 1)
        totals[i] = sizes[at]
    return start, totals, met
