"""The rows that ``apply`` writes: those of the input, with the predictions in columns of their own."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from spikepool.errors import InvalidInputError
from spikepool.kit.results import plain


def added_names(names: list[str], fitted: Any, every: bool) -> list[str]:
    """Names of the columns that predictions go to; none of them is a column of the input."""

    def free(name: str) -> str:
        return name if name not in names else free(name + "_")

    classes = getattr(fitted, "classes_", None)
    added = ["prediction"] if classes is None else ["prediction", "probability"]
    if classes is not None and every:
        added += [f"p_{name}" for name in classes.tolist()]
    return [free(name) for name in added]


def predictions(fitted: Any, records: Any, column: str, every: bool) -> Iterator[tuple[dict[str, Any], list[Any], int]]:
    """Records with the values of their added columns; with the first of a batch, how many of its texts were cut."""
    from spikepool.texts.embedding_rows import STREAMED

    records = iter(records)
    while batch := list(islice(records, STREAMED)):
        texts = ["" if record[column] is None else str(record[column]) for record in batch]
        cut = fitted.texts_cut(texts)
        lengths = [cut, *[0] * (len(batch) - 1)]  # counted with the first record
        yield from zip(batch, _values(fitted, texts, every), lengths, strict=True)


def _values(fitted: Any, texts: list[str], every: bool) -> list[list[Any]]:
    """Prediction and probabilities of each text."""
    if not hasattr(fitted, "classes_"):
        return [[value] for value in fitted.predict(texts).tolist()]
    proba = fitted.predict_proba(texts)
    labels = fitted.classes_[proba.argmax(axis=1)].tolist()
    return [
        [label, *(round(float(p), 6) for p in (row.max(), *(row if every else ())))]
        for label, row in zip(labels, proba, strict=True)
    ]


def line_writer(stream: Any) -> Callable[[dict[str, Any], dict[str, Any], int], None]:
    """Writes a record as a line of JSON; NaN, which JSON lacks, is null."""

    def write(record: dict[str, Any], values: dict[str, Any], row: int) -> None:
        clash = [name for name in values if name in record]
        if clash:
            raise InvalidInputError(f"row {row} has a key that predictions are written to", clash[0], "Rename it")
        stream.write(json.dumps(plain({**record, **values}), ensure_ascii=False, allow_nan=False, default=str) + "\n")

    return write


def row_writer(
    stream: Any, names: list[str], added: list[str], safe: bool
) -> Callable[[dict[str, Any], dict[str, Any], int], None]:
    """Writes a record as a row of a table whose columns are fixed; the header is there without rows as well."""
    writer = csv.writer(stream)

    def cell(value: Any) -> Any:
        formula = safe and isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        return f"'{value}" if formula and not _is_number(value) else value

    columns = [name or f"column_{k}" for k, name in enumerate(names)]
    writer.writerow(map(cell, [*columns, *added]))

    def write(record: dict[str, Any], values: dict[str, Any], row: int) -> None:
        new = [name for name in record if name not in columns]
        if new:
            raise InvalidInputError(
                f"row {row} has a key that the first row lacks", new[0], "Write .jsonl, or repair the input"
            )
        writer.writerow([cell(record[name]) for name in columns] + [cell(value) for value in values.values()])

    return write


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
