"""Texts as the rows of a report: read from a file, data frame or list, and encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spikepool.data.labels import decided_task, label_array
from spikepool.data.paths import is_path
from spikepool.data.reading import read_column
from spikepool.errors import InvalidInputError, SpikepoolError
from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor
from spikepool.texts.classifier import TextClassifier, TextRegressor
from spikepool.texts.files import TextTable, holds_texts, read_text_table
from spikepool.texts.text_model import embedded


@dataclass(frozen=True)
class TextSource:
    """Encoded texts with their labels.

    Attributes
    ----------
    X : array or mapping
        Tokens, by layer where there are several.
    mask : numpy.ndarray
    labels : numpy.ndarray or None
        Of the rows that have one.
    labelled : numpy.ndarray of bool
    groups : numpy.ndarray or None
    notes : tuple of str
    words : str
        The source in a few words.
    texts : list of str
    model : TextClassifier, TextRegressor or None
        Fitted to the labelled texts.
    """

    X: Any
    mask: NDArray[np.bool_]
    labels: NDArray[Any] | None
    labelled: NDArray[np.bool_]
    groups: NDArray[Any] | None
    notes: tuple[str, ...]
    words: str
    texts: list[str]
    model: Any = None


def text_source(
    X: Any,
    y: Any,
    groups: Any,
    text: str | None,
    label: str | None,
    group: str | None,
    encoder: Any,
    layers: Any,
    max_tokens: int,
    model: Any = None,
    task: str = "auto",
    random_state: Any = 0,
) -> TextSource | None:
    """The encoded texts, or None where X holds numbers; those of a fitted `model` are taken as they are."""
    if isinstance(X, str) and not X.strip():
        raise InvalidInputError("X is an empty path", X, "Check the variable that should hold it")
    table = _table(X, text, label, group)
    if table is None:
        return None
    labels, labelled = table.labels, table.labelled
    if y is not None:
        labels = label_array(read_column(y, rows=len(table.texts)) if is_path(y) else y)
        labelled = np.ones(len(table.texts), dtype=bool)
    if model is None and labels is not None:
        kept = labels[labelled] if len(labels) == len(labelled) else labels
        model = _fitted(table, kept, labelled, groups, task, random_state, encoder, layers, max_tokens)
    if model is not None:
        tokens, mask, names = model.encoded(table.texts)
        used, notes = getattr(model._model(), "name", "a function"), model.notes_
    else:
        tokens, mask, encoded = embedded(table.texts, encoder, layers, max_tokens, progress=None)
        names, used, notes = encoded.layers, encoded.encoder, encoded.notes
    words = f"{len(table.texts):,} texts, encoded by {used}"
    if len(names) > 1:
        words += f" in {len(names)} layers"
    return TextSource(
        tokens,
        mask,
        None if labels is None else labels[labelled] if len(labels) == len(labelled) else labels,
        labelled,
        groups if groups is not None else table.groups,
        (*table.notes, *notes),
        words,
        table.texts,
        model,
    )


def _fitted(
    table: TextTable,
    labels: NDArray[Any],
    labelled: NDArray[np.bool_],
    groups: Any,
    task: str,
    random_state: Any,
    encoder: Any,
    layers: Any,
    max_tokens: int,
) -> Any:
    """The model of the labelled texts: the one comparison from which all answers follow."""
    kind, pooling = (
        (TextRegressor, LearnedPoolingRegressor)
        if decided_task(labels, task) == "regression"
        else (TextClassifier, LearnedPoolingClassifier)
    )
    model = kind(
        encoder,
        layers="auto" if layers is None else layers,
        max_tokens=max_tokens,
        pooling=pooling(random_state=random_state),
    )
    own = table.groups if groups is None else np.asarray(groups)
    texts = [text for text, there in zip(table.texts, labelled, strict=True) if there]
    try:
        return model.fit(texts, labels, groups=None if own is None else own[labelled])
    except SpikepoolError:
        return None  # the first answer says why


def _table(X: Any, text: str | None, label: str | None, group: str | None) -> TextTable | None:
    if isinstance(X, (list, tuple, np.ndarray)) and len(X) and isinstance(X[0], str):
        return TextTable([str(one) for one in X], None, np.zeros(len(X), dtype=bool), None, {})
    framed = hasattr(X, "columns") and hasattr(X, "iloc")
    if text is not None or ((is_path(X) or framed) and holds_texts(X)):
        return read_text_table(X, text, label, group)
    if label is not None or group is not None:
        raise InvalidInputError(
            "label and group name columns of a table of texts", label or group, "Pass text= as well"
        )
    return None
