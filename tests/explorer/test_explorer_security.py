"""Who is let in, and what a request may look like."""

import json

import pytest
from browser_page import run_until_closed

from spikepool.errors import InvalidInputError
from spikepool.explorer import Settings, create_app
from spikepool.explorer.security import CALLBACK_PATH, COOKIE, is_loopback

TOKEN = "a-long-enough-token"
CALLBACK = CALLBACK_PATH


@pytest.fixture(scope="module")
def guarded():
    app = create_app(Settings(host="0.0.0.0", token=TOKEN))
    yield app
    app.server.extensions["spikepool"].close()


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
    ("host", "local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.8.8", True), ("0.0.0.0", False),
     ("192.168.1.4", False), ("example.org", False), ("", False)],
)  # fmt: skip
def test_loopback(host, local):
    assert is_loopback(host) is local


def test_other_machines_need_a_token():
    with pytest.raises(InvalidInputError, match="needs a token"):
        Settings(host="0.0.0.0")
    with pytest.raises(InvalidInputError, match="at least 12"):
        Settings(token="short")
    with pytest.raises(InvalidInputError, match="letters"):
        Settings(token="white space is not it")


@pytest.mark.parametrize("name", ["threads", "max_trials", "job_seconds", "max_running"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_limits_must_be_limits(name, value):
    with pytest.raises(InvalidInputError, match=name):
        Settings(**{name: value})


@pytest.mark.parametrize(
    "path", ["/", "/glossary", "/_dash-layout", "/_dash-dependencies", "/export/spikepool.csv", "/assets/explorer.js"]
)
def test_without_the_token_nothing_is_answered(guarded, path):
    assert guarded.server.test_client().get(path).status_code == 401
    assert guarded.server.test_client().get(path + "?token=wrong-token-wrong").status_code == 401


def test_callbacks_need_the_token_too(guarded):
    client = guarded.server.test_client()
    assert client.post(CALLBACK, json={}).status_code == 401
    # a token in the address is for opening the page, not for changing things
    assert client.post(f"{CALLBACK}?token={TOKEN}", json={}).status_code == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(guarded):
    client = guarded.server.test_client()
    answer = client.get(f"/?token={TOKEN}&d=100&custom=1,2")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/?d=100&custom=1,2"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert client.get("/").status_code == 200
    assert client.get("/_dash-layout").status_code == 200
    client.set_cookie(COOKIE, "something-else-entirely")
    assert client.get("/").status_code == 401


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "/%5Cevil.example", "//evil.example/%2F.."])
def test_the_redirect_stays_here(guarded, path):
    answer = guarded.server.test_client().get(f"{path}?token={TOKEN}")
    location = answer.headers.get("Location", "/")
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))


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
    assert not application.services.jobs.counts()


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


def test_serve_makes_a_token_for_other_machines(monkeypatch, capsys):
    """The warning and the token are printed; the server itself is replaced."""
    import waitress

    from spikepool.explorer import serve

    seen = {}

    class Server:
        effective_port = 8050

        def run(self):
            raise KeyboardInterrupt

    def create_server(application, **options):
        seen.update(options, application=application)
        return Server()

    monkeypatch.setattr(waitress, "create_server", create_server)
    serve(host="0.0.0.0", port=8050, open_browser=False)
    printed = capsys.readouterr()
    assert "warning" in printed.err
    token = printed.out.split("token=")[1].split()[0]
    assert len(token) >= 24
    assert seen["host"] == "0.0.0.0"
    assert seen["application"].test_client().get("/").status_code == 401
    assert seen["application"].test_client().get(f"/?token={token}").status_code == 303
    serve(open_browser=False)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "http://127.0.0.1:8050/ " in printed.out


@pytest.mark.parametrize("port", [-1, 70_000, "8050", 80.5, True])
def test_serve_checks_the_port(port):
    from spikepool.explorer import serve

    with pytest.raises(InvalidInputError, match="port"):
        serve(port=port, open_browser=False)


