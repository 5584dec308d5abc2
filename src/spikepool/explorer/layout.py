"""The page: controls on the left, the verdict and the panels on the right.

Building blocks of the page: labelled controls, hints, cards.
"""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from spikepool import __version__
from spikepool.explorer.glossary import TERMS
from spikepool.explorer.security import Settings
from spikepool.explorer.state import FAMILIES, MAX_MATRIX_SIZE

# positions of a logarithmic slider; a step is two or three per cent
LOG_STEPS = 400


def hint(key: str, about: str) -> html.Span:
    """A question mark that explains a symbol on hover and focus, and leads to its entry in the glossary."""
    text = TERMS[key].text
    link = html.A(
        "?",
        href=f"glossary#{key}",
        target="_blank",
        className="hint-button",
        **{"aria-label": f"About {about}: {text}"},
    )
    return html.Span(
        className="hint",
        children=[link, html.Span(text, className="hint-text", role="tooltip", **{"aria-hidden": "true"})],
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
    """A slider and a field for one number, kept in step by the page's script; `key` of the glossary, or the id."""
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


EXPORTS = {"png": "PNG", "svg": "SVG", "csv": "CSV", "json": "JSON", "py": "Python code"}
POLL_MILLISECONDS = 350


def page(settings: Settings, *more: Any) -> html.Div:
    """The whole layout; `more` are pages beside the first."""
    return html.Div(
        className="app",
        children=[
            html.A("Skip to the result", href="#verdict", className="skip"),
            dcc.Location(id="address", refresh=False),
            # the state as a query string, the single thing the server computes from
            dcc.Store(id="query"),
            dcc.Store(id="custom"),
            dcc.Store(id="bars"),
            dcc.Store(id="theme"),
            dcc.Store(id="drawn"),
            dcc.Store(id="job"),
            dcc.Store(id="shown-job"),
            dcc.Interval(id="tick", interval=POLL_MILLISECONDS, disabled=True),
            _header(),
            html.Main(
                id="explore-page",
                className="explore",
                children=[
                    html.Div(className="controls", role="form", children=_controls()),
                    html.Div(className="results", children=_results(settings)),
                ],
            ),
            *more,
            html.Footer(
                [f"spikepool {__version__}", html.Span(" · "), "Nothing you enter leaves this server."],
                className="footer",
            ),
        ],
    )


def _header() -> html.Header:
    return html.Header(
        className="header",
        children=[
            html.Div(className="brand", children=[html.Span("spikepool", className="mark"), html.Span("explorer")]),
            html.Nav(
                className="nav",
                **{"aria-label": "Pages"},
                children=[
                    html.A("Explore", href="./", id="explore-link", **{"aria-current": "page"}),
                    html.A("Content", href="content", id="content-link"),
                    html.A("Glossary", href="glossary", target="_blank"),
                ],
            ),
            html.Button(
                "◐", id="theme-button", type="button", className="icon-button", title="Switch light and dark",
                **{"aria-label": "Switch between light and dark"},
            ),
        ],
    )  # fmt: skip


def _group(title: str, *children: Any) -> html.Fieldset:
    return html.Fieldset([html.Legend(title), *children])


def _controls() -> list[Any]:
    return [
        _group("Signal", number("mu", "Strength", "μ", slider=(0, 3), step=0.01)),
        _group(
            "Pooling weights",
            choice("w", "Weights", {"mean": "Mean", "causal": "Causal", "optimal": "Optimal", "custom": "Custom"}),
        ),
        _group(
            "Where the signal sits",
            number("T", "Sequence length", "T", slider=(1, 100)),
            choice("corr", "Positions that agree", {k: f.label for k, f in FAMILIES.items()} | {"matrix": "Paste R"}),
            *(number(f.parameter, f.name, f.symbol, slider=f.slider, step=f.step) for f in FAMILIES.values()),
            html.Div(
                id="R-control",
                className="control",
                children=[
                    html.Div(
                        className="control-head",
                        children=[html.Label(["Correlation matrix", html.Var("R")], htmlFor="R"), hint("R", "R")],
                    ),
                    dcc.Textarea(id="R", className="matrix", spellCheck="false", rows=6, maxLength=16_000),
                    html.P(f"Up to {MAX_MATRIX_SIZE} × {MAX_MATRIX_SIZE}; T follows from it.", className="note"),
                ],
            ),
        ),
        _group(
            "Sizes",
            number("d", "Dimension", "d", slider=(10, 4000), log=True),
            number("V", "Vocabulary", "V", slider=(10, 200_000), log=True),
            number("N", "Sequences", "N", slider=(10, 2_000_000), log=True),
        ),
        _group(
            "Model",
            choice("table", "Embedding table", {"sampled": "Sampled", "class_centered": "Class-centred"}),
            choice("centered", "Pooled features", {"1": "Centred", "0": "Not centred"}),
        ),
    ]


def _simulation(settings: Settings) -> list[Any]:
    return [
        html.Div(
            className="buttons",
            children=[
                html.Label(["Draws"], htmlFor="draws"),
                hint("draws", "draws"),
                dcc.Input(
                    id="draws", type="number", min=1, max=settings.max_trials, step=1,
                    value=min(8, settings.max_trials), className="field short",
                ),
                html.Button("Simulate", id="simulate", type="button", className="button primary"),
                html.Button("Cancel", id="cancel", type="button", className="button", disabled=True),
            ],
        ),
        html.Progress(id="progress", max="1", value="0", className="progress", **{"aria-label": "Simulation"}),
        html.P("Draws data sets and shows them beside theory.", id="simulation-note", className="note", role="status"),
    ]  # fmt: skip


def _export() -> list[Any]:
    return [
        html.Div(
            className="buttons",
            children=[
                html.Button("Copy link", id="copy-link", type="button", className="button"),
                *(html.A(label, id=f"export-{kind}", className="button", href="#") for kind, label in EXPORTS.items()),
            ],
        ),
        html.P("The link carries every setting.", id="copy-note", className="note", role="status"),
    ]


def _results(settings: Settings) -> list[Any]:
    return [
        html.P(id="link-problem", className="problem banner", role="alert", hidden=True),
        verdict_box(),
        html.Dl(
            className="readings",
            children=[
                reading("read-alignment", "Alignment", "cos²", "alignment"),
                reading("read-mu-sample", "Threshold", "μ*", "threshold"),
                reading("read-mu-population", "Threshold", "N = ∞", "population"),
                reading("read-gain", "Gain", "α/κ", "gain"),
                reading("read-edge", "Bulk edge", "λ₊", "edge"),
                reading("read-top", "Top eigenvalue", "", "top"),
            ],
        ),
        html.Div(
            className="actions",
            children=[
                html.Section([html.H2("Check by simulation"), *_simulation(settings)], className="card"),
                html.Section([html.H2("Share and export"), *_export()], className="card"),
            ],
        ),
        html.Div(
            className="panels",
            children=[
                card("spectrum", "Spectrum", [figure_of("spectrum", "Spectrum of the pooled covariance")]),
                card("alignment", "Alignment against signal strength", [figure_of("alignment", "Alignment against μ")]),
                card(
                    "phase",
                    "Phase diagram",
                    [figure_of("phase", "Phase diagram")],
                    extra=[
                        html.Div(
                            className="plane",
                            role="group",
                            **{"aria-label": "Vertical axis"},
                            children=[
                                dcc.RadioItems(
                                    id="plane",
                                    options=[{"label": "N", "value": "N"}, {"label": "V", "value": "V"}],
                                    className="segments small",
                                    inline=True,
                                ),
                                hint("plane", "the vertical axis"),
                            ],
                        )
                    ],
                ),
                card(
                    "weights",
                    "Weights",
                    # filled by the page's script: one bar and one field for each position
                    [
                        html.Div(id="bars-frame", className="bars", role="group", **{"aria-label": "Weights, bars"}),
                        html.Div(id="fields-frame", className="fields", role="group", **{"aria-label": "Weights"}),
                    ],
                ),
            ],
        ),
    ]
