"""Options shared by commands: outputs, and the rows of a user's files with what stands beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[
    bool, typer.Option("--json", help="Print JSON instead of a table; null where there is no finite number.")
]
Seed = Annotated[int, typer.Option("--seed", help="Root of every random stream.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an output that exists, if this command has written it.")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Picture (.png, .svg, .pdf) or page (.html) to write.")]


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
