"""Commands about the model: predict, plan, simulate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.output import print_json, print_table
from spikepool.kit.showing import number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spikepool.model import Prediction, SequenceModel

Alignment = Annotated[float, typer.Option("--alignment", "-a", help="Target squared cosine with the hidden direction.")]
Trials = Annotated[int, typer.Option("--trials", help="Independent draws.")]
Exact = Annotated[bool, typer.Option("--exact", help="Exact at finite T: use the token usage of one drawn data set.")]

# Targets of the trade-off table, next to the one asked for.
_TARGETS = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95)
# Multiples of the given vocabulary and signal in the table of both.
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(predict)
    app.command()(plan)
    app.command()(simulate)


@opt.takes_model
def predict(
    options: opt.ModelOptions,
    exact: Exact = False,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Bulk edge, outliers, alignment and thresholds for given pooling weights."""
    model = options.model()
    named = options.named_weights(model)
    predictions = {name: model.predict(w, exact=exact, rng=seed) for name, w in named.items()}
    if as_json:
        print_json(
            {
                "model": opt.model_fields(model, options.correlation),
                "exact": exact,
                "predictions": [_prediction_fields(name, p) for name, p in predictions.items()],
            }
        )
        return
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
    header = ["weights", "alpha/kappa", "bulk edge", "outliers", "alignment", "mu_pop", "mu_samp"]
    print_table(_describe(model, options.correlation), header, rows)


def _prediction_fields(name: str, p: Prediction) -> dict[str, Any]:
    return {
        "weights": name,
        "alpha": p.alpha,
        "kappa": p.kappa,
        "edge": p.edge,
        "outliers": [asdict(outlier) for outlier in p.outliers],
        "alignment": p.alignment,
        "detectable": p.detectable,
        "mu_population": p.mu_population,
        "mu_sample": p.mu_sample,
    }


def _describe(model: SequenceModel, correlation: str) -> str:
    centring = "centred" if model.centered else "not centred"
    return (
        f"d={model.d} V={model.V} N={model.N} T={model.T} {correlation} mu={model.mu:g} "
        f"({model.table} table, {centring}; delta={model.delta:.4g}, gamma={model.gamma:.4g})"
    )


@opt.takes_model
def plan(
    options: opt.ModelOptions,
    alignment: Alignment = 0.8,
    as_json: opt.Json = False,
) -> None:
    """How many sequences, what signal or what vocabulary a target alignment needs, and the trade-offs.

    Each requirement changes one quantity and keeps the others as given.
    """
    from spikepool.kit import validation as check

    check.fraction(alignment, "alignment", closed=False)
    model = options.model()
    named = options.named_weights(model)
    needs = {name: _requirements(model, w, alignment) for name, w in named.items()}
    targets = sorted({*_TARGETS, alignment})
    by_target = {
        name: [{"target": target, **_requirements(model, w, target, ("samples", "mu"))} for target in targets]
        for name, w in named.items()
    }
    by_size = {name: _samples_by_vocabulary(model, w, alignment) for name, w in named.items()}
    if as_json:
        print_json(
            {
                "model": opt.model_fields(model, options.correlation),
                "target": alignment,
                "requirements": [{"weights": name, **item} for name, item in needs.items()],
                "requirements_by_target": by_target,
                "samples_by_vocabulary_and_signal": by_size,
            }
        )
        return
    header = ["weights", "alignment now", "sequences N", "signal mu", "vocabulary V"]
    print_table(
        f"To reach alignment {alignment:g} from {_describe(model, options.correlation)}",
        header,
        [
            [name, number(item["alignment"]), *_requirement_cells(item), _vocabulary_cell(item["vocabulary"])]
            for name, item in needs.items()
        ],
    )
    for name, item in needs.items():
        for reason in item["reasons"].values():
            print(f"  – {name}: {reason}")
    for name in named:
        rows = [[number(item["target"]), *_requirement_cells(item)] for item in by_target[name]]
        print_table(f"Trade-offs ({name}): by target", ["target", *header[2:4]], rows)
        grid = by_size[name]
        print_table(
            f"Trade-offs ({name}): sequences for alignment {alignment:g}, by vocabulary and signal",
            ["vocabulary V", *(f"mu = {number(value)}" for value in grid[0]["mu"])],
            [[number(row["V"]), *map(_samples_cell, row["samples"])] for row in grid],
        )


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
    result: dict[str, Any] = {"alignment": model.predict(w).alignment, "reasons": {}}
    for name in quantities:
        try:
            found = solvers[name](w, target)
            result[name] = asdict(found) if name == "vocabulary" else found
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
    if vocabulary["maximum"] == float("inf"):
        return f"≥ {number(vocabulary['minimum'])}"
    return f"{number(vocabulary['minimum'])} to {number(int(vocabulary['maximum']))}"


def _samples_cell(samples: int | None) -> str:
    return "never" if samples is None else number(int(samples))


@opt.takes_model
def simulate(
    options: opt.ModelOptions,
    trials: Trials = 20,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Draw data sets and compare the top eigenpair of S with the prediction."""
    from spikepool.kit import validation as check

    check.size(trials, "trials", minimum=2)
    model = options.model()
    results = []
    for name, w in options.named_weights(model).items():
        p = model.predict(w)
        s = model.simulate(w, trials=trials, rng=seed)
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
            }
        )
    if as_json:
        print_json(
            {
                "model": opt.model_fields(model, options.correlation),
                "trials": trials,
                "seed": seed,
                "simulations": results,
            }
        )
        return
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
    header = ["weights", "alignment", "predicted", "top eigenvalue", "predicted"]
    print_table(f"{_describe(model, options.correlation)}, {trials} trials, seed {seed}", header, rows)


def _mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean over trials and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)
