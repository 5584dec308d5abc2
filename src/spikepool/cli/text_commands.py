"""Commands from a file of texts to a deployed model: encode, fit, apply, evaluate, export."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli import rows as rows_of
from spikepool.cli.bundles import bundled
from spikepool.cli.output import print_json
from spikepool.cli.prediction_rows import added_names, line_writer, predictions, row_writer

TextFile = Annotated[str, typer.Argument(help="Texts: CSV, TSV, JSON lines or Parquet.")]
LabelColumn = Annotated[
    str | None, typer.Option("--label-column", help="Column of the labels.", show_default="label, y, ...")
]
ClassWeight = Annotated[
    str | None,
    typer.Option("--class-weight", help="balanced: find more rows of rare classes, at the cost of calibration."),
]
GroupColumn = Annotated[str | None, typer.Option("--group-column", help="Column of groups that are never split.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (encode, fit, apply, evaluate, export):
        app.command()(bundled(command))


def encode(
    data: TextFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Archive to write (.npz): X, mask and tokens.")],
    texts: opt.Texts,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Token embeddings of texts, with mask and token strings (a JSON list per text)."""
    import numpy as np

    from spikepool.data.targets import check_target
    from spikepool.errors import InvalidInputError
    from spikepool.kit.files import publishing
    from spikepool.texts.encoding import encode as run
    from spikepool.texts.files import read_text_table

    if out.suffix.lower() != ".npz":
        raise InvalidInputError("--out must end in .npz", str(out), "Choose another name")
    check_target(out, "npz", overwrite=overwrite, inputs=[data, texts.encoder])
    table = read_text_table(data, text=texts.text_column)
    encoded = run(table.texts, texts.encoder, rows_of.asked_layers(texts.layers), texts.max_tokens)
    tokens = np.array([json.dumps(row) for row in encoded.tokens])
    with publishing(out, overwrite=overwrite) as temporary, temporary.open("wb") as file:
        np.savez(file, X=encoded.X, mask=encoded.mask, tokens=tokens)
    record = {
        "shape": list(encoded.X.shape),
        "layers": list(encoded.layers),
        "encoder": encoded.encoder,
        "out": str(out),
    }
    if as_json:
        print_json("encode", record | {"notes": [*table.notes, *encoded.notes]})
        return
    print(f"Token embeddings {tuple(encoded.X.shape)} of {encoded.encoder}, layers {list(encoded.layers)}: {out}")
    for note in (*table.notes, *encoded.notes):
        print(f"Note: {note}")


def fit(
    data: TextFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the model.")],
    texts: opt.Texts,
    label_column: LabelColumn = None,
    group_column: GroupColumn = None,
    task: Annotated[str, typer.Option("--task", help="auto, classification or regression.")] = "auto",
    class_weight: ClassWeight = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Page of the same computation (.html or .json); see report.")
    ] = None,
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Fit a classifier (or regressor) on labelled texts and save it, with its encoder's settings, in a folder."""
    from spikepool.cli.output import checked_page
    from spikepool.data.targets import check_target
    from spikepool.texts.label_notes import class_counts

    check_target(out, "model", overwrite=overwrite, inputs=[data, texts.encoder, report])
    checked_page(report, overwrite, [data, texts.encoder, str(out)])
    table, model, answer = fit_texts(data, texts, (label_column, group_column), task, class_weight, seed)
    if report is not None:
        answer().save(report, overwrite=overwrite)
    model.save(out, overwrite=overwrite, text_column=table.columns["texts"])
    notes = [*table.notes, *model.notes_]
    if as_json:
        record = {"model": str(out), "decision": model.decision_, "layer": model.layer_, "notes": notes}
        pooling = model.pooling_
        print_json("fit", record | {"gain": pooling.improvement_, "gain_standard_error": pooling.improvement_error_})
        return
    print(model.summary())
    if table.labels is not None and hasattr(model, "classes_"):
        print(f"classes: {class_counts(table.labels[table.labelled])}")
    for note in notes:
        print(f"Note: {note}")
    print(f"Model: {out}")
    if report is not None:
        print(f"Page: {report}")


