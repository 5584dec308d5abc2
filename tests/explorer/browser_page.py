"""What the browser tests do with a page: open it, choose, and wait until its numbers are the library's."""

import re
import threading
import time
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import spikepool as sp
from spikepool.explorer.state import StateError
from spikepool.explorer.theory import solve_query
from spikepool.explorer.verdict import verdict

DEADLINE = 60.0
SMALL = "d=80&V=400&N=200&T=6&corr=prefix&L=3&mu=1.5&w=causal&table=sampled&centered=1&plane=N"
LARGE = "d=1500&V=4000&N=4000&T=10&corr=prefix&L=3&mu=1&w=causal&table=sampled&centered=1&plane=N"


def shown_state(page):
    """The state the page shows, from the address of its exports."""
    return parse_qs(urlsplit(page.get_attribute("#export-json", "href")).query).get("state", [""])[0]


def readings(page):
    names = ("alignment", "mu-sample", "mu-population", "gain", "edge", "top")
    return [page.inner_text(f"#read-{name}") for name in names]


def shown_alignment(page):
    return float(page.inner_text("#read-alignment"))


def alignment_of_fields(page, w, **choices):
    """The library's alignment for the numbers in the page's fields, read and computed without the explorer."""
    d, V, N, T, L = (int(page.input_value(f"#{name}")) for name in ("d", "V", "N", "T", "L"))
    R = sp.prefix_correlation(T, L)
    fixed = {"mean": sp.mean_weights(T), "causal": sp.causal_weights(T), "optimal": sp.optimal_weights(R)}
    model = sp.SequenceModel(d=d, V=V, N=N, R=R, mu=float(page.input_value("#mu")), **choices)
    return model.predict(fixed[w] if isinstance(w, str) else w).alignment


def solved(query):
    """The library's answer for a query; None when there is none yet, or while it is being typed."""
    try:
        return solve_query(query) if query else None
    except StateError:
        return None


def run_until_closed(server):
    """Serve in a thread, which ends with an error of its socket when the server is closed."""

    def run():
        with suppress(OSError):
            server.run()

    threading.Thread(target=run, daemon=True).start()


def agree(page, **expected):
    """Wait until the page shows the state that is expected, and its numbers are the library's."""
    end = time.monotonic() + DEADLINE
    why = "nothing shown"
    while time.monotonic() < end:
        panels = solved(shown_state(page))
        if panels:
            p = panels.prediction
            numbers = (p.alignment, p.mu_sample, p.mu_population, p.alpha / p.kappa, p.edge, p.eigenvalue)
            texts = readings(page)
            same = all(
                re.fullmatch(r"[\d.]+", text) and abs(float(text) - value) <= 1e-4 * max(1, value)
                for text, value in zip(texts, numbers, strict=True)
            )
            if not same:
                why = f"{texts} for {numbers}"
            elif page.inner_text("#headline") != verdict(panels).headline:
                why = page.inner_text("#headline")
            else:
                wrong = {k: getattr(panels.state, k) for k, v in expected.items() if getattr(panels.state, k) != v}
                if not wrong:
                    return panels
                why = f"state {wrong}, expected {expected}"
        time.sleep(0.05)
    raise AssertionError(why)


def visit(tab, query=""):
    tab.page.goto(f"{tab.url}/?{query}" if query else tab.url)
    return agree(tab.page)


def enter(page, selector, text):
    """Fill a field, again if the page overwrote the value while it answered another input."""
    end = time.monotonic() + DEADLINE
    page.fill(selector, text)
    while page.input_value(selector) != text and time.monotonic() < end:
        time.sleep(0.1)
        page.fill(selector, text)


def choose(page, group, label):
    page.locator(f"#{group} label", has_text=re.compile(f"^{label}$")).click()
