"""The page of the tab "Content": its controls, its charts, and what happens when a control moves.

Controls are collected by the page's script, which waits until they rest; one callback then parses, asks the library and
draws.
"""

from __future__ import annotations

from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, State, dcc, html
from dash.exceptions import PreventUpdate

from spikepool.errors import SpikepoolError
from spikepool.explorer import figures
from spikepool.explorer.content_figures import learning_chart, temperature_chart
from spikepool.explorer.content_state import CONTROLS, NUMBERS, ContentState, parse_content
from spikepool.explorer.content_theory import solve_content
from spikepool.explorer.content_verdict import captions, details, headline
from spikepool.explorer.state import StateError
from spikepool.explorer.widgets import card, choice, figure_of, number, reading, verdict_box

READINGS = ("alignment", "mean", "gain", "threshold", "edge", "top")


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
