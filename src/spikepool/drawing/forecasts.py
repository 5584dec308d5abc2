"""The picture of a forecast: score against labelled rows."""

from __future__ import annotations

from typing import Any

from spikepool.drawing.palette import FORECAST as CURVE
from spikepool.drawing.palette import MEASURED, TARGET
from spikepool.drawing.plotting import own_axes


def draw_forecast(forecast: Any, ax: Any = None) -> Any:
    """Score against labelled rows on a log axis; returns the axes.

    `forecast` has the fields of :class:`spikepool.Forecast`.
    """
    ax = own_axes(ax, width=6.4, height=4.0)
    level = f"{forecast.level * 100:.0f} %"
    low, high = forecast.curve_interval.T
    ax.fill_between(forecast.curve_n, low, high, color=CURVE, alpha=0.2, lw=0, label=f"{level} interval")
    ax.plot(forecast.curve_n, forecast.curve_score, color=CURVE, lw=1.8, label=f"forecast of {forecast.estimator}")
    ax.plot(forecast.n, forecast.score, "o", color=CURVE, ms=5)
    ax.errorbar(
        forecast.measured_n,
        forecast.measured_score,
        yerr=forecast.measured_error,
        fmt="o",
        color=MEASURED,
        mfc="white",
        ms=5,
        lw=1,
        label="measured in the pilot (± s.e.)",
    )
    ax.axvline(forecast.pilot_rows, color="0.6", lw=0.8, ls=":")
    if forecast.target is not None:
        first, _, last = forecast.required_samples
        label = f"target {forecast.target:g}" + ("" if forecast.allows_target else ": not reached")
        ax.axhline(forecast.target, color=TARGET, lw=1, ls="--", label=label)
        right = forecast.curve_n[-1] if last is None else last
        if first is not None and right > forecast.pilot_rows:  # else the rows at hand are enough
            ax.plot([first, right], [forecast.target] * 2, color=TARGET, lw=4, alpha=0.35, solid_capstyle="butt")
    ax.set_xscale("log")
    ax.set(xlabel="labelled rows", ylabel=f"{forecast.score_name} on new rows")
    ax.set_xlim(forecast.curve_n[0] * 0.9, forecast.curve_n[-1] * 1.1)
    ax.legend(frameon=False, loc="lower right")
    return ax
