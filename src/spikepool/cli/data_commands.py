"""Commands about the user's own data, and the explorer: spectrum, explore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spikepool.cli import options as opt
from spikepool.cli.output import print_json


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(spectrum)
    app.command()(explore)


def spectrum(
    file: Annotated[Path, typer.Argument(help="Embedding table: safetensors, npy, npz, parquet, arrow, GGUF")],
    tensor: Annotated[str | None, typer.Option("--tensor", help="Which tensor of the file.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Picture to write (.png, .svg or .pdf).")] = None,
    as_json: opt.Json = False,
) -> None:
    """Spectrum of an embedding table: bulk, edge, outliers, and whether the fit deserves belief."""
    from spikepool.errors import InvalidInputError

    extension = out.suffix.lstrip(".").lower() if out is not None else None
    if extension is not None and extension not in ("png", "svg", "pdf"):
        raise InvalidInputError("--out must end in .png, .svg or .pdf", str(out), "Choose one of these")
    from spikepool.tables import TableSpectrum

    fitted = TableSpectrum.from_file(file, tensor=tensor)
    if as_json:
        print_json(fitted.to_dict())
    else:
        print(fitted.summary())
    if out is not None and extension is not None:
        from spikepool.drawing.plotting import save_figure

        written = save_figure(fitted.plot(), out.with_suffix(""), (extension,))
        if not as_json:
            print(f"Picture: {written[0]}")


def explore(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on.", min=0, max=65535)] = 8050,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    token: Annotated[str | None, typer.Option("--token", help="Access token; made up when not given.")] = None,
) -> None:
    """Serve the interactive explorer."""
    from spikepool.explorer import serve

    serve(host=host, port=port, open_browser=browser, token=token)
