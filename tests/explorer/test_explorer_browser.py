"""The explorer in a real browser: every control, and the numbers on the page against the library."""

import time

import numpy as np
import pytest
from browser_page import DEADLINE, SMALL, agree, alignment_of_fields, choose, enter, shown_alignment, shown_state, visit

from spikepool.explorer.theory import solve_query
from spikepool.explorer.verdict import verdict

pytestmark = pytest.mark.browser


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("mu", 1.25), ("d", 300), ("V", 5000), ("N", 2500), ("T", 12), ("L", 6)])
def test_number_fields(tab, name, value):
    if not shown_state(tab.page):
        visit(tab)
    enter(tab.page, f"#{name}", str(value))
    panels = agree(tab.page, **{name: value})
    assert getattr(panels.state, name) == value
    assert float(tab.page.input_value(f"#{name}")) == value
    # the page shows four digits
    assert shown_alignment(tab.page) == pytest.approx(alignment_of_fields(tab.page, "causal"), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mu", "d", "V", "N", "T", "L"])
def test_sliders_by_keyboard(tab, name):
    before = getattr(solve_query(shown_state(tab.page)).state, name)
    tab.page.focus(f"#{name}-slider")
    for _ in range(3):
        tab.page.keyboard.press("ArrowRight")
    value, since, end = before, time.monotonic(), time.monotonic() + DEADLINE
    # until the field rests: read earlier, it may hold what the first of the three presses made
    while (value <= before or time.monotonic() < since + 0.5) and time.monotonic() < end:
        time.sleep(0.02)
        if (shown := float(tab.page.input_value(f"#{name}"))) != value:
            value, since = shown, time.monotonic()
    assert value > before
    agree(tab.page, **{name: value})


@pytest.mark.slow
def test_a_field_takes_an_old_entry_again_after_the_slider(tab):
    for value in (12, 12):
        enter(tab.page, "#T", str(value))
        agree(tab.page, T=value)
        tab.page.focus("#T-slider")
        tab.page.keyboard.press("ArrowRight")
        agree(tab.page, T=value + 1)
        assert int(tab.page.input_value("#T")) == value + 1
        assert shown_alignment(tab.page) == pytest.approx(alignment_of_fields(tab.page, "causal"), abs=1e-4)


@pytest.mark.slow
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


@pytest.mark.slow
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
    panels = agree(tab.page, **{name: value})
    state = panels.state
    assert getattr(state, name) == value
    w = panels.weights["custom"] if state.w == "custom" else state.w
    expected = alignment_of_fields(tab.page, w, table=state.table, centered=state.centered)
    assert shown_alignment(tab.page) == pytest.approx(expected, abs=1e-4)


def test_choices_by_keyboard(tab):
    tab.page.locator("#w input[value=causal]").focus()
    tab.page.keyboard.press("ArrowRight")
    agree(tab.page, w="optimal")
    assert tab.page.is_checked("#w input[value=optimal]")
    assert shown_alignment(tab.page) == pytest.approx(alignment_of_fields(tab.page, "optimal"), abs=1e-4)


@pytest.mark.slow
def test_correlations(tab):
    page = tab.page
    choose(page, "corr", "Markov")
    agree(page, corr="markov")
    assert page.is_visible("#rho")
    assert not page.is_visible("#L")
    enter(page, "#rho", "0.35")
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


@pytest.mark.slow
def test_a_prefix_cannot_outgrow_the_sequence(tab):
    enter(tab.page, "#T", "12")
    enter(tab.page, "#L", "9")
    agree(tab.page, T=12, L=9)
    enter(tab.page, "#T", "5")
    agree(tab.page, T=5, L=5)
    assert tab.page.input_value("#L") == "5"


@pytest.mark.slow
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


@pytest.mark.slow
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
    panels = agree(tab.page, N=int(before))
    assert tab.page.input_value("#N") == before
    assert shown_alignment(tab.page) == pytest.approx(panels.prediction.alignment, abs=1e-4)


@pytest.mark.slow
def test_a_shared_link_brings_everything_back(tab, browser):
    page = tab.page
    visit(tab, SMALL.replace("w=causal", "w=custom&custom=3,2,0.125,1,0,0.5"))
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


@pytest.mark.slow
@pytest.mark.parametrize("query", ["d=abc", "T=3&L=9", "rubbish", "mu=1&mu=2", "corr=matrix&R=1,2"])
def test_a_bad_link_gives_a_message(tab, query):
    tab.page.goto(f"{tab.url}/?{query}")
    tab.page.wait_for_selector("#link-problem:not([hidden])")
    text = tab.page.inner_text("#link-problem")
    assert text.startswith("This link could not be read")
    assert "Traceback" not in tab.page.content()
    agree(tab.page, d=500)
