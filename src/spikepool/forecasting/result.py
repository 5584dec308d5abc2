"""What a forecast says: numbers with intervals, rows for a target, and how well the measured points were met.

The answer of any fitted curve at the sizes and for the target asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import ShapeError
from spikepool.forecasting.score_scale import ASKED, FURTHEST
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.showing import html_table, html_text, plain

if TYPE_CHECKING:
    from spikepool.forecasting.rounds import Rounds


Rows = tuple[int | None, int | None, int | None]


class Curve(Protocol):
    """A fitted learning curve on a transformed scale that rises as the model improves."""

    @property
    def rows(self) -> float:
        """The largest size that was measured."""

    @property
    def limit(self) -> float:
        """Score that the curve approaches."""

    def band(self, n: ArrayLike, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centre, lower and upper end on the transformed scale."""

    def to_score(self, transformed: FloatArray) -> FloatArray:
        """Scores from the transformed scale."""

    def required(self, target: float, level: float) -> tuple[float | None, float | None, float | None]:
        """Sizes at which the better end, the centre and the worse end of the band reach the target."""

    def draw(self, n: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
        """Transformed scores (count, len(n)) of curves that might be the true one."""


@dataclass(frozen=True)
class CurveFit:
    """The fitted curve against the measured points (``self_check`` of a forecast).

    Attributes
    ----------
    score_error, r2_error : float
        Root mean square difference of the score, and of R² for ridge, over the sizes, larger ones weighing more.
    ok : bool
        Whether the first is within what was seen on the development tasks. It does not bound the error of the forecast.
    """

    score_error: float
    r2_error: float | None
    ok: bool


@dataclass(frozen=True)
class Forecast:
    """What :func:`spikepool.forecast` and :func:`spikepool.forecast_curve` found; print it, plot it, or use the fields.

    Attributes
    ----------
    estimator : str
        The model whose scores are forecast.
    score_name : str
        The score: "accuracy", "R²", or the name of a scorer.
    task : {"classification", "regression", "curve"}
        "curve": measured points alone were given.
    n : array of int
        Numbers of labelled rows asked about.
    score : array
        Forecast score of the estimator trained on so many rows, on rows it has not seen.
    interval : array (len(n), 2)
        Interval of the stated level for the score.
    mse : array or None
        Ridge only: mean squared error of the ±1 class indicators (regression: of y) in units of their variance, 1 − R².
    level : float
        Level of the interval.
    target : float or None
        Score that was asked for.
    required_samples : tuple (low, best, high) or None
        Rows at which the better end of the band, the forecast and the worse end of the band reach the target; None in
        a place where that never happens.
    limit : float
        Score that the forecast approaches with ever more rows.
    chance : float or None
        Score of knowing nothing, where it is known: the frequency of the largest class for accuracy, 0 for R².
    pilot_rows, dimension, classes : int
        Distinct rows, features and classes of the pilot; 0 where there is none.
    measured_n, measured_score, measured_error : arrays
        Measured points: training sizes, mean scores, and standard errors of these (NaN where unknown).
    verdict : {"learning", "at chance"}
        "at chance": neither the pilot's error nor its accuracy is significantly better than knowing nothing.
    self_check : CurveFit
        How well the curve meets the measured points.
    warnings : tuple of str
        What may be wrong with the rows or the points.
    higher_is_better : bool
    """

    estimator: str
    score_name: str
    task: str
    n: IntArray
    score: FloatArray
    interval: FloatArray
    mse: FloatArray | None
    level: float
    target: float | None
    required_samples: Rows | None
    limit: float
    chance: float | None
    pilot_rows: int
    dimension: int
    classes: int
    measured_n: IntArray
    measured_score: FloatArray
    measured_error: FloatArray
    verdict: str
    self_check: CurveFit
    warnings: tuple[str, ...]
    curve_n: FloatArray
    curve_score: FloatArray
    curve_interval: FloatArray
    curve: Curve = field(repr=False, compare=False)
    higher_is_better: bool = True

    @property
    def accuracy(self) -> FloatArray:
        """The score of a forecast of accuracy; AttributeError for other scores."""
        if self.score_name != "accuracy":
            raise AttributeError(f"this forecast is of {self.score_name}, not of accuracy; use .score")
        return self.score

    @property
    def r2(self) -> FloatArray:
        """1 − mse for ridge, the score for other forecasts of R²."""
        if self.mse is not None:
            return np.asarray(1 - self.mse)
        if self.score_name not in ("R²", "r2"):
            raise AttributeError(f"this forecast is of {self.score_name}, not of R²; use .score")
        return self.score

    @property
    def where(self) -> str:
        """The estimator and what it is trained on, as the subject of a sentence."""
        return _capital(self.estimator) + ("" if self.task == "curve" else " on these features")

    @property
    def is_flat(self) -> bool:
        """Whether the target is met, or missed, by so little that the rows for it are known to a wide range only."""
        low, _, high = self.required_samples or (None, None, None)
        if low is None:
            return False
        return high is None or high > ASKED[-1] * max(low, 1)

    def target_line(self) -> str:
        """One sentence on the target."""
        if self.target is None or self.required_samples is None:
            return "no target"
        low, best, high = self.required_samples
        head = f"{self.score_name} {_short(self.target)}"
        furthest = FURTHEST * max(self.pilot_rows, 1)
        if best is None or best > furthest:
            line = f"{self.where} is not forecast to reach {head}"
            line += f" within {FURTHEST} times the rows" if best else f": its limit is about {_short(self.limit, 2)}"
            if low is not None and low <= self.pilot_rows * ASKED[-1]:
                line += f", though the interval allows it from {_rounded(low)} rows on"
            remedy = (
                "try another model or other data"
                if self.task == "curve"
                else "try other features (layer, encoder) or another model"
            )
            return f"{line}; {remedy} rather than label more rows"
        if self.is_flat:
            assert low is not None
            end = f"more than {_rounded(furthest)}" if high is None or high > furthest else _rounded(high)
            return (
                f"{self.where} reaches {head} between {_rounded(low)} and {end} rows (best estimate {_rounded(best)}): "
                "the curve is flat there"
            )
        end = "no upper bound" if high is None else _rounded(high)
        line = f"{self.where} reaches {head} with about {_rounded(best)} rows ({_rounded(low or best)} to {end})"
        return f"{line}; {self.pilot_rows:,} rows are measured" if best <= self.pilot_rows else line

    def lines(self) -> list[str]:
        """Everything above and below the table."""
        kind = {"classification": f"{self.classes} classes", "regression": "regression"}.get(self.task, "")
        own, error = float(self.measured_score[0]), float(self.measured_error[0])
        check = self.self_check
        met = f"{_short(check.score_error)} in {self.score_name}"
        if check.r2_error is not None and self.task == "classification":
            met += f", {_short(check.r2_error)} in R²"
        measured = f"measured {self.score_name} {_short(own)}" + ("" if np.isnan(error) else f" ± {_short(error)}")
        if self.chance is not None:
            measured += f" (chance {_short(self.chance)})"
        head = f"{self.estimator} on {self.pilot_rows:,} rows x {self.dimension:,} features, {kind}: {measured}"
        if self.task == "curve":
            sizes = f"{len(self.measured_n)} sizes up to {self.pilot_rows:,} rows"
            head = f"{_capital(self.estimator)} at {sizes}: {measured} at the largest"
        word = "as usual" if check.ok else "worse than on the development tasks"
        found = [head, f"self-check: the curve meets the measured points to {met}: {word}"]
        if self.verdict == "at chance":
            found.append("at chance: the pilot shows no signal; more rows may, and the forecast cannot know")
        return found + [f"warning: {text}" for text in self.warnings]

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        header: tuple[str, ...] = ("rows", self.score_name, f"{self.level * 100:.0f} % interval")
        rows: list[tuple[str, ...]] = [
            (f"{n:,}", _short(score), f"{_short(low)} to {_short(high)}")
            for n, score, (low, high) in zip(self.n, self.score, self.interval, strict=True)
        ]
        if self.mse is not None and self.score_name != "R²":
            header = (*header, "1 − R²")
            rows = [(*row, _short(mse)) for row, mse in zip(rows, self.mse, strict=True)]
        return header, rows

    def summary(self) -> str:
        """A readable table."""
        header, rows = self._table()
        widths = [max(10, *(len(row[i]) for row in (header, *rows))) for i in range(len(header))]
        table = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows)
        ]
        first, *others = self.lines()
        target = [] if self.target is None else [self.target_line()]
        return "\n".join([first, *table, *target, *others])

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        text = ([] if self.target is None else [self.target_line()]) + self.lines()
        return html_table(*self._table()) + html_text("\n".join(text))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        hidden = ("curve", "curve_n", "curve_score", "curve_interval", "self_check")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
        values["self_check"] = vars(self.self_check)
        values["measured_error"] = [None if np.isnan(e) else float(e) for e in self.measured_error]
        if self.score_name in ("accuracy", "R²"):
            values["accuracy" if self.score_name == "accuracy" else "r2"] = values["score"]
        return dict(plain(values))

    def plot(self, ax: Any = None) -> Any:
        """Measured points, forecast with band, and target; returns the axes."""
        from spikepool.drawing.estimates import draw_forecast

        return draw_forecast(self, ax)

    def rounds(
        self,
        target: float | None = None,
        *,
        rounds: int = 3,
        probability: float = 0.9,
        cost_per_row: float = 1.0,
        random_state: Any = 0,
    ) -> Rounds:
        """Plan rounds of labelling: how many rows next, so that the target is met after the last round.

        Parameters
        ----------
        target : float, optional
            The score to reach; that of the forecast by default.
        rounds : int
            Rounds of labelling, measuring and deciding again.
        probability : float
            Probability with which the target shall be met after the last round, if it can be met at all.
        cost_per_row : float
            Cost of one label, for the totals.
        random_state : int, Generator, ...

        Returns
        -------
        Rounds
            With ``next_rows``, ``expected_total``, ``probability``, ``one_shot`` and ``cost``; print it.
        """
        from spikepool.forecasting.rounds import plan_rounds

        return plan_rounds(
            self,
            target,
            rounds=rounds,
            probability=probability,
            cost_per_row=cost_per_row,
            random_state=random_state,
        )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rounded(rows: float) -> str:
    """Two significant digits of a number of rows; all of them below a hundred."""
    return f"{int(float(f'{rows:.2g}')):,}" if rows >= 100 else f"{int(np.ceil(rows)):,}"


