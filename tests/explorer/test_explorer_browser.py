"""The explorer in a real browser: every control, numbers against the library, both themes, both widths."""

import json
import re
import time
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import upload_files as files

import spikepool as sp
from spikepool.explorer.state import StateError
from spikepool.explorer.theory import solve_query
from spikepool.explorer.verdict import verdict

pytestmark = pytest.mark.browser
DEADLINE = 60.0
SMALL = "d=80&V=400&N=200&T=6&corr=prefix&L=3&mu=1.5&w=causal&table=sampled&centered=1&plane=N"
LARGE = "d=1500&V=4000&N=4000&T=10&corr=prefix&L=3&mu=1&w=causal&table=sampled&centered=1&plane=N"


@pytest.fixture(scope="module")
def tab(browser, site):
    """One page for the whole module, with everything it asked for and complained about."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(DEADLINE * 1000)
    seen = SimpleNamespace(requests=[], errors=[])
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and seen.errors.append(message.text))
    yield SimpleNamespace(page=page, seen=seen, url=site.url, site=site)
    context.close()


def shown_state(page):
    """The state the page shows, from the address of its exports."""
    return parse_qs(urlsplit(page.get_attribute("#export-json", "href")).query).get("state", [""])[0]


def readings(page):
    names = ("alignment", "mu-sample", "mu-population", "gain", "edge", "top")
    return [page.inner_text(f"#read-{name}") for name in names]


def solved(query):
    """The library's answer for a query; None when there is none yet, or while it is being typed."""
    try:
        return solve_query(query) if query else None
    except StateError:
        return None


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


def choose(page, group, label):
    page.locator(f"#{group} label", has_text=re.compile(f"^{label}$")).click()


def test_first_visit_shows_the_library_s_numbers(tab):
    panels = visit(tab)
    assert "Detectable" in tab.page.inner_text("#headline")
    assert tab.page.inner_text("#details") == " ".join(verdict(panels).details)
    for chart in ("spectrum", "alignment", "phase"):
        tab.page.wait_for_selector(f"#{chart} .js-plotly-plot .main-svg", state="attached")
    drawn = tab.page.evaluate(
        """() => document.querySelector('#alignment .js-plotly-plot')._fullData
            .map(t => [t.name, Array.from(t.x), Array.from(t.y)])"""
    )
    curves = {name: (x, y) for name, x, y in drawn}
    for name, curve in panels.curves.items():
        np.testing.assert_allclose(curves[name][1], curve, atol=1e-12)
    layouts = [
        tab.page.evaluate("id => document.querySelector(`#${id} .js-plotly-plot`).layout", chart)
        for chart in ("alignment", "phase")
    ]
    dot = layouts[0]["shapes"][-1]
    assert (dot["xanchor"], dot["yanchor"]) == (panels.state.mu, panels.prediction.alignment)
    dot = layouts[1]["annotations"][-1]
    assert (dot["x"], 10 ** dot["y"]) == (panels.state.mu, pytest.approx(panels.state.N))
    signal = tab.page.evaluate(
        "() => document.querySelector('#spectrum .js-plotly-plot').data.find(t => t.name === 'signal').x[0]"
    )
    assert signal == pytest.approx(panels.prediction.signal.eigenvalue)


@pytest.mark.parametrize(("name", "value"), [("mu", 1.25), ("d", 300), ("V", 5000), ("N", 2500), ("T", 12), ("L", 6)])
def test_number_fields(tab, name, value):
    if not shown_state(tab.page):
        visit(tab)
    tab.page.fill(f"#{name}", str(value))
    agree(tab.page, **{name: value})


@pytest.mark.parametrize("name", ["mu", "d", "V", "N", "T", "L"])
def test_sliders_by_keyboard(tab, name):
    before = getattr(solve_query(shown_state(tab.page)).state, name)
    tab.page.focus(f"#{name}-slider")
    for _ in range(3):
        tab.page.keyboard.press("ArrowRight")
    end = time.monotonic() + DEADLINE
    while float(tab.page.input_value(f"#{name}")) <= before and time.monotonic() < end:
        time.sleep(0.02)
    value = float(tab.page.input_value(f"#{name}"))
    assert value > before
    agree(tab.page, **{name: value})


