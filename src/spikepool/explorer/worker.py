"""The worker process of the explorer: it runs one simulation at a time, has a time limit, and can be stopped.

A task reports progress through a pipe and ends with a result or an error. Request threads read the pipe when the page
asks; a timer kills a process that takes too long, also when nobody asks any more.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from multiprocessing.connection import Connection
from typing import Any

from spikepool.errors import DomainError, SpikepoolError

Report = Callable[[float, str], None]
Task = Callable[[dict[str, Any], Report], dict[str, Any]]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What one simulation may take. The defaults suit a laptop.

    Attributes
    ----------
    trials : int
        Independent draws.
    cells : int
        Largest ``d (V + N)``: the numbers held in memory for one draw.
    seconds : float
        A worker that runs longer is killed.
    """

    trials: int = 50
    cells: int = 20_000_000
    seconds: float = 300.0

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not 0 < value < float("inf"):
                raise DomainError(f"{limit.name} must be above 0 and finite", value, "Pass a positive limit")


@dataclass
class Job:
    """One piece of work and how far it is: running, done, failed or stopped."""

    id: str
    process: Any
    pipe: Connection
    timer: threading.Timer | None = None
    started: float = field(default_factory=time.monotonic)
    status: str = "running"
    progress: float = 0.0
    note: str = ""
    result: dict[str, Any] | None = None
    error: str = ""


class Worker:
    """Runs one job at a time in a separate process; a new job stops the one before.

    Parameters
    ----------
    seconds : float
        A job that runs longer is killed.
    kept : int
        Finished jobs whose results are remembered, for pages that still show them.
    """

    def __init__(self, seconds: float, *, kept: int = 16) -> None:
        self._seconds, self._kept = seconds, kept
        self._jobs: dict[str, Job] = {}
        self._lock = threading.RLock()
        # a copy of a process that has imported the library starts in milliseconds, an interpreter in about a second
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload(["spikepool.explorer.simulate", "spikepool.simulation.simulate"])

    def start(self, task: Task, payload: dict[str, Any]) -> Job:
        """Begin a job, and stop the one that runs."""
        with self._lock:
            self.close("Stopped: another simulation was started.")
            reader, writer = self._context.Pipe(duplex=False)
            process = self._context.Process(target=_work, args=(writer, task, payload), daemon=True)
            try:
                process.start()
            except (OSError, RuntimeError) as err:  # no process left, or a script without a main guard
                raise SpikepoolError(f"A worker process could not be started: {err}") from err
            writer.close()  # so that the worker's death closes the pipe
            job = Job(secrets.token_urlsafe(18), process, reader)
            late = f"Stopped after {self._seconds:g} seconds, the longest a simulation may take."
            job.timer = threading.Timer(self._seconds, self._end, (job, "failed"), {"error": late})
            job.timer.daemon = True
            job.timer.start()
            self._jobs[job.id] = job
            for old in list(self._jobs)[: -self._kept]:
                del self._jobs[old]
        return job

    def find(self, id: object) -> Job | None:
        """The job of this id with its latest progress, or None."""
        with self._lock:
            job = self._jobs.get(id) if isinstance(id, str) else None
            while job is not None and job.status == "running" and job.pipe.poll():
                self._receive(job)
            return job

    def stop(self, id: object) -> None:
        """Kill the job if it runs."""
        job = self.find(id)
        if job is not None:
            self._end(job, "stopped", error="Cancelled.")

    def close(self, why: str = "The server stopped.") -> None:
        """Kill whatever runs."""
        with self._lock:
            for job in self._jobs.values():
                self._end(job, "stopped", error=why)

    def _receive(self, job: Job) -> None:
        try:
            kind, value = job.pipe.recv()
        except (EOFError, OSError):
            self._end(job, "failed", error="The worker stopped without a result, probably for lack of memory.")
            return
        if kind == "progress":
            job.progress, job.note = value
        elif kind == "result":
            self._end(job, "done", result=value)
        else:
            self._end(job, "failed", error=value)

    def _end(self, job: Job, status: str, *, result: dict[str, Any] | None = None, error: str = "") -> None:
        with self._lock:
            if job.status != "running":
                return
            job.status, job.result, job.error = status, result, error
            if job.timer is not None:
                job.timer.cancel()
            job.process.kill()
            job.process.join()
            job.pipe.close()


def _work(pipe: Connection, task: Task, payload: dict[str, Any]) -> None:
    """The worker process: run the task, send its messages."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # the page answers first; at 19 a busy page would leave the simulation next to nothing
    try:
        message: tuple[str, Any] = ("result", task(payload, lambda share, note: pipe.send(("progress", (share, note)))))
    except SpikepoolError as err:
        message = ("error", str(err))
    except MemoryError:
        message = ("error", "Not enough memory for this simulation. Make it smaller.")
    except Exception as err:
        _LOGGER.exception("a simulation failed")
        message = ("error", f"The worker failed unexpectedly ({type(err).__name__}).")
    with contextlib.suppress(OSError):
        pipe.send(message)
