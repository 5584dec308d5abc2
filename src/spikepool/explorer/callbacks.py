"""What happens when a control moves. Each callback parses, calls the library and draws."""

from __future__ import annotations

import secrets
import time
from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, Patch, State, ctx, no_update
from dash.exceptions import PreventUpdate

from spikepool.errors import SpikepoolError
from spikepool.explorer import figures
from spikepool.explorer.simulate import check_simulation, finished_simulation, simulate_task
from spikepool.explorer.state import FAMILIES, StateError, parse_query, shortest
from spikepool.explorer.state import State as PageState
from spikepool.explorer.theory import Panels, solve
from spikepool.explorer.verdict import captions, verdict
from spikepool.explorer.worker import Limits, Worker

NUMBERS = tuple(family.parameter for family in FAMILIES.values())
SLIDERS = ("mu", "T", *NUMBERS, "d", "V", "N")
CONTROLS = ("mu", "w", "T", "corr", *NUMBERS, "R", "d", "V", "N", "table", "centered", "plane")
READINGS = ("alignment", "mu-sample", "mu-population", "gain", "edge", "top")
PANELS = ("spectrum", "alignment", "phase", "weights")
GRAPHS = PANELS[:3]


def register(app: dash.Dash, worker: Worker, limits: Limits) -> None:
    """Attach every callback to `app`."""
    _register_page_script(app)
    _register_state(app)
    _register_theory(app, worker)
    _register_simulation(app, worker, limits)


def _register_page_script(app: dash.Dash) -> None:
    def script(name: str, *arguments: Any) -> None:
        app.clientside_callback(ClientsideFunction("spikepool", name), *arguments)

    for id in SLIDERS:
        pair = [(id, "value"), (f"{id}-slider", "value")]
        script(
            "couple", *(Output(*item) for item in pair), *(Input(*item) for item in pair), State(f"{id}-spec", "data")
        )
    script(
        "collect",
        *(Output(f"{id}-control", "hidden") for id in ("T", *NUMBERS, "R")),
        *(Input(id, "value") for id in CONTROLS),
        Input("custom", "data"),
    )
    script("theme", Output("theme", "data"), Input("theme-button", "n_clicks"))
    script("bars", Output("bars-frame", "title"), Input("bars", "data"))
    script(
        "exports",
        *(Output(f"export-{kind}", "href") for kind in ("png", "svg", "csv", "json", "py")),
        Input("query", "data"),
        Input("shown-job", "data"),
    )
    script("copyLink", Output("copy-note", "children"), Input("copy-link", "n_clicks"))


def control_values(state: PageState) -> list[Any]:
    """Values of the controls, in the order of CONTROLS, then the custom weights."""
    values: dict[str, Any] = {name: getattr(state, name) for name in CONTROLS}
    values["R"] = "\n".join(" ".join(map(shortest, row)) for row in state.R)
    values["centered"] = "1" if state.centered else "0"
    return [*(values[name] for name in CONTROLS), list(state.custom)]


def _register_state(app: dash.Dash) -> None:
    def load(search: object, present_query: object) -> list[Any]:
        if present_query is not None and search == f"?{present_query}":
            raise PreventUpdate
        try:
            state, problem = parse_query(search or ""), ""
        except StateError as err:
            state, problem = PageState(), f"This link could not be read: {err} The default settings are shown."
        return [*control_values(state), problem, not problem]

    app.callback(
        *(Output(id, "value") for id in CONTROLS),
        Output("custom", "data"),
        Output("link-problem", "children"),
        Output("link-problem", "hidden"),
        Input("address", "search"),
        State("query", "data"),
    )(load)


def _format(value: float) -> str:
    if value == float("inf"):
        return "none"
    return f"{value:.4f}" if value < 10 else f"{value:.5g}"


def _readings(panels: Panels) -> list[str]:
    p = panels.prediction
    return [
        _format(value) for value in (p.alignment, p.mu_sample, p.mu_population, p.alpha / p.kappa, p.edge, p.eigenvalue)
    ]


def _still_or_moved(panels: Panels, theme: str, simulated: dict[str, Any] | None, drawn: object) -> list[Any]:
    """The alignment chart and the phase diagram, or only their marks when nothing but mu has moved."""
    if drawn != figures.still_key(panels, theme, simulated):
        return [figures.alignment(panels, theme, simulated), figures.phase(panels, theme)]
    moved = [Patch(), Patch()]
    moved[0]["layout"]["shapes"] = figures.alignment_marks(panels, theme)
    moved[1]["layout"]["annotations"] = figures.phase_marks(panels, theme)
    return moved


