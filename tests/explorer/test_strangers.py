"""A body without the token is refused after its headers; workers share the memory that there is."""

import io
import socket
import threading
import time

import numpy as np
import psutil
import pytest
import upload_files as files

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


def npz_of_zeros(megabytes):
    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.zeros((megabytes * 2**17 // 8, 8)))
    return stream.getvalue()


def test_four_bombs_at_once_are_refused_in_little_memory(site):
    """The line is full of files that expand a thousand times; the page answers, and an honest file comes next."""
    bomb = npz_of_zeros(160)
    assert len(bomb) < 400_000
    server, peak, done = psutil.Process(), [0], threading.Event()
    start = resident(server)

    def watch():
        while not done.wait(0.25):
            peak[0] = max(peak[0], resident(server))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()

    def send(kind, name, body):
        return site.client.post("/upload", query_string={"kind": kind, "name": name}, data=body).get_json()["job"]

    bombs = [send(kind, "x.npz", bomb) for kind in ("features", "table", "features", "table")]
    assert site.client.get("/").status_code == 200
    honest = send("features", "x.npy", files.npy(files.pooled_features()))
    jobs_of = [site.services.jobs.find(name) for name in [*bombs, honest]]
    assert all(job.finished.wait(120) for job in jobs_of)
    done.set()
    watcher.join()
    for job in jobs_of[:4]:
        assert job.status == "failed"
        assert "expand" in job.error
    assert jobs_of[4].status == "done", jobs_of[4].error
    # each worker holds its libraries; none holds the 160 MB that a bomb would become
    assert peak[0] - start < 1100 * 2**20


def resident(server):
    """Bytes that a process and everything it started hold."""
    total = 0
    for process in [server, *server.children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
