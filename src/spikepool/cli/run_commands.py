"""Commands that run for a while: sweep, reproduce and explore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.output import checked_out, print_json, print_table, write_out
from spikepool.kit.pages import html_table
from spikepool.kit.text import number

Scheduler = Annotated[
    str | None, typer.Option("--scheduler", help="Address of a Dask scheduler, such as tcp://127.0.0.1:8786.")
]

SWEEP_TITLE = "Alignment of the top eigenvector with the signal"


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(sweep)
    app.command()(reproduce)
    app.command()(explore)


def sweep(
    spec: Annotated[Path, typer.Argument(help=r"TOML file: \[model], \[weights], \[sweep], trials, seed.")],
    store: Annotated[str | None, typer.Option("--store", help="Zarr folder; a rerun resumes.")] = None,
    scheduler: Scheduler = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Local processes; 0 for none.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Compute failed cells again.")] = False,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Run the sweep a TOML file describes; with a store, a rerun resumes where it stopped."""
    from spikepool.errors import require

    require("xarray", "sweeps")
    from spikepool.sweeps import load_spec, run

    out = checked_out(out, overwrite, [str(spec), store])
    dataset = run(load_spec(spec), store=store, scheduler=scheduler, workers=workers, retry_failed=retry_failed)
    if as_json:
        print_json("sweep", dataset.to_dict(data="list"))
    else:
        print_table(SWEEP_TITLE, *_cells(dataset))
        if store is not None:
            print(f"Stored in {store}")
    write_out(
        out,
        f"Sweep of {spec}",
        lambda: _sweep_figure(dataset),
        lambda: html_table(*_cells(dataset), title=SWEEP_TITLE),
        overwrite=overwrite,
        quiet=as_json,
    )


def _sweep_figure(dataset: Any) -> Any:
    from spikepool.drawing.sweeps import draw_sweep

    return draw_sweep(dataset)


def _cells(dataset: Any) -> tuple[list[str], list[list[str]]]:
    """Header and one row a combination: simulated alignment with its standard error, and the prediction."""
    import numpy as np

    predicted = dataset["predicted_alignment"]
    simulated = "alignment_mean" in dataset
    rows = []
    for index in np.ndindex(*predicted.shape):
        cell = dict(zip(predicted.dims, index, strict=True))
        labels = [dataset[name].values[position] for name, position in cell.items()]
        row = [number(float(x)) if isinstance(x, (int, float, np.number)) else str(x) for x in labels]
        if simulated:
            mean, error = (float(dataset[f"alignment_{part}"].isel(cell)) for part in ("mean", "se"))
            row.append(f"{mean:.4f} ± {error:.4f}")
        rows.append([*row, f"{float(predicted.isel(cell)):.4f}"])
    return [*map(str, predicted.dims), *(["simulated"] if simulated else []), "predicted"], rows


def reproduce(
    figures: Annotated[
        list[str] | None, typer.Argument(help="Numbers or names of figures (see --list); all when none is given.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Beyond the paper's sizes, with more trials.")] = False,
    scheduler: Scheduler = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of the report and data sets.")] = Path("reports"),
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = 0,
    table: Annotated[Path | None, typer.Option("--table", help="Embedding-table file for figure 7.")] = None,
    list_figures: Annotated[bool, typer.Option("--list", help="List the figures and exit.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail (exit 1) when a verdict disagrees.")] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Local processes; one per core, or one with --full or --scheduler."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compute and draw the figures, and write one self-contained HTML report with a verdict on each."""
    from spikepool.errors import require

    for module in ("xarray", "matplotlib", "jinja2"):
        require(module, "reproduce")
    from joblib import cpu_count

    from spikepool.reproduce import FIGURES, Settings, select
    from spikepool.reproduce.report import make_report

    if list_figures:
        rows = [[str(spec.number), spec.name, spec.title] for spec in FIGURES.values()]
        if as_json:
            listed = [{"number": s.number, "name": s.name, "title": s.title} for s in FIGURES.values()]
            print_json("figures", {"figures": listed})
        else:
            print_table("Figures", ["number", "name", "title"], rows)
        return
    chosen = select(figures)
    settings = Settings(full=full, seed=seed, scheduler=scheduler, store=out / "stores", table=table)
    if workers is None:
        workers = 1 if full or scheduler else min(len(chosen), cpu_count())
    report = make_report(chosen, settings, out, overwrite=overwrite, n_jobs=workers)
    if as_json:
        print_json("reproduce", report.summary())
    else:
        rows = [
            [
                f"{e.spec.number}  {e.spec.title}",
                e.verdict,
                number(e.worst_sigmas, 3),
                "–" if e.worst_share is None else f"{100 * e.worst_share:.0f} %",
                f"{e.seconds:.1f} s",
            ]
            for e in report.entries
        ]
        print_table("Verdicts", ["figure", "verdict", "worst SE", "worst, of allowed", "time"], rows)
        print(f"Report: {report.path}")
    failed = [e for e in report.entries if e.error and not e.skipped]
    disagreeing = [e for e in report.entries if not e.agrees]
    if failed or (strict and disagreeing):
        raise typer.Exit(1)


def explore(
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 picks one.", min=0, max=65535)] = 8050,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Serve the interactive explorer to this machine."""
    from spikepool.explorer import serve

    serve(port=port, open_browser=browser)
