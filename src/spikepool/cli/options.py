"""Options shared by the commands: their types, and bundles of them, which are dataclasses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli.descriptions import CORRELATION_HELP, WEIGHTS_HELP, parse_correlation, parse_weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spikepool.model import SequenceModel


DEFAULT_PREFIX = 3  # positions that share the signal when no correlation is given, or all of fewer

Dimension = Annotated[int, typer.Option("--d", help="Embedding dimension.")]
Vocabulary = Annotated[int, typer.Option("--V", help="Vocabulary size (even).")]
Sequences = Annotated[int, typer.Option("--N", help="Number of sequences.")]
Length = Annotated[int, typer.Option("--T", help="Sequence length.")]
Signal = Annotated[float, typer.Option("--mu", help="Signal strength: the norm of the hidden signal.")]
Correlation = Annotated[
    str | None,
    typer.Option("--correlation", "-R", help=CORRELATION_HELP, show_default="prefix:3, or prefix:T for a shorter T"),
]
Weights = Annotated[list[str], typer.Option("--weights", "-w", help=WEIGHTS_HELP)]
Table = Annotated[str, typer.Option("--table", help="sampled (as the paper states it) or class_centered.")]
Uncentered = Annotated[bool, typer.Option("--uncentered", help="Do not subtract the mean of the pooled vectors.")]
Latent = Annotated[str, typer.Option("--latent", help="signs or gaussian.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table; null where there is no finite number.")
]
Seed = Annotated[int, typer.Option("--seed", help="Root of every random stream.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output that exists, if this command has written it.")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Picture (.png, .svg, .pdf) or page (.html) to write.")]


@dataclass(frozen=True)
class ModelOptions:
    """The options that describe a model and its pooling weights; the fields are the options of every command that
    takes a model (see :func:`bundled`).
    """

    d: Dimension = 500
    V: Vocabulary = 800
    N: Sequences = 1000
    T: Length = 10
    mu: Signal = 2.5
    correlation: Correlation = None
    weights: Weights = field(default_factory=lambda: ["mean", "causal", "optimal"])
    table: Table = "sampled"
    uncentered: Uncentered = False
    latent: Latent = "signs"

    def model(self) -> SequenceModel:
        """The model; a spiked correlation without unit diagonal needs ``--latent gaussian``."""
        from spikepool.kit import validation as check
        from spikepool.model import SequenceModel

        R = parse_correlation(self.described_correlation, check.size(self.T, "T"))
        return SequenceModel(
            d=self.d,
            V=self.V,
            N=self.N,
            R=R,
            mu=self.mu,
            table=self.table,
            centered=not self.uncentered,
            latent=self.latent,
        )

    @property
    def described_correlation(self) -> str:
        """The correlation as it is written on the command line; a default that fits T when none was given."""
        return f"prefix:{max(1, min(DEFAULT_PREFIX, self.T))}" if self.correlation is None else self.correlation

    def files(self) -> list[str]:
        """Values that may name files: inputs, which no output replaces."""
        return [*([] if self.correlation is None else [self.correlation]), *self.weights]

    def fields(self, model: SequenceModel) -> dict[str, Any]:
        """The model's fields for JSON output; the correlation by its description."""
        return {
            "d": model.d,
            "V": model.V,
            "N": model.N,
            "T": model.T,
            "mu": model.mu,
            "correlation": self.described_correlation,
            "table": model.table,
            "centered": model.centered,
            "latent": model.latent,
            "delta": model.delta,
            "gamma": model.gamma,
        }

    def named_weights(self, model: SequenceModel) -> dict[str, NDArray[np.float64]]:
        """The pooling weights by name."""
        return parse_weights(self.weights, model.R)


def bundled(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with the fields of its parameters that are dataclasses as options of their own, in their place."""
    # Typer reads options from the signature, and finds no way to group them
    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: item.annotation for name, item in parameters.items() if is_dataclass(item.annotation)
    }
    members = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

    @wraps(command)
    def run(**given: Any) -> None:
        made = {name: group(**{field: given.pop(field) for field in members[name]}) for name, group in groups.items()}
        command(**made, **given)

    listed: list[inspect.Parameter] = []
    for name, item in parameters.items():
        if name in groups:
            defaults = groups[name]()
            listed += [one.replace(default=getattr(defaults, field)) for field, one in members[name].items()]
        else:
            listed.append(item)
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in listed]
    )
    run.__annotations__ = {item.name: item.annotation for item in listed}
    return run


def _encoding(name: str | None) -> str | None:
    """Read text files in this encoding from here on; options are parsed once per command."""
    if name is not None:
        import codecs

        from spikepool.data.formats.records import ENCODING

        try:
            ENCODING.set(codecs.lookup(name).name)
        except LookupError:
            raise typer.BadParameter(f"{name!r} is not an encoding; try utf-8, cp1252 or latin-1") from None
    return name


Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        callback=_encoding,
        help="Encoding of text files if not UTF-8 or UTF-16.",
    ),
]
TextColumn = Annotated[
    str | None, typer.Option("--text-column", help="Column of the texts.", show_default="text, sentence, ...")
]
Encoder = Annotated[str, typer.Option("--encoder", help="For texts: minilm, a folder, or a hub id.")]
Layers = Annotated[
    str | None, typer.Option("--layers", help="last, all, or numbers such as 0,3,6.", show_default="by size")
]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Longer texts are cut.")]
ROWS_HELP = "npy, npz, Parquet, Zarr, CSV, TSV, JSON lines or safetensors"
Features = Annotated[str, typer.Argument(help=f"Features (n, d), or texts, whose tokens are averaged: {ROWS_HELP}.")]
Either = Annotated[
    str, typer.Argument(help=f"Tokens (n, T, d) or (n, layers, T, d), features (n, d), or texts: {ROWS_HELP}.")
]
Column = Annotated[
    str | None, typer.Option("--column", help="Array of an archive or group, or column of lists, that holds the rows.")
]
LABELS_HELP = "One label per row: npy, npz, CSV, txt, JSON lines, Parquet; by default a column of the rows' file."
Labels = Annotated[str | None, typer.Option("--labels", "-y", help=LABELS_HELP)]
LabelColumn = Annotated[
    str | None,
    typer.Option("--label-column", help="Where the labels are in their file.", show_default="y, label, target, class"),
]
Mask = Annotated[str | None, typer.Option("--mask", help="(n, T), true where a token is observed: npy or npz.")]
Groups = Annotated[
    str | None, typer.Option("--groups", help="One value per row: rows of one group are never split. As --labels.")
]


@dataclass(frozen=True)
class Texts:
    """How texts are encoded: options of every command that takes texts."""

    text_column: TextColumn = None
    encoding: Encoding = None
    encoder: Encoder = "minilm"
    layers: Layers = None
    max_tokens: MaxTokens = 128

    def holds(self, path: str, column: str | None) -> bool:
        """Whether the file is a table of texts."""
        from spikepool.texts.files import holds_texts

        return self.text_column is not None or (column is None and holds_texts(path))


@dataclass(frozen=True)
class Beside:
    """What stands beside the rows, and where: options of every command that takes labelled rows."""

    labels: Labels = None
    label_column: LabelColumn = None
    mask: Mask = None
    groups: Groups = None
    column: Column = None

    def files(self) -> tuple[str | None, ...]:
        """Files that may be named: inputs, which no output replaces."""
        return self.labels, self.mask, self.groups
