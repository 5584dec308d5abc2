"""Commands about the model: predict, simulate.

The command ``plan``: what a target alignment needs, and the trade-offs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.output import checked_out, print_json, print_table, write_out
from spikepool.kit.showing import html_table, number

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
    app.command()(plan)


@opt.bundled
def predict(
    options: opt.ModelOptions,
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


@opt.bundled
def simulate(
    options: opt.ModelOptions,
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
    from spikepool.kit.showing import standard_error

    return float(values.mean()), float(standard_error(values))


Alignment = Annotated[float, typer.Option("--alignment", "-a", help="Target squared cosine with the hidden direction.")]

# Targets of the trade-off table, next to the one asked for.
_TARGETS = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95)
# Multiples of the given vocabulary and signal in the table of both.
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@opt.bundled
def plan(
    options: opt.ModelOptions,
    alignment: Alignment = 0.8,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """How many sequences, what signal strength or what vocabulary a target alignment needs, and the trade-offs.

    Each requirement changes one quantity and keeps the others as given.
    """
    from spikepool.kit import validation as check

    check.fraction(alignment, "alignment", closed=False)
    out = checked_out(out, overwrite, options.files())
    model = options.model()
    named = options.named_weights(model)
    needs = {name: _requirements(model, w, alignment) for name, w in named.items()}
    targets = sorted({*_TARGETS, alignment})
    by_target = {
        name: [{"target": target, **_requirements(model, w, target, ("samples", "mu"))} for target in targets]
        for name, w in named.items()
    }
    by_size = {name: _samples_by_vocabulary(model, w, alignment) for name, w in named.items()}
    title = f"To reach alignment {alignment:g} from {describe(model, options.described_correlation)}"
    tables = _tables(title, alignment, needs, by_target, by_size)
    reasons = [f"{name}: {reason}" for name, item in needs.items() for reason in item["reasons"].values()]
    reasons += [
        f"{name}, {quantity}: caution, {reason}"
        for name, item in needs.items()
        for quantity, found in item["cautions"].items()
        for reason in found
    ]
    if as_json:
        print_json(
            "plan",
            {
                "model": options.fields(model),
                "target": alignment,
                "requirements": [{"weights": name, **item} for name, item in needs.items()],
                "requirements_by_target": by_target,
                "samples_by_vocabulary_and_signal": by_size,
            },
        )
    else:
        for place, table in enumerate(tables):
            print_table(*table)
            if place == 0:
                print("".join(f"  – {reason}\n" for reason in reasons), end="")
    write_out(
        out,
        title,
        lambda: _figure(model, named, alignment),
        lambda: (
            "".join(html_table(header, rows, title=name) for name, header, rows in tables)
            + html_table((), [(reason,) for reason in reasons])
        ),
        quiet=as_json,
    )


Printed = tuple[str, list[str], list[list[str]]]  # title, header and rows of a table


def _tables(
    title: str,
    alignment: float,
    needs: dict[str, dict[str, Any]],
    by_target: dict[str, list[dict[str, Any]]],
    by_size: dict[str, list[dict[str, Any]]],
) -> list[Printed]:
    """What the target needs, then for each weighting the two trade-offs."""
    header = ["weights", "alignment now", "sequences N", "strength mu", "vocabulary V"]
    rows = [
        [name, number(item["alignment"]), *_requirement_cells(item), _vocabulary_cell(item["vocabulary"])]
        for name, item in needs.items()
    ]
    tables: list[Printed] = [(title, header, rows)]
    for name, items in by_target.items():
        rows = [[number(item["target"]), *_requirement_cells(item)] for item in items]
        tables.append((f"Trade-offs ({name}): by target", ["target", *header[2:4]], rows))
        grid = by_size[name]
        tables.append(
            (
                f"Trade-offs ({name}): sequences for alignment {alignment:g}, by vocabulary and strength",
                ["vocabulary V", *(f"mu = {number(value)}" for value in grid[0]["mu"])],
                [[number(row["V"]), *map(_samples_cell, row["samples"])] for row in grid],
            )
        )
    return tables


def _figure(model: SequenceModel, named: dict[str, NDArray[np.float64]], alignment: float) -> Any:
    from spikepool.drawing.plotting import new_figure
    from spikepool.drawing.predictions import draw_requirements

    figure, axes = new_figure(width=7.5)
    targets = [place / 100 for place in range(2, 99)]
    samples = {
        name: [_requirements(model, w, t, ("samples",))["samples"] for t in targets] for name, w in named.items()
    }
    draw_requirements(axes[0, 0], targets, samples, N=model.N, target=alignment)
    return figure


def _requirements(
    model: SequenceModel,
    w: NDArray[np.float64],
    target: float,
    quantities: tuple[str, ...] = ("samples", "mu", "vocabulary"),
) -> dict[str, Any]:
    """What each single change would have to be; None, with the reason, where no value is enough."""
    from spikepool.errors import UnreachableError

    solvers: dict[str, Any] = {
        "samples": model.required_samples,
        "mu": model.required_mu,
        "vocabulary": model.required_vocabulary,
    }
    result: dict[str, Any] = {"alignment": model.predict(w).alignment, "reasons": {}, "cautions": {}}
    for name in quantities:
        try:
            required = solvers[name](w, target)
            result[name] = required.to_dict() if name == "vocabulary" else required
            if not required.validity:
                result["cautions"][name] = list(required.validity.reasons)
        except UnreachableError as error:
            result[name] = None
            result["reasons"][name] = str(error)
    return result


def _samples_by_vocabulary(model: SequenceModel, w: NDArray[np.float64], target: float) -> list[dict[str, Any]]:
    """Sequences needed when vocabulary and signal change together; None where no number is enough."""
    from spikepool.errors import UnreachableError

    strengths = [model.mu * factor for factor in _FACTORS]
    rows = []
    for V in sorted({2 * max(1, round(model.V * factor / 2)) for factor in _FACTORS}):
        samples: list[int | None] = []
        for strength in strengths:
            try:
                samples.append(model.replace(V=V, mu=strength).required_samples(w, target))
            except UnreachableError:
                samples.append(None)
        rows.append({"V": V, "mu": strengths, "samples": samples})
    return rows


def _requirement_cells(item: dict[str, Any]) -> list[str]:
    return [_samples_cell(item["samples"]), "never" if item["mu"] is None else number(item["mu"])]


def _vocabulary_cell(vocabulary: dict[str, Any] | None) -> str:
    if vocabulary is None:
        return "never"
    if vocabulary["maximum"] is None:
        return f"≥ {number(vocabulary['minimum'])}"
    return f"{number(vocabulary['minimum'])} to {number(int(vocabulary['maximum']))}"


def _samples_cell(samples: int | None) -> str:
    return "never" if samples is None else number(int(samples))
