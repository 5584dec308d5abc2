"""Commands from a file of texts to a deployed model: encode, fit, apply, export."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.output import print_json

TextFile = Annotated[str, typer.Argument(help="Texts: CSV, TSV, JSON lines or Parquet.")]
TextColumn = Annotated[
    str | None, typer.Option("--text-column", help="Column of the texts.", show_default="text, sentence, ...")
]
LabelColumn = Annotated[
    str | None, typer.Option("--label-column", help="Column of the labels.", show_default="label, y, ...")
]
GroupColumn = Annotated[str | None, typer.Option("--group-column", help="Column of groups that are never split.")]
Encoder = Annotated[str, typer.Option("--encoder", help="minilm, a folder, or a hub id.")]
Layers = Annotated[
    str | None, typer.Option("--layers", help="last, all, or numbers such as 0,3,6.", show_default="by size")
]
MaxTokens = Annotated[int, typer.Option("--max-tokens", help="Longer texts are cut.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (encode, fit, apply, export):
        app.command()(command)


def asked_layers(layers: str | None) -> Any:
    """Layers as given on the command line."""
    if layers is None or layers in ("last", "all"):
        return layers
    return [int(part) if part.strip().lstrip("-").isdigit() else part.strip() for part in layers.split(",")]


def encode(
    data: TextFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Zarr store to write, or to resume.")],
    text_column: TextColumn = None,
    encoder: Encoder = "minilm",
    layers: Layers = None,
    max_tokens: MaxTokens = 128,
    as_json: opt.Json = False,
) -> None:
    """Token embeddings of texts, with mask and token strings. A run that was killed goes on where it was."""
    from spikepool.data.targets import refuse_overlap
    from spikepool.texts.encoding import encode as run
    from spikepool.texts.files import read_text_table

    refuse_overlap(out, [data, encoder])
    table = read_text_table(data, text=text_column)
    encoded = run(table.texts, encoder, asked_layers(layers), max_tokens, out=out)
    record = {
        "shape": list(encoded.X.shape),
        "layers": list(encoded.layers),
        "encoder": encoded.encoder,
        "out": str(out),
    }
    if as_json:
        print_json(record | {"notes": [*table.notes, *encoded.notes]})
        return
    print(f"Token embeddings {tuple(encoded.X.shape)} of {encoded.encoder}, layers {list(encoded.layers)}: {out}")
    for note in (*table.notes, *encoded.notes):
        print(f"Note: {note}")


def fit(
    data: TextFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the model.")],
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    group_column: GroupColumn = None,
    encoder: Encoder = "minilm",
    layers: Layers = None,
    max_tokens: MaxTokens = 128,
    task: Annotated[str, typer.Option("--task", help="auto, classification or regression.")] = "auto",
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Fit a classifier (or regressor) on labelled texts and save it, with its encoder's settings, in a folder."""
    from spikepool.data.in_memory import decided_task
    from spikepool.data.targets import check_target
    from spikepool.errors import InvalidInputError
    from spikepool.pooling.learned import LearnedPoolingClassifier, LearnedPoolingRegressor
    from spikepool.texts.files import read_text_table
    from spikepool.texts.text_model import TextSettings, default_layers, embedded, save_text_model

    check_target(out, "model", overwrite=overwrite, inputs=[data, encoder])
    table = read_text_table(data, text_column, label_column, group_column)
    if table.labels is None:
        raise InvalidInputError("which column holds the labels?", remedy="Pass --label-column")
    there = table.labelled
    texts = [text for text, ok in zip(table.texts, there, strict=True) if ok]
    asked = asked_layers(layers)
    chosen = default_layers(encoder, texts, max_tokens) if layers is None else asked
    X, mask, encoded = embedded(texts, encoder, chosen, max_tokens, progress=None)
    labels = table.labels[there]
    kind = LearnedPoolingRegressor if decided_task(labels, task) == "regression" else LearnedPoolingClassifier
    groups = None if table.groups is None else table.groups[there]
    model = kind(random_state=seed).fit(X, labels, mask=mask, groups=groups)
    settings = TextSettings(encoder, list(encoded.layers), max_tokens, table.columns["texts"])
    save_text_model(model, out, settings, overwrite=overwrite)
    notes = [*table.notes, *encoded.notes]
    if as_json:
        record = {"model": str(out), "decision": model.decision_, "layer": model.layer_, "notes": notes}
        print_json(record | {"gain": model.improvement_, "gain_standard_error": model.improvement_error_})
        return
    print(model.summary())
    for note in notes:
        print(f"Note: {note}")
    print(f"Model: {out}")


