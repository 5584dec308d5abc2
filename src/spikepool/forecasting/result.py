"""What a forecast says: scores with intervals, rows for a target, and how well the measured points were met."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from spikepool.forecasting.curve_reading import ROWS_LEVEL, Curve, Rows
from spikepool.forecasting.sizes import FURTHEST, MULTIPLES
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.kit.pages import html_table, html_text
from spikepool.kit.results import Result, plain
from spikepool.kit.text import text_table

_BOTH_ERRORS = "tested and training rows"


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
class Forecast(Result, schema="forecast"):
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
    target_probability : tuple of (rows, probability), or None
        Probability that the target is met with 1, 2, 4 and 8 times the rows of the pilot.
    required_samples : tuple (low, best, high) or None
        Rows at which the better end of the 80 % band, the forecast and the worse end reach the target, not below the
        rows of the pilot; None for one that never does. `best` alone is optimistic: pilots that look too good by chance
        are those that reach a target early.
    limit : float
        Score that the forecast approaches with ever more rows.
    chance : float or None
        Score of knowing nothing, where it is known: the frequency of the largest class for accuracy, 0 for R².
    pilot_rows, dimension, classes : int
        Distinct rows, features and classes of the pilot; 0 where there is none.
    measured_n, measured_score, measured_error : arrays
        Measured points: training sizes, mean scores, and one standard error of these (NaN where unknown): over tested
        rows for ridge, over tested and training rows for another estimator, over repeats for a measured curve.
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
    target_probability: tuple[tuple[int, float], ...] | None
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
        pools = "pooling" in self.estimator  # its features are what it makes of tokens
        return _capital(self.estimator) + ("" if pools or self.task == "curve" else " on these features")

    @property
    def allows_target(self) -> bool:
        """Whether the interval, at its level, contains the target or better at some size up to 64 times the pilot."""
        if self.target is None:
            return False
        sizes = self.curve.rows * MULTIPLES[(MULTIPLES >= 1) & (MULTIPLES <= FURTHEST)]
        return bool((self.curve.band(sizes, self.level)[2] >= self.curve.goal(self.target)).any())

    def target_line(self) -> str:
        """What is known about the target: probabilities first, then the range of rows with its open ends."""
        if self.target is None or self.required_samples is None or self.target_probability is None:
            return "no target"
        low, _, high = self.required_samples
        head = f"{self.score_name} {_short(self.target)}"
        (_, here), *later = self.target_probability
        if high is not None and high <= self.pilot_rows:
            enough = f"the {self.pilot_rows:,} rows measured (probability {_short(here, 2)})"
            return f"{self.where} reaches {head} with {enough}"
        if self.verdict == "at chance":
            return f"{self.where} is at chance on the pilot: whether it reaches {head} is not known"
        known = ", ".join(f"{_short(p, 2)} at {n:,}" for n, p in later)
        line = f"{self.where} reaches {head} with probability {known} rows"
        if not self.allows_target:
            remedy = (
                "try another model or other data"
                if self.task == "curve"
                else "try other features (layer, encoder) or another model"
            )
            return f"{line}. Its limit is about {_short(self.limit, 2)}; {remedy} rather than label more rows"
        level = f"{ROWS_LEVEL * 100:.0f} % range"
        if low is not None and high is not None:
            return f"{line}. {_rounded(low)} to {_rounded(high)} rows are needed ({level})"
        if low is None:
            return f"{line}. The {level} of rows does not reach it"
        if low <= self.pilot_rows:
            return f"{line}. The {self.pilot_rows:,} rows measured may be enough; the curve may not reach it ({level})"
        return f"{line}. At least {_rounded(low)} rows are needed; the curve may not reach it ({level})"

    def lines(self) -> list[str]:
        """Everything above and below the table."""
        kind = {"classification": f"{self.classes} classes", "regression": "regression"}.get(self.task, "")
        own, error = float(self.measured_score[0]), float(self.measured_error[0])
        check = self.self_check
        met = f"{_short(check.score_error)} in {self.score_name}"
        if check.r2_error is not None and self.task == "classification":
            met += f", {_short(check.r2_error)} in R²"
        measured, about = f"measured {self.score_name} {_short(own)}", []
        if not np.isnan(error):
            over = "repeats" if self.task == "curve" else "tested rows" if self.mse is not None else _BOTH_ERRORS
            measured += f" ± {_short(error)}"
            about.append(f"one standard error, over {over}")
        if self.chance is not None:
            about.append(f"chance {_short(self.chance)}")
        measured += f" ({'; '.join(about)})" if about else ""
        head = f"{self.estimator} on {self.pilot_rows:,} rows x {self.dimension:,} features, {kind}: {measured}"
        if self.task == "curve":
            sizes = f"{len(self.measured_n)} sizes up to {self.pilot_rows:,} rows"
            head = f"{_capital(self.estimator)} at {sizes}: {measured} at the largest"
        word = "" if check.ok else ", worse than on the development tasks"
        found = [head, f"self-check: the curve meets the measured points to {met}{word}"]
        if self.verdict == "at chance":
            rival = "" if self.chance is None else f" beyond the chance level {_short(self.chance)}"
            found.append(f"at chance: the pilot shows no signal{rival}; more rows may, and the forecast cannot know")
        if self.task != "curve":
            found.append("rows are taken as independent, unless groups= names those that belong together")
        return found + [f"warning: {text}" for text in self.warnings]

    @property
    def known(self) -> BoolArray:
        """Whether the pilot tells the score, for each of `n`; tables print "not known" elsewhere.

        It does not where the interval contains the chance level as well as a score halfway from there to a perfect one,
        nor beyond the rows of a pilot that is at chance: it shows no signal that could be extended.
        """
        told = np.full(len(self.n), True)
        if self.chance is not None and self.score_name in ("accuracy", "R²"):
            low, high = self.interval.T
            told &= (low > self.chance) | (high < (self.chance + 1) / 2)
        if self.verdict == "at chance":
            told &= self.n <= self.pilot_rows
        return told

    def _table(self, *, squared_error: bool = True) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        header: tuple[str, ...] = ("rows", self.score_name, f"{self.level * 100:.0f} % interval")
        rows: list[tuple[str, ...]] = [
            (f"{n:,}", _short(score), f"{_short(low)} to {_short(high)}") if told else (f"{n:,}", "–", "not known")
            for n, score, (low, high), told in zip(self.n, self.score, self.interval, self.known, strict=True)
        ]
        if squared_error and self.mse is not None and self.score_name != "R²":
            header = (*header, "1 − R²")
            cells = [_short(mse) if told else "–" for mse, told in zip(self.mse, self.known, strict=True)]
            rows = [(*row, cell) for row, cell in zip(rows, cells, strict=True)]
        return header, rows

    def summary(self, *, squared_error: bool = True) -> str:
        """A readable table, with the squared error of ridge where it has one."""
        header, rows = self._table(squared_error=squared_error)
        first, *others = self.lines()
        target = [] if self.target is None else [self.target_line()]
        return "\n".join([first, *text_table([header, *rows], least=10, left=0), *target, *others])

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        text = ([] if self.target is None else [self.target_line()]) + self.lines()
        return html_table(*self._table()) + html_text("\n".join(text))

    def _record(self) -> dict[str, Any]:
        hidden = ("curve", "curve_n", "curve_score", "curve_interval", "self_check")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
        values["self_check"] = vars(self.self_check)
        values["known"] = self.known
        values["measured_error"] = [None if np.isnan(e) else float(e) for e in self.measured_error]
        if self.score_name in ("accuracy", "R²"):
            values["accuracy" if self.score_name == "accuracy" else "r2"] = values["score"]
        return dict(plain(values))

    def plot(self, ax: Any = None) -> Any:
        """Measured points, forecast with band, and target; returns the axes."""
        from spikepool.drawing.forecasts import draw_forecast

        return draw_forecast(self, ax)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rounded(rows: float) -> str:
    """Two significant digits of a number of rows; all of them below a hundred."""
    return f"{int(float(f'{rows:.2g}')):,}" if rows >= 100 else f"{int(np.ceil(rows)):,}"


def _short(value: float, digits: int = 3) -> str:
    """A few decimals without the leading zero."""
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
