"""The tab "Content": its numbers are the library's, its words follow them, and bad states are refused."""

import random

import pytest
from browser_page import enter

import spikepool as sp
from spikepool.explorer.content import (
    ContentState,
    captions,
    details,
    headline,
    learning_chart,
    parse_content,
    solve_content,
    temperature_chart,
)
from spikepool.explorer.state import StateError

SMALL = "beta=0.6&nu=1.5&L=2&overlap=0.9&mu=1.6&kernel=softmax&repeat=never&T=10&d=60&N=240"


@pytest.mark.slow
def test_numbers_are_the_librarys():
    answer = solve_content(parse_content(SMALL))
    model = sp.QueryModel(d=60, N=240, T=10, L=2, mu=1.6, nu=1.5, overlap=0.9, beta=0.6)
    assert answer.prediction.alignment == model.predict().alignment
    assert answer.gain == model.gain()
    assert answer.mean == model.replace(beta=0.0).predict().alignment
    assert set(answer.curves) == {"softmax", "sigmoid", "linear"}
    assert answer.best[2] == max(max(values) for values in answer.curves.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words", "tone"),
    [
        ("", "Attention helps", "good"),
        ("&beta=0", "mean pooling", "good"),
        ("&mu=0.1", "Neither", "none"),
        ("&repeat=finite&V=400&beta=2.5&mu=2.5", "Attention hurts", "weak"),
        ("&nu=0&beta=0.05&mu=2.5", "no difference", "good"),
    ],
)
def test_the_sentence_says_what_attention_does(changes, words, tone):
    replaced = {pair.split("=")[0] for pair in changes.split("&") if pair}
    base = "&".join(pair for pair in SMALL.split("&") if pair.split("=")[0] not in replaced)
    answer = solve_content(parse_content(base + changes))
    text, found = headline(answer)
    assert words in text
    assert found == tone
    assert all(sentence.endswith(".") for sentence in captions(answer))
    assert not details(answer) or details(answer).endswith(".")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_hold_the_curves(theme):
    answer = solve_content(parse_content(SMALL))
    chart = temperature_chart(answer, theme)
    assert [trace["name"] for trace in chart["data"]] == ["softmax", "sigmoid", "linear", "now"]
    assert chart["data"][0]["y"] == answer.curves["softmax"]
    assert chart["data"][3]["y"] == [answer.prediction.alignment]
    assert len(learning_chart(answer, theme)["data"]) == 3


@pytest.mark.parametrize(
    "text",
    [
        "beta=9",
        "beta=nan",
        "L=2.5",
        "L=40&T=20",
        "kernel=relu",
        "x=1",
        "beta=1&beta=2",
        "d=9999",
        "=",
        "%ff=1",
        "V=1" * 200,
    ],
)
def test_bad_states_are_refused(text):
    with pytest.raises(StateError):
        parse_content(text)
    with pytest.raises(StateError):
        parse_content(None)


def test_malformed_requests_get_a_message(application):
    """The callback answers every text, and never with a server error."""
    output = next(key for key in application.app.callback_map if "content-headline" in key)
    names = [dict(zip(("id", "property"), n.rsplit(".", 1), strict=True)) for n in output.strip(".").split("...")]
    rng = random.Random(3)
    for _ in range(60):
        where = rng.randrange(len(SMALL))
        text = SMALL[:where] + rng.choice(["nan", "-1", "&", "=", "1e999", "\x00", "é", "L=3"]) + SMALL[where:]
        try:
            parse_content(text)
        except StateError:
            pass
        else:
            continue
        body = {
            "output": output,
            "outputs": names,
            "inputs": [
                {"id": "content-query", "property": "data", "value": text},
                {"id": "theme", "property": "data", "value": "dark"},
            ],
            "state": [],
            "changedPropIds": ["content-query.data"],
        }
        answer = application.client.post("/_dash-update-component", json=body)
        assert answer.status_code == 200
        assert answer.get_json()["response"]["content-problem"]["hidden"] is False


@pytest.mark.slow
@pytest.mark.browser
def test_driven_in_a_browser(tab):
    page = tab.page
    page.goto(f"{tab.url}/content#{SMALL}")

    def shows(state):
        expected = f"{solve_content(state).prediction.alignment:.4f}"
        page.locator("#content-alignment", has_text=expected).wait_for()
        page.locator("#content-headline", has_text=headline(solve_content(state))[0]).wait_for()

    state = parse_content(SMALL)
    shows(state)
    assert page.is_visible("#content-page")
    assert not page.is_visible("#explore-page")
    assert not page.is_visible("#q-V-control")
    enter(page, "#q-beta", "1.2")
    shows(ContentState(**{**vars(state), "beta": 1.2}))
    page.locator("#q-kernel label", has_text="Gate").click()
    shows(ContentState(**{**vars(state), "beta": 1.2, "kernel": "sigmoid"}))
    page.locator("#q-repeat label", has_text="Finite").click()
    shows(ContentState(**{**vars(state), "beta": 1.2, "kernel": "sigmoid", "repeat": "finite"}))
    assert page.is_visible("#q-V-control")
    assert "repeat=finite" in page.url
    page.fill("#q-nu", "77")
    page.locator("#content-problem", has_text="nu must be a number from 0 to 5").wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(1000)  # charts follow the width of their cards
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.goto(tab.url)
    page.locator("#headline").wait_for()
    assert not page.is_visible("#content-page")
    assert tab.seen.errors == []
