"""A body without the token is refused after its headers; workers share the memory that there is."""

import socket
import threading
import time

import pytest

waitress = pytest.importorskip("waitress")
pytest.importorskip("dash")

from spikepool.explorer import jobs  # noqa: E402
from spikepool.explorer.security import COOKIE  # noqa: E402
from spikepool.explorer.strangers import carries, refuse_strangers  # noqa: E402

TOKEN = "a-long-enough-token"


@pytest.fixture
def port():
    def answer(environ, start):
        environ["wsgi.input"].read()
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"received"]

    server = waitress.create_server(answer, host="127.0.0.1", port=0)
    refuse_strangers(server, COOKIE, TOKEN)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server.effective_port
    server.close()


def ask(port, cookie, length, body=b""):
    """Headers that announce `length` bytes, and the first line of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        head = f"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{cookie}\r\n"
        link.sendall(head.encode() + body)
        return link.recv(4096).split(b"\r\n")[0]


def test_a_body_without_the_token_is_never_received(port):
    start = time.monotonic()
    assert b"401" in ask(port, "", 50_000_000)  # nothing of the body has been sent
    assert b"401" in ask(port, f"Cookie: {COOKIE}=wrong\r\n", 50_000_000)
    assert time.monotonic() - start < 5
    assert b"200" in ask(port, f"Cookie: {COOKIE}={TOKEN}\r\n", 4, b"body")
    assert not carries("\x00=;;", COOKIE, TOKEN)


@pytest.mark.parametrize(("available", "expected"), [(4 * 2**30, 2), (40 * 2**30, 6), (16 * 2**30, 3.2), (None, 6)])
def test_workers_share_the_memory_that_is_available(available, expected, monkeypatch):
    runner = jobs.JobRunner(running=4, waiting=1, seconds=1, memory_bytes=6 * 2**30, idle_seconds=1, kept=1)
    try:
        monkeypatch.setattr(jobs, "available_bytes", lambda: available)
        assert runner._share() == pytest.approx(expected * 2**30, rel=1e-6)
    finally:
        runner.close()
