"""Workers: results, progress, cancellation, limits. Waits are for events, with generous deadlines."""

import os
import sys
import time

import explorer_tasks as tasks
import psutil
import pytest

from spikepool.explorer import jobs as explorer_jobs
from spikepool.explorer.jobs import BusyError, Job, JobRunner, WorkerError

DEADLINE = 60.0


def make(**changes):
    limits = {
        "running": 2,
        "waiting": 2,
        "seconds": 60.0,
        "memory_bytes": 4 * 2**30,
        "idle_seconds": 60.0,
        "kept": 4,
    }
    return JobRunner(**{**limits, **changes})


@pytest.fixture(scope="module")
def runner():
    instance = make()
    yield instance
    instance.close()


def until(condition):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def started(job):
    return until(lambda: job.note.startswith("pid"))


def gone(pid):
    return until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


@pytest.mark.slow
def test_result_comes_from_another_process(runner):
    result = runner.run(tasks.echo, {"a": [1, 2]})
    assert result["payload"] == {"a": [1, 2]}
    assert result["pid"] != os.getpid()


def test_progress_is_seen_and_cancel_kills(runner):
    job = runner.submit(tasks.forever, {})
    assert started(job)
    assert job.progress == 0.25
    pid = int(job.note.split()[1])
    assert psutil.pid_exists(pid)
    runner.cancel(job.id)
    assert job.finished.wait(DEADLINE)
    assert job.status == "cancelled"
    assert gone(pid)


def test_named_errors_reach_the_page_and_others_do_not_leak(runner):
    with pytest.raises(WorkerError, match="this cannot be"):
        runner.run(tasks.named_error, {})
    with pytest.raises(WorkerError, match="RuntimeError") as caught:
        runner.run(tasks.surprise, {})
    assert "secret" not in str(caught.value)
    with pytest.raises(WorkerError, match="unexpectedly"):
        runner.run(tasks.not_a_number, {})


def test_a_worker_that_dies_is_a_failed_job(runner):
    with pytest.raises(WorkerError, match="without a result"):
        runner.run(tasks.suicide, {})
    assert runner.run(tasks.echo, {"still": "alive"})["payload"] == {"still": "alive"}


@pytest.mark.parametrize("error", [OSError("no process left"), RuntimeError("no main guard")])
def test_a_worker_that_cannot_start_is_a_failed_job(monkeypatch, error):
    runner = make()
    try:
        with monkeypatch.context() as patch:

            def refuse(self, job):
                raise error

            patch.setattr(type(runner), "_start", refuse)
            with pytest.raises(WorkerError, match="could not be started"):
                runner.run(tasks.echo, {})
        assert runner.run(tasks.echo, {"still": "alive"})["payload"] == {"still": "alive"}
    finally:
        runner.close()


@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process can be limited on Linux only")
def test_memory_is_limited():
    runner = make(memory_bytes=2 * 2**30)
    try:
        with pytest.raises(WorkerError, match="memory"):
            runner.run(tasks.glutton, {"bytes": 3 * 2**30})
        assert runner.run(tasks.glutton, {"bytes": 1000})["length"] == 1000
    finally:
        runner.close()


def test_line_is_bounded_and_moves_up(tmp_path):
    runner = make(running=1, waiting=1)
    try:
        first = runner.submit(tasks.forever, {})
        second = runner.submit(tasks.echo, {"n": 2})
        with pytest.raises(BusyError, match="busy"):
            runner.submit(tasks.echo, {})
        assert started(first)
        assert second.status == "waiting"
        runner.cancel(first.id)
        assert second.finished.wait(DEADLINE)
        assert second.result["payload"] == {"n": 2}
    finally:
        runner.close()


def test_a_waiting_job_can_be_cancelled():
    runner = make(running=1, waiting=1)
    try:
        first = runner.submit(tasks.forever, {})
        second = runner.submit(tasks.forever, {})
        assert started(first)
        runner.cancel(second.id)
        assert second.status == "cancelled"
        assert first.status == "running"
    finally:
        runner.close()


def test_time_is_limited():
    runner = make(seconds=0.5)
    try:
        job = runner.submit(tasks.forever, {})
        assert job.finished.wait(DEADLINE)
        assert job.status == "failed"
        assert "0.5 seconds" in job.error
    finally:
        runner.close()


@pytest.mark.slow
def test_a_job_nobody_asks_about_is_stopped():
    runner = make(idle_seconds=1.0)
    try:
        left, followed = runner.submit(tasks.forever, {}), runner.submit(tasks.forever, {})
        assert until(lambda: runner.find(followed.id) and left.finished.is_set())
        assert left.status == "cancelled"
        assert "page was closed" in left.error
        assert followed.status == "running"
    finally:
        runner.close()


def test_finished_results_are_forgotten_in_order():
    runner = make(kept=2)
    try:
        jobs = []
        for n in range(5):
            jobs.append(runner.submit(tasks.echo, {"n": n}))
            assert jobs[-1].finished.wait(DEADLINE)
        known = [job for job in jobs if runner.find(job.id)]
        assert known == jobs[-2:]
    finally:
        runner.close()


@pytest.mark.parametrize("id", [None, "", "nonsense", 5, [], {}])
def test_unknown_jobs_are_no_error(runner, id):
    assert runner.find(id) is None
    runner.cancel(id)


def test_close_leaves_no_process():
    runner = make()
    job = runner.submit(tasks.forever, {})
    assert started(job)
    pid = int(job.note.split()[1])
    runner.close()
    assert gone(pid)
    with pytest.raises(BusyError):
        runner.submit(tasks.echo, {})


def test_a_simulation_says_how_long_it_will_take():
    """Never a number alone for minutes: the page adds the seconds so far, the worker what is left after one draw."""
    from spikepool.explorer.callbacks import _working
    from spikepool.explorer.simulate import simulate_task

    said = []
    payload = {"query": "d=40&V=100&N=80&T=4&L=2&mu=1.5", "trials": 3, "seed": 0}
    simulate_task(payload, lambda share, note: said.append((share, note)))
    shares, notes = zip(*said, strict=True)
    assert list(shares) == sorted(shares)
    assert [note.split(",")[0] for note in notes if note.startswith("draw")] == [f"draw {i} of 3" for i in (1, 2, 3)]
    assert all("s left" in note for note in notes if note.startswith(("draw 2", "draw 3")))
    job = Job(simulate_task, {}, status="running", note="draw 1 of 3", started=time.monotonic() - 44)
    assert _working(job, "Simulating") == "Simulating: draw 1 of 3 (44 s)"
    job.status = "waiting"
    assert "Waiting" in _working(job, "Simulating")


@pytest.mark.parametrize(("available", "expected"), [(4 * 2**30, 2), (40 * 2**30, 6), (16 * 2**30, 3.2), (None, 6)])
def test_workers_share_the_memory_that_is_available(available, expected, monkeypatch):
    runner = JobRunner(running=4, waiting=1, seconds=1, memory_bytes=6 * 2**30, idle_seconds=1, kept=1)
    try:
        monkeypatch.setattr(explorer_jobs, "available_bytes", lambda: available)
        assert runner._share() == pytest.approx(expected * 2**30, rel=1e-6)
    finally:
        runner.close()
