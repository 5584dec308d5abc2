"""Load test of the explorer: 50 sessions moving sliders while 4 simulations run, on loopback.

A session is what one browser tab does: it sends the request of the page when a slider moves, waits for the answer, and
moves again after half a second to a second and a half. Four more tabs run simulations of the page's default number of
draws: started and polled as the page does it, and started anew when they end. No simulation is started in the last
third; the sessions go on until the last one has finished. It passes when the median update takes less than 300 ms and
every simulation that was started has finished. The baselines, measured first in the same run, are one session and one
simulation on an idle server.

Run: python benchmarks/speed/explorer_load.py [--seconds 30] [--sessions 50] [--draws 8]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

SIMULATIONS = 4
DRAWS = 8  # the page's own default
PATIENCE_SECONDS = 180  # after the end, for simulations to finish
LIMIT_SECONDS = 0.3
LIMIT_BYTES = 3 * 2**30
CALLBACK = "/_dash-update-component"
STATE = "d=500&V=8000&N=1000&T=20&corr=prefix&L={L}&mu={mu}&w={w}&table=sampled&centered=1&plane=N"


class Tab:
    """One browser tab's worth of requests over one connection."""

    def __init__(self, port: int, seed: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.rng = random.Random(seed)
        self.times: list[float] = []
        self.errors: list[str] = []

    def post(self, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body of the answer to a callback."""
        self.connection.request("POST", CALLBACK, json.dumps(body), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def move(self, request: Any) -> None:
        """Move a slider to a state nobody has asked for before."""
        rng = self.rng
        query = STATE.format(
            L=rng.randint(1, 20), mu=round(rng.uniform(0, 3), 9), w=rng.choice(["mean", "causal", "optimal"])
        )
        body = request("spectrum.figure", {"query.data": query, "theme.data": "light", "shown-job.data": None}, {})
        start = time.perf_counter()
        try:
            status, data = self.post(body)
        except OSError as err:
            self.errors.append(repr(err))
            return
        self.times.append(time.perf_counter() - start)
        if status != 200 or b'"problem":{"children":"","hidden":true}' not in data:
            self.errors.append(f"{status} {data[:200]!r}")


class Site:
    """A server in a separate process."""

    def __init__(self) -> None:
        code = "from spikepool.explorer import serve; serve(port=0, open_browser=False)"
        self.process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(re.search(r":(\d+)/", self.process.stdout.readline()).group(1))  # type: ignore[union-attr]
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/_dash-dependencies")
        self.callbacks = json.loads(connection.getresponse().read())

    def request(self, marker: str, values: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        """The body the page sends for the callback whose output contains `marker`."""
        callback = next(c for c in self.callbacks if marker in c["output"] and not c.get("clientside_function"))

        def part(items: list[dict[str, str]], given: dict[str, Any]) -> list[dict[str, Any]]:
            return [{**item, "value": given.get(f"{item['id']}.{item['property']}")} for item in items]

        names = callback["output"].strip(".").split("...")
        return {
            "output": callback["output"],
            "outputs": [dict(zip(("id", "property"), n.rsplit(".", 1), strict=True)) for n in names],
            "inputs": part([{"id": i["id"], "property": i["property"]} for i in callback["inputs"]], values),
            "state": part([{"id": i["id"], "property": i["property"]} for i in callback["state"]], state),
            "changedPropIds": [next(iter(values))],
        }

    def memory(self) -> tuple[int, int]:
        """Resident bytes of the server, and of the server with its workers."""
        server = psutil.Process(self.process.pid)
        own = server.memory_info().rss
        total = own
        for child in server.children(recursive=True):
            try:
                total += child.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return own, total

    def close(self) -> None:
        """Stop the server as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=20)


class Clock:
    """When simulations stop being started, and when everything ends."""

    def __init__(self, seconds: float) -> None:
        now = time.monotonic()
        self.last_start = now + 2 * seconds / 3
        self.least_end = now + seconds
        self.latest_end = now + seconds + PATIENCE_SECONDS
        self.simulating = 0

    def over(self) -> bool:
        """Whether the time is up and no simulation is left, or patience is at its end."""
        now = time.monotonic()
        return now > self.latest_end or (now > self.least_end and not self.simulating)


def run_session(site: Site, tab: Tab, clock: Clock) -> None:
    time.sleep(tab.rng.uniform(0, 1))
    while not clock.over():
        tab.move(site.request)
        time.sleep(tab.rng.uniform(0.5, 1.5))


def simulate_once(site: Site, tab: Tab, end: float, draws: int) -> float | None:
    """Start a simulation and poll it as the page does; seconds until it had finished, None when it did not."""
    query = STATE.format(L=4, mu=0.7, w="causal")
    job = None

    def call(trigger: str) -> dict[str, Any]:
        state = {"query.data": query, "draws.value": draws, "job.data": job}
        status, data = tab.post(site.request("progress.value", {trigger: 1}, state))
        if status != 200:
            tab.errors.append(f"{status} {data[:200]!r}")
            return {}
        return dict(json.loads(data)["response"])

    start = time.monotonic()
    job = call("simulate.n_clicks").get("job", {}).get("data")
    if job is None:
        tab.errors.append("a simulation was not started")
        return None
    while time.monotonic() < end:
        time.sleep(0.35)
        answer = call("tick.n_intervals")
        if answer.get("tick", {}).get("disabled"):
            note = str(answer["simulation-note"]["children"])
            if note.startswith("Done"):
                return time.monotonic() - start
            tab.errors.append(note)
            return None
    call("cancel.n_clicks")
    return None


def run_simulations(site: Site, tab: Tab, clock: Clock, draws: int, outcomes: list[float | None]) -> None:
    """One simulation after the other, until no more are to be started."""
    while time.monotonic() < clock.last_start:
        clock.simulating += 1
        outcomes.append(simulate_once(site, tab, clock.latest_end, draws))
        clock.simulating -= 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    site = Site()
    try:
        # the imports of the workers happen once a server, at its start
        quiet = Tab(site.port, 999)
        if simulate_once(site, quiet, time.monotonic() + 60, 1) is None:
            raise SystemExit("a simulation of one draw did not end within a minute")
        idle = simulate_once(site, quiet, time.monotonic() + PATIENCE_SECONDS, options.draws)
        alone = Tab(site.port, 0)
        for _ in range(40):
            alone.move(site.request)
        warm = site.memory()[0]
        tabs = [Tab(site.port, seed) for seed in range(1, options.sessions + 1)]
        runners = [Tab(site.port, 1000 + seed) for seed in range(SIMULATIONS)]
        outcomes: list[float | None] = []
        clock = Clock(options.seconds)
        began = time.monotonic()
        threads = [
            threading.Thread(target=run_simulations, args=(site, tab, clock, options.draws, outcomes))
            for tab in runners
        ]
        threads += [threading.Thread(target=run_session, args=(site, tab, clock)) for tab in tabs]
        for thread in threads:
            thread.start()
        samples = []
        while any(thread.is_alive() for thread in threads):
            samples.append(site.memory())
            time.sleep(0.5)
        seconds = time.monotonic() - began
    finally:
        site.close()
    times = sorted(t for tab in tabs for t in tab.times)
    errors = [e for tab in (alone, *tabs, *runners) for e in tab.errors]
    done = [outcome for outcome in outcomes if outcome is not None]
    half = [own for own, _ in samples[len(samples) // 2 :]]
    result = {
        "sessions": options.sessions,
        "simulations": SIMULATIONS,
        "draws": options.draws,
        "seconds": round(seconds, 1),
        "cores": os.cpu_count(),
        "machine_load_1min": round(os.getloadavg()[0], 1),
        "updates": len(times),
        "updates_per_second": round(len(times) / seconds, 1),
        "baseline_one_session_median_ms": round(1000 * statistics.median(alone.times[10:]), 1),
        "median_ms": round(1000 * statistics.median(times), 1),
        "p95_ms": round(1000 * times[int(0.95 * len(times))], 1),
        "max_ms": round(1000 * times[-1], 1),
        "baseline_one_simulation_seconds": None if idle is None else round(idle, 1),
        "simulations_started": len(outcomes),
        "simulations_finished": len(done),
        "simulation_median_seconds": round(statistics.median(done), 1) if done else None,
        "simulation_max_seconds": round(max(done), 1) if done else None,
        "errors": len(errors),
        "server_mb_warm": round(warm / 2**20),
        "server_mb_peak": round(max(own for own, _ in samples) / 2**20),
        "server_mb_growth_second_half": round((half[-1] - half[0]) / 2**20),
        "with_workers_mb_peak": round(max(total for _, total in samples) / 2**20),
    }
    for name, value in result.items():
        print(f"{name:32} {value}")
    folder = Path(__file__).parents[1] / "results"
    folder.mkdir(exist_ok=True)
    (folder / "explorer_load.json").write_text(json.dumps(result, indent=1) + "\n")
    if errors:
        raise SystemExit(f"{len(errors)} errors, the first: {errors[0]}")
    if result["median_ms"] >= 1000 * LIMIT_SECONDS:
        raise SystemExit(f"median theory update {result['median_ms']} ms, the limit is {1000 * LIMIT_SECONDS:g} ms")
    if len(done) < len(outcomes) or len(done) < SIMULATIONS:
        raise SystemExit(f"{len(done)} of {len(outcomes)} simulations finished")
    if max(total for _, total in samples) > LIMIT_BYTES:
        raise SystemExit(f"memory beyond {LIMIT_BYTES / 2**30:g} GiB")


if __name__ == "__main__":
    main()
