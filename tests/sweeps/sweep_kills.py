"""Kill drivers at random moments while two of them race for one store: python sweep_kills.py KILLS [SEED].

Drivers are forked, so that a process starts in milliseconds and kills fall inside its work. After every kill, the
cells that were finished must still be there, byte for byte; a driver that was not killed must have finished the sweep,
or have been refused because the other held the lock. A store that was killed four times is then completed, and must
equal the sweep that was never interrupted. Prints a line for each store and raises at the first violation.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import xarray  # noqa: F401  # imported before forking, as is zarr
import zarr  # noqa: F401
from sweep_problem import small_model

import spikepool as sp
from spikepool.sweeps.store import checksum_holds

SEQUENCE = small_model()
SWEEPS = {
    "sequence": (SEQUENCE, {"weights": ["mean", "causal"], "V": [64, 96], "mu": [0.5, 1.0], "trials": 20}),
    "classes": (SEQUENCE.as_classes(0.4), {"weights": ["mean"], "N": [60, 80, 100], "V": [64, 96, 128], "trials": 3}),
    "query": (
        sp.QueryModel(d=40, N=160, T=8, L=2, mu=2.0, nu=1.2),
        {"beta": [0.2, 0.5, 0.8], "L": [1, 2, 3], "trials": 3},
    ),
}
CELLS = {"sequence": 42, "classes": 18, "query": 18}
LOCKED = 3  # exit code of a driver that was refused
KILLS_PER_STORE = 4


def drive(name: str, store: Path | None):
    model, arguments = SWEEPS[name]
    return sp.sweep(model, store=store, workers=0, progress=False, **arguments)


def _process(name: str, store: Path) -> None:
    try:
        drive(name, store)
    except sp.StoreLockedError:
        os._exit(LOCKED)
    except BaseException as err:
        print(f"{type(err).__name__}: {err}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def finished(store: Path) -> dict[Path, bytes]:
    """Files of finished cells: their status, and with it all that belongs to them."""
    found = {}
    for file in store.glob("*status/c*/**/*"):
        content = file.read_bytes() if file.is_file() else b""
        if checksum_holds(content):
            found[file] = content
    return found


def _reference(name: str, seconds: dict[str, float], results: dict[str, object]) -> None:
    """The sweep without interruption, and how long it takes with a store."""
    results[name] = drive(name, None)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        drive(name, Path(folder) / "a.zarr")
        seconds[name] = time.monotonic() - begin


def race(context, name: str, store: Path, rng: random.Random, seconds: float) -> int:
    """Two drivers on one store, one or both killed at a random moment; the number of kills."""
    before = finished(store)
    drivers = [context.Process(target=_process, args=(name, store)) for _ in range(2)]
    for driver in drivers:
        driver.start()
    time.sleep(rng.uniform(0, seconds))
    victims = rng.choice([drivers[:1], drivers[1:], drivers, drivers])
    kills = 0
    for driver in victims:
        if driver.is_alive():
            os.kill(driver.pid, signal.SIGKILL)
            kills += 1
    for driver in drivers:
        driver.join(120)
        assert not driver.is_alive(), "a driver hangs"
    codes = sorted(driver.exitcode for driver in drivers)
    assert all(code in (0, LOCKED, -signal.SIGKILL) for code in codes), codes
    assert codes != [LOCKED, LOCKED], "both drivers were refused"
    after = finished(store)
    lost = [file for file, content in before.items() if after.get(file) != content]
    assert not lost, f"finished cells were lost or changed: {lost[:3]}"
    return kills


def campaign(folder: Path, kills: int, seed: int = 0) -> dict[str, int]:
    """Kill until `kills` processes have died; what was done."""
    context, rng = multiprocessing.get_context("fork"), random.Random(seed)
    counts = {"kills": 0, "stores": 0, "in mid-work": 0, "kept cells": 0}
    # references in a process of their own: threads of Zarr do not survive a fork
    reader, writer = context.Pipe(duplex=False)

    def references() -> None:
        seconds: dict[str, float] = {}
        results: dict[str, object] = {}
        for name in SWEEPS:
            _reference(name, seconds, results)
        writer.send(({name: ds.to_dict() for name, ds in results.items()}, seconds))
        os._exit(0)

    process = context.Process(target=references)
    process.start()
    expected, seconds = reader.recv()
    process.join()
    while counts["kills"] < kills:
        name = list(SWEEPS)[counts["stores"] % len(SWEEPS)]
        store = folder / f"{counts['stores']}.zarr"
        killed = 0
        while killed < KILLS_PER_STORE and counts["kills"] + killed < kills:
            killed += race(context, name, store, rng, seconds[name])
            counts["in mid-work"] += 0 < len(finished(store)) < CELLS[name]
            if len(finished(store)) == CELLS[name]:
                break
        kept = len(finished(store))
        reader, writer = context.Pipe(duplex=False)

        def complete(name: str = name, store: Path = store, writer=writer) -> None:
            drive(name, store)
            writer.send(sp.open_sweep(store).to_dict())
            os._exit(0)

        last = context.Process(target=complete)
        last.start()
        assert repr(reader.recv()) == repr(expected[name]), f"{name}: the resumed sweep differs"
        last.join()
        assert not list(store.rglob("*.part")), "unfinished files are left"
        assert not list(folder.glob(".*.lock")), "a lock is left"
        counts["kills"] += killed
        counts["stores"] += 1
        counts["kept cells"] += kept
        print(f"{store.name} {name}: {killed} kills, {kept} cells kept; {counts['kills']} in all", flush=True)
    return counts


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        print(campaign(Path(where), int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0), flush=True)