def test_a_field_takes_an_old_entry_again_after_the_slider(tab):
    for value in (12, 12):
        tab.page.fill("#T", str(value))
        agree(tab.page, T=value)
        tab.page.focus("#T-slider")
        tab.page.keyboard.press("ArrowRight")
        agree(tab.page, T=value + 1)


def test_a_slider_by_mouse(tab):
    box = tab.page.locator("#mu-slider").bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + 0.3 * box["width"], middle)
    tab.page.mouse.down()
    for share in np.linspace(0.3, 0.5, 15):
        tab.page.mouse.move(box["x"] + share * box["width"], middle)
    tab.page.mouse.up()
    panels = agree(tab.page, mu=float(tab.page.input_value("#mu")))
    assert panels.state.mu == pytest.approx(1.5, abs=0.05)
    tab.page.wait_for_function(
        """([mu, alignment]) => {
            const dot = document.querySelector('#alignment .js-plotly-plot').layout.shapes[1];
            return dot.xanchor === mu && dot.yanchor === alignment;
        }""",
        arg=[panels.state.mu, panels.prediction.alignment],
    )


@pytest.mark.parametrize(
    ("group", "label", "name", "value"),
    [
        ("w", "Mean", "w", "mean"),
        ("w", "Optimal", "w", "optimal"),
        ("w", "Custom", "w", "custom"),
        ("w", "Causal", "w", "causal"),
        ("table", "Class-centred", "table", "class_centered"),
        ("table", "Sampled", "table", "sampled"),
        ("centered", "Not centred", "centered", False),
        ("centered", "Centred", "centered", True),
        ("plane", "V", "plane", "V"),
        ("plane", "N", "plane", "N"),
    ],
)
def test_choices(tab, group, label, name, value):
    choose(tab.page, group, label)
    agree(tab.page, **{name: value})


def test_choices_by_keyboard(tab):
    tab.page.locator("#w input[value=causal]").focus()
    tab.page.keyboard.press("ArrowRight")
    agree(tab.page, w="optimal")


def test_correlations(tab):
    page = tab.page
    choose(page, "corr", "Markov")
    agree(page, corr="markov")
    assert page.is_visible("#rho")
    assert not page.is_visible("#L")
    page.fill("#rho", "0.35")
    agree(page, rho=0.35)
    page.focus("#rho-slider")
    page.keyboard.press("ArrowLeft")
    agree(page, rho=0.34)
    choose(page, "corr", "Paste R")
    page.fill("#R", "[[1, 0.5, 0.2],\n [0.5, 1, 0.3],\n [0.2, 0.3, 1]]")
    panels = agree(page, corr="matrix", T=3)
    np.testing.assert_array_equal(panels.model.R, [[1, 0.5, 0.2], [0.5, 1, 0.3], [0.2, 0.3, 1]])
    assert not page.is_visible("#T")
    page.fill("#R", "1 0.9 0.9\n0.9 1 -0.9\n0.9 -0.9 1")
    page.wait_for_selector("#problem:not([hidden])")
    assert "positive semi-definite" in page.inner_text("#problem")
    choose(page, "corr", "Prefix")
    agree(page, corr="prefix")
    assert not page.is_visible("#problem")


def test_a_prefix_cannot_outgrow_the_sequence(tab):
    tab.page.fill("#T", "12")
    tab.page.fill("#L", "9")
    agree(tab.page, T=12, L=9)
    tab.page.fill("#T", "5")
    agree(tab.page, T=5, L=5)
    assert tab.page.input_value("#L") == "5"


