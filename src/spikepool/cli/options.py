"""Options shared by the commands, and the small languages for correlations, weights and number lists.

A bundle of options is a dataclass; the readers turn a user's files into the rows of a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spikepool.model import SequenceModel


CORRELATION_HELP = (
    "Positional correlation: prefix:L, markov:RHO, equi:RHO, spiked:STRENGTH,SUPPORT, identity, or a .csv/.npy file."
)
DEFAULT_PREFIX = 3  # positions that share the signal when no correlation is given, or all of fewer
WEIGHTS_HELP = "mean, causal, causal:LAYERS, optimal, numbers like 0.5,0.3,0.2, or a .csv/.npy file; may be repeated."

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


def parse_correlation(text: str, T: int) -> NDArray[np.float64]:
    """(T, T) matrix described by `text`; see ``CORRELATION_HELP``."""
    from spikepool import errors
    from spikepool.world.correlation import NAMED_CORRELATIONS

    if Path(text).suffix in (".csv", ".npy"):
        R = load_array(Path(text), "correlation")
        if R.shape != (T, T):
            raise errors.ShapeError(f"the correlation in {text} must be ({T}, {T})", R, "Set --T to its size")
        return R
    kind, _, arguments = text.partition(":")
    numbers = parse_numbers(arguments, "correlation") if arguments else []
    kind = {"equi": "equicorrelation"}.get(kind, kind)
    make = NAMED_CORRELATIONS.get(kind)
    # what follows the colon are the parameters after T, in order, that have no default
    wanted = [] if make is None else [p.name for p in _required(make) if p.name != "T"]
    if make is None or len(numbers) != len(wanted):
        raise InvalidInputError(
            "correlation is not understood",
            text,
            "Write " + CORRELATION_HELP.removeprefix("Positional correlation: ").rstrip("."),
        )
    return make(T, *numbers)


def _required(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters without a default."""
    return [p for p in inspect.signature(function).parameters.values() if p.default is inspect.Parameter.empty]


