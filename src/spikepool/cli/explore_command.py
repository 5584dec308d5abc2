"""The command that serves the explorer."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(explore)


def explore(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on.", min=0, max=65535)] = 8050,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    token: Annotated[str | None, typer.Option("--token", help="Access token; made up when not given.")] = None,
) -> None:
    """Serve the interactive explorer."""
    from spikepool.explorer import serve

    serve(host=host, port=port, open_browser=browser, token=token)
