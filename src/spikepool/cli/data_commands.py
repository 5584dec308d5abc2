"""Commands about a user's own rows: diagnose, forecast, report."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import descriptions, text_commands
from spikepool.cli import options as opt
from spikepool.cli import rows as rows_of
from spikepool.cli.bundles import bundled
from spikepool.cli.output import checked_out, checked_page, print_json, write_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Models of scikit-learn, on standardised features, by the name that --estimator takes.
ESTIMATORS = ("logistic", "svm", "knn", "forest", "boosting")
Target = Annotated[float | None, typer.Option("--target", help="Accuracy (or R²) to plan for, such as 0.9.")]
Task = Annotated[str, typer.Option("--task", help="auto, classification or regression: what the labels are.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    for command in (report, diagnose, forecast):
        app.command()(bundled(command))


def diagnose(
    features: opt.Features,
    texts: opt.Texts,
    target: Annotated[float, typer.Option("--target", help="Overlap or alignment to plan for.")] = 0.9,
    groups: opt.Groups = None,
    vocabulary: Annotated[int | None, typer.Option("--V", help="Vocabulary size, where it is known.")] = None,
    population_size: Annotated[
        int | None, typer.Option("--population-size", help="Rows of the collection that these are a random part of.")
    ] = None,
    column: opt.Column = None,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Which principal components of pooled features are real, and how many rows would make them so."""
    from spikepool.trust.diagnosis import diagnose as ask

    out = checked_out(out, overwrite, (features, groups))
    rows = rows_of.read_rows(features, "features", texts, opt.Beside(groups=groups, column=column))
    with _warnings_as_lines(as_json):
        result = ask(
            rows.X,
            V=vocabulary,
            target=target,
            groups=rows.groups,
            population_size=population_size,
            random_state=seed,
        )
    if as_json:
        print_json("diagnose", result.to_dict())
    else:
        print(result.summary())
    drawn = ("spectrum", "spans", "rows") if result.verdict == "coloured" else ("spectrum",)
    write_out(
        out,
        f"Components of {features}",
        lambda: _columns([lambda ax, what=what: result.plot(ax, what) for what in drawn]),
        result._repr_html_,
        overwrite=overwrite,
        quiet=as_json,
    )


