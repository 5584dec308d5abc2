"""The command about content attention: query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli import options as opt
from spikepool.cli.output import checked_out, print_json, print_table, write_out
from spikepool.kit.showing import number

if TYPE_CHECKING:
    from spikepool.model import QueryModel
    from spikepool.theory.query import QueryPrediction


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(query)


def query(
    d: Annotated[int, typer.Option("--d", help="Embedding dimension.")] = 200,
    N: Annotated[int, typer.Option("--N", help="Number of sequences.")] = 800,
    T: Annotated[int, typer.Option("--T", help="Tokens per sequence.")] = 20,
    L: Annotated[int, typer.Option("--L", help="Relevant tokens per sequence, at unknown places.")] = 3,
    mu: Annotated[float, typer.Option("--mu", help="Signal strength.")] = 1.0,
    nu: Annotated[float, typer.Option("--nu", help="Strength of the mark that makes a token relevant.")] = 1.5,
    overlap: Annotated[float, typer.Option("--overlap", help="Cosine of the query with that mark.")] = 1.0,
    kernel: Annotated[
        list[str] | None,
        typer.Option("--kernel", "-k", help="softmax, sigmoid or linear; may be repeated.", show_default="all three"),
    ] = None,
    beta: Annotated[
        float | None, typer.Option("--beta", help="Slope of the weights in the score.", show_default="the formula's")
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Use the beta of the largest predicted alignment.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Do not divide weights by their sum.")] = False,
    V: Annotated[int | None, typer.Option("--V", help="Vocabulary size.", show_default="tokens never repeat")] = None,
    trials: Annotated[int, typer.Option("--trials", help="Also simulate this many draws.")] = 0,
    seed: opt.Seed = 0,
    out: opt.Out = None,
    overwrite: opt.Overwrite = False,
    as_json: opt.Json = False,
) -> None:
    """Attention with a query: bulk edge, outliers, alignment and gain over the mean."""
    from spikepool.errors import InvalidInputError
    from spikepool.kit import validation as check
    from spikepool.model import QueryModel
    from spikepool.world.query import KERNELS

    if best and beta is not None:
        raise InvalidInputError("--beta and --best exclude each other", beta, "Leave one of them out")
    check.size(trials, "trials", minimum=0)
    out = checked_out(out, overwrite)
    model = QueryModel(d=d, N=N, T=T, L=L, mu=mu, nu=nu, overlap=overlap, beta=beta, normalize=not raw, V=V)
    models = {"mean": model.replace(kernel="softmax", beta=0.0, normalize=True)}
    for name in kernel or KERNELS:
        one = model.replace(kernel=name)
        models[name] = one.replace(beta=one.best_beta()) if best else one
    predictions = {name: one.predict() for name, one in models.items()}
    records = [_record(name, models[name], p, trials, seed) for name, p in predictions.items()]
    vocabulary = "tokens never repeat" if V is None else f"V={V}"
    title = f"d={d} N={N} T={T} L={L} mu={mu:g} nu={nu:g} overlap={overlap:g}, {vocabulary}"
    if as_json:
        shared = {"d": d, "N": N, "T": T, "L": L, "mu": mu, "nu": nu, "overlap": overlap, "V": V, "normalize": not raw}
        print_json("query", {"model": shared, "trials": trials, "seed": seed, "predictions": records})
    else:
        _print(title, records, predictions)
    write_out(
        out,
        f"Attention with a query: {title}",
        lambda: model.plot().figure,
        lambda: "".join(f"<h2>{name}</h2>{p._repr_html_()}" for name, p in predictions.items()),
        quiet=as_json,
    )


def _record(name: str, model: QueryModel, p: QueryPrediction, trials: int, seed: int) -> dict[str, Any]:
    record = {"weights": name, "beta": model.slope, "gain": model.gain(), **p.to_dict()}
    if trials:
        from spikepool.kit.showing import standard_error

        drawn = model.simulate(trials=trials, rng=seed).alignment
        record["simulated_alignment"] = float(drawn.mean())
        record["simulated_alignment_standard_error"] = float(standard_error(drawn)) if trials > 1 else None
    return record


def _print(title: str, records: list[dict[str, Any]], predictions: dict[str, QueryPrediction]) -> None:
    simulated = "simulated_alignment" in records[0]
    header = ["weights", "beta", "gain over the mean", "bulk edge", "outliers", "alignment", "mu_samp"]
    rows = []
    for r in records:
        p = predictions[r["weights"]]
        outliers = ", ".join(f"{number(o.eigenvalue)} ({o.kind})" for o in p.outliers) or "none"
        row = [r["weights"], number(r["beta"]), number(r["gain"]), number(p.edge), outliers, number(p.alignment)]
        row.append(number(p.mu_sample))
        if simulated:
            error = r["simulated_alignment_standard_error"]
            row.append(f"{r['simulated_alignment']:.3f}" + ("" if error is None else f" ± {error:.3f}"))
        rows.append(row)
    print_table(title, [*header, "simulated"] if simulated else header, rows)
    for name, p in predictions.items():
        for reason in p.validity.reasons:
            print(f"{name}: caution: {reason}.")
