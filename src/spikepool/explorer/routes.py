"""Downloads of the page: ``/export/spikepool.<kind>``."""

from __future__ import annotations

from flask import Flask, Response, request

from spikepool.errors import SpikepoolError
from spikepool.explorer.export import to_csv, to_json, to_python
from spikepool.explorer.export_figure import draw
from spikepool.explorer.security import answer
from spikepool.explorer.simulate import finished_simulation
from spikepool.explorer.theory import solve_query
from spikepool.explorer.worker import Worker

FIGURES = {"png": "image/png", "svg": "image/svg+xml"}
TEXTS = {
    "csv": (to_csv, "text/csv; charset=utf-8"),
    "json": (to_json, "application/json"),
    "py": (to_python, "text/x-python; charset=utf-8"),
}


def register(server: Flask, worker: Worker) -> None:
    """Attach the downloads to `server`."""

    @server.get("/export/spikepool.<kind>")
    def export(kind: str) -> Response:
        if kind not in TEXTS and kind not in FIGURES:
            return answer(404, "There is no such export.")
        try:
            panels = solve_query(request.args.get("state", ""))
            simulated = finished_simulation(worker, request.args.get("job"), panels.state.query())
            if kind in TEXTS:
                write, mimetype = TEXTS[kind]
                body: str | bytes = write(panels, simulated)
            else:
                body, mimetype = draw(panels, kind, simulated), FIGURES[kind]
        except SpikepoolError as err:
            return answer(400, str(err))
        response = Response(body, content_type=mimetype)
        response.headers["Content-Disposition"] = f'attachment; filename="spikepool.{kind}"'
        return response
