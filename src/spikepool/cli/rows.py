"""The rows of a command, read from a user's files: tokens, features or texts, with what stands beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spikepool.cli.options import Beside, Texts
from spikepool.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """The rows of a command: tokens or features with what stands beside them, and what was noted on reading."""

    X: Any
    shape: tuple[int, ...]
    y: Any = None
    mask: Any = None
    groups: Any = None
    notes: tuple[str, ...] = ()


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
