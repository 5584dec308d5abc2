"""The explorer in a real browser: simulation, exports, both themes and widths, names and keys."""

import json

import numpy as np
import pytest
from browser_page import DEADLINE, LARGE, SMALL, agree, enter, shown_state, visit

from spikepool.explorer.theory import solve_query

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_hints_explain_symbols(tab):
    visit(tab)
    button = tab.page.locator("#mu-control .hint-button")
    button.focus()
    hint = tab.page.locator("#mu-control .hint-text")
    hint.wait_for(state="visible")
    assert "noise" in hint.inner_text()
    tab.page.keyboard.press("Escape")
    hint.wait_for(state="hidden")


@pytest.mark.slow
def test_simulation_is_drawn_over_the_theory_and_exported(tab):
    page = tab.page
    visit(tab, SMALL)
    enter(page, "#draws", "12")
    page.click("#simulate")
    page.wait_for_function("() => document.querySelector('#simulation-note').textContent.startsWith('Done')")
    find = "() => document.querySelector('#alignment .js-plotly-plot').data.find(t => t.name === 'causal, simulated')"
    page.wait_for_function(find)
    drawn = page.evaluate(f"() => {{ const t = ({find})(); return [t.x, t.y, t.error_y.array]; }}")
    panels = agree(page)
    model, w = panels.state.model(), panels.weights["causal"]
    mu, mean, error = map(np.array, drawn)
    theory = np.array([model.replace(mu=float(m)).predict(w).alignment for m in mu])
    strong = theory > 0.3
    assert strong.sum() >= 3
    # twelve draws, and a bias of order 1/sqrt(d) at d = 80
    assert np.all(np.abs(mean - theory)[strong] < 4 * error[strong] + 0.08)
    code = tab.site.client.get(page.get_attribute("#export-py", "href")).get_data(as_text=True)
    assert "simulate_grid" in code
    made = {}
    exec(code, made)
    np.testing.assert_allclose(made["simulated"]["causal"], mean, rtol=1e-9)
    # another state is not overlaid with this simulation
    enter(page, "#mu", "1.1")
    agree(page, mu=1.1)
    page.wait_for_function(f"() => !({find})()")


@pytest.mark.slow
def test_a_simulation_can_be_cancelled_and_blocks_nothing(tab):
    page = tab.page
    visit(tab, LARGE)
    enter(page, "#draws", "20")
    page.click("#simulate")
    page.wait_for_selector("#cancel:not([disabled])")
    enter(page, "#mu", "0.9")
    agree(page, mu=0.9)
    assert page.is_disabled("#simulate")
    running = [job for job in tab.site.worker._jobs.values() if job.status == "running"]
    assert len(running) == 1
    page.click("#cancel")
    page.wait_for_function("() => document.querySelector('#simulation-note').textContent === 'Cancelled.'")
    assert running[0].status == "stopped"
    assert not running[0].process.is_alive()
    page.wait_for_selector("#simulate:not([disabled])")
    assert page.get_attribute("#progress", "value") == "0"


@pytest.mark.slow
def test_a_simulation_beyond_the_limits_is_explained(tab):
    page = tab.page
    visit(tab, "d=4000&V=200000&N=1000")
    page.click("#simulate")
    page.wait_for_function("() => document.querySelector('#simulation-note').textContent.includes('too large')")
    assert f"at most {tab.site.limits.cells:,}" in page.inner_text("#simulation-note")
    assert all(job.status != "running" for job in tab.site.worker._jobs.values())
    assert page.is_enabled("#simulate")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["png", "svg", "csv", "json", "py"])
def test_exports_download(tab, kind):
    page = tab.page
    visit(tab, SMALL)
    with page.expect_download() as waiting:
        page.click(f"#export-{kind}")
    body = waiting.value.path().read_bytes()
    assert waiting.value.suggested_filename == f"spikepool.{kind}"
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "csv": b"panel,", "json": b"{", "py": b'"""'}
    assert body.startswith(starts[kind])
    if kind == "json":
        exact = solve_query(shown_state(page)).prediction.alignment
        assert json.loads(body)["predictions"]["causal"]["alignment"] == exact


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_widths_in_both_themes(browser, site, tmp_path, width, height, scheme):
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    try:
        page = context.new_page()
        page.set_default_timeout(DEADLINE * 1000)
        page.goto(site.url)
        agree(page)
        picture = page.screenshot(path=tmp_path / f"{scheme}-{width}.png", full_page=True)
        assert len(picture) > 50_000
        ground = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
        before = page.evaluate(ground)
        assert (max(before) < 80) == (scheme == "dark")
        # nothing sticks out to the right, on either page
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.click("#theme-button")
        page.wait_for_function(f"() => ({ground})().some((v, i) => Math.abs(v - {before}[i]) > 100)")
        page.goto(f"{site.url}/content")
        page.wait_for_selector("#content-page:not([hidden]) .headline:not(:empty)")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    finally:
        context.close()


@pytest.mark.slow
def test_every_control_has_a_name(tab):
    visit(tab)
    nameless = tab.page.evaluate(
        """() => Array.from(document.querySelectorAll('input, textarea, button, a, [role=slider], progress'))
            .filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim())
            .map(e => e.outerHTML)"""
    )
    assert nameless == []


@pytest.mark.slow
def test_controls_are_reached_with_the_tab_key(tab):
    page = tab.page
    page.focus("#theme-button")
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id || document.activeElement.getAttribute('name')"))
    wanted = {"mu", "mu-slider", "w", "T", "corr", "L", "d", "V", "N", "table", "centered", "draws", "simulate"}
    assert wanted | {"copy-link", "export-png", "export-py", "plane"} <= reached


def test_nothing_was_asked_of_other_machines_and_nothing_complained(tab):
    assert len(tab.seen.requests) > 10  # those of the page alone; the tests before this one add theirs
    assert all(url.startswith((tab.url, "data:", "blob:")) for url in tab.seen.requests)
    assert tab.seen.errors == []
