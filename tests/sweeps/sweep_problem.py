"""The sweep of the fault tests, as a module and as a driver process: python sweep_problem.py STORE [options]."""

from __future__ import annotations

import argparse
import sys

import spikepool as sp
from spikepool.sweeps import SweepSpec, run

WEIGHTS = {"mean": "mean", "causal": sp.causal_weights(6)}


def small_model(**changes) -> sp.SequenceModel:
    fields = {"d": 40, "V": 64, "N": 80, "R": sp.prefix_correlation(6, 3), "mu": 1.0} | changes
    return sp.SequenceModel(**fields)


def problem(trials: int = 40, seed: int = 0) -> SweepSpec:
    """Two vocabularies, three signal strengths: 2 prediction cells and 2 x trials simulated ones."""
    return SweepSpec(small_model(), WEIGHTS, {"V": [64, 96], "mu": [0.5, 1.0, 2.0]}, trials=trials, seed=seed, k=2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--scheduler")
    options = parser.parse_args()
    try:
        run(
            problem(options.trials),
            store=options.store,
            workers=options.workers,
            scheduler=options.scheduler,
        )
    except sp.SpikepoolError as err:
        sys.exit(f"{type(err).__name__}: {err}")


main() if __name__ == "__main__" else None
