"""The Typer application: global options and commands."""

from __future__ import annotations

from typing import Annotated

import typer

from spikepool import __version__
from spikepool.cli import data_commands, model_commands, run_commands, spectrum_command, text_commands

CITATION = f"""@article{{seddik2026attention,
  title  = {{How Does Attention Help? Insights from Random Matrices on Signal Recovery from Sequence Models}},
  author = {{Seddik, Mohamed El Amine}},
  year   = {{2026}},
  eprint = {{2605.06826}},
  archivePrefix = {{arXiv}}
}}

@software{{spikepool,
  title   = {{spikepool: how much of a hidden signal survives attention-weighted pooling}},
  author  = {{{{The spikepool developers}}}},
  year    = {{2026}},
  date    = {{2026-11-18}},
  version = {{{__version__}}},
  license = {{BSD-3-Clause}}
}}"""

app = typer.Typer(
    name="spikepool",
    help="Predict, optimise and verify how much of a hidden signal survives pooling of token embeddings.",
    epilog="Exit codes: 0 success, 2 wrong usage or invalid input, "
    "1 any other failure, 130 interrupted, 143 and 129 ended by SIGTERM and SIGHUP.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_version(value: bool) -> None:
    if value:
        print(f"spikepool {__version__}")
        raise typer.Exit()


def _show_citation(value: bool) -> None:
    if value:
        print(CITATION)
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    cite: Annotated[
        bool, typer.Option("--cite", callback=_show_citation, is_eager=True, help="Print BibTeX and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    # --debug is read by the entry point, which turns errors into messages; it is declared here for the help
    pass


for module in (data_commands, text_commands, spectrum_command, model_commands, run_commands):
    module.register(app)

# One line for each command, shown at the end of its help.
EXAMPLES = {
    "predict": "spikepool predict --mu 1.3 --correlation prefix:3 --weights causal",
    "simulate": "spikepool simulate --mu 1.3 --correlation prefix:3 --trials 5",
    "sweep": "spikepool sweep examples/sweep.toml --store runs/a.zarr",
    "reproduce": "spikepool reproduce alignment --out reports",
    "explore": "spikepool explore --port 8050",
    "spectrum": "spikepool spectrum model.safetensors",
    "diagnose": "spikepool diagnose features.npy",
    "forecast": "spikepool forecast features.npy --labels labels.npy --target 0.9",
    "report": "spikepool report questions.csv --text-column text --label-column label",
    "encode": "spikepool encode questions.csv --out tokens.npz",
    "fit": "spikepool fit questions.csv --out model/",
    "apply": "spikepool apply model/ new.csv --out predictions.csv",
    "evaluate": "spikepool evaluate model/ labelled.csv",
    "export": "spikepool export model/ --onnx model.onnx",
}
for command in app.registered_commands:
    function = command.callback
    command.epilog = f"Example: {EXAMPLES[command.name or function.__name__]}"  # type: ignore[union-attr]
