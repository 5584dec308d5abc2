"""The command ``compare``: two tables, or every weight of two checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.gates import FailIf, Gate, close_gates, parse_gates
from spikepool.cli.output import checked_out, print_json, print_table, write_out
from spikepool.cli.spectrum_command import FILE_HELP, Tokenizer, Transpose, row_names

if TYPE_CHECKING:
    from spikepool.tables import TableComparison
    from spikepool.tables.checkpoints import WeightChange

# Values that --fail-if may ask about: of two tables, and of checkpoints.
TABLE_VALUES = ("change", "rotated_change", "overlap", "outliers_first", "outliers_second", "most_moved")
WEIGHT_VALUES = ("drift", "overlap", "angle", "outliers_first", "outliers_second")
WHOLE_VALUES = ("unmatched", "failed")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(compare)


def compare(
    first: Annotated[str, typer.Argument(help=FILE_HELP)],
    second: Annotated[str, typer.Argument(help="The table or checkpoint to compare it with.")],
    tensor: Annotated[list[str] | None, typer.Option("--tensor", help="Which tensor; twice if names differ.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every 2-D weight that both have, in one table.")] = False,
    transpose: Transpose = False,
    tokenizer: Tokenizer = None,
    fail_if: FailIf = None,
    out: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """Two tables: spectra, counts, leading spaces, and change by token where vocabularies match. Or two checkpoints.

    --fail-if knows: change, rotated_change, overlap (at the largest k), outliers_first, outliers_second, most_moved;
    with --all, of every weight: drift, overlap and angle (of the space shown), outliers_first, outliers_second; and of
    the whole: unmatched (weights that only one side has), failed.
    """
    from spikepool.errors import InvalidInputError
    from spikepool.tables import compare_tables, open_table

    out = checked_out(out, inputs=(first, second, tokenizer))
    if every:
        for flag, given in (("--tensor", tensor), ("--transpose", transpose), ("--tokenizer", tokenizer)):
            if given:
                raise InvalidInputError(f"{flag} does not go with --all", remedy="Drop one")
        _checkpoints(first, second, parse_gates(fail_if, (*WEIGHT_VALUES, *WHOLE_VALUES)), out, as_json)
        return
    gates = parse_gates(fail_if, TABLE_VALUES)
    tensors: list[str | None] = [*tensor] if tensor else [None]
    if len(tensors) > 2:
        raise InvalidInputError("--tensor may be given once, or once for each file", tensors, "Drop some")
    sources = [
        open_table(file, name, transpose=transpose)
        for file, name in zip((first, second), (tensors[0], tensors[-1]), strict=True)
    ]
    names = [row_names(file, source, tokenizer) for file, source in zip((first, second), sources, strict=True)]
    found = compare_tables(*sources, tokens=(names[0], names[1]))
    if as_json:
        print_json(found.to_dict())
    else:
        print(found.summary())
    write_out(out, f"{first} and {second}", found.plot, found._repr_html_, quiet=as_json)
    close_gates(gates, {f"{first} and {second}": _table_values(found)})


def _table_values(found: TableComparison) -> dict[str, Any]:
    last = found.overlaps[-1] if found.overlaps else None
    overlap = None if last is None else last.coordinates if last.coordinates is not None else last.tokens
    return {
        "change": found.change,
        "rotated_change": found.rotated_change,
        "overlap": overlap,
        "outliers_first": found.first.n_outliers_,
        "outliers_second": found.second.n_outliers_,
        "most_moved": None if found.changes is None else float(found.changes.max()),
    }


def _checkpoints(first: str, second: str, gates: list[Gate], out: Path | None, as_json: bool) -> None:
    """Every weight of both, in one table."""
    from spikepool.tables import compare_checkpoints
    from spikepool.tables.checkpoints import HEADER

    found = compare_checkpoints(first, second)
    if as_json:
        print_json(found.to_dict())
    else:
        print_table(f"{len(found.weights)} weights of {first} and {second}", HEADER, found.rows())
        print("\n".join(found.remarks()))
    write_out(out, f"{first} and {second}", found.plot, found._repr_html_, quiet=as_json)
    whole = {"unmatched": len(found.only_first) + len(found.only_second), "failed": len(found.failed)}
    each: dict[str, Any] = {weight.name: _weight_values(weight) for weight in found.weights}
    close_gates([gate for gate in gates if gate.name in WEIGHT_VALUES], each)
    close_gates([gate for gate in gates if gate.name in WHOLE_VALUES], {f"{first} and {second}": whole})


def _weight_values(weight: WeightChange) -> dict[str, Any]:
    return {
        "drift": weight.drift,
        "overlap": weight.overlap,
        "angle": None if weight.space is None else weight.space.largest_angle,
        "outliers_first": weight.outliers[0],
        "outliers_second": weight.outliers[1],
    }
