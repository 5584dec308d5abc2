"""What a forecast says: numbers with intervals, rows for a target, and how well the pilot's own curve was met."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spikepool.kit.arrays import FloatArray, IntArray
from spikepool.kit.showing import html_table, html_text, plain

Rows = tuple[int | None, int | None, int | None]


@dataclass(frozen=True)
class SelfCheck:
    """The fitted curve against what the pilot measured at its own sizes.

    Attributes
    ----------
    score_error, r2_error : float
        Root mean square difference of accuracy (regression: R²) and of R² over the sizes, larger ones weighing more.
    ok : bool
        Whether the first is within what was seen on the tasks the method was made on. A pass is no promise: there the
        size of the difference told nothing about the error of the forecast.
    """

    score_error: float
    r2_error: float
    ok: bool


@dataclass(frozen=True)
class Forecast:
    """What :func:`spikepool.forecast` found; print it, plot it, or use the fields.

    Attributes
    ----------
    task : {"classification", "regression"}
        What `score` is: accuracy, or R².
    n : array of int
        Numbers of labelled rows asked about.
    score : array
        Forecast accuracy (regression: R²) of ridge on so many rows, on rows it has not seen.
    interval : array (len(n), 2)
        Interval of the stated level for the score.
    mse : array
        Mean squared error of the ±1 class indicators (regression: of y) in units of their variance, 1 − R².
    level : float
        Level of the interval.
    target : float or None
        Score that was asked for.
    required_samples : tuple (low, best, high) or None
        Rows at which the upper end of the band, the forecast and the lower end of the band reach the target; None in
        a place where that never happens.
    limit : float
        Score that the forecast approaches with ever more rows.
    chance : float
        Score of knowing nothing: the frequency of the largest class (regression: 0).
    pilot_rows, dimension, classes : int
        Distinct rows, features and classes (0 for regression) of the pilot.
    measured_n, measured_score, measured_error : arrays
        What the pilot showed: training sizes, scores, and standard errors of these from the rows.
    verdict : {"learning", "at chance"}
        "at chance": neither the pilot's own error nor its accuracy is better than knowing nothing, by their standard
        errors.
    self_check : SelfCheck
        How well the curve meets the measured points.
    notes : tuple of str
        What to know about the pilot.
    """

    task: str
    n: IntArray
    score: FloatArray
    interval: FloatArray
    mse: FloatArray
    level: float
    target: float | None
    required_samples: Rows | None
    limit: float
    chance: float
    pilot_rows: int
    dimension: int
    classes: int
    measured_n: IntArray
    measured_score: FloatArray
    measured_error: FloatArray
    verdict: str
    self_check: SelfCheck
    notes: tuple[str, ...]
    curve_n: FloatArray
    curve_score: FloatArray
    curve_interval: FloatArray

    @property
    def accuracy(self) -> FloatArray:
        """The score of a classification; AttributeError for a regression, whose score is R²."""
        if self.task != "classification":
            raise AttributeError("a regression has no accuracy; use .r2 or .score")
        return self.score

    @property
    def r2(self) -> FloatArray:
        """1 − mse."""
        return np.asarray(1 - self.mse)

    @property
    def score_name(self) -> str:
        """Accuracy or R², as a word."""
        return "accuracy" if self.task == "classification" else "R²"

    def target_line(self) -> str:
        """One sentence on the target."""
        if self.target is None or self.required_samples is None:
            return "no target"
        low, best, high = self.required_samples
        head = f"{self.score_name} {_short(self.target)}: "
        if best is None:
            line = f"not reached: the limit is about {_short(self.limit, 2)}"
            return head + (line if low is None else f"{line}; the interval allows it from {low:,} rows on")
        end = "no upper bound" if high is None else f"{high:,}"
        line = f"about {best:,} rows ({low:,} to {end})"
        return head + (f"{line}; the pilot has {self.pilot_rows:,}" if best <= self.pilot_rows else line)

    def lines(self) -> list[str]:
        """Everything above and below the table."""
        kind = f"{self.classes} classes" if self.task == "classification" else "regression"
        own, error = float(self.measured_score[0]), float(self.measured_error[0])
        check = self.self_check
        met = f"{_short(check.score_error)} in {self.score_name}"
        if self.task == "classification":
            met += f", {_short(check.r2_error)} in R²"
        found = [
            f"ridge on {self.pilot_rows:,} rows x {self.dimension:,} features, {kind}: measured {self.score_name} "
            f"{_short(own)} ± {_short(error)} (chance {_short(self.chance)})",
            f"self-check: the curve meets the pilot's own points to {met}: "
            f"{'as usual' if check.ok else 'worse than on any task the method was made on'}",
        ]
        if self.verdict == "at chance":
            found.append("at chance: the pilot shows no signal; more rows may, and the forecast cannot know")
        return found + [f"note: {note}" for note in self.notes]

    def summary(self) -> str:
        """A readable table."""
        name = self.score_name
        rows = [f"{'rows':>10}  {name:>8}  {self.level * 100:.0f} % interval   1 − R²"]
        for n, score, (low, high), mse in zip(self.n, self.score, self.interval, self.mse, strict=True):
            rows.append(f"{n:>10,}  {_short(score):>8}  {_short(low):>5} to {_short(high):<6}   {_short(mse):>6}")
        first, *others = self.lines()
        target = [] if self.target is None else [self.target_line()]
        return "\n".join([first, *rows, *target, *others])

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        header = ("rows", self.score_name, f"{self.level * 100:.0f} % interval", "1 − R²")
        rows = [
            (f"{n:,}", _short(score), f"{_short(low)} to {_short(high)}", _short(mse))
            for n, score, (low, high), mse in zip(self.n, self.score, self.interval, self.mse, strict=True)
        ]
        text = ([] if self.target is None else [self.target_line()]) + self.lines()
        return html_table(header, rows) + html_text("\n".join(text))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, ready for JSON."""
        fields = asdict(self)
        for drawn in ("curve_n", "curve_score", "curve_interval"):
            del fields[drawn]
        fields["accuracy" if self.task == "classification" else "r2"] = fields["score"]
        return dict(plain(fields))

    def plot(self, ax: Any = None) -> Any:
        """Measured points, forecast with band, and target; returns the axes."""
        from spikepool.drawing.forecast import draw_forecast

        return draw_forecast(self, ax)


def _short(value: float, digits: int = 3) -> str:
    """A few decimals without the leading zero."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
