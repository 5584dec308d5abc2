"""Which requests the explorer answers: those of its page, on this machine.

* The ``Host`` header must name this machine, so that a web page elsewhere cannot reach the server through a name that
  resolves to 127.0.0.1 (DNS rebinding).
* A request that changes something must come from a page of this server (``Origin``, ``Sec-Fetch-Site``).
* A request that is too large is refused. Callbacks take values of any type; one that Dash itself cannot read, because
  the page would never send it, is answered 400.
"""

from __future__ import annotations

import logging
import re
from urllib.parse import urlsplit

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

CALLBACK_PATH = "/_dash-update-component"
# the largest request of the page is a pasted correlation matrix, about 16 kB
MAX_REQUEST_BYTES = 256 * 1024
# the whole header has to be a name and a port: "127.0.0.1:80@elsewhere" is neither
_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.ASCII)
_LOGGER = logging.getLogger(__name__)


def answer(status: int, message: str) -> Response:
    """A refusal with its reason, as JSON."""
    response: Response = jsonify({"error": message})
    response.status_code = status
    return response


def secure(server: Flask, script_hashes: list[str]) -> None:
    """Put the checks and headers on every request of `server`.

    Parameters
    ----------
    server : flask.Flask
        The server under the Dash app.
    script_hashes : list of str
        Hashes of the inline scripts that Dash itself puts on the page.
    """
    server.config["MAX_CONTENT_LENGTH"] = MAX_REQUEST_BYTES
    policy = "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' {' '.join(script_hashes)}",
            "style-src 'self' 'unsafe-inline'",  # plotly positions its labels with style attributes
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )

    @server.before_request
    def refuse() -> Response | None:
        return _check_host() or _check_origin() or _check_size()

    @server.after_request
    def harden(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["X-Frame-Options"] = "DENY"
        response.headers["Referrer-Policy"] = "same-origin"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Permissions-Policy"] = "camera=(), microphone=(), geolocation=()"
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    @server.errorhandler(Exception)
    def explain(error: Exception) -> Response:
        from dash.exceptions import DependencyException, InvalidCallbackReturnValue, PreventUpdate

        if isinstance(error, HTTPException):
            return answer(error.code or 500, error.name)
        if isinstance(error, PreventUpdate):
            return Response(status=204)
        if isinstance(error, DependencyException):
            return answer(404, "No such file.")
        _LOGGER.exception("a request failed", exc_info=error)
        if request.path == CALLBACK_PATH and not isinstance(error, InvalidCallbackReturnValue):
            return answer(400, "The server could not read this request as one of its page; its log says why.")
        return answer(500, "The request failed on the server; its log says why.")


def _check_host() -> Response | None:
    if not _HOST.fullmatch(request.headers.get("Host", "").lower()):
        return answer(403, "This server answers requests to localhost only.")
    return None


def _check_origin() -> Response | None:
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return None
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return answer(403, "Requests from other sites are refused.")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("Host", "").lower():
        return answer(403, "Requests from other sites are refused.")
    return None


def _check_size() -> Response | None:
    if (request.content_length or 0) > MAX_REQUEST_BYTES:
        return answer(413, "The request is too large.")
    return None
