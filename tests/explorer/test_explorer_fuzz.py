"""Hundreds of malformed states and uploads: a message each, no server error, no hang, no file astray."""

import random
import tempfile
from urllib.parse import quote

import explorer_tasks
import numpy as np
import pytest
import upload_files as files

from spikepool.explorer import routes
from spikepool.explorer.state import State, StateError, parse_query
from spikepool.explorer.theory import solve

CALLBACK = "/_dash-update-component"
STATES = 700
UPLOADS = 150
DEADLINE = 60
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
            [("address", "pathname", "/"), ("query", "data", None)],
        ),
        "simulate": lambda q: request(
            "progress.value",
            [("simulate", "n_clicks", 1), ("cancel", "n_clicks", None), ("tick", "n_intervals", 0)],
            [("query", "data", q), ("draws", "value", 3), ("job", "data", q[:99])],
        ),
    }


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
    assert not application.services.jobs.counts()


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
        application.services.jobs.cancel(job)


def broken_file(rng):
    """(kind, name, body): a good file spoilt, or rubbish under a good name."""
    table, features = files.embedding_table(60, 40), files.pooled_features(40, 8)
    kind, name, body = rng.choice(
        [
            ("features", "a.npy", files.npy(features)),
            ("features", "a.csv", files.csv(features)),
            ("table", "a.npy", files.npy(table)),
            ("table", "a.npz", files.npz(embedding=table)),
            ("table", "a.safetensors", files.safetensors("wte.weight", table)),
            ("table", "a.gguf", b"GGUF\x03\x00\x00\x00" + rng.randbytes(300)),
            ("table", "a.parquet", b"PAR1" + rng.randbytes(300) + b"PAR1"),
            ("table", "a.arrow", b"ARROW1\x00\x00" + rng.randbytes(300) + b"ARROW1"),
        ]
    )
    data = bytearray(body)
    for _ in range(rng.randint(1, 6)):
        match rng.randrange(6):
            case 0:
                del data[rng.randrange(1, len(data)) :]
            case 1:
                data[rng.randrange(min(len(data), 128))] ^= 1 << rng.randrange(8)
            case 2:
                data[rng.randrange(len(data))] = rng.randrange(256)
            case 3:
                at = rng.randrange(len(data))
                data[at:at] = rng.randbytes(rng.randrange(1, 200))
            case 4:
                data = bytearray(data.replace(b"'shape': (", b"'shape': (99999999, ", 1) or b"x")
            case 5:
                data = bytearray(data.replace(b"<f", rng.choice([b"|O", b">c", b"<U", b"|V"]), 1) or b"x")
    if rng.random() < 0.2:
        name = rng.choice(["../../../tmp/x", "/etc/passwd", "a\x00", "C:\\x", "é" * 300, ".", ""]) + name
    return kind, name, bytes(data)


def test_broken_uploads_are_explained(application, monkeypatch, tmp_path):
    """Each file opened for writing, by the server or by its workers, lies in the folder of its upload."""
    monkeypatch.setattr(routes, "upload_task", explorer_tasks.audited_upload)
    # anything that asks for a temporary file outside the upload's own folder would show up here
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    written = []
    explorer_tasks.watch_writes(written)
    rng = random.Random(22)
    refused = done = failed = 0
    pending = []
    for number in range(UPLOADS):
        kind, name, body = broken_file(rng)
        query = {"kind": kind, "name": name}
        if number % 3 == 0:
            query = rng.choice(
                [
                    {**query, "kind": rng.choice(BITS)},
                    {**query, "name": rng.choice(BITS)},
                    {**query, "target": rng.choice(["nan", "-1", "1e5", "9" * 99, "٣", "0", "1"])},
                    {**query, "labels": "y.npy", "labels_size": rng.choice(["nan", "-1", "9" * 11, "٣", "0", "7"])},
                    {},
                ]
            )
        answer = application.client.post("/upload", query_string=query, data=body)
        assert answer.status_code in (200, 400, 411), answer.data
        if answer.status_code == 200:
            pending.append(application.services.jobs.find(answer.get_json()["job"]))
        else:
            refused += 1
            assert answer.get_json()["error"]
        while len(pending) >= (4 if number < UPLOADS - 1 else 1):
            job = pending.pop(0)
            assert job.finished.wait(DEADLINE), f"hanging: {job.note}"
            assert job.status in ("done", "failed")
            done, failed = done + (job.status == "done"), failed + (job.status == "failed")
            assert job.status == "done" or len(job.error) > 10
            assert "unexpectedly" not in (job.error or ""), job.error
    assert refused >= 25
    assert failed >= 50
    assert not list(application.folder.iterdir())
    assert not list(tmp_path.iterdir())
    mine = str(application.folder)
    assert {path for path in written if not path.startswith(mine)} == set()
    assert np.array(written).size > UPLOADS / 2
