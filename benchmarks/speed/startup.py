"""How long a user waits before anything happens: `import spikepool`, a first prediction, `spikepool --version`.

Each is a fresh process; the cost of starting Python itself is measured beside it. Run:
python benchmarks/speed/startup.py
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 5
PREDICT = (
    "import spikepool as sp; R = sp.prefix_correlation(5, 2); "
    "sp.SequenceModel(50, 80, 100, R, 1.0).predict(sp.mean_weights(5))"
)
COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "import numpy, scipy.linalg": [sys.executable, "-c", "import numpy, scipy.linalg"],
    "import spikepool": [sys.executable, "-c", "import spikepool"],
    "first prediction": [sys.executable, "-c", PREDICT],
    "spikepool --version": [sys.executable, "-m", "spikepool.cli", "--version"],
}


def seconds(command: list[str]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    result = {name: seconds(command) for name, command in COMMANDS.items()}
    for name, value in result.items():
        print(f"{name:28} {value * 1e3:7.0f} ms")
    target = Path(__file__).parents[1] / "results" / "startup.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