def parse_weights(texts: list[str], R: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Named pooling weights for the length of `R`; see ``WEIGHTS_HELP``."""
    from spikepool.kit import validation as check
    from spikepool.world import weights as kinds

    T = len(R)
    named: dict[str, NDArray[np.float64]] = {}
    for text in texts:
        name, _, argument = text.partition(":")
        if Path(text).suffix in (".csv", ".npy"):
            name, w = Path(text).stem, load_array(Path(text), "weights").ravel()
        elif "," in text:
            import numpy as np

            w = np.asarray(parse_numbers(text, "weights"))
        elif name == "causal" and argument:
            w = kinds.causal_weights(T, layers=parse_numbers(argument, "weights")[0])  # type: ignore[arg-type]
            name = text
        elif text in kinds.NAMED_WEIGHTS:
            w = kinds.named_weights(text, R)
        else:
            raise InvalidInputError("weights are not understood", text, "Write " + WEIGHTS_HELP.rstrip("."))
        named[name if "," not in text else text] = check.weight_vector(w, T)
    return named


def parse_numbers(text: str, name: str) -> list[float]:
    """Comma-separated numbers, or ``start:stop:count`` for evenly spaced ones."""
    try:
        if text.count(":") == 2:
            import numpy as np

            start, stop, count = text.split(":")
            return [float(x) for x in np.linspace(float(start), float(stop), int(count))]
        return [float(item) for item in text.split(",")]
    except ValueError as err:
        raise InvalidInputError(f"{name}: not a list of numbers", text, "Write 1,2,3 or start:stop:count") from err


def load_array(path: Path, name: str) -> NDArray[np.float64]:
    """Numbers from a .csv or .npy file (never a pickle)."""
    import numpy as np

    from spikepool.data.reading import read_array
    from spikepool.kit.validation import finite_array

    return np.asarray(finite_array(read_array(path), name))


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
class Rows:
    """The rows of a command: tokens or features with what stands beside them, and what was noted on reading."""

    X: Any
    shape: tuple[int, ...]
    y: Any = None
    mask: Any = None
    groups: Any = None
    notes: tuple[str, ...] = ()


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


def asked_layers(layers: str | None) -> Any:
    """Layers as given on the command line."""
    if layers is None or layers in ("last", "all"):
        return layers
    return [int(part) if part.strip().lstrip("-").isdigit() else part.strip() for part in layers.split(",")]


def read_rows(path: str, kind: str, texts: Texts, beside: Beside, *, unlabelled: str = "keep") -> Rows:
    """Rows of a file as "features" or "tokens"; texts are encoded, and averaged over tokens for features.

    Texts without a label, where others have one, are left out with ``unlabelled="drop"``, an error with "refuse", and
    with "keep" no labels are read.
    """
    labels, label_column = beside.labels, beside.label_column
    if not texts.holds(path, beside.column):
        X = open_input(path, beside.column, kind, label_column)
        shape = tuple(X.shape)
        y = label_values(path, labels, label_column, shape[0])
        return Rows(X, shape, y, mask_values(beside.mask, shape), group_values(beside.groups, shape[0]))
    import numpy as np

    from spikepool.texts.files import read_text_table
    from spikepool.texts.text_model import embedded

    refuse_mask(beside.mask)
    table = read_text_table(path, texts.text_column, label_column if labels is None else None)
    n = len(table.texts)
    y, there = (None, None) if unlabelled == "keep" else (table.labels, table.labelled)
    if labels is not None:
        y, there = label_values(path, labels, label_column, n), None
    keep = np.ones(n, dtype=bool) if y is None or there is None else there
    if unlabelled == "refuse" and not keep.all():
        raise InvalidInputError(f"{int((~keep).sum()):,} texts have no label", remedy="Label them, or drop these rows")
    given = group_values(beside.groups, n)
    kept = [text for text, ok in zip(table.texts, keep, strict=True) if ok]
    X, observed, encoded = embedded(kept, texts.encoder, asked_layers(texts.layers), texts.max_tokens, progress=None)
    if kind == "features":
        last = X if not isinstance(X, dict) else next(reversed(X.values()))
        X = np.einsum("ntd,nt->nd", last, observed / observed.sum(axis=1, keepdims=True), dtype=np.float64)
        observed = None
    shape = (X if not isinstance(X, dict) else next(iter(X.values()))).shape
    notes = (*table.notes, *encoded.notes)
    y, given = (None if values is None else values[keep] for values in (y, given))
    return Rows(X, tuple(shape), y, observed, given, notes)


def refuse_mask(mask: str | None) -> None:
    """Texts have the mask of their tokens."""
    if mask is not None:
        raise InvalidInputError("texts have the mask of their own tokens", mask, "Drop --mask")


def open_input(path: str, column: str | None, kind: str, exclude: str | None = None) -> Any:
    """Rows of a file, which must be "features" (2-D), "tokens" (3-D, or 4-D with layers) or "either".

    `exclude` is a column of labels.
    """
    from spikepool.data.reading import read_array, read_features
    from spikepool.errors import ShapeError

    hidden = () if exclude is None else (exclude,)
    if kind != "features":
        tokens = read_array(path, column=column, exclude=hidden)
        if tokens.ndim == 4:
            return tokens
    rows = read_features(path, column, exclude=hidden)
    wanted = {"features": (2,), "tokens": (3,), "either": (2, 3)}[kind]
    if len(rows.shape) not in wanted:
        shapes = {"features": "features (n, d)", "tokens": "tokens (n, T, d)"}[kind]
        other = {
            "features": "Pool them first, as LearnedPoolingClassifier.transform does",
            "tokens": "Features need no pooling: use spikepool diagnose, forecast or report",
        }[kind]
        raise ShapeError(f"{path} must hold {shapes}", tuple(rows.shape), other)
    return rows


def label_values(path: str, labels: str | None, column: str | None, rows: int) -> NDArray[Any] | None:
    """Labels of the rows: from their own file, from a column of the rows' file, or none."""
    from spikepool.data.reading import read_column

    if labels is None and column is None:
        return None
    return read_column(path if labels is None else labels, column, rows=rows)


def group_values(groups: str | None, rows: int) -> NDArray[Any] | None:
    """Groups of the rows, or none."""
    from spikepool.data.reading import read_column

    return None if groups is None else read_column(groups, rows=rows, role="groups")


def mask_values(mask: str | None, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Mask of the tokens, or none."""
    from spikepool.data.reading import read_mask

    return None if mask is None else read_mask(mask, (shape[0], shape[-2]))
