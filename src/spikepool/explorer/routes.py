"""Plain HTTP beside the callbacks: downloads, and the glossary."""

from __future__ import annotations

import base64

from flask import Flask, Response, jsonify, request

from spikepool.errors import SpikepoolError
from spikepool.explorer.export import to_csv, to_json, to_python
from spikepool.explorer.export_figure import FORMATS, figure_task
from spikepool.explorer.glossary import to_page
from spikepool.explorer.jobs import BusyError
from spikepool.explorer.services import Services
from spikepool.explorer.theory import solve_query

TEXTS = {
    "csv": (to_csv, "text/csv; charset=utf-8"),
    "json": (to_json, "application/json"),
    "py": (to_python, "text/x-python; charset=utf-8"),
}


def _problem(message: str, status: int) -> Response:
    response: Response = jsonify({"error": message})
    response.status_code = status
    return response


def register(server: Flask, services: Services) -> None:
    """Attach the routes to `server`."""

    @server.get("/export/spikepool.<kind>")
    def export(kind: str) -> Response:
        if kind not in TEXTS and kind not in FORMATS:
            return _problem("There is no such export.", 404)
        try:
            panels = solve_query(request.args.get("state", ""))
            simulated = services.simulation(request.args.get("job"), panels.state.query())
            if kind in TEXTS:
                write, mimetype = TEXTS[kind]
                body: str | bytes = write(panels, simulated)
            else:
                payload = {"query": panels.state.query(), "format": kind, "simulated": simulated}
                body = base64.b64decode(services.figures.run(figure_task, payload)["bytes"])
                mimetype = FORMATS[kind]
        except BusyError as err:
            return _problem(str(err), 503)
        except SpikepoolError as err:
            return _problem(str(err), 400)
        response = Response(body, content_type=mimetype)
        response.headers["Content-Disposition"] = f'attachment; filename="spikepool.{kind}"'
        return response

    @server.get("/glossary")
    def glossary() -> Response:
        return Response(to_page(), content_type="text/html; charset=utf-8")
