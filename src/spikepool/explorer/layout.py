"""The page: controls on the left, the verdict and the panels on the right."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from spikepool import __version__
from spikepool.explorer.state import FAMILIES, MAX_MATRIX_SIZE
from spikepool.explorer.widgets import card, choice, figure_of, hint, number, reading, verdict_box
from spikepool.explorer.worker import Limits

EXPORTS = {"png": "PNG", "svg": "SVG", "csv": "CSV", "json": "JSON", "py": "Python code"}


def page(limits: Limits, *more: Any) -> html.Div:
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
            dcc.Interval(id="tick", interval=350, disabled=True),
            _header(),
            html.Main(
                id="explore-page",
                className="explore",
                children=[
                    html.Div(className="controls", role="form", children=_controls()),
                    html.Div(className="results", children=_results(limits)),
                ],
            ),
            *more,
            html.Footer(
                [f"spikepool {__version__}", html.Span(" · "), "Nothing you enter leaves this machine."],
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


def _simulation(limits: Limits) -> list[Any]:
    return [
        html.Div(
            className="buttons",
            children=[
                html.Label(["Draws"], htmlFor="draws"),
                hint("draws", "draws"),
                dcc.Input(
                    id="draws", type="number", min=1, max=limits.trials, step=1,
                    value=min(8, limits.trials), className="field short",
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


def _results(limits: Limits) -> list[Any]:
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
                html.Section([html.H2("Check by simulation"), *_simulation(limits)], className="card"),
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
