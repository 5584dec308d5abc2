"""The command ``spectrum``: an embedding table, another weight, or every weight of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.gates import COUNTS, Allow, Baseline, FailIf, Gates, close_gates, verdict_line
from spikepool.cli.output import checked_out, print_csv, print_json, print_table, write_out
from spikepool.kit.showing import html_table, html_text, number, one_line

if TYPE_CHECKING:
    from spikepool.tables import TableSpectrum
    from spikepool.tables.every_weight import EveryWeight

FILE_HELP = "Safetensors, npy, npz, parquet, arrow or GGUF file, a folder with a model, or a hub id."
Transpose = Annotated[bool, typer.Option("--transpose", help="Exchange rows and columns: rows must be tokens.")]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="Names of the rows: tokenizer.json, vocab.json or vocab.txt, or 'none'.",
        show_default="found beside the model",
    ),
]
# Values that --fail-if may ask about.
MEASURES = ("frobenius", "spectral", "stable_rank", "effective_rank", "condition", "alpha")
SPECTRUM_VALUES = (
    *("outliers", "outlier_share", "edge", "largest", "rank", *MEASURES),
    *("trusted", "stable", "p_value", "heldout_error", "row_share"),
)
HELD_OUT_VALUES = ("trusted", "p_value", "heldout_error")
# Columns of the table of every weight; --csv and --json have all values.
SHOWN = {
    "outliers": "outliers",
    "outlier_share": "share",
    **{name: name.replace("_", " ") for name in MEASURES},
    "trusted": "trusted",
    "stable": "stable",
}


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(spectrum)


def spectrum(
    file: Annotated[str, typer.Argument(help=FILE_HELP)],
    tensor: Annotated[str | None, typer.Option("--tensor", help="Which tensor of the file.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the tensors of the file and exit.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every 2-D weight of the file, in one table.")] = False,
    held_out: Annotated[bool, typer.Option("--held-out", help="With --all: test each bulk on held-out rows.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="With --all: counts and norms only.")] = False,
    transpose: Transpose = False,
    tokenizer: Tokenizer = None,
    fail_if: FailIf = None,
    allow: Allow = None,
    baseline: Baseline = None,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the table as comma-separated values.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Spectrum of an embedding table or another weight: bulk, edge, outliers, and whether the fit can be relied on.

    With --all the bulks are tested on held-out rows only if --held-out or a condition asks for it.
    The factors of a LoRA adapter are judged as weights of their own.

    --fail-if knows: outliers, outlier_share, edge, largest, rank, frobenius, spectral, stable_rank, effective_rank,
    condition, alpha, trusted, stable, p_value, heldout_error, row_share; with --all also failed, missing, skipped,
    unmeasured (numbers of tensors). Failed and missing tensors always end in exit code 3. With --baseline, NAME_change
    is the distance from an earlier run: relative for edge, largest and the norms, else a difference.
    """
    from spikepool.errors import InvalidInputError

    gates = Gates.parse(fail_if, (*SPECTRUM_VALUES, *(COUNTS if every else ())), allow, baseline)
    out = checked_out(out, overwrite, (file, tokenizer, None if baseline is None else str(baseline)))
    for flag, given in (("--tensor", tensor is not None), ("--transpose", transpose), ("--out", out is not None)):
        if given and (list_only or (every and flag != "--out")):
            raise InvalidInputError(f"{flag} does not go with {'--list' if list_only else '--all'}", remedy="Drop one")
    if list_only and (fail_if or allow or baseline is not None):
        raise InvalidInputError("--list evaluates no condition", remedy="Drop --fail-if, --allow and --baseline")
    if as_csv and (as_json or list_only):
        raise InvalidInputError(f"--csv does not go with {'--json' if as_json else '--list'}", remedy="Drop one")
    for flag, given in (("--fast", fast), ("--held-out", held_out)):
        if given and (not every or (fast and held_out)):
            raise InvalidInputError(f"{flag} goes with --all alone", remedy="Drop it, or add --all")
    held_out = held_out or any(gate.name.removesuffix("_change") in HELD_OUT_VALUES for gate in gates.conditions)
    if list_only:
        _list(file, as_json)
        return
    if every:
        from spikepool.tables.every_weight import every_weight

        _all_weights(file, every_weight(file, held_out=held_out, fast=fast), gates, out, as_json, as_csv)
        return
    from spikepool.tables.every_weight import weight_values

    fitted = _fit(file, tensor, transpose, tokenizer)
    results = {fitted.name_: weight_values(fitted)}
    if as_json:
        print_json("spectrum", {**fitted.to_dict(), "gates": results})
    elif as_csv:
        _csv({fitted.name_: fitted}, results)
    else:
        print(fitted.summary())
        print(_table_verdict(fitted))
    V, d = fitted.shape_
    write_out(
        out,
        f"Spectrum of {fitted.name_} ({V} x {d})",
        fitted.plot,
        lambda: fitted._html_repr() + html_text(fitted.summary()),
        quiet=as_json or as_csv,
    )
    close_gates(gates.report(results))


