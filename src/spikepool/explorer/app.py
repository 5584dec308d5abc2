"""The application and its server."""

from __future__ import annotations

import logging
import secrets
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from spikepool.errors import InvalidInputError, require
from spikepool.explorer.security import Settings, is_loopback

_INDEX = """<!DOCTYPE html>
<html lang="en">
  <head>
    {%metas%}
    <title>{%title%}</title>
    {%favicon%}
    {%css%}
  </head>
  <body>
    <noscript>The explorer needs JavaScript. The command spikepool predict prints the same numbers.</noscript>
    {%app_entry%}
    <footer>{%config%}{%scripts%}{%renderer%}</footer>
  </body>
</html>"""


def create_app(settings: Settings | None = None) -> Any:
    """The explorer as a :class:`dash.Dash` application.

    ``app.server`` is its Flask server; ``app.server.extensions["spikepool"].close()`` ends its workers.

    Parameters
    ----------
    settings : Settings, optional
        Limits; loopback without a token by default.
    """
    dash = require("dash", "explore")
    from spikepool.explorer import callbacks, content, routes
    from spikepool.explorer.layout import page
    from spikepool.explorer.security import secure
    from spikepool.explorer.services import Services

    settings = settings or Settings()
    app = dash.Dash(
        "spikepool.explorer",
        title="spikepool explorer",
        update_title=None,
        assets_folder=str(Path(__file__).parent / "assets"),
        serve_locally=True,
        include_pages_meta=False,
        enable_mcp=False,
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "color-scheme", "content": "light dark"},
        ],
        index_string=_INDEX,
        routes_pathname_prefix=settings.base_path,
        requests_pathname_prefix=settings.base_path,
        add_log_handler=False,
    )
    services = Services.start(settings)
    app.layout = page(settings, content.content_page())
    callbacks.register(app, services)
    content.register(app)
    routes.register(app.server, services)
    secure(app.server, settings, list(app.csp_hashes()))
    app.server.extensions["spikepool"] = services
    return app


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8050,
    open_browser: bool = True,
    token: str | None = None,
    settings: Settings | None = None,
) -> None:
    """Run the explorer until interrupted.

    Parameters
    ----------
    host : str
        Address to bind to. Anything but loopback can be reached by other machines: a warning is printed and a token
        is required; one is made when none is given.
    port : int
        Port to listen on; 0 picks a free one.
    open_browser : bool
        Open the page in the default browser.
    token : str, optional
        Secret that every request must carry.
    settings : Settings, optional
        Limits; `host` and `token` above take the place of its own.
    """
    from spikepool.explorer.security import MAX_REQUEST_BYTES, refuse_slow_requests

    waitress = require("waitress", "explore")
    if type(port) is not int or not 0 <= port <= 65535:
        raise InvalidInputError("port must be an integer from 0 to 65535", port, "Pass a free port such as 8050")
    base = settings or Settings()
    token = token if token is not None else base.token
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    settings = replace(base, host=host, token=token)
    app = create_app(settings)
    services = app.server.extensions["spikepool"]
    services.jobs.warm()
    # a queue of a few requests is ordinary under load, not worth a line each
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    try:
        server = waitress.create_server(
            app.server,
            host=host,
            port=port,
            threads=settings.threads,
            max_request_body_size=MAX_REQUEST_BYTES,
            channel_timeout=30,
            connection_limit=500,
            asyncore_use_poll=True,
            ident="spikepool",
        )
        refuse_slow_requests(server)
        _announce(settings, server.effective_port if hasattr(server, "effective_port") else port, open_browser)
        with _termination_as_interrupt():
            server.run()
    except KeyboardInterrupt:
        pass
    finally:
        services.close()


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the server as Ctrl-C does, so that its workers go with it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _announce(settings: Settings, port: int, open_browser: bool) -> None:
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    shown = "localhost" if settings.host in ("0.0.0.0", "::") else name
    secret = f"?token={settings.token}" if settings.token else ""
    address = f"http://{shown}:{port}{settings.base_path}{secret}"
    if not settings.is_loopback:
        print(
            f"warning: the explorer listens on {settings.host}, where other machines can reach it, without encryption. "
            "Only requests with the token below are answered.",
            file=sys.stderr,
        )
    print(f"spikepool explorer: {address}  (stop with Ctrl-C)", flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