def test_bars_by_keyboard_mouse_and_field(tab):
    page = tab.page
    visit(tab, SMALL)
    bars = page.locator("#bars-frame [role=slider]")
    assert bars.count() == 6
    bars.nth(4).focus()
    page.keyboard.press("End")
    state = agree(page, w="custom").state
    assert max(state.custom) == state.custom[4]
    box = bars.nth(0).bounding_box()
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + 0.5 * box["height"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + 0.8 * box["height"], steps=6)
    page.mouse.move(x, box["y"] + box["height"] - 1, steps=6)
    page.mouse.up()
    end = time.monotonic() + DEADLINE
    while solve_query(shown_state(page)).state.custom[0] > 0.01 and time.monotonic() < end:
        time.sleep(0.05)
    state = agree(page, w="custom").state
    assert state.custom[0] == pytest.approx(0, abs=0.01)
    page.fill("#fields-frame label:nth-child(2) input", "0.75")
    page.keyboard.press("Tab")
    end = time.monotonic() + DEADLINE
    while solve_query(shown_state(page)).state.custom[1] != 0.75 and time.monotonic() < end:
        time.sleep(0.05)
    panels = agree(page, w="custom")
    assert panels.state.custom[1] == 0.75
    used = np.array(panels.state.custom)
    np.testing.assert_allclose(panels.weights["custom"], used / used.sum())
    assert f"{used.sum():.4g}" in page.inner_text("#weights-caption")


def test_fields_out_of_range_are_explained_and_recover(tab):
    page = tab.page
    for name, text, word in (
        ("d", "999999", "d must be"),
        ("V", "801", "even"),
        ("mu", "-1", "mu must be"),
        ("T", "2.5", "T must be"),
    ):
        before = page.input_value(f"#{name}")
        page.fill(f"#{name}", text)
        page.wait_for_selector("#problem:not([hidden])")
        end = time.monotonic() + DEADLINE
        while word not in page.inner_text("#problem") and time.monotonic() < end:
            time.sleep(0.05)
        assert word in page.inner_text("#problem")
        page.fill(f"#{name}", before)
        page.wait_for_selector("#problem", state="hidden")


def test_an_emptied_field_goes_back(tab):
    before = tab.page.input_value("#N")
    tab.page.fill("#N", "")
    tab.page.keyboard.press("Tab")
    end = time.monotonic() + DEADLINE
    while tab.page.input_value("#N") != before and time.monotonic() < end:
        time.sleep(0.05)
    agree(tab.page, N=int(before))


def test_a_shared_link_brings_everything_back(tab, browser):
    page = tab.page
    state = agree(page, w="custom").state
    page.click("#copy-link")
    page.wait_for_function("() => document.querySelector('#copy-note').textContent.includes('copied')")
    link = page.evaluate("() => navigator.clipboard.readText()")
    other = browser.new_page()
    try:
        other.goto(link)
        again = agree(other, w="custom").state
        assert again == state
        other.reload()
        assert agree(other).state == state
    finally:
        other.close()


@pytest.mark.parametrize("query", ["d=abc", "T=3&L=9", "rubbish", "mu=1&mu=2", "corr=matrix&R=1,2"])
def test_a_bad_link_gives_a_message(tab, query):
    tab.page.goto(f"{tab.url}/?{query}")
    tab.page.wait_for_selector("#link-problem:not([hidden])")
    text = tab.page.inner_text("#link-problem")
    assert text.startswith("This link could not be read")
    assert "Traceback" not in tab.page.content()
    agree(tab.page, d=500)


def test_hints_explain_symbols(tab):
    button = tab.page.locator("#mu-control .hint-button")
    button.focus()
    hint = tab.page.locator("#mu-control .hint-text")
    hint.wait_for(state="visible")
    assert "noise" in hint.inner_text()
    tab.page.keyboard.press("Escape")
    hint.wait_for(state="hidden")


def test_simulation_is_drawn_over_the_theory_and_exported(tab):
    page = tab.page
    visit(tab, SMALL)
    page.fill("#draws", "12")
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
    page.fill("#mu", "1.1")
    agree(page, mu=1.1)
    page.wait_for_function(f"() => !({find})()")


def test_a_simulation_can_be_cancelled_and_blocks_nothing(tab):
    page = tab.page
    visit(tab, LARGE)
    page.fill("#draws", "20")
    page.click("#simulate")
    page.wait_for_selector("#cancel:not([disabled])")
    page.fill("#mu", "0.9")
    agree(page, mu=0.9)
    assert page.is_disabled("#simulate")
    running = [job for job in tab.site.services.jobs._jobs.values() if not job.finished.is_set()]
    assert len(running) == 1
    page.click("#cancel")
    page.wait_for_function("() => document.querySelector('#simulation-note').textContent === 'Cancelled.'")
    assert running[0].status == "cancelled"
    assert running[0].process is None
    page.wait_for_selector("#simulate:not([disabled])")
    assert page.get_attribute("#progress", "value") == "0"