def fit_texts(
    data: str,
    encoding: opt.Texts,
    columns: tuple[str | None, str | None],
    task: str,
    class_weight: str | None,
    seed: int,
    given: tuple[str | None, str | None] = (None, None),
) -> tuple[Any, Any, Callable[..., Any]]:
    """The table of labelled texts, the model fitted to them, and a function that reports on both.

    `columns` are those of labels and groups, and `given` files of them.
    """
    import numpy as np

    from spikepool.answers import report
    from spikepool.data.labels import decided_task
    from spikepool.errors import InvalidInputError
    from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor
    from spikepool.texts.classifier import TextClassifier, TextRegressor
    from spikepool.texts.files import column_names, read_text_table

    table = read_text_table(data, encoding.text_column, None if given[0] else columns[0], columns[1])
    n = len(table.texts)
    labels, there = table.labels, table.labelled
    if given[0] is not None:
        labels, there = rows_of.label_values(data, given[0], columns[0], n), np.ones(n, dtype=bool)
    if labels is None:
        raise InvalidInputError("which column holds the labels?", column_names(data)[:12], "Pass --label-column")
    groups = table.groups if given[1] is None else rows_of.group_values(given[1], n)
    texts = [text for text, ok in zip(table.texts, there, strict=True) if ok]
    labels, groups = labels[there], None if groups is None else groups[there]
    settings: dict[str, Any] = {
        "encoder": encoding.encoder,
        "layers": rows_of.asked_layers(encoding.layers) or "auto",
        "max_tokens": encoding.max_tokens,
    }
    model: TextClassifier | TextRegressor
    if decided_task(labels, task) == "regression":
        model = TextRegressor(pooling=LearnedPoolingRegressor(random_state=seed), **settings)
    else:
        pooling = LearnedPoolingClassifier(random_state=seed)
        model = TextClassifier(pooling=pooling, class_weight=class_weight, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are printed as notes
        model.fit(texts, labels, groups=groups)

    def answer(target: float | None = None) -> Any:
        return report(texts, labels, groups=groups, task=task, target=target, random_state=seed, model=model)

    return table, model, answer


def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of a model made by spikepool fit.")],
    data: TextFile,
    text_column: opt.TextColumn = None,
    encoding: opt.Encoding = None,
    label_column: LabelColumn = None,
    encoder: Annotated[str | None, typer.Option("--encoder", help="Where the encoder is, if not where it was.")] = None,
    mistakes: Annotated[int, typer.Option("--mistakes", min=0, help="Most confident mistakes that are listed.")] = 10,
    as_json: opt.Json = False,
) -> None:
    """Score a classifier on labelled texts: accuracy, macro-F1, log loss, calibration, confusion matrix, mistakes."""
    from spikepool.errors import InvalidInputError
    from spikepool.pooling.evaluation import evaluate as ask
    from spikepool.texts.classifier import TextClassifier, load
    from spikepool.texts.embedding_rows import cut_note
    from spikepool.texts.files import column_names, read_text_table
    from spikepool.texts.label_notes import class_counts, nearly_equal
    from spikepool.texts.text_model import load_settings

    fitted = load(model, encoder)
    if not isinstance(fitted, TextClassifier):
        raise InvalidInputError("evaluate takes a classifier of texts", type(fitted).__name__, "Fit one on texts")
    table = read_text_table(data, text_column or load_settings(model).text_column, label_column)
    if table.labels is None:
        raise InvalidInputError("which column holds the labels?", column_names(data)[:12], "Pass --label-column")
    there = table.labelled
    texts = [text for text, ok in zip(table.texts, there, strict=True) if ok]
    labels = table.labels[there]
    result = ask(fitted.classes_, fitted.predict_proba(texts), labels, texts, mistakes=mistakes)
    cut = cut_note(fitted.texts_cut(texts), len(texts), fitted.max_tokens)
    known = {str(label): 1 for label in fitted.classes_.tolist()}
    meant = [
        f"label {name!r}: did you mean {other!r}?"
        for name, _ in result.unknown
        for other in known
        if nearly_equal(name, other)
    ]
    notes = [*table.notes, *cut, *meant]
    if as_json:
        print_json("evaluate", {"model": str(model), **result.to_dict(), "notes": notes})
        return
    print(result.summary())
    print(f"classes: {class_counts(labels)}")
    for note in notes:
        print(f"Note: {note}")