def forecast(
    features: opt.Features,
    beside: opt.Beside,
    texts: opt.Texts,
    rows: Annotated[
        str | None,
        typer.Option("--n", help="Rows to forecast, such as 1000,2000.", show_default="1, 2, 4, 8 times the pilot"),
    ] = None,
    target: Target = None,
    task: Task = "auto",
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Give every feature the same variance before the ridge.")
    ] = False,
    estimator: Annotated[
        str | None,
        typer.Option("--estimator", help=f"Forecast another model than ridge: {', '.join(ESTIMATORS)}."),
    ] = None,
    scoring: Annotated[
        str | None, typer.Option("--scoring", help="Score of scikit-learn, such as f1_macro or neg_log_loss.")
    ] = None,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Accuracy that more labelled rows will bring, and the rows for a target, from the pilot at hand."""
    from spikepool.errors import InvalidInputError
    from spikepool.forecasting.forecast import forecast as ask

    out = checked_out(out, overwrite, (features, *beside.files()))
    sizes = None if rows is None else [int(value) for value in descriptions.parse_numbers(rows, "--n")]
    table = rows_of.read_rows(features, "features", texts, beside, unlabelled="drop")
    if table.y is None:
        raise InvalidInputError("this needs labels", remedy="Pass --labels FILE, or --label-column for the same file")
    with _warnings_as_lines(as_json):
        result = ask(
            table.X,
            table.y,
            n=sizes,
            target=target,
            task=task,
            groups=table.groups,
            estimator=None if estimator is None else _named_estimator(estimator, table.y, task, seed),
            scoring=scoring,
            mask=table.mask,
            standardize=standardize,
            random_state=seed,
        )
    if as_json:
        print_json("forecast", result.to_dict())
    else:
        print(result.summary())
    write_out(
        out,
        f"Learning curve of {features}",
        lambda: _columns([result.plot]),
        result._repr_html_,
        overwrite=overwrite,
        quiet=as_json,
    )


def _named_estimator(name: str, y: NDArray[Any], task: str, seed: int) -> Any:
    """A model of scikit-learn by its name in ``ESTIMATORS``."""
    from sklearn import ensemble, linear_model, neighbors, svm
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from spikepool.data.labels import decided_task, label_array
    from spikepool.kit import validation as check

    check.choice(name, "estimator", ESTIMATORS)
    regression = decided_task(label_array(y), task) == "regression"
    kinds: dict[str, tuple[Any, Any]] = {
        "logistic": (linear_model.LogisticRegression(max_iter=1000), linear_model.RidgeCV()),
        "svm": (svm.SVC(random_state=seed), svm.SVR()),
        "knn": (neighbors.KNeighborsClassifier(), neighbors.KNeighborsRegressor()),
        "forest": (
            ensemble.RandomForestClassifier(random_state=seed),
            ensemble.RandomForestRegressor(random_state=seed),
        ),
        "boosting": (
            ensemble.HistGradientBoostingClassifier(random_state=seed),
            ensemble.HistGradientBoostingRegressor(random_state=seed),
        ),
    }
    return make_pipeline(StandardScaler(), kinds[name][regression])


def report(
    data: opt.Either,
    beside: opt.Beside,
    texts: opt.Texts,
    target: Target = None,
    task: Task = "auto",
    group_column: text_commands.GroupColumn = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Folder for the model of labelled texts, as spikepool fit writes it.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Page (.html) or numbers (.json) to write.")] = Path(
        "report.html"
    ),
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Choose, trust, plan: three answers about your own data on one self-contained page.

    DATA holds tokens, features, or texts: a table with a column of texts (named text, sentence, ..., or by
    --text-column) is encoded first.
    """
    from spikepool.answers import report as ask
    from spikepool.data.reading import read_column
    from spikepool.data.targets import check_target
    from spikepool.errors import InvalidInputError

    checked_page(out, overwrite, (data, *beside.files(), None if save is None else str(save)))
    options: dict[str, Any] = {"target": target, "task": task, "random_state": seed}
    labels, groups = beside.labels, beside.groups
    model, table = None, None
    if texts.holds(data, beside.column):
        rows_of.refuse_mask(beside.mask)
        if groups is not None and group_column is not None:
            raise InvalidInputError("groups are given twice", group_column, "Pass --groups or --group-column")
        if save is not None:
            check_target(save, "model", overwrite=overwrite, inputs=[data, texts.encoder, str(out), labels, groups])
            table, model, answer = text_commands.fit_texts(
                data, texts, (beside.label_column, group_column), task, None, seed, (labels, groups)
            )
            result = answer(target)
        else:
            result = ask(
                data,
                None if labels is None else read_column(labels),
                groups=None if groups is None else read_column(groups, role="groups"),
                text=texts.text_column,
                label=beside.label_column,
                group=group_column,
                encoder=texts.encoder,
                layers=rows_of.asked_layers(texts.layers),
                max_tokens=texts.max_tokens,
                **options,
            )
    else:
        if save is not None:
            raise InvalidInputError("--save writes a model of texts", data, "Pass a table of labelled texts")
        rows = rows_of.read_rows(data, "either", texts, beside)
        result = ask(rows.X, rows.y, mask=rows.mask, groups=rows.groups, **options)
    result.save(out, overwrite=overwrite)
    if model is not None and table is not None and save is not None:
        model.save(save, overwrite=overwrite, text_column=table.columns["texts"])
    if as_json:
        print_json("report", result.to_dict())
    else:
        print(result.summary())
        print(f"\nPage: {out}")


def _columns(drawers: list[Any]) -> Any:
    """A figure with a panel for each function of an axes, side by side."""
    from spikepool.drawing.plotting import new_figure

    figure, axes = new_figure(1, len(drawers), width=max(6.0, 4.6 * len(drawers)))
    for draw, ax in zip(drawers, axes[0], strict=True):
        draw(ax)
    return figure


@contextmanager
def _warnings_as_lines(quiet: bool) -> Iterator[None]:
    """Warnings of the library as lines of their own on standard error, without Python's file and line.

    With `quiet` (JSON on standard output, where the result carries them) they are dropped.
    """
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UserWarning)
        yield
    if not quiet:
        for text in dict.fromkeys(str(w.message) for w in raised):
            print(f"spikepool: warning: {text}", file=sys.stderr)