def _csv(fits: dict[str, TableSpectrum], results: dict[str, dict[str, Any]]) -> None:
    """A line for each weight with all its values."""
    rows = [[one_line(name), *fits[name].shape_, *values.values()] for name, values in results.items()]
    print_csv(["weight", "rows", "columns", *SPECTRUM_VALUES], rows)


def _fit(file: str, tensor: str | None, transpose: bool, tokenizer: str | None, **parameters: Any) -> TableSpectrum:
    from spikepool.tables import TableSpectrum, open_table

    source = open_table(file, tensor, transpose=transpose)
    names = row_names(file, source, tokenizer)
    return TableSpectrum(tokenizer=names, **parameters).fit(source)


def row_names(file: str, source: Any, tokenizer: str | None) -> list[str] | None:
    """Names of the rows: those asked for, those beside a model, or none."""
    from spikepool.data.names import names_an_embedding
    from spikepool.data.table_input import padded, read_tokens, tokens_beside
    from spikepool.errors import ShapeError

    V = source.shape[0]
    if tokenizer == "none":
        return None
    if tokenizer is None:
        return tokens_beside(file, V) if names_an_embedding(source.name) else None
    names = read_tokens(tokenizer)
    if len(names) > V:
        raise ShapeError(f"the tokenizer names {len(names)} tokens, the table has {V} rows", remedy="Pass its own")
    return padded(names, V)


def _list(file: str, as_json: bool) -> None:
    from spikepool.data.names import names_an_embedding
    from spikepool.data.table_input import list_tensors

    tensors = list_tensors(file)
    if as_json:
        listed = [{"name": t.name, "shape": t.shape, "dtype": t.dtype, "matrix": t.is_matrix} for t in tensors]
        print_json("tensors", {"tensors": listed})
        return
    rows = [
        [
            tensor.name,
            " x ".join(map(str, tensor.shape)) or "scalar",
            tensor.dtype,
            "embedding" if tensor.is_matrix and names_an_embedding(tensor.name) else "",
        ]
        for tensor in tensors
    ]
    print_table(f"{len(tensors)} tensors in {file}", ["tensor", "shape", "type", ""], rows)


def _all_weights(file: str, weights: EveryWeight, gates: Gates, out: Path | None, as_json: bool, as_csv: bool) -> None:
    """Every matrix of the file, each with its longer side as rows; simulated nulls are left out."""
    from spikepool.tables.every_weight import weight_values

    fits = {name: weights.fits[name] for name in weights.ordered()}
    results = {name: weight_values(fit) for name, fit in fits.items()}
    shown = [key for key in SHOWN if any(values[key] is not None for values in results.values())]
    header = ["weight", "shape", *(SHOWN[key] for key in shown)]
    rows = [
        [one_line(name), " x ".join(map(str, fits[name].shape_)), *(_cell(key, values[key]) for key in shown)]
        for name, values in results.items()
    ]
    verdict = verdict_line(weights.counts, weights.look(), weights.fine())
    text = "\n".join([*map(one_line, weights.notes), verdict])
    if as_json:
        records = [
            {"name": name, "shape": fits[name].shape_, **values, "counts": fits[name].counts_}
            for name, values in results.items()
        ]
        reasons = {kind: getattr(weights, kind) for kind in weights.counts}
        answer = {"weights": records, **reasons, "notes": weights.about, "counts": weights.counts, "verdict": verdict}
        print_json("weights", {**answer, "gates": results})
    elif as_csv:
        _csv(fits, results)
    else:
        print_table(f"{len(fits)} weights of {file}, the longer side as rows; first what stands out", header, rows)
        print(text)

    def picture() -> Any:
        from spikepool.drawing.tables import draw_shares

        return draw_shares({name: (values["outliers"], values["outlier_share"]) for name, values in results.items()})

    write_out(
        out,
        f"Weights of {file}",
        picture,
        lambda: html_table(header, rows) + html_text(text),
        quiet=as_json or as_csv,
    )
    close_gates(gates.report(results, weights.counts))


def _cell(key: str, value: Any) -> str:
    return f"{100 * value:.2g} %" if key == "outlier_share" else number(value, 3 if isinstance(value, float) else 4)


def _table_verdict(fit: TableSpectrum) -> str:
    """The verdict on one table: whether its count can be used, and what to do next."""
    count = "No outlier was found" if not fit.n_outliers_ else f"{fit.n_outliers_} outlier(s) were found"
    reasons = [
        reason
        for reason, holds in (
            ("the bulk does not predict held-out rows", fit.trusted_),
            ("the halves of the rows disagree about the count", fit.stable_),
        )
        if holds is False
    ]
    look = [
        f"{count}, but {' and '.join(reasons)}. Next: do not read the count as a number of signals; "
        "compare with an earlier run (--baseline)."
    ]
    return verdict_line({}, look if reasons else [], f"{count}; held-out rows confirm it. Next: nothing to do.")
