"""Building blocks of the page: labelled controls, hints, cards."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from spikepool.explorer.glossary import TERMS

# positions of a logarithmic slider; a step is two or three per cent
LOG_STEPS = 400


def hint(key: str, about: str) -> html.Span:
    """A question mark that explains a symbol on hover and focus, and leads to its entry in the glossary."""
    text = TERMS[key].text
    link = html.A(
        "?",
        href=f"/glossary#{key}",
        target="_blank",
        className="hint-button",
        **{"aria-label": f"About {about}: {text}"},
    )
    return html.Span(
        className="hint",
        children=[link, html.Span(text, className="hint-text", role="tooltip", **{"aria-hidden": "true"})],
    )


def number(id: str, name: str, symbol: str, *, slider: tuple[float, float], step: float = 1, log: bool = False) -> Any:
    """A slider and a field for one number, kept in step by the page's script."""
    spec = {
        "id": id,
        "low": slider[0],
        "high": slider[1],
        "step": step,
        "log": log,
        "even": id == "V",
        "steps": LOG_STEPS,
    }
    ends = {"min": 0, "max": LOG_STEPS, "step": 1} if log else {"min": slider[0], "max": slider[1], "step": step}
    return html.Div(
        className="control",
        id=f"{id}-control",
        children=[
            html.Div(
                className="control-head",
                children=[
                    html.Label([html.Span(name), html.Var(symbol)], htmlFor=id),
                    hint(id, name),
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


def choice(id: str, name: str, options: dict[str, str]) -> html.Div:
    """A group of radio buttons drawn as one segmented control."""
    return html.Div(
        className="control",
        id=f"{id}-control",
        role="group",
        **{"aria-label": name},
        children=[
            html.Div(className="control-head", children=[html.Span(name, className="group-name"), hint(id, name)]),
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


def graph(id: str) -> dcc.Graph:
    """A chart that follows the width of its card."""
    return dcc.Graph(
        id=id,
        className="graph",
        responsive=True,
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
