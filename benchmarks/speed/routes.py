"""Both simulation routes, table drawn and not, over the whole table of problems: means and scatter of the top pair.

    python benchmarks/speed/routes.py [--draws 200] [--d 120]

For every problem of ``tests/problems.py`` with Gaussian noise, at its own aspect ratios and the given d. Means are
compared in standard errors of their difference, scatter as a ratio of standard deviations.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE.parent / "tests"))

from problems import PROBLEMS  # noqa: E402  the one table of problems is the tests'

RESULTS = HERE / "results" / "routes.json"


def compare(problem, draws, seed):
    """Distances of the means in standard errors, and ratios of the standard deviations, of two routes."""
    model, w = problem.model, problem.weights
    lazy = model.simulate(w, trials=draws, k=1, rng=[seed, 0])
    drawn = model.simulate(w, trials=draws, k=1, rng=[seed, 1], table_drawn=True)
    assert (lazy.table_drawn, drawn.table_drawn) == (False, True)
    row = {"problem": problem.name, "d": model.d}
    for name in ("eigenvalue", "alignment"):
        a, b = getattr(lazy, name), getattr(drawn, name)
        row[f"{name}_z"] = float((a.mean() - b.mean()) / np.hypot(a.std(ddof=1), b.std(ddof=1)) * np.sqrt(draws))
        row[f"{name}_scatter"] = float(a.std(ddof=1) / b.std(ddof=1))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--d", type=int, default=120)
    arguments = parser.parse_args()
    rows = []
    for i, problem in enumerate(p for p in PROBLEMS if p.model.noise == "gaussian"):
        row = compare(problem.at(arguments.d), arguments.draws, i)
        rows.append(row)
        print(
            f"{row['problem']:36s} eigenvalue {row['eigenvalue_z']:+5.2f} se, scatter {row['eigenvalue_scatter']:.2f};"
            f"  alignment {row['alignment_z']:+5.2f} se, scatter {row['alignment_scatter']:.2f}",
            flush=True,
        )
    z = np.array([[row["eigenvalue_z"], row["alignment_z"]] for row in rows])
    scatter = np.array([[row["eigenvalue_scatter"], row["alignment_scatter"]] for row in rows])
    summary = {
        "draws": arguments.draws,
        "problems": len(rows),
        "largest_z": float(np.abs(z).max()),
        "rms_z": float(np.sqrt(np.mean(z**2))),
        "scatter_range": [float(scatter.min()), float(scatter.max())],
    }
    print(summary)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({**summary, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
