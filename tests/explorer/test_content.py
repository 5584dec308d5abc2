"""The tab "Content": its numbers are the library's, its words follow them, and bad states are refused."""

import random

import pytest
from browser_page import enter

import spikepool as sp
from spikepool.explorer.content_figures import learning_chart, temperature_chart
from spikepool.explorer.content_state import ContentState, parse_content
from spikepool.explorer.content_theory import solve_content
from spikepool.explorer.content_verdict import captions, details, headline
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
    traces = {trace["name"]: trace for trace in chart["data"]}
    assert list(traces) == ["softmax", "sigmoid", "linear", "best pooling", "any method", "now"]
    assert traces["sigmoid"]["y"] == answer.curves["sigmoid"]
    # the present point is one of its curve
    now = (traces["now"]["x"][0], traces["now"]["y"][0])
    assert now == (0.6, answer.prediction.alignment)
    assert now in set(zip(traces["softmax"]["x"], traces["softmax"]["y"], strict=True))
    assert traces["any method"]["y"] == [answer.limits.alignment_bayes] * 2
    assert len(learning_chart(answer, theme)["data"]) == 3


def test_two_layers_of_a_span_are_those_of_the_library():
    answer = solve_content(parse_content("relevance=span&layers=2&L=2&T=10&nu=1&beta=1&mu=1.6&d=60&N=240"))
    model = sp.QueryModel(d=60, N=240, T=10, L=2, mu=1.6, nu=1.0, relevance="span", window=2)
    assert answer.prediction.alignment == model.predict().alignment  # slope nu for each token of a window
    assert answer.limits == model.limits()
    assert list(answer.curves) == ["softmax"]
    assert "two layers of attention" in headline(answer)[0]


def test_sequences_that_teach_a_query_are_the_librarys():
    answer = solve_content(parse_content(SMALL))
    model = sp.QueryModel(d=60, N=240, T=10, L=2, mu=1.6, nu=1.5)
    assert answer.enough == model.required_training(overlap=0.8)
    assert f"About {answer.enough:,} labelled" in captions(answer)[1]


@pytest.mark.parametrize(
    "text",
    [
        "relevance=chain",
        "layers=3",
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
