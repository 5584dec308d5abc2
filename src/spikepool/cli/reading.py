"""Options and readers shared by the commands about a user's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS_HELP = "npy, npz, Parquet, Arrow, Zarr, CSV, TSV, JSON lines or safetensors, or a URL (s3://, gs://)"
Features = Annotated[str, typer.Argument(help=f"Features (n, d): {ROWS_HELP}.")]
Tokens = Annotated[str, typer.Argument(help=f"Tokens (n, T, d): {ROWS_HELP}.")]
Either = Annotated[str, typer.Argument(help=f"Tokens (n, T, d) or features (n, d): {ROWS_HELP}.")]
Column = Annotated[
    str | None, typer.Option("--column", help="Array of an archive or group, or column of lists, that holds the rows.")
]
LABELS_HELP = "One label per row: npy, npz, CSV, txt, JSON, Parquet, Arrow; by default a column of the rows' file."
Labels = Annotated[str | None, typer.Option("--labels", "-y", help=LABELS_HELP)]
LabelColumn = Annotated[
    str | None,
    typer.Option("--label-column", help="Where the labels are in their file.", show_default="y, label, target, class"),
]
Mask = Annotated[str | None, typer.Option("--mask", help="(n, T), true where a token is observed: npy or npz.")]
Groups = Annotated[
    str | None, typer.Option("--groups", help="One value per row: rows of one group are never split. As --labels.")
]


def open_input(path: str, column: str | None, kind: str, exclude: str | None = None) -> Any:
    """Rows of a file, which must be "features" (2-D), "tokens" (3-D) or "either"; `exclude` is a column of labels."""
    from spikepool.data.columns import open_features
    from spikepool.errors import ShapeError

    rows = open_features(path, column, exclude=() if exclude is None else (exclude,))
    wanted = {"features": (2,), "tokens": (3,), "either": (2, 3)}[kind]
    if len(rows.shape) not in wanted:
        shapes = {"features": "features (n, d)", "tokens": "tokens (n, T, d)"}[kind]
        other = {
            "features": "Pool them first with: spikepool pool",
            "tokens": "Features need no pooling: use spikepool diagnose, forecast or report",
        }[kind]
        raise ShapeError(f"{path} must hold {shapes}", tuple(rows.shape), other)
    return rows


def label_values(path: str, labels: str | None, column: str | None, rows: int) -> NDArray[Any] | None:
    """Labels of the rows: from their own file, from a column of the rows' file, or none."""
    from spikepool.data.columns import read_column

    if labels is None and column is None:
        return None
    return read_column(path if labels is None else labels, column, rows=rows)


def required_labels(path: str, labels: str | None, column: str | None, rows: int) -> NDArray[Any]:
    """The same, with an error where there are none."""
    from spikepool.errors import InvalidInputError

    values = label_values(path, labels, column, rows)
    if values is None:
        raise InvalidInputError("this needs labels", remedy="Pass --labels FILE, or --label-column for the same file")
    return values


def group_values(groups: str | None, rows: int) -> NDArray[Any] | None:
    """Groups of the rows, or none."""
    from spikepool.data.columns import read_column

    return None if groups is None else read_column(groups, rows=rows, role="groups")


def mask_values(mask: str | None, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Mask of the tokens, or none."""
    from spikepool.data.columns import read_mask

    return None if mask is None else read_mask(mask, shape)
