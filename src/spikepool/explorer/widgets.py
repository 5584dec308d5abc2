"""Building blocks of the page: labelled controls, hints, cards."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from spikepool.drawing.palette import MUTED

# what the question marks say; the glossary of the documentation says more
HINTS = {
    "mu": "How far the two classes of tokens lie from the middle, in units of the noise of one coordinate.",
    "w": (
        "How much each position counts in the pooled vector. Mean: all equal. Causal: a score-free causal attention "
        "layer, then the mean; early positions count more. Optimal: the best for this correlation. Drag the bars to "
        "set other weights."
    ),
    "corr": "Which positions of a sequence tend to show the same class. Positions that agree carry the signal.",
    "T": "How many positions a sequence has before it is pooled into one vector.",
    "L": "The first L positions carry the same class; the classes of the others are random.",
    "rho": "Correlation of neighbouring positions; it decays as ρ to the power of the distance.",
    "R": (
        "A correlation matrix of the positions: one row per line, numbers separated by spaces or commas, ones on the "
        "diagonal."
    ),
    "d": "Length of each embedding vector.",
    "V": "How many different tokens there are, half of each class. Even.",
    "N": "How many sequences were pooled: the sample size of the covariance.",
    "table": (
        "One vector for each token. Sampled: every token's noise is drawn independently, so each class of a finite "
        "vocabulary has a mean that differs from zero by chance. Class-centred: those chance means are removed."
    ),
    "centered": (
        "Whether the average of the pooled vectors is subtracted first. Without it the vocabulary's average can "
        "appear as a component that says nothing about the signal."
    ),
    "draws": "How many independent data sets to simulate at the present μ; a few more are drawn at other strengths.",
    "plane": "Alignment over μ and a size, N or V, with the threshold of each weighting.",
    "alignment": "Squared cosine between the top component and the hidden direction: 0 unrelated, 1 identical.",
    "threshold": "Below this signal strength the top component carries no information on the signal.",
    "population": "The threshold that would remain with infinitely many sequences.",
    "gain": (
        "Signal gain over noise gain of the weights, w'Rw / w'w. It decides alignment and threshold where the "
        "covariance is centred and weights are spread out; without centring, and for classifiers, alpha matters by "
        "itself."
    ),
    "edge": "Right end of the bulk: the largest eigenvalue that pure noise produces.",
    "top": "Predicted largest eigenvalue of the pooled covariance.",
    "layers": "One layer weighs a token by its own score. Two layers average L neighbours, then weigh these means.",
    "relevance": "Where relevant tokens stand: anywhere, or L neighbours at an unknown place.",
    "kernel": (
        "Weight of a token as a function of its score: softmax, exp(βh); gate, a sigmoid that for β = νm is the "
        "probability of being relevant; linear, max(0, 1 + βh). All are divided by their sum over the sequence."
    ),
    "beta": "How steeply the weight of a token grows with its score, the inverse temperature; 0 is mean pooling.",
    "query-overlap": (
        "Cosine of the query with the mark of relevant tokens, not squared: 1 for a perfect query, 0 for a blind one."
    ),
    "nu": "How far relevant tokens lie from the others along the mark that a query looks for, in units of the noise.",
    "relevant": "How many tokens of a sequence carry the signal, at unknown places; in the prefix model, the first L.",
    "repeat": (
        "Whether tokens come from a vocabulary, so that a token has the same score in every sequence, or never repeat."
    ),
    "content-gain": (
        "Signal over noise of the weights, divided by that of the mean; few very uneven sequences may spoil it."
    ),
}


def hint(key: str, about: str) -> html.Span:
    """A question mark that explains a symbol on hover and focus."""
    text = HINTS[key]
    button = html.Button("?", type="button", className="hint-button", **{"aria-label": f"About {about}: {text}"})
    return html.Span(
        className="hint",
        children=[button, html.Span(text, className="hint-text", role="tooltip", **{"aria-hidden": "true"})],
    )


def number(
    id: str,
    name: str,
    symbol: str,
    *,
    slider: tuple[float, float],
    step: float = 1,
    log: bool = False,
    key: str | None = None,
) -> Any:
    """A slider and a field for one number, kept in step by the page's script.

    Its hint is that of `key`, or of the id. A logarithmic slider has 400 positions: a step is two or three per cent.
    """
    log_steps = 400
    spec = {
        "id": id,
        "low": slider[0],
        "high": slider[1],
        "step": step,
        "log": log,
        "even": id == "V",
        "steps": log_steps,
    }
    ends = {"min": 0, "max": log_steps, "step": 1} if log else {"min": slider[0], "max": slider[1], "step": step}
    return html.Div(
        className="control",
        id=f"{id}-control",
        children=[
            html.Div(
                className="control-head",
                children=[
                    html.Label([html.Span(name), html.Var(symbol)], htmlFor=id),
                    hint(key or id, name),
                    # Read when the typing pauses, so that 13 is not read as 1 first. No limits here: Dash would
                    # silently put back the old number, the server says what is wrong with the new one.
                    dcc.Input(id=id, type="number", step="any", className="field", debounce=0.35),
                ],
            ),
            html.Label(f"{name}, slider", htmlFor=f"{id}-slider", className="unseen"),
            dcc.Input(id=f"{id}-slider", type="range", className="slider", **ends),
            dcc.Store(id=f"{id}-spec", data=spec),
        ],
    )


def choice(id: str, name: str, options: dict[str, str], *, key: str | None = None) -> html.Div:
    """A group of radio buttons drawn as one segmented control."""
    return html.Div(
        className="control",
        id=f"{id}-control",
        role="group",
        **{"aria-label": name},
        children=[
            html.Div(
                className="control-head", children=[html.Span(name, className="group-name"), hint(key or id, name)]
            ),
            dcc.RadioItems(
                id=id,
                options=[{"label": label, "value": value} for value, label in options.items()],
                className="segments",
                inline=True,
            ),
        ],
    )


def card(id: str, title: str, body: list[Any], *, extra: list[Any] | None = None) -> html.Section:
    """A panel with a title and a caption that says what is seen."""
    return html.Section(
        className="card",
        id=f"{id}-card",
        **{"aria-labelledby": f"{id}-title"},
        children=[
            html.Div(className="card-head", children=[html.H2(title, id=f"{id}-title"), *(extra or [])]),
            *body,
            html.P(id=f"{id}-caption", className="caption", **{"aria-live": "off"}),
        ],
    )


# Shown until the first answer: no axes, and no background that a dark page would show.
NOTHING_YET: dict[str, Any] = {
    "data": [],
    "layout": {
        "xaxis": {"visible": False},
        "yaxis": {"visible": False},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "annotations": [
            {"text": "Computing…", "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False}
            | {"font": {"color": MUTED}}
        ],
    },
}


def graph(id: str) -> dcc.Graph:
    """A chart that follows the width of its card."""
    return dcc.Graph(
        id=id,
        className="graph",
        responsive=True,
        figure=NOTHING_YET,
        config={"displayModeBar": False, "scrollZoom": False, "doubleClick": False, "showTips": False},
    )


def figure_of(id: str, title: str) -> html.Div:
    """A chart in a frame; the number under it is what the chart says in one word."""
    return html.Div(className="frame", role="img", id=f"{id}-frame", children=[graph(id)], **{"aria-label": title})


def reading(id: str, name: str, symbol: str, key: str) -> html.Div:
    """One number of the strip below the verdict."""
    return html.Div(
        className="reading",
        children=[
            html.Dt([html.Span(name), html.Var(symbol), hint(key, name)]),
            html.Dd("–", id=id),
        ],
    )


def verdict_box(prefix: str = "") -> html.Div:
    """The sentence about the present settings; `prefix` comes before its ids."""
    return html.Div(
        id=f"{prefix}verdict",
        className="verdict",
        tabIndex="-1",
        role="status",
        children=[
            html.P(id=f"{prefix}headline", className="headline"),
            html.P(id=f"{prefix}details", className="details"),
            html.P(id=f"{prefix}caution", className="caution", hidden=True),
            html.P(id=f"{prefix}problem", className="problem", role="alert", hidden=True),
        ],
    )
