"""The application and its server, on loopback."""

from __future__ import annotations

import signal
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spikepool.errors import InvalidInputError, require
from spikepool.explorer.worker import Limits

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


def create_app(limits: Limits | None = None) -> Any:
    """The explorer as a :class:`dash.Dash` application.

    ``app.server`` is its Flask server; ``app.server.extensions["spikepool"].close()`` stops a running simulation.

    Parameters
    ----------
    limits : Limits, optional
        What one simulation may take.
    """
    dash = require("dash", "explore")
    from spikepool.explorer import callbacks, content, routes
    from spikepool.explorer.layout import page
    from spikepool.explorer.security import secure
    from spikepool.explorer.worker import Worker

    limits = limits or Limits()
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
        add_log_handler=False,
    )
    worker = Worker(limits.seconds)
    app.layout = page(limits, content.content_page())
    callbacks.register(app, worker, limits)
    content.register(app)
    routes.register(app.server, worker)
    secure(app.server, list(app.csp_hashes()))
    app.server.extensions["spikepool"] = worker
    return app


def serve(*, port: int = 8050, open_browser: bool = True, limits: Limits | None = None) -> None:
    """Run the explorer on this machine until interrupted.

    Parameters
    ----------
    port : int
        Port to listen on; 0 picks a free one.
    open_browser : bool
        Open the page in the default browser.
    limits : Limits, optional
        What one simulation may take.
    """
    waitress = require("waitress", "explore")
    if type(port) is not int or not 0 <= port <= 65535:
        raise InvalidInputError("port must be an integer from 0 to 65535", port, "Pass a free port such as 8050")
    app = create_app(limits)
    try:
        server = waitress.create_server(app.server, host="127.0.0.1", port=port, threads=8, ident="spikepool")
        address = f"http://127.0.0.1:{server.effective_port}/"
        print(f"spikepool explorer: {address}  (stop with Ctrl-C)", flush=True)
        if open_browser:
            threading.Timer(0.5, webbrowser.open, (address,)).start()
        with _termination_as_interrupt():
            server.run()
    except KeyboardInterrupt:
        pass
    finally:
        app.server.extensions["spikepool"].close()


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the server as Ctrl-C does, so that its worker goes with it."""
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
