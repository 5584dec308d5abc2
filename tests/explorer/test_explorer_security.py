"""Who is let in, and what a request may look like."""

import json

import pytest

from spikepool.errors import InvalidInputError
from spikepool.explorer.security import CALLBACK_PATH

CALLBACK = CALLBACK_PATH


def theory_body(query="", theme="light"):
    """The request the page sends when a control moves."""
    return {
        "output": None,
        "outputs": None,
        "inputs": [
            {"id": "query", "property": "data", "value": query},
            {"id": "theme", "property": "data", "value": theme},
            {"id": "shown-job", "property": "data", "value": None},
        ],
        "changedPropIds": ["query.data"],
        "state": [{"id": "drawn", "property": "data", "value": None}],
    }


@pytest.fixture(scope="module")
def theory_output(application):
    return next(key for key in application.app.callback_map if "spectrum.figure" in key)


def as_request(body, output):
    names = output.strip(".").split("...")
    outputs = [dict(zip(("id", "property"), name.rsplit(".", 1), strict=True)) for name in names]
    return {**body, "output": output, "outputs": outputs}


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "evil.example:8050",
            "127.0.0.1.evil.example",
            "",
            "127.0.0.1:80@other",
            "localhost:80@other:80",
        ),
        *(
            "localhost:",
            "localhost:x",
            "localhost:8050 ",
            "127.0.0.1:8050:8050",
            "[::1",
            "user@localhost",
            "localhost/x",
        ),
    ],
)
def test_a_foreign_host_name_is_refused(application, host):
    assert application.client.get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:8050", "127.0.0.1:1", "[::1]:8050", "[::1]"])
def test_names_of_this_machine_are_accepted(application, host):
    assert application.client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_of_other_pages_are_refused(application, headers):
    answer = application.client.post(CALLBACK, data=b"{}", headers={"Host": "localhost:8050", **headers})
    assert answer.status_code == 403


def test_headers(application):
    for path in ("/", "/_dash-layout", "/export/spikepool.csv", "/nothing/here"):
        headers = application.client.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe-eval" not in policy
        script = next(part for part in policy.split(";") if "script-src" in part)
        assert "unsafe-inline" not in script
        assert "http" not in policy


def test_nothing_comes_from_elsewhere(application):
    """Every script and style of the page is served by this server."""
    import re

    page = application.client.get("/").get_data(as_text=True)
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(sources) > 5
    assert all(source.startswith("/") and not source.startswith("//") for source in sources)
    for source in sources:
        assert application.client.get(source).status_code == 200


def test_a_well_formed_callback_is_answered(application, theory_output):
    answer = application.client.post(CALLBACK, json=as_request(theory_body("mu=0.9"), theory_output))
    assert answer.status_code == 200
    assert "0.9" in json.dumps(answer.get_json()["response"]["alignment-caption"], ensure_ascii=False)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: [],
        lambda body: None,
        lambda body: "text",
        lambda body: {},
        lambda body: {**body, "output": 5},
        lambda body: {**body, "output": "nothing.here"},
        lambda body: {**body, "outputs": None},
        lambda body: {**body, "outputs": body["outputs"][:-1]},
        lambda body: {**body, "outputs": [5] * len(body["outputs"])},
        lambda body: {**body, "inputs": {}},
        lambda body: {**body, "inputs": body["inputs"][:1]},
        lambda body: {**body, "inputs": [None, None, None]},
        lambda body: {**body, "inputs": list(reversed(body["inputs"]))},
        lambda body: {**body, "state": [{"id": "a", "property": "b"}]},
        lambda body: {**body, "changedPropIds": 7},
        lambda body: {**body, "changedPropIds": [7]},
        lambda body: {**body, "changedPropIds": ["nodot"]},
        lambda body: {**body, "background": {"id": 1}},
        lambda body: {**body, "cancelJob": ["x"]},
    ],
)
def test_a_malformed_callback_is_no_server_error(application, theory_output, spoil):
    body = spoil(as_request(theory_body(), theory_output))
    answer = application.client.post(CALLBACK, json=body)
    assert answer.status_code in (200, 204, 400, 415)
    assert answer.status_code < 400 or answer.get_json()["error"]
    assert not application.worker._jobs


def test_callbacks_are_posted_to_the_path_that_is_limited(application):
    rules = [rule for rule in application.app.server.url_map.iter_rules() if rule.rule == CALLBACK_PATH]
    assert len(rules) == 1
    assert "POST" in rules[0].methods


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 50_000, b"null"])
def test_a_body_that_is_not_json_is_refused(application, data):
    assert application.client.post(CALLBACK, data=data, content_type="application/json").status_code == 400


def test_files_are_not_accepted(application):
    """Nothing but callbacks may be posted, and the page has no field for a file."""
    assert application.client.post("/upload?kind=table&name=a.npy", data=b"x").status_code in (404, 405)
    for path in ("/_dash-layout", "/_dash-dependencies", "/assets/explorer.js"):
        assert "upload" not in application.client.get(path).get_data(as_text=True).lower()
    posts = [str(rule) for rule in application.app.server.url_map.iter_rules() if "POST" in rule.methods]
    assert posts == [CALLBACK_PATH]


def test_a_request_has_a_largest_size(application, theory_output):
    body = as_request(theory_body("x" * 300_000), theory_output)
    assert application.client.post(CALLBACK, json=body).status_code == 413


@pytest.mark.parametrize(
    ("query", "theme"), [(5, "light"), ([], "light"), ({"a": 1}, None), ("mu=x", 7), ("mu=1", {"x": []}), (None, None)]
)
def test_values_of_any_type_give_a_message(application, theory_output, query, theme):
    answer = application.client.post(CALLBACK, json=as_request(theory_body(query, theme), theory_output))
    assert answer.status_code in (200, 204)


def test_serve_listens_on_loopback(monkeypatch, capsys):
    """The server itself is replaced."""
    import waitress

    from spikepool.explorer import serve

    seen = {}

    class Server:
        effective_port = 8051

        def run(self):
            raise KeyboardInterrupt

    def create_server(application, **options):
        seen.update(options, application=application)
        return Server()

    monkeypatch.setattr(waitress, "create_server", create_server)
    serve(port=0, open_browser=False)
    assert seen["host"] == "127.0.0.1"
    assert "http://127.0.0.1:8051/ " in capsys.readouterr().out
    assert seen["application"].test_client().get("/").status_code == 200


@pytest.mark.parametrize("port", [-1, 70_000, "8050", 80.5, True])
def test_serve_checks_the_port(port):
    from spikepool.explorer import serve

    with pytest.raises(InvalidInputError, match="port"):
        serve(port=port, open_browser=False)
