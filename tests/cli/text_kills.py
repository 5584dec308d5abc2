"""Kill text commands at random moments while two of them race for one target: python text_kills.py KILLS [SEED].

Processes are forked, so that one starts in milliseconds and kills fall inside its work. After every race the target is
missing, what it was before, or complete: byte for byte the output of a run without interruption. A process that was not
killed has written the target or was refused because the other had written it. Nothing is left but hidden ``.part``
files of the killed, and the next run ends as if nothing had happened. Prints a line for each race and raises at the
first violation.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import onnx  # noqa: F401  # imported before forking, as are the others
import onnxruntime  # noqa: F401
import sklearn.linear_model  # noqa: F401
import tokenizers  # noqa: F401

from spikepool.cli import main
from spikepool.texts import classifier  # noqa: F401

COMMANDS = {
    "fit": (["fit", "texts.csv", "--layers", "last"], "--out", "fitted"),
    "apply": (["apply", "model", "many.csv", "--probabilities"], "--out", "p.csv"),
    "encode": (["encode", "many.csv", "--layers", "last"], "--out", "e.npz"),
    "export": (["export", "model"], "--onnx", "served/m.onnx"),
}
REFUSED = 2  # exit code of a command whose target is there


def inputs(folder: Path) -> None:
    """Labelled texts, many texts, and a model."""
    words = ["rain and snow", "storm tonight", "soup and bread", "pizza or noodles"]
    for name, rows in (("texts.csv", 40), ("many.csv", 600)):
        with (folder / name).open("w", newline="") as stream:
            lines = [(f"{words[i % 4]} {i}", ("weather", "food")[i % 4 // 2]) for i in range(rows)]
            csv.writer(stream).writerows([("text", "label"), *lines])
    (folder / "served").mkdir()


def content(place: Path) -> dict[str, str]:
    """Every file of a target by its checksum; tokenizer.json belongs to an exported model."""
    if place.suffix == ".onnx":
        files = [place, place.with_name("tokenizer.json")]
    else:
        files = [place] if place.is_file() else sorted(place.rglob("*"))
    return {str(file.name): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()}


def run(arguments: list[str]) -> None:
    """In a forked process: the command, quietly; its exit code is that of the process."""
    stop = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(stop):
        try:
            main(arguments)
        except SystemExit as err:
            code = int(err.code or 0)
        except BaseException as err:
            code, _ = 1, stop.write(f"{type(err).__name__}: {err}")
    if code not in (0, REFUSED):
        print(stop.getvalue(), file=sys.__stderr__, flush=True)
    os._exit(code)


def alone(context, arguments: list[str]) -> float:
    """Run a command without interruption; its seconds."""
    begin = time.monotonic()
    process = context.Process(target=run, args=(arguments,))
    process.start()
    process.join(300)
    assert process.exitcode == 0, (arguments, process.exitcode)
    return time.monotonic() - begin


def remove(target: Path) -> None:
    """Take a target away."""
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
        if target.suffix == ".onnx":
            target.with_name("tokenizer.json").unlink(missing_ok=True)


def race(context, name: str, expected: dict[str, str], seconds: float, rng: random.Random) -> int:
    """Two processes for one target, one or both killed at a random moment; the number of kills."""
    command, option, out = COMMANDS[name]
    target = Path(out)
    replace = rng.random() < 0.5
    if not replace:
        remove(target)
    elif not target.exists():
        alone(context, [*command, option, out])
    others = {path for path in Path().rglob("*") if target not in (path, *path.parents)}
    arguments = [*command, option, out, *(["--overwrite"] if replace else [])]
    racers = [context.Process(target=run, args=(arguments,)) for _ in range(2)]
    for racer in racers:
        racer.start()
    time.sleep(rng.uniform(0.1, 1.1) * seconds)
    kills = 0
    for racer in rng.choice([racers[:1], racers[1:], racers, racers]):
        if racer.is_alive():
            os.kill(racer.pid, signal.SIGKILL)
            kills += 1
    for racer in racers:
        racer.join(300)
        assert not racer.is_alive(), "a process hangs"
    codes = sorted(racer.exitcode for racer in racers)
    assert all(code in (0, REFUSED, -signal.SIGKILL) for code in codes), codes
    if 0 in codes or replace:
        assert target.exists(), f"{name}: the target is gone, exit codes {codes}"
    if target.exists():
        found = content(target)
        assert found.items() <= expected.items(), f"{name}: the target is not complete, exit codes {codes}"
        assert found == expected or 0 not in codes, f"{name}: a part of the output is missing, exit codes {codes}"
    new = {path for path in Path().rglob("*") if target not in (path, *path.parents)} - others
    beside = {target.with_name("tokenizer.json")} if target.suffix == ".onnx" else set()
    strange = [
        path
        for path in new - beside
        if not any(p.name.startswith(".") and p.suffix == ".part" for p in (path, *path.parents))
    ]
    assert not strange, strange
    # what is left does not hinder the next one
    alone(context, [*command, option, out, "--overwrite"])
    assert content(target) == expected, f"{name}: the next run differs"
    return kills


def campaign(folder: Path, kills: int, seed: int = 0) -> dict[str, int]:
    """Kill until `kills` processes have died; kills by command."""
    os.chdir(folder)
    context, rng = multiprocessing.get_context("fork"), random.Random(seed)
    inputs(folder)
    alone(context, ["fit", "texts.csv", "--layers", "last", "--out", "model"])
    expected, seconds = {}, {}
    for name, (command, option, out) in COMMANDS.items():
        seconds[name] = alone(context, [*command, option, out])
        expected[name] = content(Path(out))
    counts = dict.fromkeys(COMMANDS, 0)
    while sum(counts.values()) < kills:
        name = min(counts, key=lambda key: counts[key])
        counts[name] += race(context, name, expected[name], seconds[name], rng)
        print(f"{name}: {counts[name]} kills; {sum(counts.values())} in all", flush=True)
    return counts


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        print(campaign(Path(where), int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0), flush=True)
        os.chdir("/")
