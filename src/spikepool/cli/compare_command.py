"""The command ``compare``: two tables, or every weight of two checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.gates import COUNTS, Allow, Baseline, FailIf, Gates, close_gates, verdict_line
from spikepool.cli.output import checked_out, print_csv, print_json, print_table, write_out
from spikepool.cli.spectrum_command import FILE_HELP, Tokenizer, Transpose, row_names
from spikepool.kit.showing import number, one_line

if TYPE_CHECKING:
    from spikepool.tables import TableComparison
    from spikepool.tables.checkpoints import CheckpointComparison, WeightChange
    from spikepool.tables.delta import WeightDelta

# Values that --fail-if may ask about: of two tables, and of checkpoints.
TABLE_VALUES = ("change", "rotated_change", "overlap", "outliers_first", "outliers_second", "most_moved")
# Drift up to which a change may be the rounding of a 16-bit format (bfloat16 keeps 8 bits).
ROUNDING = 2.0**-8
WEIGHT_VALUES = ("drift", "norm_ratio", "overlap", "angle", "outliers_first", "outliers_second")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(compare)


def compare(
    first: Annotated[str, typer.Argument(help=FILE_HELP)],
    second: Annotated[str, typer.Argument(help="The table or checkpoint to compare it with.")],
    tensor: Annotated[list[str] | None, typer.Option("--tensor", help="Which tensor; twice if names differ.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every tensor that both have, in one table.")] = False,
    delta: Annotated[bool, typer.Option("--delta", help="Examine the difference: its kind and its spectrum.")] = False,
    transpose: Transpose = False,
    tokenizer: Tokenizer = None,
    fail_if: FailIf = None,
    allow: Allow = None,
    baseline: Baseline = None,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="With --all: comma-separated values.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Two tables: spectra, counts, leading spaces, and change by token where vocabularies match. Or two checkpoints.

    --fail-if knows: change, rotated_change, overlap (at the largest k), outliers_first, outliers_second, most_moved;
    with --all, of every tensor: drift, norm_ratio, overlap and angle (of the space shown), outliers_first,
    outliers_second; and numbers of tensors: failed, missing, skipped, unmatched (only one side has them), reshaped.
    Failed and missing tensors always end in exit code 3, the others if there is any condition; see --allow.
    """
    from spikepool.errors import InvalidInputError
    from spikepool.tables import compare_tables, open_table

    out = checked_out(out, overwrite, (first, second, tokenizer, None if baseline is None else str(baseline)))
    if as_csv and (as_json or not every):
        raise InvalidInputError("--csv goes with --all, without --json", remedy="Drop one, or add --all")
    if every:
        for flag, given in (("--tensor", tensor), ("--transpose", transpose), ("--tokenizer", tokenizer)):
            if given:
                raise InvalidInputError(f"{flag} does not go with --all", remedy="Drop one")
        gates = Gates.parse(fail_if, (*WEIGHT_VALUES, *COUNTS), allow, baseline)
        _checkpoints(first, second, gates, out, delta, as_json, as_csv)
        return
    gates = Gates.parse(fail_if, TABLE_VALUES, allow, baseline)
    tensors: list[str | None] = [*tensor] if tensor else [None]
    if len(tensors) > 2:
        raise InvalidInputError("--tensor may be given once, or once for each file", tensors, "Drop some")
    sources = [
        open_table(file, name, transpose=transpose)
        for file, name in zip((first, second), (tensors[0], tensors[-1]), strict=True)
    ]
    names = [row_names(file, source, tokenizer) for file, source in zip((first, second), sources, strict=True)]
    comparison = compare_tables(*sources, tokens=(names[0], names[1]))
    results = {f"{first} and {second}": _table_values(comparison)}
    changed = comparison.change_kind if delta else None
    fitted = comparison.delta if delta else None
    if as_json:
        extra = {} if changed is None else {"delta": changed.to_dict(), "delta_spectrum": fitted and fitted.to_dict()}
        print_json("compare", {**comparison.to_dict(), **extra, "gates": results})
    else:
        print(comparison.summary())
        if changed is not None:
            print(f"\nDifference: {changed.sentence}")
            print(_delta_numbers(changed))
            print("" if fitted is None else fitted.summary())
    write_out(out, f"{first} and {second}", comparison.plot, comparison._repr_html_, quiet=as_json)
    close_gates(gates.report(results))


def _delta_numbers(changed: WeightDelta) -> str:
    """The numbers behind the sentence about a difference."""
    text = (
        f"relative norm {number(changed.relative_norm, 3)}, stable rank {number(changed.stable_rank, 3)}, "
        f"effective rank {number(changed.effective_rank, 3)}"
    )
    if changed.overlap is not None:
        text += f", overlap of its {changed.rank} leading direction(s) with those of the first {changed.overlap:.2g}"
    return text


