"""Run every script of a folder of benchmarks, one after the other.

    python benchmarks/run.py speed
    python benchmarks/run.py studies --minutes 20

A script that lacks data or a package of this machine is skipped, with the reason; one that takes longer than
`--minutes` is stopped and reported so. The exit code is 1 only if a script fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Last line of a script that lacks something which is not part of the repository.
NOT_HERE = ("FileNotFoundError", "ModuleNotFoundError", "ImportError", "spikepool.errors.MissingDependencyError")


def run(script: Path, minutes: float) -> str:
    """Run one script; "ok", "skipped: why", "stopped after ..." or "failed: why"."""
    try:
        done = subprocess.run(
            [sys.executable, str(script)], stderr=subprocess.PIPE, text=True, timeout=60 * minutes, check=False
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {minutes:g} minutes"
    if done.returncode == 0:
        return "ok"
    last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return f"{'skipped' if last.startswith(NOT_HERE) else 'failed'}: {last}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", choices=("speed", "studies"))
    parser.add_argument("--minutes", type=float, default=60.0, help="longest time for one script")
    options = parser.parse_args()
    scripts = [p for p in sorted((HERE / options.folder).glob("*.py")) if "__main__" in p.read_text(encoding="utf-8")]
    outcomes = {}
    for script in scripts:
        print(f"== {script.relative_to(HERE.parent)}", flush=True)
        outcomes[script.name] = run(script, options.minutes)
    print("\n" + "\n".join(f"{name}: {outcome}" for name, outcome in outcomes.items()))
    return int(any(outcome.startswith("failed") for outcome in outcomes.values()))


if __name__ == "__main__":
    raise SystemExit(main())
