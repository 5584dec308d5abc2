"""The command ``forecast-curve``: measured points of a learning curve, continued."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.output import checked_out, print_json, write_out

if TYPE_CHECKING:
    from spikepool.forecasting.result import Forecast

LARGEST_CURVE = 2**26  # bytes of a file of measured points


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("forecast-curve")(forecast_curve)


def forecast_curve(
    curve: Annotated[Path, typer.Argument(help="CSV: sizes in the first column, one or more scores in the others.")],
    at: Annotated[
        str | None,
        typer.Option("--at", help="Sizes to forecast, such as 1000,2000.", show_default="1, 2, 4, 8 times the largest"),
    ] = None,
    target: Annotated[float | None, typer.Option("--target", help="Score to plan for.")] = None,
    loss: Annotated[bool, typer.Option("--loss", help="Lower scores are better; no upper bound.")] = False,
    bounds: Annotated[
        str | None, typer.Option("--bounds", help="Smallest and largest score, such as 0,1; 'none' for neither.")
    ] = None,
    estimator: Annotated[
        str,
        typer.Option("--estimator", help="Name of the model; that of a scikit-learn class selects the prior."),
    ] = "the model",
    rounds: Annotated[int | None, typer.Option("--rounds", help="Plan so many rounds of labelling.")] = None,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Forecast a learning curve from measured points, and the rows for a target."""
    import warnings

    from spikepool.forecasting.curve_points import forecast_curve as ask

    out = checked_out(out, overwrite, [str(curve)])
    sizes, scores, name = _read(curve)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are printed with the forecast
        result = ask(
            sizes,
            scores,
            at=None if at is None else [int(value) for value in opt.parse_numbers(at, "--at")],
            target=target,
            higher_is_better=not loss,
            bounds=_bounds(bounds),
            estimator=estimator,
            score_name=name,
        )
    plan = None if rounds is None else result.rounds(rounds=rounds)
    if as_json:
        print_json("forecast-curve", {**result.to_dict(), **({} if plan is None else {"rounds": plan.to_dict()})})
    else:
        print(result.summary())
        if plan is not None:
            print(plan.summary())
    write_out(out, f"Learning curve of {curve}", lambda: _figure(result), result._repr_html_, quiet=as_json)


def _figure(result: Forecast) -> Any:
    from spikepool.drawing.plotting import new_figure

    figure, axes = new_figure(1, 1, width=6.4, height=4.0)
    result.plot(axes[0, 0])
    return figure


def _bounds(text: str | None) -> tuple[float | None, float | None] | None:
    from spikepool.errors import InvalidInputError

    if text is None:
        return None
    parts = [part.strip().lower() for part in text.split(",")]
    try:
        low, high = (None if part in ("none", "") else float(part) for part in parts)
    except ValueError:
        raise InvalidInputError("--bounds must be two numbers", text, "Such as 0,1 or 0,none") from None
    return low, high


def _read(path: Path) -> tuple[list[float], list[list[float]], str]:
    """Sizes, scores (NaN where a cell is empty) and the name of the score from a CSV, with or without a header."""
    from spikepool.errors import InvalidInputError
    from spikepool.kit.files import read_file

    try:
        lines = read_file(path, LARGEST_CURVE).decode("utf-8-sig").splitlines()
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error) as err:
        raise InvalidInputError(f"cannot read {path}", str(err), "Pass a CSV with sizes and scores") from err
    name = "score"
    if rows and not _is_number(rows[0][0]):
        header = rows.pop(0)
        name = header[1] if len(header) == 2 and header[1] else name
    sizes, scores = [], []
    for number, row in enumerate(rows, 1):
        cells = [*row, ""]
        if not _is_number(cells[0]) or not all(cell == "" or _is_number(cell) for cell in cells[1:]):
            raise InvalidInputError(f"row {number} of {path.name} is not numbers", row, "Pass sizes and scores")
        sizes.append(float(cells[0]))
        scores.append([float(cell) if cell else float("nan") for cell in row[1:]])
    width = max((len(row) for row in scores), default=0)
    if width == 0:
        raise InvalidInputError(f"{path.name} has no scores", str(path), "Pass sizes and one or more columns of scores")
    return sizes, [row + [float("nan")] * (width - len(row)) for row in scores], name


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