def _short(value: float, digits: int = 3) -> str:
    """A few decimals without the leading zero."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def curve_fields(
    curve: Curve, sizes: IntArray, target: float | None, level: float, measured_n: IntArray, rows: int
) -> dict[str, Any]:
    """The fields of a :class:`Forecast` that any fitted curve gives."""
    level = check.fraction(level, "level", closed=False)
    required: Rows | None = None
    if target is not None:
        low, best, high = (None if x is None else int(np.ceil(x)) for x in curve.required(target, level))
        required = (low, best, high)
    ends = [*sizes.tolist(), *measured_n.tolist(), *(found for found in required or () if found is not None)]
    grid = np.geomspace(min(ends), min(max(ends), FURTHEST * max(rows, int(sizes.max()))), 80)
    score, interval = _scores(curve, sizes, level)
    curve_score, curve_interval = _scores(curve, grid, level)
    return {
        "n": sizes,
        "score": score,
        "interval": interval,
        "level": level,
        "target": target,
        "required_samples": required,
        "limit": curve.limit,
        "curve_n": grid,
        "curve_score": curve_score,
        "curve_interval": curve_interval,
        "curve": curve,
    }


def asked_sizes(n: ArrayLike | None, rows: int) -> IntArray:
    """Sizes to forecast: those asked for, or 1, 2, 4 and 8 times the rows."""
    if n is None:
        return np.array([rows * k for k in ASKED], dtype=np.intp)
    values = np.atleast_1d(check.finite_array(n, "n"))
    if values.ndim != 1:
        raise ShapeError(
            "n must be a number or a list of numbers of rows", values.shape, "Pass for example [500, 1000]"
        )
    for value in values:
        check.size(float(value), "n", minimum=2)
    return values.astype(np.intp)


def _scores(curve: Curve, n: ArrayLike, level: float) -> tuple[FloatArray, FloatArray]:
    centre, low, high = (curve.to_score(part) for part in curve.band(n, level))
    return centre, np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1)
