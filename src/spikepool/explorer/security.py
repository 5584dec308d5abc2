"""Who may talk to the server, and what a request may look like.

* On loopback the ``Host`` header must name this machine, so that a web page elsewhere cannot reach the server through
  a name that resolves to 127.0.0.1 (DNS rebinding).
* Elsewhere every request, callbacks included, must carry the token: as a cookie, or once as ``?token=``, which sets
  the cookie and redirects to the address without it.
* A request that changes something must come from a page of this server.
* A request that is too large, or takes too long to arrive, is refused. Callbacks take values of any type; one that Dash
  itself cannot read, because the page would never send it, is answered 400.

What an explorer server allows: addresses, sizes, counts and times.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
import time
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from flask import Flask, Response, jsonify, redirect, request
from werkzeug.exceptions import HTTPException

from spikepool.errors import DomainError, InvalidInputError, require

MINIMUM_TOKEN_LENGTH = 12
_BASE_PATH = re.compile(r"/(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*")
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?", re.ASCII)


def is_loopback(host: str) -> bool:
    """Whether `host` is an address that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Settings:
    """Limits of one server. The defaults suit a laptop or a small shared machine.

    Attributes
    ----------
    host : str
        Address the server binds to; anything but loopback needs a `token`.
    base_path : str
        Path below which the page is served, such as ``"/spikepool/"`` behind a proxy.
    allowed_hosts : tuple of str
        Names beside those of this machine by which the server may be asked, such as that of a proxy. On other
        addresses than loopback any name is answered if none is given.
    token : str or None
        Secret that every request must carry (as ``?token=`` once, then as a cookie).
    threads : int
        Request threads of the web server.
    max_running, max_waiting : int
        Worker processes at one time, and requests that may wait for one.
    max_trials : int
        Independent draws of one simulation.
    max_simulation_cells : int
        Largest ``d (V + N)`` of a simulation: the numbers held in memory for one draw.
    job_seconds : float
        A worker that runs longer is killed.
    job_memory_bytes : int
        Address space of a worker, where the system can limit it.
    idle_seconds : float
        A worker whose page has not asked for progress this long is killed: the page is gone.
    kept_results : int
        Finished results kept for pages and exports.
    """

    host: str = "127.0.0.1"
    base_path: str = "/"
    allowed_hosts: tuple[str, ...] = ()
    token: str | None = None
    threads: int = 8
    max_running: int = 4
    max_waiting: int = 8
    max_trials: int = 50
    max_simulation_cells: int = 20_000_000
    job_seconds: float = 300.0
    job_memory_bytes: int = 6 * 2**30
    idle_seconds: float = 60.0
    kept_results: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not (value > 0 and value < float("inf")):
                raise DomainError(f"{field.name} must be above 0 and finite", value, "Pass a positive limit")
        if not _BASE_PATH.fullmatch(self.base_path):
            raise InvalidInputError(
                "the base path must start and end with '/', with letters, digits, '.', '-' and '_' between",
                self.base_path,
                "Pass a path such as /spikepool/",
            )
        for name in self.allowed_hosts:
            if not _HOST.fullmatch(name.lower()) or name.endswith("."):
                raise InvalidInputError("an allowed host must be a name without a port", name, "Pass one such as a.org")
        if self.token is not None and len(self.token) < MINIMUM_TOKEN_LENGTH:
            raise InvalidInputError(
                f"the token must have at least {MINIMUM_TOKEN_LENGTH} characters",
                f"{len(self.token)} characters",
                "Leave it out to have one made",
            )
        if self.token is not None and not (
            self.token.isascii() and self.token.replace("-", "").replace("_", "").isalnum()
        ):
            raise InvalidInputError(
                "the token may contain letters, digits, '-' and '_' only", remedy="Leave it out to have one made"
            )
        if not self.is_loopback and self.token is None:
            raise InvalidInputError("a server that other machines can reach needs a token", self.host, "Pass token=...")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach `host`."""
        return is_loopback(self.host)


COOKIE = "spikepool_token"
CALLBACK_PATH = "/_dash-update-component"
MAX_REQUEST_BYTES = 256 * 1024
# Seconds for a request to arrive, from its first byte; a browser sends all of it at once.
REQUEST_SECONDS = 20.0
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_LOGGER = logging.getLogger(__name__)


def _answer(status: int, message: str) -> Response:
    response = jsonify({"error": message})
    response.status_code = status
    return response


def secure(server: Flask, settings: Settings, script_hashes: list[str]) -> None:
    """Put the checks and headers on every request of `server`.

    Parameters
    ----------
    server : flask.Flask
        The server under the Dash app.
    settings : Settings
        Address and token.
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
        return _check_host(settings) or _check_token(settings) or _check_origin() or _check_size()

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
    def explain(error: Exception) -> Response | HTTPException:
        from dash.exceptions import DependencyException, InvalidCallbackReturnValue, PreventUpdate

        if isinstance(error, HTTPException):
            return _answer(error.code or 500, error.name)
        if isinstance(error, PreventUpdate):
            return Response(status=204)
        if isinstance(error, DependencyException):
            return _answer(404, "No such file.")
        _LOGGER.exception("a request failed", exc_info=error)
        if request.path.endswith(CALLBACK_PATH) and not isinstance(error, InvalidCallbackReturnValue):
            return _answer(400, "The server could not read this request as one of its page; its log says why.")
        return _answer(500, "The request failed on the server; its log says why.")