def apply(
    model: Annotated[Path, typer.Argument(help="Folder of a model made by spikepool fit.")],
    data: TextFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="Predictions to write: .csv or .jsonl.")],
    text_column: TextColumn = None,
    encoder: Annotated[str | None, typer.Option("--encoder", help="Where the encoder is, if not where it was.")] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="A column for every class.")] = False,
    overwrite: opt.Overwrite = False,
) -> None:
    """Predict the labels of new texts. The columns of the input are kept; predictions and probabilities are added."""
    from spikepool.data.columns import read_records
    from spikepool.data.targets import check_target
    from spikepool.errors import InvalidInputError
    from spikepool.kit.files import replacing_file
    from spikepool.pooling.loading import load
    from spikepool.texts.files import column_names
    from spikepool.texts.text_model import load_settings

    if out.suffix.lower() not in (".csv", ".jsonl"):
        raise InvalidInputError("--out must end in .csv or .jsonl", str(out), "Choose one of these")
    check_target(out, out.suffix.lower()[1:], overwrite=overwrite, inputs=[data, model, encoder])
    settings = load_settings(model)
    fitted = load(model)
    names = column_names(data)
    column = text_column or settings.text_column
    if column not in names:
        raise InvalidInputError(f"there is no column {column!r}", names[:12], "Name the texts with --text-column")
    with replacing_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        count = _predicted(
            stream, out.suffix.lower(), fitted, settings, read_records(data), column, encoder, probabilities
        )
    print(f"{count:,} predictions: {out}", file=sys.stderr)


def _predicted(
    stream: Any, kind: str, fitted: Any, settings: Any, records: Any, column: str, encoder: str | None, every: bool
) -> int:
    """Write records with their predictions, a few hundred at a time; returns how many."""
    from itertools import islice

    from spikepool.texts.encoders import find_encoder
    from spikepool.texts.text_model import STREAMED, predict_texts

    used = find_encoder(settings.encoder if encoder is None else encoder)
    count, writer = 0, None
    records = iter(records)
    while batch := list(islice(records, STREAMED)):
        texts = ["" if record[column] is None else str(record[column]) for record in batch]
        (labels, proba), *_ = predict_texts(fitted, settings, texts, used)
        for k, record in enumerate(batch):
            added: dict[str, Any] = {
                _free("prediction", record): labels[k].item() if hasattr(labels[k], "item") else labels[k]
            }
            if proba is not None:
                added[_free("probability", record)] = round(float(proba[k].max()), 6)
                if every:
                    classes = zip(fitted.classes_.tolist(), proba[k].tolist(), strict=True)
                    added |= {_free(f"p_{name}", record): round(value, 6) for name, value in classes}
            row = {**record, **added}
            if kind == ".jsonl":
                stream.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
                continue
            if writer is None:
                writer = csv.DictWriter(stream, fieldnames=list(row))
                writer.writeheader()
            writer.writerow(row)
        count += len(batch)
    return count


def _free(name: str, record: dict[str, Any]) -> str:
    """A name that no column of the input has."""
    return name if name not in record else _free(name + "_", record)


def export(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model.")],
    onnx: Annotated[Path | None, typer.Option("--onnx", help="ONNX file to write.")] = None,
    sentence_transformers: Annotated[
        Path | None, typer.Option("--sentence-transformers", help="Folder that sentence-transformers loads.")
    ] = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Write a saved model for other programs: ONNX, or a folder for sentence-transformers.

    --overwrite replaces an ONNX file of spikepool; an existing folder is never replaced.
    """
    from spikepool.data.targets import check_target
    from spikepool.errors import InvalidInputError
    from spikepool.pooling.loading import load

    if onnx is None and sentence_transformers is None:
        raise InvalidInputError("nothing to write", remedy="Pass --onnx FILE or --sentence-transformers FOLDER")
    for kind, out in (("onnx", onnx), ("folder", sentence_transformers)):
        if out is not None:
            others = [other for other in (onnx, sentence_transformers) if other not in (None, out)]
            check_target(out, kind, overwrite=overwrite, inputs=[model, *others])
    fitted = load(model)
    if onnx is not None:
        fitted.to_onnx(onnx, overwrite=overwrite)
        print(f"ONNX: {onnx}")
    if sentence_transformers is not None:
        _sentence_transformer(fitted, model, sentence_transformers)
        print(f"sentence-transformers: {sentence_transformers}")


def _sentence_transformer(fitted: Any, model: Path, out: Path) -> None:
    from spikepool.texts.encoders import encoder_folder
    from spikepool.texts.sentence_module import write_sentence_transformer
    from spikepool.texts.text_model import load_settings

    settings = load_settings(model)
    layers = [int(layer) for layer in settings.layers]
    write_sentence_transformer(fitted, out, encoder_folder(settings.encoder), layers, settings.max_tokens)
