"""Heavy work in separate processes: bounded in number, time and memory, with progress, and killable.

A job's worker sends JSON messages through a pipe: any number of ``{"progress", "note"}``, then one ``{"result"}`` or
``{"error"}``. JSON, not pickle, because the worker may have read a hostile file. One watcher thread starts the
workers, reads the pipes and enforces the limits; request threads only look things up.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from spikepool.errors import SpikepoolError
from spikepool.kit.memory import available_bytes

Report = Callable[[float, str], None]
Task = Callable[[dict[str, Any], Report], dict[str, Any]]

MAX_MESSAGE_BYTES = 32 * 2**20
# Workers yield to the request threads, but keep a share of a busy machine: at 19 the scheduler gives a worker a
# seventieth of what a request thread gets, and simulations beside fifty busy pages never end; at 5, a third.
NICENESS = 5
_TICK_SECONDS = 0.25
# Workers together may take this share of the memory that is available when they start; the libraries alone map more
# than a gibibyte of addresses.
_MEMORY_SHARE = 0.8
_LEAST_MEMORY = 2 * 2**30
_LOGGER = logging.getLogger(__name__)


# Slow imports, done once in the process that workers are copied from; what cannot be imported is reported by the worker
# that needs it.
_PRELOADED = (
    "numpy",
    "scipy.sparse.linalg",
    "scipy.optimize",
    "threadpoolctl",
    "spikepool.model",
    "spikepool.simulation.simulate",
    "spikepool.explorer.simulate",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
)


class BusyError(SpikepoolError):
    """As many jobs as allowed are running and waiting."""


class WorkerError(SpikepoolError):
    """A job ended without a result."""


@dataclass
class Job:
    """One piece of work and where it stands: waiting, running, done, failed or cancelled."""

    task: Task
    payload: dict[str, Any]
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    status: str = "waiting"
    progress: float = 0.0
    note: str = ""
    result: dict[str, Any] | None = None
    error: str | None = None
    touched: float = field(default_factory=time.monotonic)
    started: float = 0.0
    process: Any = None
    connection: Connection | None = None
    finished: threading.Event = field(default_factory=threading.Event)


class JobRunner:
    """Runs jobs, at most `running` at once with `waiting` more in line.

    Parameters
    ----------
    running, waiting : int
        Bounds of the number of worker processes and of the line.
    seconds : float
        A worker that runs longer is killed.
    memory_bytes : int
        Address space of a worker, where the system can limit it; less where the memory available now is shared by as
        many workers as may run.
    idle_seconds : float
        A job nobody has asked about for this long is killed.
    kept : int
        Number of finished jobs remembered.
    """

    def __init__(
        self, *, running: int, waiting: int, seconds: float, memory_bytes: int, idle_seconds: float, kept: int
    ) -> None:
        self._limits = (running, waiting, seconds, idle_seconds, kept)
        self._memory_bytes = memory_bytes
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._closed = False
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            # workers start as copies of a process that has the slow imports behind it
            self._context.set_forkserver_preload(list(_PRELOADED))
        self._wake_reader, self._wake_writer = self._context.Pipe(duplex=False)
        self._watcher = threading.Thread(target=self._watch, name="spikepool-jobs", daemon=True)
        self._watcher.start()

    def warm(self) -> None:
        """Begin the slow imports of the workers now rather than when the first one is wanted."""
        if self._context.get_start_method() == "forkserver":
            from multiprocessing import forkserver

            forkserver.ensure_running()

    def submit(self, task: Task, payload: dict[str, Any]) -> Job:
        """Put a job in line.

        Raises
        ------
        BusyError
            When the line is full.
        """
        running, waiting, *_, kept = self._limits
        job = Job(task, payload)
        with self._lock:
            active = [other for other in self._jobs.values() if not other.finished.is_set()]
            full = self._closed or len(active) >= running + waiting
            if not full:
                ended = [other.id for other in self._jobs.values() if other.finished.is_set()]
                for id in ended[: max(0, len(ended) - kept + 1)]:
                    del self._jobs[id]
                self._jobs[job.id] = job
        if full:
            raise BusyError("The server is busy", f"{len(active)} jobs", "Wait until one of them ends and try again")
        self._wake()
        return job

    def find(self, id: object) -> Job | None:
        """The job of this id, marked as still wanted, or None."""
        if not isinstance(id, str):
            return None
        with self._lock:
            job = self._jobs.get(id)
            if job is not None:
                job.touched = time.monotonic()
            return job

    def cancel(self, id: object) -> None:
        """Kill the job if it has not ended."""
        job = self.find(id)
        if job is not None and not job.finished.is_set():
            self._end(job, "cancelled", error="Cancelled.")
            self._wake()

    def run(self, task: Task, payload: dict[str, Any]) -> dict[str, Any]:
        """Submit a job and wait for its result."""
        job = self.submit(task, payload)
        job.finished.wait(self._limits[2] * 2)
        if job.result is None:
            self.cancel(job.id)
            raise WorkerError(job.error or "The worker took too long")
        return job.result

    def counts(self) -> dict[str, int]:
        """Number of jobs by status."""
        with self._lock:
            statuses = [job.status for job in self._jobs.values()]
        return {status: statuses.count(status) for status in set(statuses)}

    def close(self) -> None:
        """Kill everything and stop."""
        with self._lock:
            self._closed = True
            jobs = list(self._jobs.values())
        for job in jobs:
            if not job.finished.is_set():
                self._end(job, "cancelled", error="The server stopped.")
        self._wake()
        self._watcher.join(timeout=5)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_writer.send_bytes(b".")

    def _watch(self) -> None:
        while not self._closed:
            with self._lock:
                pipes: dict[Any, Job] = {j.connection: j for j in self._jobs.values() if j.status == "running"}
            try:
                ready: list[Any] = wait([*pipes, self._wake_reader], _TICK_SECONDS)
            except OSError:  # a pipe was closed by a cancellation between listing and waiting
                continue
            for pipe in ready:
                if pipe is self._wake_reader:
                    self._wake_reader.recv_bytes()
                else:
                    self._receive(pipes[pipe], pipe)
            self._expire()
            self._start_waiting()

    def _receive(self, job: Job, pipe: Connection) -> None:
        try:
            message = json.loads(pipe.recv_bytes(MAX_MESSAGE_BYTES))
        except (EOFError, OSError, ValueError):
            self._end(job, "failed", error="The worker stopped without a result, probably for lack of memory.")
            return
        if "result" in message:
            self._end(job, "done", result=message["result"])
        elif "error" in message:
            self._end(job, "failed", error=str(message["error"]))
        else:
            job.progress, job.note = float(message["progress"]), str(message["note"])

    def _expire(self) -> None:
        now = time.monotonic()
        *_, seconds, idle, _ = self._limits
        with self._lock:
            active = [job for job in self._jobs.values() if not job.finished.is_set()]
        for job in active:
            if job.status == "running" and now - job.started > seconds:
                self._end(job, "failed", error=f"Stopped after {seconds:g} seconds, the longest a job may take.")
            elif now - job.touched > max(idle, 0):
                self._end(job, "cancelled", error="Stopped: its page was closed.")

    def _start_waiting(self) -> None:
        with self._lock:
            room = self._limits[0] - sum(job.status == "running" for job in self._jobs.values())
            chosen = [job for job in self._jobs.values() if job.status == "waiting"][: max(room, 0)]
        for job in chosen:
            try:
                self._start(job)
            # no process left, or a script that starts the page without a main guard
            except (OSError, RuntimeError) as err:
                _LOGGER.warning("a worker could not be started: %s", err)
                self._end(job, "failed", error="A worker process could not be started.")

    def _start(self, job: Job) -> None:
        reader, writer = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(writer, job.task, job.payload, self._share()), daemon=True)
        process.start()
        writer.close()  # so that the worker's death closes the pipe
        with self._lock:
            started = job.status == "waiting" and not self._closed
            if started:
                job.process, job.connection = process, reader
                job.started = time.monotonic()
                job.status = "running"
        if not started:  # cancelled in the meantime
            process.kill()
            process.join()
            reader.close()

    def _share(self) -> int:
        """Address space of a worker: its limit, and no more than its share of the memory that there is now."""
        available = available_bytes()
        if available is None:
            return self._memory_bytes
        with self._lock:
            busy = sum(job.status == "running" for job in self._jobs.values())
        places = max(1, self._limits[0] - busy)
        return min(self._memory_bytes, max(_LEAST_MEMORY, int(_MEMORY_SHARE * available) // places))

    def _end(self, job: Job, status: str, *, result: dict[str, Any] | None = None, error: str | None = None) -> None:
        with self._lock:
            if job.status not in ("waiting", "running"):
                return
            job.status, job.result, job.error = status, result, error
            process, pipe = job.process, job.connection
            job.process = job.connection = None
            job.payload = {}
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()
        job.finished.set()


def _work(pipe: Connection, task: Task, payload: dict[str, Any], memory_bytes: int) -> None:
    """The worker process: run the task, send its messages."""
    _be_modest(memory_bytes)

    def report(progress: float, note: str = "") -> None:
        pipe.send_bytes(json.dumps({"progress": progress, "note": note}).encode())

    try:
        message = json.dumps({"result": task(payload, report)}, allow_nan=False)
    except SpikepoolError as err:
        message = json.dumps({"error": str(err)})
    except MemoryError:
        message = json.dumps({"error": "Not enough memory for this request; make it smaller."})
    except Exception as err:
        _LOGGER.exception("a job failed")
        message = json.dumps({"error": f"The worker failed unexpectedly ({type(err).__name__})."})
    with contextlib.suppress(OSError):
        pipe.send_bytes(message.encode())
    pipe.close()


def _be_modest(memory_bytes: int) -> None:
    """Lower priority than the request threads, one thread of linear algebra, bounded memory."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # a dependency of scikit-learn

    threadpool_limits(1)
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
