"""The two charts of the tab "Content"."""

from __future__ import annotations

from typing import Any

import numpy as np

from spikepool.drawing.palette import method_style
from spikepool.explorer import figures
from spikepool.explorer.content_theory import TRAINING, Answer

STYLES = {"softmax": "mean", "sigmoid": "optimal", "linear": "causal"}
DASHES = {"softmax": "dash", "sigmoid": "solid", "linear": "dashdot"}


def _colour(name: str, theme: str) -> str:
    style = method_style(name)
    return style.on_dark if theme == "dark" else style.on_light


def _line(name: str, x: Any, y: Any, colour: str, dash_: str) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": figures.listed(x), "y": figures.listed(y),
        "line": {"color": colour, "width": 2, "dash": dash_},
        "hovertemplate": "%{x:.3g}: %{y:.2f}<extra>" + name + "</extra>",
    }  # fmt: skip


def _through_now(answer: Answer, kernel: str) -> tuple[list[float], list[float]]:
    """A curve with the present setting as one of its points, where it is of this kernel."""
    points = list(zip(answer.betas.tolist(), answer.curves[kernel], strict=True))
    if kernel == answer.state.used:
        points = sorted([point for point in points if point[0] != answer.state.beta] + [_now(answer)])
    return [x for x, _ in points], [y for _, y in points]


def _now(answer: Answer) -> tuple[float, float]:
    return answer.state.beta, answer.prediction.alignment


def temperature_chart(answer: Answer, theme: str) -> figures.Figure:
    """Alignment against the slope, with the present setting marked."""
    data = [
        _line(kernel, *_through_now(answer, kernel), _colour(STYLES[kernel], theme), DASHES[kernel])
        for kernel in answer.curves
    ]
    if answer.limits is not None:
        ends = [0.0, max(float(answer.betas[-1]), answer.state.beta)]
        for name, level, dash_ in (
            ("best pooling", answer.limits.alignment_pooling, "dot"),
            ("any method", answer.limits.alignment_bayes, "solid"),
        ):
            line = _line(name, ends, [level, level], figures.MUTED[theme], dash_)
            data.append(line | {"line": line["line"] | {"width": 1.2}})
    data.append(
        {
            "type": "scatter", "mode": "markers", "name": "now", "x": [answer.state.beta],
            "y": [answer.prediction.alignment], "marker": {"color": figures.SIGNAL[theme], "size": 10},
            "hovertemplate": "slope %{x:.2g}: %{y:.2f}<extra>now</extra>",
        }
    )  # fmt: skip
    x = figures.axis(theme, "slope β of the weights in the score")
    return {"data": data, "layout": figures.layout(theme, x, figures.axis(theme, "alignment", range=[-0.02, 1.02]))}


def learning_chart(answer: Answer, theme: str) -> figures.Figure:
    """Overlap of a learned query against the number of sequences."""
    rows = np.array(answer.learned)
    series = (
        ("token PCA", "causal", "dashdot"),
        ("one gradient step", "mean", "dash"),
        ("three steps", "learned", "dot"),
    )
    data = [_line(name, TRAINING, rows[:, i], _colour(style, theme), d) for i, (name, style, d) in enumerate(series)]
    x = figures.axis(theme, "training sequences", type="log")
    return {"data": data, "layout": figures.layout(theme, x, figures.axis(theme, "overlap m", range=[-0.02, 1.02]))}
