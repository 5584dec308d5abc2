"""Plain HTTP beside the callbacks: downloads of the page, and uploads as request bodies."""

from __future__ import annotations

import base64
import shutil
import tempfile
from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify, request

from spikepool.errors import SpikepoolError
from spikepool.explorer.export import to_csv, to_json, to_python
from spikepool.explorer.export_answers import FORMATS as ANSWERS
from spikepool.explorer.export_figure import FORMATS, figure_task
from spikepool.explorer.glossary import to_page
from spikepool.explorer.jobs import BusyError
from spikepool.explorer.services import Services
from spikepool.explorer.theory import solve_query
from spikepool.explorer.uploads import Upload, UploadError, check_upload, upload_task

_CHUNK_BYTES = 1 << 20
FOLDER_PREFIX = "spikepool-upload-"
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

    @server.get("/export/your-data.<kind>")
    def export_answers(kind: str) -> Response:
        if kind not in ANSWERS:
            return _problem("There is no such export.", 404)
        job = services.jobs.find(request.args.get("job"))
        if job is None or job.task is not upload_task or job.result is None:
            return _problem("The server no longer knows this analysis.", 404)
        write, mimetype = ANSWERS[kind]
        response = Response(write(job.result), content_type=mimetype)
        response.headers["Content-Disposition"] = f'attachment; filename="spikepool-your-data.{kind}"'
        return response

    @server.post("/upload")
    def upload() -> Response:
        length = request.content_length
        if length is None:
            return _problem("The upload must say how long it is.", 411)
        if length > services.settings.upload_limit:
            return _problem(f"The upload is larger than {services.settings.upload_limit:,} bytes.", 413)
        try:
            wanted = check_upload(request.args)
        except UploadError as err:
            return _problem(str(err), 400)
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=services.settings.temporary_folder))
        try:
            paths = _save_parts(wanted, folder, length)
            payload = {"kind": wanted.kind, "target": wanted.target, "paths": paths}
            job = services.jobs.submit(upload_task, payload, folder=folder)
        except BusyError as err:
            return _problem(str(err), 503)
        except UploadError as err:
            shutil.rmtree(folder, ignore_errors=True)
            return _problem(str(err), 400)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            return _problem("The server could not store the file.", 507)
        answer: Response = jsonify({"job": job.id})
        return answer


def _save_parts(wanted: Upload, folder: Path, length: int) -> dict[str, str]:
    """Cut the body into its files; returns their paths by role."""
    left = length - sum(part.size or 0 for part in wanted.parts)
    if left <= 0:
        raise UploadError("the upload holds no rows beside the other files", length, "Send the file again")
    paths = {}
    for part in wanted.parts:
        # the name is ours: only a known ending is taken from the request
        path = folder / f"{part.role}{part.ending}"
        _save(request.stream, path, left if part.size is None else part.size)
        paths[part.role] = str(path)
    return paths


def _save(stream: Any, path: Path, length: int) -> None:
    """Copy exactly `length` bytes of the body to `path`."""
    left = length
    with path.open("xb") as file:
        while left:
            chunk = stream.read(min(left, _CHUNK_BYTES))
            if not chunk:
                raise UploadError("the upload ended early", f"{left} bytes missing", "Send the file again")
            file.write(chunk)
            left -= len(chunk)