def _register_theory(app: dash.Dash, worker: Worker) -> None:
    def update(query: object, theme: object, job_id: object, drawn: object) -> list[Any]:
        if query is None:
            raise PreventUpdate
        shade = theme if isinstance(theme, str) and theme in figures.THEMES else "light"
        kept = len(GRAPHS) + len(PANELS) + len(READINGS)
        try:
            panels = solve(parse_query(query))
        except SpikepoolError as err:
            return [*[no_update] * (kept + 4), "verdict tone-problem", str(err), False, {"error": True}, no_update]
        simulated = finished_simulation(worker, job_id, panels.state.query())
        sentence = verdict(panels)
        bars = {
            "weights": panels.weights[panels.state.w].tolist(),
            "raw": list(panels.state.custom),
            "kind": panels.state.w,
            "color": figures.COLORS[shade][panels.state.w],
        }
        return [
            figures.spectrum(panels, shade, simulated),
            *_still_or_moved(panels, shade, simulated, drawn),
            *captions(panels, simulated),
            *_readings(panels),
            sentence.headline,
            " ".join(sentence.details),
            sentence.caution,
            not sentence.caution,
            f"verdict tone-{sentence.tone}",
            "",
            True,
            bars,
            figures.still_key(panels, shade, simulated),
        ]

    app.callback(
        *(Output(id, "figure") for id in GRAPHS),
        *(Output(f"{id}-caption", "children") for id in PANELS),
        *(Output(f"read-{id}", "children") for id in READINGS),
        Output("headline", "children"),
        Output("details", "children"),
        Output("caution", "children"),
        Output("caution", "hidden"),
        Output("verdict", "className"),
        Output("problem", "children"),
        Output("problem", "hidden"),
        Output("bars", "data"),
        Output("drawn", "data"),
        Input("query", "data"),
        Input("theme", "data"),
        Input("shown-job", "data"),
        State("drawn", "data"),
        prevent_initial_call=True,
    )(update)


def _register_simulation(app: dash.Dash, worker: Worker, limits: Limits) -> None:
    def simulation(_s: object, _c: object, _t: object, query: object, draws: object, job_id: object) -> list[Any]:
        if ctx.triggered_id == "simulate":
            try:
                job = worker.start(simulate_task, simulation_payload(query, draws, limits))
            except SpikepoolError as err:
                return [None, True, False, True, "0", str(err), no_update]
            return [job.id, False, True, False, "0", "Starting…", no_update]
        if ctx.triggered_id == "cancel":
            worker.stop(job_id)
            return [None, True, False, True, "0", "Cancelled.", no_update]
        found = worker.find(job_id)
        if found is None:
            return [None, True, False, True, "0", "The server no longer knows this simulation.", no_update]
        if found.status == "running":
            # with the seconds so far: a long step must not look like a standstill
            note = f"Simulating: {found.note or 'starting'} ({time.monotonic() - found.started:.0f} s)"
            return [no_update, False, True, False, f"{found.progress:.4f}", note, no_update]
        if found.result is None:
            return [None, True, False, True, "0", found.error, no_update]
        note = f"Done: {found.result['trials']} draws in {found.result['seconds']:.1f} s; shown over the theory."
        return [None, True, False, True, "1", note, found.id]

    app.callback(
        Output("job", "data"),
        Output("tick", "disabled"),
        Output("simulate", "disabled"),
        Output("cancel", "disabled"),
        Output("progress", "value"),
        Output("simulation-note", "children"),
        Output("shown-job", "data"),
        Input("simulate", "n_clicks"),
        Input("cancel", "n_clicks"),
        Input("tick", "n_intervals"),
        State("query", "data"),
        State("draws", "value"),
        State("job", "data"),
        prevent_initial_call=True,
    )(simulation)


def simulation_payload(query: object, draws: object, limits: Limits) -> dict[str, Any]:
    """What the worker needs for a simulation of the state in `query`."""
    state = parse_query(query)
    trials = check_simulation(state, draws, limits)
    return {"query": state.query(), "trials": trials, "seed": secrets.randbelow(2**31)}