def test_a_simulation_beyond_the_limits_is_explained(tab):
    page = tab.page
    visit(tab, "d=4000&V=200000&N=1000")
    page.click("#simulate")
    page.wait_for_function("() => document.querySelector('#simulation-note').textContent.includes('too large')")


@pytest.mark.parametrize("kind", ["png", "svg", "csv", "json", "py"])
def test_exports_download(tab, kind):
    page = tab.page
    if kind == "png":
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


def upload(page, kind, name, body):
    choose(page, "upload-kind", kind)
    page.set_input_files("#upload-file", {"name": name, "mimeType": "application/octet-stream", "buffer": body})
    page.click("#upload-send")


def test_pages_and_uploads(tab):
    page = tab.page
    visit(tab, SMALL)
    page.click("#data-link")
    page.wait_for_selector("#upload-drop input")
    assert not page.is_visible("#explore-page")
    page.click("#upload-send")
    page.wait_for_function("() => document.querySelector('#upload-problem').textContent.includes('Choose a file')")

    C = files.pooled_features()
    upload(page, "Pooled features", "c.npy", files.npy(C))
    page.wait_for_selector("#upload-result:not([hidden])")
    direct = sp.diagnose(C)
    assert f"{direct.outliers[0].alignment:.2f}" in page.inner_text("#upload-verdict")
    cells = page.locator("#upload-table tbody tr").first.locator("td").all_inner_texts()
    assert float(cells[0]) == pytest.approx(direct.outliers[0].eigenvalue, rel=1e-3)
    assert float(cells[2]) == pytest.approx(direct.outliers[0].alignment, rel=1e-3)

    table = files.embedding_table()
    upload(page, "Embedding table", "t.safetensors", files.safetensors("wte.weight", table))
    page.wait_for_function("() => document.querySelector('#upload-title').textContent.startsWith('Embedding table')")
    said = page.inner_text("#upload-verdict") + " " + page.inner_text("#upload-details")
    assert said == sp.TableSpectrum(progress=False).fit(table).verdict_

    for kind, name, body, word in (
        ("Embedding table", "t.npy", b"\x80\x04\x95 a pickle", "pickle"),
        ("Embedding table", "t.exe", b"MZ", "must be one of"),
        ("Pooled features", "c.npy", files.npy(C)[:500], "."),
        ("Pooled features", "c.csv", b"a,b\nx,y\n", "not a table of numbers"),
        ("Pooled features", "c.npy", b"x" * 500_000, "at most 400,000"),
    ):
        upload(page, kind, name, body)
        page.wait_for_selector("#upload-problem:not([hidden])")
        end = time.monotonic() + DEADLINE
        while not re.search(word, page.inner_text("#upload-problem")) and time.monotonic() < end:
            time.sleep(0.05)
        assert re.search(word, page.inner_text("#upload-problem"))
        page.wait_for_selector("#upload-send:not([disabled])")
    assert not list(tab.site.folder.iterdir())
    page.click("#explore-link")
    agree(page, d=80, mu=1.5)


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
        page.click("#data-link")
        page.wait_for_selector("#upload-drop input")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.screenshot(path=tmp_path / f"data-{scheme}-{width}.png", full_page=True)
    finally:
        context.close()


def test_every_control_has_a_name(tab):
    visit(tab)
    nameless = tab.page.evaluate(
        """() => Array.from(document.querySelectorAll('input, textarea, button, a, [role=slider], progress'))
            .filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim())
            .map(e => e.outerHTML)"""
    )
    assert nameless == []


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
    assert len(tab.seen.requests) > 100
    assert all(url.startswith((tab.url, "data:", "blob:")) for url in tab.seen.requests)
    # refused uploads are logged by the browser as failed requests; nothing else may be
    assert [error for error in tab.seen.errors if "status of 4" not in error] == []
