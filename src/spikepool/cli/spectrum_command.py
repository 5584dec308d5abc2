"""The command ``spectrum``: an embedding table or another weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.output import checked_out, print_json, print_table, write_out
from spikepool.kit.pages import html_text

if TYPE_CHECKING:
    from spikepool.tables import TableSpectrum

FILE_HELP = "Safetensors, npy, npz, Parquet, Zarr or CSV file, a folder with a model, or a hub id."
Transpose = Annotated[bool, typer.Option("--transpose", help="Exchange rows and columns: rows must be tokens.")]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="Names of the rows: tokenizer.json, vocab.json or vocab.txt, or 'none'.",
        show_default="found beside the model",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(spectrum)


def spectrum(
    file: Annotated[str, typer.Argument(help=FILE_HELP)],
    tensor: Annotated[str | None, typer.Option("--tensor", help="Which tensor of the file.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the tensors of the file and exit.")] = False,
    transpose: Transpose = False,
    tokenizer: Tokenizer = None,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Spectrum of an embedding table or another weight: bulk, edge, outliers, and whether the fit can be relied on."""
    from spikepool.errors import InvalidInputError

    out = checked_out(out, overwrite, (file, tokenizer))
    if list_only:
        for flag, given in (("--tensor", tensor is not None), ("--transpose", transpose), ("--out", out is not None)):
            if given:
                raise InvalidInputError(f"{flag} does not go with --list", remedy="Drop one")
        _list(file, as_json)
        return
    fitted = _fit(file, tensor, transpose, tokenizer)
    if as_json:
        print_json("spectrum", fitted.to_dict())
    else:
        print(fitted.summary())
        print(_next_step(fitted))
    V, d = fitted.shape_
    write_out(
        out,
        f"Spectrum of {fitted.name_} ({V} x {d})",
        fitted.plot,
        lambda: fitted._html_repr() + html_text(fitted.summary()),
        overwrite=overwrite,
        quiet=as_json,
    )


def _fit(file: str, tensor: str | None, transpose: bool, tokenizer: str | None) -> TableSpectrum:
    from spikepool.tables import TableSpectrum, open_table

    source = open_table(file, tensor, transpose=transpose)
    names = row_names(file, source, tokenizer)
    return TableSpectrum(tokenizer=names).fit(source)


def row_names(file: str, source: Any, tokenizer: str | None) -> list[str] | None:
    """Names of the rows: those asked for, those beside a model, or none."""
    from spikepool.data.names import names_an_embedding
    from spikepool.data.token_names import padded, read_tokens, tokens_beside
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


def _next_step(fit: TableSpectrum) -> str:
    """Whether the count of outliers can be used, and what to do next."""
    count = "No outlier was found" if not fit.n_outliers_ else f"{fit.n_outliers_} outlier(s) were found"
    reasons = [
        reason
        for reason, holds in (
            ("the bulk does not predict held-out rows", fit.trusted_),
            ("the halves of the rows disagree about the count", fit.stable_),
        )
        if holds is False
    ]
    if reasons:
        return f"{count}, but {' and '.join(reasons)}. Next: do not read the count as a number of signals."
    return f"{count}; held-out rows confirm it. Next: nothing to do."
