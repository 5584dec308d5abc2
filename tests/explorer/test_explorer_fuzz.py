"""Hundreds of malformed states: a message each, and no server error."""

import random
from urllib.parse import quote

import pytest

from spikepool.explorer.state import State, StateError, parse_query
from spikepool.explorer.theory import solve

CALLBACK = "/_dash-update-component"
STATES = 700
BITS = [
    *("nan", "inf", "-inf", "1e999", "-1", "0", "", "%00", "%ff", "\x00", "é", "𝟙", "'; drop", "<script>", "../.."),
    *("1e-320", "0x10", "1_000", "1,2", ";", "&", "=", "#", "+1", "true", "None", "[]", "{}", "-0", ".", "e5", "\n"),
    "9" * 400,
]
BASES = [
    State().query(),
    "d=300&V=500&N=640&T=6&corr=markov&rho=0.5&mu=1.5&w=mean&table=class_centered&centered=0&plane=V",
    "d=300&V=500&N=640&corr=matrix&R=1,.5,.2;.5,1,.3;.2,.3,1&mu=2&w=custom&custom=3,2,1",
]


def mutated(rng):
    """A valid address with one to four things done to it."""
    text = rng.choice(BASES)
    for _ in range(rng.randint(1, 4)):
        pairs = text.split("&")
        i = rng.randrange(len(pairs))
        name, _, value = pairs[i].partition("=")
        where = rng.randrange(len(text) + 1)
        text = rng.choice(
            [
                lambda n=name, i=i, pairs=pairs: "&".join([*pairs[:i], f"{n}={rng.choice(BITS)}", *pairs[i + 1 :]]),
                lambda i=i, pairs=pairs: "&".join([*pairs, pairs[i]]),
                lambda i=i, pairs=pairs: "&".join([*pairs[:i], *pairs[i + 1 :]]),
                lambda n=name, v=value, i=i, pairs=pairs: "&".join([*pairs[:i], f"{v}={n}", *pairs[i + 1 :]]),
                lambda text=text, where=where: text[:where] + rng.choice(BITS) + text[where:],
                lambda text=text, where=where: text[:where],
                lambda text=text: (text * rng.choice([2, 500]))[:22_000],
                lambda: "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randrange(1, 60))),
            ]
        )()
    return text


def malformed_states(count):
    rng = random.Random(20)
    found = []
    while len(found) < count:
        text = mutated(rng)
        try:
            solve(parse_query(text))
        except StateError:
            found.append(text)
    return found


@pytest.fixture(scope="module")
def callbacks(application):
    """Requests of the page by the part of it they drive: query -> body."""

    def request(marker, inputs, state):
        output = next(key for key in application.app.callback_map if marker in key)
        names = [dict(zip(("id", "property"), n.rsplit(".", 1), strict=True)) for n in output.strip(".").split("...")]
        part = lambda items: [{"id": i, "property": p, "value": v} for i, p, v in items]  # noqa: E731
        changed = [f"{inputs[0][0]}.{inputs[0][1]}"]
        return {
            "output": output,
            "outputs": names,
            "inputs": part(inputs),
            "state": part(state),
            "changedPropIds": changed,
        }

    return {
        "update": lambda q: request(
            "spectrum.figure",
            [("query", "data", q), ("theme", "data", "dark"), ("shown-job", "data", q[:99])],
            [("drawn", "data", q[:9])],
        ),
        "load": lambda q: request(
            "link-problem.children",
            [("address", "search", "?" + q)],
            [("query", "data", None)],
        ),
        "simulate": lambda q: request(
            "progress.value",
            [("simulate", "n_clicks", 1), ("cancel", "n_clicks", None), ("tick", "n_intervals", 0)],
            [("query", "data", q), ("draws", "value", 3), ("job", "data", q[:99])],
        ),
    }


@pytest.mark.slow
def test_malformed_states_are_explained(application, callbacks):
    client = application.client
    texts = malformed_states(STATES)
    assert len(set(texts)) > 0.8 * STATES
    for number, text in enumerate(texts):
        update = client.post(CALLBACK, json=callbacks["update"](text))
        assert update.status_code == 200
        response = update.get_json()["response"]
        assert response["problem"]["hidden"] is False
        assert len(response["problem"]["children"]) > 10
        assert "spectrum" not in response  # the last good picture stays
        load = client.post(CALLBACK, json=callbacks["load"](text)).get_json()["response"]
        assert "could not be read" in load["link-problem"]["children"]
        assert load["d"]["value"] == State.d
        if number % 5 == 0:
            started = client.post(CALLBACK, json=callbacks["simulate"](text)).get_json()["response"]
            assert started["job"]["data"] is None
            assert len(started["simulation-note"]["children"]) > 10
            assert client.get(f"/export/spikepool.csv?state={quote(text)}").status_code == 400
            assert client.get(f"/?{quote(text)}").status_code == 200
    assert not application.worker._jobs


def test_odd_values_in_callbacks_are_no_server_error(application, callbacks):
    rng = random.Random(21)
    values = [None, 0, -1, 2**70, 1.5, True, "", "x", [], {}, [[]], {"a": {"b": []}}, "\ud800", "0" * 5000]
    for _ in range(150):
        body = callbacks[rng.choice(sorted(callbacks))](rng.choice(BASES))
        for item in body["inputs"] + body["state"]:
            if rng.random() < 0.6:
                item["value"] = rng.choice(values)
        answer = application.client.post(CALLBACK, json=body)
        assert answer.status_code in (200, 204), body
        job = (answer.get_json(silent=True) or {}).get("response", {}).get("job", {}).get("data")
        application.worker.stop(job)
