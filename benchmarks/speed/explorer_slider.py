"""From a key press on the explorer's strength slider to new numbers, and to redrawn charts, in headless Chromium.

Times are taken inside the page: the key event, the first change of the alignment's reading, and the last redraw event
of the charts. Browser, rendering (in software) and server share the machine.

    python benchmarks/speed/explorer_slider.py [--moves 20] [--chromium PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

RESULTS = Path(__file__).parents[1] / "results" / "explorer_slider.json"
WATCH = """() => {
  window.seen = {};
  const now = () => performance.now();
  document.addEventListener("keydown", () => { window.seen = { key: now() }; }, true);
  const reading = document.querySelector("#read-alignment");
  new MutationObserver(() => { window.seen.numbers ??= now(); })
    .observe(reading, { childList: true, subtree: true, characterData: true });
  document.querySelectorAll(".js-plotly-plot")
    .forEach((chart) => chart.on("plotly_afterplot", () => { window.seen.charts = now(); }));
}"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_served(port: int) -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit("the explorer did not start within 30 s")


def measure(port: int, chromium: str, moves: int) -> dict[str, list[float]]:
    spent: dict[str, list[float]] = {"numbers": [], "charts": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector(".js-plotly-plot")
        page.wait_for_timeout(3000)  # the first drawing and its fonts
        page.evaluate(WATCH)
        page.focus("#mu-slider")
        for _ in range(moves):
            page.keyboard.press("ArrowRight")
            page.wait_for_timeout(1500)  # all redraws, also late ones
            seen = page.evaluate("window.seen")
            for name, times in spent.items():
                times.append(seen[name] - seen["key"])
        browser.close()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    if not options.chromium:
        raise SystemExit("no Chromium found: pass --chromium PATH")
    port = free_port()
    command = [sys.executable, "-m", "spikepool", "explore", "--port", str(port), "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_served(port)
        spent = measure(port, options.chromium, options.moves)
    finally:
        server.terminate()
        server.wait()
    report = {"cpus": os.cpu_count(), "moves": options.moves}
    for name, times in spent.items():
        report[f"{name}_milliseconds"] = {"median": statistics.median(times), "worst": max(times)}
        print(f"{name}: median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms")
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
