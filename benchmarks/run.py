"""Run every script of a folder of benchmarks, one after the other.

    python benchmarks/run.py speed
    python benchmarks/run.py studies --minutes 20
    python benchmarks/run.py speed --quick            # small sizes: does every script still run?
    python benchmarks/run.py studies --quick --only trust

With `--quick` the scripts run in a copy of this folder, so that recorded results stay as they are. A script that lacks
data or a package of this machine is left out, with what it needs; one that takes longer than `--minutes` is stopped and
reported so. The exit code is 1 only if a script fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Last line of a script that lacks something which is not part of the repository.
NOT_HERE = ("needs ", "FileNotFoundError", "ModuleNotFoundError", "ImportError", "spikepool.errors.MissingDependency")
# Arguments of a short run, for scripts whose default takes more than a minute; the others run as they are.
QUICK: dict[str, str] = {
    "explorer_slider": "--moves 3",
    "large": "--size 128k --scale 0.05",
    "pooling_scale": "--rows 20000",
    "routes": "--draws 20 --d 60",
    "simulation": "--quick --part sweep500",
    "tables": "--repeats 1",
    "campaign": "--models 5",
    "choose": "--set splice --sizes 100",
    "choose_probe": "--set splice",
    "detection": "--draws 20 --sizes 100",
    "forecast": "--tasks digits --repeats 1",
    "forecast_estimators": "table",
    "forecast_regression": "--tasks diabetes --repeats 1",
    "laws_campaign": "--laws 40",
    "learned_pooling_theory": "--sizes 125 --trials 1",
    "learned_stress": "--draws 1 --kind short --signal all",
    "planted": "--quick --draws 2",
    "query_models": "--models 2 --trials 4",
    "real_data": "--case digits --method spectral",
    "trust": "controls --draws 2",
}
# Scripts that a short run leaves out, and why.
NOT_QUICK = {
    "before_after": "needs the history of the repository, which the copy of the scripts lacks",
    "large_tables": "needs published tables, 700 MB that it downloads",
}


def run(script: Path, minutes: float, arguments: list[str], folder: Path | None) -> str:
    """Run one script; "ok", "left out: why", "stopped after ..." or "failed: why"."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, str(script), *arguments],
            stderr=subprocess.PIPE,
            text=True,
            timeout=60 * minutes,
            check=False,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {minutes:g} minutes"
    if done.returncode == 0:
        return f"ok ({time.monotonic() - start:.0f} s)"
    last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return f"{'left out' if last.startswith(NOT_HERE) else 'failed'}: {last}"


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the benchmarks beside links to what they use of the repository."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as name:
        folder = Path(name)
        shutil.copytree(HERE, folder / HERE.name)
        for part in HERE.parent.iterdir():
            if part != HERE and not part.name.startswith("."):
                os.symlink(part, folder / part.name)
        yield folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", choices=("speed", "studies"))
    parser.add_argument("--minutes", type=float, default=60.0, help="longest time for one script")
    parser.add_argument("--quick", action="store_true", help="small sizes, in a copy of this folder")
    parser.add_argument("--only", default="", help="scripts whose name contains this")
    options = parser.parse_args()
    with copied() if options.quick else nullcontext(HERE.parent) as root:
        outcomes = {}
        for script in sorted((root / HERE.name / options.folder).glob("*.py")):
            if options.only not in script.stem or "__main__" not in script.read_text(encoding="utf-8"):
                continue  # not asked for, or a module of others
            arguments = QUICK.get(script.stem, "").split() if options.quick else []
            print(f"== {' '.join([f'{options.folder}/{script.name}', *arguments])}", flush=True)
            if options.quick and script.stem in NOT_QUICK:
                outcomes[script.name] = f"left out: {NOT_QUICK[script.stem]}"
            else:
                outcomes[script.name] = run(script, options.minutes, arguments, root if options.quick else None)
            print(outcomes[script.name], flush=True)
    print("\n" + "\n".join(f"{name}: {outcome}" for name, outcome in outcomes.items()))
    return int(any(outcome.startswith("failed") for outcome in outcomes.values()))


if __name__ == "__main__":
    raise SystemExit(main())
