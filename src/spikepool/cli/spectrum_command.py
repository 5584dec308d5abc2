"""The command ``spectrum``: an embedding table, another weight, or every weight of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.gates import COUNTS, Allow, Baseline, FailIf, Gates, close_gates, verdict_line
from spikepool.cli.output import checked_out, print_json, print_table, write_out
from spikepool.kit.showing import html_table, html_text, number, one_line

if TYPE_CHECKING:
    from spikepool.tables import TableSpectrum

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
SPECTRUM_VALUES = ("outliers", "edge", "largest", "rank", "trusted", "stable", "p_value", "heldout_error", "row_share")


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(spectrum)


def spectrum(
    file: Annotated[str, typer.Argument(help=FILE_HELP)],
    tensor: Annotated[str | None, typer.Option("--tensor", help="Which tensor of the file.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the tensors of the file and exit.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every 2-D weight of the file, in one table.")] = False,
    base: Annotated[str | None, typer.Option("--base", help="The model that an adapter belongs to.")] = None,
    transpose: Transpose = False,
    tokenizer: Tokenizer = None,
    fail_if: FailIf = None,
    allow: Allow = None,
    baseline: Baseline = None,
    out: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """Spectrum of an embedding table or another weight: bulk, edge, outliers, and whether the fit can be relied on.

    A file of LoRA pairs (lora_A, lora_B) is analysed as an adapter: directions that are used, and weights unchanged.

    --fail-if knows: outliers, edge, largest, rank, trusted, stable, p_value, heldout_error, row_share; with --all also
    failed, missing, skipped, unmeasured (numbers of tensors). Failed and missing tensors always end in exit code 3.
    With --baseline, NAME_change is the distance from an earlier run: relative for edge and largest, else a difference.
    """
    from spikepool.errors import InvalidInputError

    gates = Gates.parse(fail_if, (*SPECTRUM_VALUES, *(COUNTS if every else ())), allow, baseline)
    out = checked_out(out, inputs=(file, tokenizer, None if baseline is None else str(baseline)))
    for flag, given in (("--tensor", tensor is not None), ("--transpose", transpose), ("--out", out is not None)):
        if given and (list_only or (every and flag != "--out")):
            raise InvalidInputError(f"{flag} does not go with {'--list' if list_only else '--all'}", remedy="Drop one")
    if list_only:
        _list(file, as_json)
        return
    if tensor is None and _is_adapter(file):
        _adapter(file, base, out, as_json)
        return
    if base is not None:
        raise InvalidInputError("--base goes with an adapter", file, "Drop it, or pass a file of LoRA pairs")
    if every:
        _all_weights(file, gates, out, as_json)
        return
    fitted = _fit(file, tensor, transpose, tokenizer)
    results = {fitted.name_: _values(fitted)}
    if as_json:
        print_json({**fitted.to_dict(), "gates": results})
    else:
        print(fitted.summary())
        print(_verdict({fitted.name_: fitted}, {}))
    V, d = fitted.shape_
    write_out(
        out,
        f"Spectrum of {fitted.name_} ({V} x {d})",
        fitted.plot,
        lambda: fitted._html_repr() + html_text(fitted.summary()),
        quiet=as_json,
    )
    close_gates(gates.report(results))


def _is_adapter(file: str) -> bool:
    from spikepool.tables.adapters import lora_pairs

    return bool(lora_pairs(file))


def _adapter(file: str, base: str | None, out: Path | None, as_json: bool) -> None:
    """The LoRA pairs of a file, in one table."""
    from spikepool.tables.adapters import HEADER, adapter_spectrum

    found = adapter_spectrum(file, base)
    if as_json:
        print_json(found.to_dict())
    else:
        rows = [[one_line(row[0]), *row[1:]] for row in found.rows()]
        print_table(f"Adapter {file}", list(HEADER), rows)
        print("\n".join([*found.remarks, found.summary()]))
    write_out(out, f"Adapter {file}", lambda: found.plot().figure, found._repr_html_, quiet=as_json)


def _fit(file: str, tensor: str | None, transpose: bool, tokenizer: str | None, **parameters: Any) -> TableSpectrum:
    from spikepool.tables import TableSpectrum, open_table

    source = open_table(file, tensor, transpose=transpose)
    names = row_names(file, source, tokenizer)
    return TableSpectrum(tokenizer=names, **parameters).fit(source)


def row_names(file: str, source: Any, tokenizer: str | None) -> list[str] | None:
    """Names of the rows: those asked for, those beside a model, or none."""
    from spikepool.data.names import names_an_embedding
    from spikepool.data.token_lists import padded, read_tokens, tokens_beside
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


def _values(fit: TableSpectrum) -> dict[str, Any]:
    held = fit.heldout_
    return {
        "outliers": fit.n_outliers_,
        "edge": fit.edge_,
        "largest": float(fit.eigenvalues_[0]),
        "rank": fit.rank_,
        "trusted": fit.trusted_,
        "stable": fit.stable_,
        "p_value": None if held is None else held.p_value,
        "heldout_error": None if held is None else held.distance,
        "row_share": max((row.share for row in fit.influential_rows_), default=0.0),
    }


def _list(file: str, as_json: bool) -> None:
    from spikepool.data.names import names_an_embedding
    from spikepool.data.table_input import list_tensors

    found = list_tensors(file)
    if as_json:
        print_json([{"name": t.name, "shape": t.shape, "dtype": t.dtype, "matrix": t.is_matrix} for t in found])
        return
    rows = [
        [
            tensor.name,
            " x ".join(map(str, tensor.shape)) or "scalar",
            tensor.dtype,
            "embedding" if tensor.is_matrix and names_an_embedding(tensor.name) else "",
        ]
        for tensor in found
    ]
    print_table(f"{len(found)} tensors in {file}", ["tensor", "shape", "type", ""], rows)


def _all_weights(file: str, gates: Gates, out: Path | None, as_json: bool) -> None:
    """Every matrix of the file, each with its longer side as rows; simulated nulls are left out."""
    from spikepool.tables.every_weight import every_weight

    found = every_weight(file)
    fits = found.fits
    header = ["weight", "rows", "columns", "rank", "outliers", "bulk edge", "largest", "trusted", "stable"]
    rows = [
        [
            one_line(name),
            *map(str, fit.shape_),
            str(fit.rank_),
            str(fit.n_outliers_),
            number(fit.edge_),
            number(float(fit.eigenvalues_[0])),
            number(fit.trusted_),
            number(fit.stable_),
        ]
        for name, fit in fits.items()
    ]
    results = {name: _values(fit) for name, fit in fits.items()}
    verdict = _verdict(fits, found.counts)
    if as_json:
        records = [{"name": name, "shape": fits[name].shape_, **values} for name, values in results.items()]
        reasons = {kind: getattr(found, kind) for kind in found.counts}
        print_json({"weights": records, **reasons, "counts": found.counts, "verdict": verdict, "gates": results})
    else:
        print_table(f"{len(fits)} weights of {file}, the longer side as rows", header, rows)
        print("\n".join([*map(one_line, found.remarks), verdict]))
    write_out(out, f"Weights of {file}", lambda: _counts(fits), lambda: html_table(header, rows), quiet=as_json)
    close_gates(gates.report(results, found.counts))


def _verdict(fits: dict[str, TableSpectrum], counts: dict[str, int]) -> str:
    """OK, look or broken, and what to do next."""
    broken = [
        f"{counts[kind]} tensor(s) {word}. Next: download or save the file again."
        for kind, word in (("missing", "are missing"), ("failed", "cannot be read or hold NaN"))
        if counts.get(kind)
    ]
    doubtful = [name for name, fit in fits.items() if fit.trusted_ is False or fit.stable_ is False]
    look = [f"{counts['skipped']} tensor(s) were skipped. Next: read why above."] if counts.get("skipped") else []
    if doubtful:
        shown = f"{len(doubtful)} of {len(fits)} fits are" if len(fits) > 1 else "The fit is"
        look.append(
            f"{shown} not trusted or not stable, as for most trained weights. "
            "Next: compare with an earlier run (--baseline) instead of reading the count."
        )
    return verdict_line(broken, look, "Next: nothing to do.")


def _counts(fits: dict[str, TableSpectrum]) -> Any:
    from spikepool.drawing.tables import draw_counts

    return draw_counts({name: fit.n_outliers_ for name, fit in fits.items()})