def apply(
    model: Annotated[Path, typer.Argument(help="Folder of a model made by spikepool fit.")],
    data: TextFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Predictions to write: .csv or .jsonl.")],
    text_column: opt.TextColumn = None,
    encoding: opt.Encoding = None,
    encoder: Annotated[str | None, typer.Option("--encoder", help="Where the encoder is, if not where it was.")] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="A column for every class.")] = False,
    safe_csv: Annotated[
        bool, typer.Option("--safe-csv", help="Put ' before cells that a spreadsheet would run as a formula.")
    ] = False,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Predict the labels of new texts. The columns of the input are kept; predictions and probabilities are added.

    Rows stay in order, one for one. An empty text is predicted from the special tokens of the encoder, as in Python.
    """
    from spikepool.data.names import refuse_doubled
    from spikepool.data.reading import read_records
    from spikepool.data.targets import check_target
    from spikepool.errors import InvalidInputError
    from spikepool.kit.files import publishing
    from spikepool.texts.classifier import load
    from spikepool.texts.embedding_rows import cut_note
    from spikepool.texts.files import column_names, usual_column
    from spikepool.texts.text_model import load_settings

    if out.suffix.lower() not in (".csv", ".jsonl"):
        raise InvalidInputError("--out must end in .csv or .jsonl", str(out), "Choose one of these")
    check_target(out, out.suffix.lower()[1:], overwrite=overwrite, inputs=[data, model, encoder])
    settings = load_settings(model)
    fitted = load(model, encoder)
    names = column_names(data)
    column = text_column or settings.text_column or usual_column(names, "texts")
    if column is None:
        raise InvalidInputError("which column holds the texts?", names[:12], "Name it with --text-column")
    if column not in names:
        raise InvalidInputError(f"there is no column {column!r}", names[:12], "Name the texts with --text-column")
    refuse_doubled(names, data)
    added = added_names(names, fitted, probabilities)
    with publishing(out, overwrite=overwrite) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        write = line_writer(stream) if out.suffix.lower() == ".jsonl" else row_writer(stream, names, added, safe_csv)
        rows, empty, cut = 0, 0, 0
        for record, values, longer in predictions(fitted, read_records(data), column, probabilities):
            rows, empty, cut = rows + 1, empty + (not str(record[column] or "").strip()), cut + longer
            write(record, dict(zip(added, values, strict=True)), rows)
    if as_json:
        print_json(
            "apply", {"rows": rows, "empty": empty, "cut": cut, "columns": added, "model": str(model), "out": str(out)}
        )
        return
    print(f"{rows:,} predictions: {out}", file=sys.stderr)
    if empty:
        print(f"Note: {empty:,} texts are empty; their predictions say nothing of a text", file=sys.stderr)
    for note in cut_note(cut, rows, settings.max_tokens):
        print(f"Note: {note}", file=sys.stderr)


def export(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model.")],
    onnx: Annotated[Path, typer.Option("--onnx", help="ONNX file to write.")],
    encoder: Annotated[
        bool, typer.Option("--encoder/--no-encoder", help="Write the encoder of a model of texts into the ONNX file.")
    ] = True,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Write a saved model as an ONNX file for other programs.

    The file of a model of texts takes token ids, and tokenizer.json is written beside it. --overwrite replaces an ONNX
    file of spikepool.
    """
    from spikepool.data.targets import check_target
    from spikepool.texts.classifier import TextModel, load

    check_target(onnx, "onnx", overwrite=overwrite, inputs=[model])
    fitted = load(model)
    options = {"encoder": encoder} if isinstance(fitted, TextModel) else {}
    fitted.to_onnx(onnx, overwrite=overwrite, **options)
    if as_json:
        print_json("export", {"model": str(model), "written": {"onnx": str(onnx)}})
        return
    print(f"ONNX: {onnx}")