@pytest.mark.slow
def test_connections_that_send_a_byte_now_and_then_are_closed(application, monkeypatch):
    """More of them than the server may hold: each is closed in time, and the page is answered afterwards."""
    import socket
    import time
    from urllib.request import urlopen

    from waitress.server import create_server

    from spikepool.explorer import security

    monkeypatch.setattr(security, "REQUEST_SECONDS", 1.0)
    server = create_server(application.app.server, host="127.0.0.1", port=0, threads=4, connection_limit=12)
    security.refuse_slow_requests(server)
    run_until_closed(server)
    slow = [socket.create_connection(("127.0.0.1", server.effective_port), timeout=5) for _ in range(11)]
    for link in slow:
        link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        link.setblocking(False)
    open_links, end = list(slow), time.monotonic() + 8
    while open_links and time.monotonic() < end:
        time.sleep(0.3)
        for link in list(open_links):
            try:
                link.send(b"x")
                if link.recv(100) == b"":
                    open_links.remove(link)
            except BlockingIOError:
                pass
            except OSError:
                open_links.remove(link)
    assert not open_links
    with urlopen(f"http://127.0.0.1:{server.effective_port}/", timeout=10) as answer:
        assert answer.status == 200
    server.close()


def test_the_page_below_a_path_and_behind_a_proxy():
    app = create_app(Settings(base_path="/tools/spikepool/", allowed_hosts=("explorer.example",)))
    try:
        client = app.server.test_client()
        headers = {"Host": "explorer.example"}
        page = client.get("/tools/spikepool/", headers=headers).get_data(as_text=True)
        assert "<noscript>" in page
        for path in ("glossary", "export/spikepool.csv", "assets/explorer.css", "_dash-layout"):
            assert client.get(f"/tools/spikepool/{path}", headers=headers).status_code == 200, path
        assert client.get("/glossary", headers=headers).status_code == 404
        assert client.get("/tools/spikepool/", headers={"Host": "other.example"}).status_code == 403
        glossary = client.get("/tools/spikepool/glossary", headers=headers).get_data(as_text=True)
        layout = client.get("/tools/spikepool/_dash-layout", headers=headers).get_data(as_text=True)
        assert "='/" not in glossary, "links are relative"
        assert '"href":"/' not in layout.replace(" ", "")
    finally:
        app.server.extensions["spikepool"].close()


@pytest.mark.parametrize("path", ["", "spikepool", "/spikepool", "//evil/", "/a/../b/", "/a b/", "/a?b/", "https://x/"])
def test_a_base_path_is_a_path(path):
    with pytest.raises(InvalidInputError, match="base path"):
        Settings(base_path=path)


@pytest.mark.parametrize("name", ["", "a b", "http://a.org", "a.org/", "*"])
def test_an_allowed_host_is_a_name(name):
    with pytest.raises(InvalidInputError, match="allowed host"):
        Settings(allowed_hosts=(name,))


@pytest.mark.slow
def test_the_token_comes_from_a_file_or_the_environment(monkeypatch, tmp_path, capsys):
    """Never from the arguments, which every user of the machine can read."""
    import spikepool.explorer
    from spikepool.cli import main

    seen = []
    monkeypatch.setattr(spikepool.explorer, "serve", lambda **options: seen.append(options))

    def explore(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["explore", "--no-browser", *map(str, arguments)])
        return stop.value.code

    assert explore("--token", "a-long-enough-token") == 2
    (tmp_path / "token").write_text("from-a-file-12345\n")
    assert explore("--token-file", tmp_path / "token", "--base-path", "/x/", "--allowed-host", "a.org") == 0
    assert seen[-1]["token"] == "from-a-file-12345"
    assert (seen[-1]["settings"].base_path, seen[-1]["settings"].allowed_hosts) == ("/x/", ("a.org",))
    monkeypatch.setenv("SPIKEPOOL_TOKEN", "from-the-environment")
    assert explore() == 0
    assert seen[-1]["token"] == "from-the-environment"
    assert explore("--token-file", tmp_path / "nowhere") == 2
