"""Commands about the model: predict, simulate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.bundles import bundled
from spikepool.cli.model_options import ModelOptions
from spikepool.cli.output import checked_out, print_json, print_table, write_out
from spikepool.kit.pages import html_table
from spikepool.kit.text import number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spikepool.model import Prediction, SequenceModel


Trials = Annotated[int, typer.Option("--trials", help="Independent draws.")]
Exact = Annotated[bool, typer.Option("--exact", help="Exact at finite T: use the token usage of one drawn data set.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(predict)
    app.command()(simulate)


@bundled
def predict(
    options: ModelOptions,
    exact: Exact = False,
    seed: opt.Seed = 0,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Bulk edge, outliers, alignment and thresholds for given pooling weights."""
    out = checked_out(out, overwrite, options.files())
    model = options.model()
    named = options.named_weights(model)
    predictions = {name: model.predict(w, exact=exact, rng=seed) for name, w in named.items()}
    title = describe(model, options.described_correlation)
    if as_json:
        records = [{"weights": name, **p.to_dict()} for name, p in predictions.items()]
        print_json("predict", {"model": options.fields(model), "exact": exact, "predictions": records})
    else:
        _print_predictions(title, predictions)
    write_out(
        out,
        f"Prediction: {title}",
        lambda: _panels(predictions),
        lambda: "".join(f"<h2>{name}</h2>{p._repr_html_()}" for name, p in predictions.items()),
        overwrite=overwrite,
        quiet=as_json,
    )


def _print_predictions(title: str, predictions: dict[str, Prediction]) -> None:
    rows = [
        [
            name,
            number(p.alpha / p.kappa),
            number(p.edge),
            ", ".join(f"{number(o.eigenvalue)} ({o.kind})" for o in p.outliers) or "none",
            number(p.alignment),
            number(p.mu_population),
            number(p.mu_sample),
        ]
        for name, p in predictions.items()
    ]
    print_table(title, ["weights", "alpha/kappa", "bulk edge", "outliers", "alignment", "mu_pop", "mu_samp"], rows)
    _print_notes({name: [p.threshold_note or "", *_cautions(p)] for name, p in predictions.items()})


def _cautions(p: Prediction) -> list[str]:
    return [f"caution: {reason}" for reason in p.validity.reasons]


def _print_notes(notes: dict[str, list[str]]) -> None:
    """Each note once, after the names it is about."""
    about: dict[str, list[str]] = {}
    for name, reasons in notes.items():
        for note in filter(None, reasons):
            about.setdefault(note, []).append(name)
    for note, names in about.items():
        print(f"{', '.join(names)}: {note}.")


def describe(model: SequenceModel, correlation: str) -> str:
    """The model on one line."""
    centring = "centred" if model.centered else "not centred"
    return (
        f"d={model.d} V={model.V} N={model.N} T={model.T} {correlation} mu={model.mu:g} "
        f"({model.table} table, {centring}; delta={model.delta:.4g}, gamma={model.gamma:.4g})"
    )


def _panels(predictions: dict[str, Prediction]) -> Any:
    """A figure with a panel for each weighting, one above the other."""
    from spikepool.drawing.plotting import new_figure

    figure, axes = new_figure(len(predictions), 1, width=8.0, height=2.7 * len(predictions))
    for (name, p), ax in zip(predictions.items(), axes[:, 0], strict=True):
        p.plot(ax).set_title(name, loc="left")
    return figure


@bundled
def simulate(
    options: ModelOptions,
    trials: Trials = 20,
    exact: Exact = False,
    seed: opt.Seed = 0,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Draw data sets and compare the top eigenpair of S with the prediction."""
    from spikepool.kit import validation as check

    check.size(trials, "trials", minimum=2)
    out = checked_out(out, overwrite, options.files())
    model = options.model()
    drawn = {}
    predictions: dict[str, Prediction] = {}
    results: list[dict[str, Any]] = []
    notes: dict[str, list[str]] = {}
    for name, w in options.named_weights(model).items():
        p = model.predict(w, exact=exact, rng=seed)
        s = model.simulate(w, trials=trials, rng=seed)
        drawn[name], predictions[name] = s.alignment, p
        alignment, alignment_error = _mean_and_error(s.alignment)
        eigenvalue, eigenvalue_error = _mean_and_error(s.eigenvalue)
        results.append(
            {
                "weights": name,
                "alignment": alignment,
                "alignment_standard_error": alignment_error,
                "predicted_alignment": p.alignment,
                "eigenvalue": eigenvalue,
                "eigenvalue_standard_error": eigenvalue_error,
                "predicted_eigenvalue": p.eigenvalue,
                "validity": p.to_dict()["validity"],
            }
        )
        notes[name] = _cautions(p)
    title = f"{describe(model, options.described_correlation)}, {trials} trials, seed {seed}"
    header = ["weights", "alignment", "predicted", "top eigenvalue", "predicted"]
    rows = [
        [
            str(r["weights"]),
            f"{r['alignment']:.4f} ± {r['alignment_standard_error']:.4f}",
            f"{r['predicted_alignment']:.4f}",
            f"{r['eigenvalue']:.4f} ± {r['eigenvalue_standard_error']:.4f}",
            f"{r['predicted_eigenvalue']:.4f}",
        ]
        for r in results
    ]
    if as_json:
        fields = {"model": options.fields(model), "exact": exact, "trials": trials, "seed": seed}
        print_json("simulate", {**fields, "simulations": results})
    else:
        print_table(title, header, rows)
        _print_notes(notes)
    write_out(
        out,
        f"Simulation: {title}",
        lambda: _trials(drawn, [r["predicted_alignment"] for r in results]),
        lambda: html_table(header, rows),
        overwrite=overwrite,
        quiet=as_json,
    )


def _trials(drawn: dict[str, NDArray[np.float64]], predicted: list[float]) -> Any:
    """A figure with the draws of every weighting side by side."""
    import numpy as np

    from spikepool.drawing.plotting import new_figure
    from spikepool.drawing.predictions import draw_trials

    figure, axes = new_figure(width=7.5)
    draw_trials(np.stack(list(drawn.values()), axis=1), axes[0, 0], predicted=predicted, names=list(drawn))
    return figure


def _mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean over trials and its standard error."""
    from spikepool.kit.statistics import standard_error

    return float(values.mean()), float(standard_error(values))