def _table_values(comparison: TableComparison) -> dict[str, Any]:
    last = comparison.overlaps[-1] if comparison.overlaps else None
    overlap = None if last is None else last.coordinates if last.coordinates is not None else last.tokens
    return {
        "change": comparison.change,
        "rotated_change": comparison.rotated_change,
        "overlap": overlap,
        "outliers_first": comparison.first.n_outliers_,
        "outliers_second": comparison.second.n_outliers_,
        "most_moved": None if comparison.changes is None else float(comparison.changes.max()),
    }


def _checkpoints(
    first: str, second: str, gates: Gates, out: Path | None, delta: bool, as_json: bool, as_csv: bool
) -> None:
    """Every tensor of both, in one table; with `delta` also the kind of each difference."""
    from spikepool.tables import compare_checkpoints
    from spikepool.tables.checkpoints import HEADER

    comparison = compare_checkpoints(first, second)
    results = {weight.name: _weight_values(weight) for weight in comparison.weights}
    kinds = _kinds(first, second) if delta else {}
    verdict = _verdict(comparison, delta)
    if as_json:
        described = {name: kind if isinstance(kind, str) else kind.to_dict() for name, kind in kinds.items()}
        print_json(
            "checkpoints",
            {**comparison.to_dict(), **({"deltas": described} if delta else {}), "verdict": verdict, "gates": results},
        )
    elif as_csv:
        rows = [
            [one_line(name), *values.values(), *([getattr(kinds.get(name), "kind", None)] if delta else [])]
            for name, values in results.items()
        ]
        print_csv(["tensor", *WEIGHT_VALUES, *(["kind"] if delta else [])], rows)
    else:
        print_table(f"{len(comparison.weights)} tensors of {first} and {second}", HEADER, comparison.rows())
        print("\n".join(comparison.notes))
        if delta:
            _print_kinds(kinds)
        print(verdict)
    write_out(out, f"{first} and {second}", comparison.plot, comparison._repr_html_, quiet=as_json or as_csv)
    close_gates(gates.report(results, comparison.counts))


def _kinds(first: str, second: str) -> dict[str, WeightDelta | str]:
    """What kind of change each matrix shows that both checkpoints hold in one shape, or why that cannot be said."""
    from spikepool.errors import SpikepoolError
    from spikepool.tables.checkpoints import matching_matrices
    from spikepool.tables.delta import examine

    deltas: dict[str, WeightDelta | str] = {}
    for name, a, b in matching_matrices(first, second):
        try:
            deltas[name] = examine(a, b)
        except SpikepoolError as err:
            deltas[name] = f"not examined: {err}"
    return deltas


def _print_kinds(kinds: dict[str, WeightDelta | str]) -> None:
    rows = [
        [one_line(name), "–", "", "", one_line(kind)]
        if isinstance(kind, str)
        else [one_line(name), kind.kind, number(kind.relative_norm, 3), str(kind.rank), kind.sentence]
        for name, kind in kinds.items()
    ]
    print_table("Differences", ["weight", "kind", "relative norm", "directions", ""], rows)


def _verdict(comparison: CheckpointComparison, delta: bool) -> str:
    """OK, look or broken, and what to do next."""
    counts = comparison.counts
    words = {"unmatched": "have no partner", "reshaped": "changed their shape", "skipped": "were skipped"}
    look = [f"{counts[kind]} tensor(s) {word}. Next: see them above." for kind, word in words.items() if counts[kind]]
    most = max(comparison.weights, key=lambda weight: weight.drift or 0.0, default=None)
    drift = 0.0 if most is None or most.drift is None else most.drift
    moved = sum(bool(weight.drift) for weight in comparison.weights)
    if most is not None and drift > ROUNDING:
        look.append(
            f"{moved} of {len(comparison.weights)} tensors changed, {most.name} most (drift {100 * drift:.3g} %). "
            f"Next: see the kind of each change {'above' if delta else 'with --delta'}; set a limit with --fail-if."
        )
    fine = "All tensors are equal." if drift == 0 else f"The largest drift is {100 * drift:.3g} %, as after rounding."
    return verdict_line(counts, look, f"{fine} Next: nothing to do.")


def _weight_values(weight: WeightChange) -> dict[str, Any]:
    return {
        "drift": weight.drift,
        "norm_ratio": weight.norm_ratio,
        "overlap": weight.overlap,
        "angle": None if weight.space is None else weight.space.largest_angle,
        "outliers_first": weight.outliers[0],
        "outliers_second": weight.outliers[1],
    }
