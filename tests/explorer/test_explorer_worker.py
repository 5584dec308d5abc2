"""The worker: results, progress, stopping, the time limit. Waits are for events, with generous deadlines."""

import os
import time

import explorer_tasks as tasks
import psutil
import pytest

from spikepool.errors import InvalidInputError, SpikepoolError
from spikepool.explorer import Limits
from spikepool.explorer.worker import Worker

DEADLINE = 60.0


@pytest.fixture(scope="module")
def worker():
    instance = Worker(60.0, kept=3)
    yield instance
    instance.close()


def until(condition):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def ended(worker, job):
    assert until(lambda: worker.find(job.id).status != "running")
    return worker.find(job.id)


def pid_of(worker, job):
    """The process of a job that has reported that it runs."""
    assert until(lambda: worker.find(job.id).note.startswith("pid"))
    return int(job.note.split()[1])


def gone(pid):
    return until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_result_comes_from_another_process(worker):
    job = ended(worker, worker.start(tasks.echo, {"a": [1, 2]}))
    assert job.status == "done"
    assert job.result["payload"] == {"a": [1, 2]}
    assert job.result["pid"] != os.getpid()
    assert (job.progress, job.note) == (0.5, "half way")


def test_progress_is_seen_and_stop_kills(worker):
    job = worker.start(tasks.forever, {})
    pid = pid_of(worker, job)
    assert job.progress == 0.25
    assert psutil.pid_exists(pid)
    worker.stop(job.id)
    assert (job.status, job.error) == ("stopped", "Cancelled.")
    assert gone(pid)


def test_a_new_job_stops_the_one_before(worker):
    first = worker.start(tasks.forever, {})
    pid = pid_of(worker, first)
    second = worker.start(tasks.echo, {"n": 2})
    assert first.status == "stopped"
    assert "another simulation" in first.error
    assert gone(pid)
    assert ended(worker, second).result["payload"] == {"n": 2}


def test_named_errors_reach_the_page_and_others_do_not_leak(worker):
    assert "this cannot be" in ended(worker, worker.start(tasks.named_error, {})).error
    surprise = ended(worker, worker.start(tasks.surprise, {}))
    assert surprise.status == "failed"
    assert "RuntimeError" in surprise.error
    assert "secret" not in surprise.error


def test_a_worker_that_dies_is_a_failed_job(worker):
    job = ended(worker, worker.start(tasks.suicide, {}))
    assert job.status == "failed"
    assert "without a result" in job.error
    assert ended(worker, worker.start(tasks.echo, {"still": "alive"})).status == "done"


@pytest.mark.parametrize("error", [OSError("no process left"), RuntimeError("no main guard")])
def test_a_worker_that_cannot_start_is_a_named_error(worker, monkeypatch, error):
    class Refusing:
        def __init__(self, **_):
            pass

        def start(self):
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(worker._context, "Process", Refusing, raising=False)
        with pytest.raises(SpikepoolError, match="could not be started"):
            worker.start(tasks.echo, {})
    assert ended(worker, worker.start(tasks.echo, {})).status == "done"


def test_time_is_limited_also_when_nobody_asks():
    worker = Worker(1.0)
    try:
        job = worker.start(tasks.forever, {})
        assert until(lambda: job.status != "running")
        assert job.status == "failed"
        assert "1 seconds" in job.error
        assert until(lambda: not job.process.is_alive())
    finally:
        worker.close()


def test_the_oldest_results_are_forgotten(worker):
    jobs = []
    for n in range(5):
        jobs.append(worker.start(tasks.echo, {"n": n}))
        ended(worker, jobs[-1])
    assert [job for job in jobs if worker.find(job.id)] == jobs[-3:]


@pytest.mark.parametrize("id", [None, "", "nonsense", 5, [], {}])
def test_unknown_jobs_are_not_an_error(worker, id):
    assert worker.find(id) is None
    worker.stop(id)


def test_close_leaves_no_process():
    worker = Worker(60.0)
    pid = pid_of(worker, worker.start(tasks.forever, {}))
    worker.close()
    assert gone(pid)


def test_a_simulation_says_how_long_it_will_take():
    """Never a number alone for minutes: after one draw, the worker says what is left."""
    from spikepool.explorer.simulate import simulate_task

    said = []
    payload = {"query": "d=40&V=100&N=80&T=4&L=2&mu=1.5", "trials": 3, "seed": 0}
    simulate_task(payload, lambda share, note: said.append((share, note)))
    shares, notes = zip(*said, strict=True)
    assert list(shares) == sorted(shares)
    assert [note.split(",")[0] for note in notes if note.startswith("draw")] == [f"draw {i} of 3" for i in (1, 2, 3)]
    assert all("s left" in note for note in notes if note.startswith(("draw 2", "draw 3")))


@pytest.mark.parametrize("name", ["trials", "cells", "seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_limits_must_be_limits(name, value):
    with pytest.raises(InvalidInputError, match=name):
        Limits(**{name: value})
