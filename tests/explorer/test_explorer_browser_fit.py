"""Nothing on the explorer's pages is cut off, at the width of a phone and of a desktop, in both themes."""

import pytest
from browser_page import DEADLINE, agree

pytestmark = pytest.mark.browser

# fields of which a part can be seen and a part cannot
SLICED = """() => {
    const frame = document.querySelector("#fields-frame").getBoundingClientRect();
    return [...document.querySelectorAll("#fields-frame input")].map((e) => e.getBoundingClientRect())
        .filter((r) => r.top < frame.bottom - 0.5 && r.bottom > frame.bottom + 0.5).length;
}"""
# texts that are wider or taller than the box that shows them
CUT = """(selector) => [...document.querySelectorAll(selector)]
    .filter((e) => e.offsetParent && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1))
    .map((e) => e.id || e.className)"""


@pytest.fixture(
    scope="module", params=[(w, s) for w in (390, 1440) for s in ("light", "dark")], ids=lambda p: f"{p[0]}-{p[1]}"
)
def view(request, browser, site):
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(DEADLINE * 1000)
    yield page, site, width
    context.close()


@pytest.mark.slow
def test_weights_captions_and_readings_are_whole(view):
    page, site, width = view
    for T in (1, 47):
        page.goto(f"{site.url}/?T={T}&L=1&w=causal&mu=0.7")
        agree(page, T=T)
        page.wait_for_function("T => document.querySelectorAll('#fields-frame input').length === T", arg=T)
        assert page.evaluate(SLICED) == 0, f"T={T}"
        assert page.evaluate(CUT, ".caption, .headline, .details, .caution, .reading dd, .note") == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert page.is_visible("#caution") or T > 1  # a single token is always worth a caution