def _check_host(settings: Settings) -> Response | None:
    allowed = [name.lower() for name in settings.allowed_hosts]
    if not settings.is_loopback and not allowed:
        return None
    # the whole header has to be a name and a port: "127.0.0.1:80@elsewhere" is neither
    host = _HOST.fullmatch(request.headers.get("Host", "").lower())
    bound = f"[{settings.host}]" if ":" in settings.host.strip("[]") and "[" not in settings.host else settings.host
    if host is None or host["name"] not in (*LOOPBACK_NAMES, bound.lower(), *allowed):
        return _answer(403, "This server does not answer to this name; --allowed-host adds one.")
    return None


def _matches(given: str | None, token: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def _check_token(settings: Settings) -> Response | None:
    token = settings.token
    if token is None or _matches(request.cookies.get(COOKIE), token):
        return None
    if request.method == "GET" and _matches(request.args.get("token"), token):
        pairs = [(k, v) for k, v in parse_qsl(request.query_string.decode("latin-1"), True) if k != "token"]
        # the path only, never a host taken from the request, so the redirect cannot lead elsewhere
        path = "/" + quote(request.path.lstrip("/\\"))
        answer: Any = redirect(path + (f"?{urlencode(pairs, safe=',;')}" if pairs else ""), code=303)
        answer.set_cookie(
            COOKIE, token, httponly=True, samesite="Lax", secure=request.is_secure, path=settings.base_path
        )
        result: Response = answer
        return result
    return _answer(401, "This server needs the token that was printed when it started: add ?token=... to the address.")


def _check_origin() -> Response | None:
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return None
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return _answer(403, "Requests from other sites are refused.")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("Host", "").lower():
        return _answer(403, "Requests from other sites are refused.")
    return None


def _check_size() -> Response | None:
    if (request.content_length or 0) > MAX_REQUEST_BYTES:
        return _answer(413, "The request is too large.")
    return None


def refuse_slow_requests(server: Any) -> None:
    """Let a waitress server close connections whose request does not arrive within :data:`REQUEST_SECONDS`.

    Its own timeout counts from the last byte: connections that send one now and then would be kept for good.
    """
    channel = require("waitress.channel", "explore")

    class Channel(channel.HTTPChannel):  # type: ignore[misc,name-defined]
        begun = 0.0

        def received(self, data: bytes) -> bool:
            now = time.monotonic()
            if self.request is None:
                self.begun = now
            elif now - self.begun > REQUEST_SECONDS:
                self.will_close = True
                return False
            return bool(super().received(data))

    # one socket, or one for each address that the host name has
    for listener in [server, *getattr(server, "map", {}).values()]:
        if hasattr(listener, "channel_class"):
            listener.channel_class = Channel
