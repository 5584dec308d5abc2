"""The shell script of docs/howto/analyse-a-table.md fails on damaged checkpoints and passes on a copy."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
save_file = pytest.importorskip("safetensors.numpy").save_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "analyse-a-table.md"
RNG = np.random.default_rng(0)
MODEL = {
    "wte.weight": RNG.standard_normal((90, 32), dtype=np.float32),
    "h.0.up.weight": RNG.standard_normal((80, 40), dtype=np.float32),
    "h.0.norm.weight": np.ones(32, dtype=np.float32),
}


def changed(name, value):
    return {**MODEL, name: value.astype(np.float32)}


def with_nan():
    weight = MODEL["h.0.up.weight"].copy()
    weight[3, 4] = np.nan
    return changed("h.0.up.weight", weight)


def with_outliers():
    columns = np.linalg.qr(RNG.standard_normal((80, 5)))[0]
    rows = np.linalg.qr(RNG.standard_normal((40, 5)))[0]
    return changed("h.0.up.weight", MODEL["h.0.up.weight"] + 60 * columns @ rows.T)


# candidate -> (tensors, exit code, what is reported)
CANDIDATES = {
    "a copy": (MODEL, 0, "Verdict: OK"),
    "NaN in a weight": (with_nan(), 3, "failed = 1"),
    "a tensor is missing": ({k: v for k, v in MODEL.items() if k != "h.0.up.weight"}, 3, "missing = 1"),
    "a weight moved by 20 %": (changed("h.0.norm.weight", 1.2 * MODEL["h.0.norm.weight"]), 3, "drift>0.05"),
    "five new outliers": (with_outliers(), 3, "outliers_change>2"),
    "cut short": (None, 2, "error"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The script of the page, the released model and its baseline, and the command as this Python runs it."""
    place = tmp_path_factory.mktemp("recipe")
    script = re.search(r"^```text\n(#!/bin/sh\n.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (place / "check.sh").write_text(script.group(1))
    command = place / "bin" / "spikepool"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spikepool.cli "$@"\n')
    command.chmod(0o755)
    save_file(MODEL, place / "released.safetensors")
    with (place / "baseline.json").open("w") as baseline:
        subprocess.run(
            [command, "spectrum", "released.safetensors", "--all", "--json"], cwd=place, stdout=baseline, check=True
        )
    return place


@pytest.mark.slow
@pytest.mark.parametrize("name", CANDIDATES)
def test_the_recipe(folder, name):
    tensors, code, words = CANDIDATES[name]
    candidate = folder / "candidate.safetensors"
    save_file(tensors or MODEL, candidate)
    if tensors is None:
        candidate.write_bytes(candidate.read_bytes()[:-100])
    done = subprocess.run(
        ["sh", "check.sh", "released.safetensors", candidate.name],
        cwd=folder,
        env={**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout + done.stderr
