"""The tab "Content": attention with a query. Its state is the hash of the address, parsed as strictly as the other's.

Controls are collected by the page's script, which waits until they rest; one callback then parses, asks the library and
draws two charts: the alignment against the slope of the weights, and how well a query is learned.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import dash
import numpy as np
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.exceptions import PreventUpdate

from spikepool.drawing.palette import method_style
from spikepool.errors import SpikepoolError, UnreachableError
from spikepool.explorer import figures
from spikepool.explorer.state import StateError, integer_in, number_in, option_of
from spikepool.explorer.verdict import decimal
from spikepool.explorer.widgets import card, choice, figure_of, number, reading, verdict_box
from spikepool.model import QueryModel
from spikepool.theory.limits import QueryLimits
from spikepool.theory.query import QueryPrediction, top_alignment
from spikepool.world.query import KERNELS

NAMES = {"softmax": "softmax", "sigmoid": "the sigmoid gate", "linear": "rectified linear weights"}
STYLES = {"softmax": "mean", "sigmoid": "optimal", "linear": "causal"}
DASHES = {"softmax": "dash", "sigmoid": "solid", "linear": "dashdot"}
# smallest and largest value of each number; the charts take a second or two at the largest
RANGES: dict[str, tuple[float, float]] = {
    "beta": (0.0, 5.0),
    "nu": (0.0, 5.0),
    "overlap": (0.0, 1.0),
    "mu": (0.0, 10.0),
    "L": (1, 60),
    "T": (1, 60),
    "d": (20, 400),
    "N": (20, 1000),
    "V": (100, 20_000),
}
WHOLE = ("L", "T", "d", "N", "V")
VOCABULARIES = ("never", "finite")
RELEVANCE = ("scattered", "span")
LAYERS = ("1", "2")
CURVE_STEPS, FINITE_STEPS = 10, 6
TRAINING = np.round(np.geomspace(30, 20_000, 16)).astype(int)
READINGS = ("alignment", "mean", "gain", "threshold", "edge", "top")
MAX_CHARACTERS = 300


@dataclass(frozen=True)
class ContentState:
    """Everything the tab shows is a function of this value."""

    beta: float = 0.5
    nu: float = 1.5
    L: int = 3
    overlap: float = 1.0
    mu: float = 1.0
    kernel: str = "softmax"
    repeat: str = "never"
    V: int = 2000
    T: int = 20
    d: int = 200
    N: int = 800
    relevance: str = "scattered"
    layers: str = "1"

    @property
    def window(self) -> int | None:
        """Tokens that the first of two layers averages; None for one layer."""
        return self.L if self.layers == "2" else None

    @property
    def used(self) -> str:
        """The kernel: two layers have a softmax, whatever one layer has."""
        return "softmax" if self.window else self.kernel

    def model(self) -> QueryModel:
        """The model of this state; the slope of two layers counts for the sum of the tokens of a window."""
        sizes = {name: getattr(self, name) for name in ("d", "N", "T", "L", "mu", "nu", "overlap")}
        where: dict[str, Any] = {
            "relevance": self.relevance,
            "window": self.window,
            "V": None if self.repeat == "never" else self.V,
        }
        return QueryModel(**sizes, **where, kernel=self.used, beta=self.beta * (self.window or 1))


CONTROLS = tuple(field.name for field in fields(ContentState))
NUMBERS = tuple(name for name in CONTROLS if name in RANGES)


def parse_content(text: object) -> ContentState:
    """Read a state from a query string; absent names keep defaults.

    Raises
    ------
    StateError
        With a message for the reader, for anything that is not exactly a state.
    """
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise StateError(f"the state must be text of at most {MAX_CHARACTERS} characters", type(text).__name__)
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict") if text else []
    except ValueError:
        raise StateError("the state is not a list of name=value pairs", text) from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in CONTROLS or name in values:
            raise StateError("a name that is not part of the state, or is given twice", name)
        if name == "kernel":
            values[name] = option_of(KERNELS)(value, name)
        elif name in ("repeat", "relevance", "layers"):
            options = {"repeat": VOCABULARIES, "relevance": RELEVANCE, "layers": LAYERS}[name]
            values[name] = option_of(options)(value, name)
        else:
            values[name] = (integer_in if name in WHOLE else number_in)(value, name, *RANGES[name])
    state = ContentState(**values)
    try:
        state.model()
    except SpikepoolError as err:
        raise StateError(str(err).rstrip(".")) from err
    return state


@dataclass(frozen=True)
class Answer:
    """What the library says of a state."""

    state: ContentState
    prediction: QueryPrediction
    mean: float  # alignment of mean pooling
    gain: float
    betas: np.ndarray[Any, np.dtype[np.float64]]
    curves: dict[str, list[float]]
    best: tuple[str, float, float]  # kernel, slope and alignment of the best point of the curves
    learned: list[tuple[float, float, float]]  # overlaps of token PCA, one step and three
    enough: int | None  # labelled sequences that teach an overlap of 0.8
    limits: QueryLimits | None  # of tokens that never repeat


@lru_cache(maxsize=64)
def solve_content(state: ContentState) -> Answer:
    """Prediction, curves and learned queries of a state."""
    model = state.model()
    mean = top_alignment(model.replace(kernel="softmax", beta=0.0, window=None))[0]
    betas, curves = _curves(model.replace(beta=None, kernel="softmax"), state.used)
    p = model.predict()
    points = [
        (alignment, -beta, kernel) for kernel in curves for beta, alignment in zip(betas, curves[kernel], strict=True)
    ]
    top = max(points)
    best = (top[2], -top[1], top[0])
    key = model.replace(kernel="softmax", beta=None, window=None)
    learner = key.replace(V=None, overlap=1.0, relevance="scattered")
    limits = None if model.V is not None else _limits(key)
    return Answer(
        state, p, mean, model.gain(), betas, curves, best, list(_learned_curve(learner)), _enough(learner), limits
    )


@lru_cache(maxsize=64)
def _curves(model: QueryModel, kernel: str) -> tuple[np.ndarray[Any, np.dtype[np.float64]], dict[str, list[float]]]:
    """Alignments against the slope, of all kernels, or of one with a finite vocabulary, which takes longer."""
    kernels = KERNELS if model.V is None and model.window is None else (kernel,)
    steps = CURVE_STEPS if model.V is None else FINITE_STEPS
    betas = 2 * max(model.strength, 0.5) * np.linspace(0.0, 1.0, steps) ** 1.5
    window = model.window or 1
    curves = {k: [top_alignment(model.replace(kernel=k, beta=float(b) * window))[0] for b in betas] for k in kernels}
    return betas, curves


@lru_cache(maxsize=64)
def _limits(model: QueryModel) -> QueryLimits:
    return model.limits()


@lru_cache(maxsize=64)
def _enough(model: QueryModel) -> int | None:
    try:
        return model.required_training(overlap=0.8)
    except UnreachableError:
        return None


@lru_cache(maxsize=64)
def _learned_curve(model: QueryModel) -> tuple[tuple[float, float, float], ...]:
    queries = [model.learned(int(n)) for n in TRAINING]
    return tuple((q.token_pca, q.first_step, q.overlap) for q in queries)


# -- words -----------------------------------------------------------------------------------------------------------


def headline(answer: Answer) -> tuple[str, str]:
    """What attention does here, and its tone."""
    now, mean = answer.prediction.alignment, answer.mean
    name = "two layers of attention" if answer.state.window else NAMES[answer.state.kernel]
    leading = next((o.kind for o in answer.prediction.outliers if o.kind != "query"), "")
    if answer.state.beta == 0:
        return f"At slope 0 every token counts the same: mean pooling, alignment {decimal(mean)}.", _tone(now)
    if mean == 0 and leading != "signal":
        return f"Neither the mean nor {name} can find the signal here.", "none"
    if now > mean + 0.005:
        before = "0" if mean == 0 else decimal(mean)
        verb = "raise" if answer.state.window else "raises"
        return f"Attention helps: {name} {verb} the alignment from {before} to {decimal(now)}.", _tone(now)
    if now < mean - 0.005:
        verb = "lower" if answer.state.window else "lowers"
        return f"Attention hurts here: {name} {verb} the mean's {decimal(mean)} to {decimal(now)}.", "weak"
    return f"Attention makes no difference here: alignment {decimal(now)}, as with the mean.", _tone(now)


def _tone(alignment: float) -> str:
    return "good" if alignment >= 0.5 else "weak" if alignment > 0 else "none"


def details(answer: Answer) -> str:
    """What would be better, and what stands in front of the signal."""
    p, (kernel, beta, alignment) = answer.prediction, answer.best
    sentences = []
    if alignment > p.alignment + 0.01:
        which = NAMES[kernel]
        sentences.append(f"{which[0].upper()}{which[1:]} at slope {beta:.2g} would reach {decimal(alignment)}.")
    others = [o for o in p.outliers if o.kind in ("sequence", "usage") and o.eigenvalue >= p.eigenvalue]
    if others:
        what = "a single sequence" if others[0].kind == "sequence" else "a single token"
        sentences.append(f"The top eigenvector is made of {what} that draws the attention.")
    if p.query is not None:
        sentences.append(f"Were the query not projected out, it would be an eigenvalue of {p.query.eigenvalue:.3g}.")
    if answer.limits is not None:
        limits = answer.limits
        sentences.append(
            f"The best pooling of these scores reaches {decimal(limits.alignment_pooling)}, any method at most "
            f"{decimal(limits.alignment_bayes)}."
        )
    if not p.detectable and 0 < p.mu_sample < float("inf"):
        sentences.append(f"The threshold of the strength is {p.mu_sample:.3g}.")
    return " ".join(sentences)


def captions(answer: Answer) -> tuple[str, str]:
    """One sentence under each chart."""
    kernel, beta, alignment = answer.best
    first = (
        f"Best on this chart: {NAMES[kernel]} at slope {beta:.2g}, alignment {decimal(alignment)}. Slope 0 is the mean."
    )
    if answer.enough is None:
        second = "No number of labelled sequences teaches a query an overlap of 0.8."
    else:
        second = (
            f"About {answer.enough:,} labelled sequences teach a query an overlap of 0.8. Tokens that never repeat, "
            "scattered, one layer."
        )
    return first, second


# -- charts ----------------------------------------------------------------------------------------------------------


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


# -- page ------------------------------------------------------------------------------------------------------------


def content_page() -> html.Main:
    """Controls on the left, the sentence and the charts on the right."""
    return html.Main(
        id="content-page",
        className="explore",
        hidden=True,
        children=[
            dcc.Store(id="content-query"),
            html.Div(className="controls", role="form", children=_controls()),
            html.Div(
                className="results",
                children=[
                    verdict_box("content-"),
                    html.Dl(
                        className="readings",
                        children=[
                            reading("content-alignment", "Alignment", "cos²", "alignment"),
                            reading("content-mean", "With the mean", "", "alignment"),
                            reading("content-gain", "Gain of α/κ", "", "content-gain"),
                            reading("content-threshold", "Threshold", "μ*", "threshold"),
                            reading("content-edge", "Bulk edge", "λ₊", "edge"),
                            reading("content-top", "Top eigenvalue", "", "top"),
                        ],
                    ),
                    html.Div(
                        className="panels",
                        children=[
                            card(
                                "temperature",
                                "Alignment against temperature",
                                [figure_of("temperature", "Temperature")],
                            ),
                            card(
                                "learning", "Learning the query", [figure_of("learning", "Overlap of a learned query")]
                            ),
                        ],
                    ),
                ],
            ),
        ],
    )


def _controls() -> list[Any]:
    def group(title: str, *children: Any) -> html.Fieldset:
        return html.Fieldset([html.Legend(title), *children])

    return [
        group(
            "Attention",
            choice("q-layers", "Layers", {"1": "One", "2": "Two"}, key="layers"),
            choice("q-kernel", "Weights", {"softmax": "Softmax", "sigmoid": "Gate", "linear": "Linear"}, key="kernel"),
            number("q-beta", "Inverse temperature", "β", slider=(0, 3), step=0.01, key="beta"),
            number("q-overlap", "Query overlap", "m", slider=(0, 1), step=0.01, key="query-overlap"),
        ),
        group(
            "Relevant tokens",
            choice("q-relevance", "Places", {"scattered": "Scattered", "span": "One span"}, key="relevance"),
            number("q-nu", "Relevance", "ν", slider=(0, 3), step=0.01, key="nu"),
            number("q-L", "Relevant tokens", "L", slider=(1, 60), key="relevant"),
            number("q-T", "Sequence length", "T", slider=(1, 60), key="T"),
            number("q-mu", "Strength", "μ", slider=(0, 3), step=0.01, key="mu"),
        ),
        group(
            "Vocabulary",
            choice("q-repeat", "Tokens", {"never": "Never repeat", "finite": "Finite"}, key="repeat"),
            number("q-V", "Vocabulary", "V", slider=(100, 20_000), log=True, key="V"),
        ),
        group(
            "Sizes",
            number("q-d", "Dimension", "d", slider=(20, 400), log=True, key="d"),
            number("q-N", "Sequences", "N", slider=(20, 1000), log=True, key="N"),
        ),
    ]


def register(app: dash.Dash) -> None:
    """Attach the callbacks of the tab to `app`."""

    def script(name: str, *arguments: Any) -> None:
        app.clientside_callback(ClientsideFunction("spikepool", name), *arguments)

    script(
        "showPage",
        *(Output(f"{page}-page", "hidden") for page in ("explore", "content")),
        Input("address", "pathname"),
    )
    for name in NUMBERS:
        pair = [(f"q-{name}", "value"), (f"q-{name}-slider", "value")]
        script(
            "couple",
            *(Output(*item) for item in pair),
            *(Input(*item) for item in pair),
            State(f"q-{name}-spec", "data"),
        )
    script("content", Output("q-V-control", "hidden"), *(Input(f"q-{name}", "value") for name in CONTROLS))

    def load(anchor: object, path: object) -> list[Any]:
        text = anchor.removeprefix("#") if isinstance(anchor, str) and str(path).endswith("/content") else ""
        try:
            state = parse_content(text)
        except StateError:
            state = ContentState()
        return [getattr(state, name) for name in CONTROLS]

    app.callback(
        *(Output(f"q-{name}", "value") for name in CONTROLS), Input("address", "hash"), State("address", "pathname")
    )(load)

    def update(query: object, theme: object) -> list[Any]:
        if query is None:
            raise PreventUpdate
        shade = theme if isinstance(theme, str) and theme in figures.THEMES else "light"
        try:
            answer = solve_content(parse_content(query))
        except SpikepoolError as err:
            kept = [dash.no_update] * (len(READINGS) + 8)
            return [*kept, "verdict tone-problem", str(err), False]
        p = answer.prediction
        text, tone = headline(answer)
        threshold = "none" if p.mu_sample == float("inf") else f"{p.mu_sample:.4f}"
        caution = "; ".join(p.validity.reasons)
        return [
            f"{p.alignment:.4f}",
            f"{answer.mean:.4f}",
            f"{answer.gain:.4f}",
            threshold,
            f"{p.edge:.4g}",
            f"{p.eigenvalue:.4g}",
            temperature_chart(answer, shade),
            learning_chart(answer, shade),
            *captions(answer),
            text,
            details(answer),
            caution and f"Caution: {caution}.",
            not caution,
            f"verdict tone-{tone}",
            "",
            True,
        ]

    app.callback(
        *(Output(f"content-{name}", "children") for name in READINGS),
        Output("temperature", "figure"),
        Output("learning", "figure"),
        Output("temperature-caption", "children"),
        Output("learning-caption", "children"),
        Output("content-headline", "children"),
        Output("content-details", "children"),
        Output("content-caution", "children"),
        Output("content-caution", "hidden"),
        Output("content-verdict", "className"),
        Output("content-problem", "children"),
        Output("content-problem", "hidden"),
        Input("content-query", "data"),
        Input("theme", "data"),
        prevent_initial_call=True,
    )(update)
