"""Nothing on the explorer's pages is cut off, at the width of a phone and of a desktop, in both themes."""

import numpy as np
import pytest
import upload_files as files
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


def test_weights_captions_and_readings_are_whole(view):
    page, site, width = view
    for T in (1, 47):
        page.goto(f"{site.url}/?T={T}&L=1&w=causal&mu=0.7")
        agree(page, T=T)
        page.wait_for_function("T => document.querySelectorAll('#fields-frame input').length === T", arg=T)
        assert page.evaluate(SLICED) == 0, f"T={T}"
        assert page.evaluate(CUT, ".caption, .headline, .details, .caution, .reading dd, .note") == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert page.is_visible("#caution") is (T == 1)


def test_three_files_give_three_answers_with_pictures_of_the_theme(view, tmp_path):
    """Rows, labels and mask; the pictures change with the theme's button, and every number can be saved as a table."""
    page, site, width = view
    page.goto(f"{site.url}/data")
    page.wait_for_selector("#upload-file")
    X, y = files.labelled_tokens()
    mask = np.ones(X.shape[:2], dtype=bool)
    for role, array in (("file", X), ("labels", y), ("mask", mask)):
        page.set_input_files(f"#upload-{role}", {"name": f"{role}.npy", "mimeType": "", "buffer": files.npy(array)})
    page.click("#upload-send")
    page.wait_for_selector("#plan-answer")
    ground = {"light": "fill: #ffffff", "dark": "fill: #18202A"}
    theme = page.evaluate("() => document.documentElement.dataset.theme")
    for _ in range(2):
        shown = f"""() => [...document.querySelectorAll(".answer img")].length > 0
            && [...document.querySelectorAll(".answer img")].every((e) => e.complete && e.naturalWidth > 0
            && atob(e.src.split(",")[1]).includes("{ground[theme]}"))"""
        page.wait_for_function(shown)
        assert page.evaluate(CUT, ".card p, .card h2, .numbers") == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        page.click("#theme-button")
        theme = {"light": "dark", "dark": "light"}[theme]
    with page.expect_download() as waiting:
        page.click("#answers-csv")
    assert waiting.value.path().read_text().startswith("answer,series,index,field,value\n")


def test_answers_and_tables_are_whole(view):
    page, site, width = view
    page.goto(f"{site.url}/data")
    page.wait_for_selector("#upload-file")
    assert "At most 391 kB here" in page.inner_text("#upload-limit")
    assert "spikepool report" in page.inner_text("#upload-command")
    rows = {"name": "x.npy", "mimeType": "", "buffer": files.npy(files.pooled_features())}
    page.set_input_files("#upload-file", rows)
    page.click("#upload-send")
    page.wait_for_selector("#trust-answer")
    page.click("#trust-answer summary")
    assert page.evaluate(CUT, ".card p, .card h2, .numbers, #upload-command") == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.locator("#upload-kind label", has_text="Embedding table").click()
    table = {"name": "t.npy", "mimeType": "", "buffer": files.npy(files.embedding_table())}
    page.set_input_files("#upload-file", table)
    page.click("#upload-send")
    page.wait_for_selector("#upload-table")
    # the caption and every cell of the last column lie within the page
    right = "e => Math.max(...[...document.querySelectorAll(e)].map((x) => x.getBoundingClientRect().right))"
    assert page.evaluate(right, "#upload-table td:last-child, .table-caption") <= width - 8
    assert page.evaluate(CUT, ".card p, .card h2, .table-frame, td") == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
