"""Dask clients: of new processes on this machine, or of a scheduler that is running already."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spikepool.errors import InvalidInputError, SweepError, require

# Nothing of the local cluster listens but its own protocol, on the loopback interface.
_LOCAL_CONFIG: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.nanny.http.routes": [],
}


def default_workers() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def local(workers: int) -> Iterator[Any]:
    """A Dask client of `workers` new processes, each with one thread; they end with the context or the driver."""
    dask = require("dask", "sweeps")
    distributed = require("distributed", "sweeps")
    with (
        dask.config.set(_LOCAL_CONFIG),
        _main_hidden(),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Keep worker processes from importing the caller's script.

    A spawned process imports the main module again, which for a script without ``if __name__ == "__main__"``
    would start the sweep in every worker. Workers need nothing of it: they run functions of this package.
    """
    main: Any = sys.modules["__main__"]
    kept = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    try:
        main.__spec__ = None
        if "__file__" in kept:
            del main.__file__
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)


def check_scheduler(scheduler: Any) -> None:
    """Raise unless `scheduler` is None, an address or a client."""
    if scheduler is None or isinstance(scheduler, str):
        return
    if not isinstance(scheduler, require("distributed", "sweeps").Client):
        raise InvalidInputError(
            "scheduler must be an address or a distributed.Client", scheduler, 'Pass "tcp://127.0.0.1:8786"'
        )


@contextmanager
def remote(scheduler: Any, *, connect_seconds: float = 15, worker_seconds: float = 60) -> Iterator[Any]:
    """A Dask client of the scheduler at an address; a client is passed through and not closed.

    An error when it does not answer, or has no worker, within these times.
    """
    distributed = require("distributed", "sweeps")
    if isinstance(scheduler, distributed.Client):
        yield scheduler
        return
    try:
        client = distributed.Client(scheduler, timeout=connect_seconds, set_as_default=False)
    except (OSError, ValueError) as err:
        raise SweepError(
            "no Dask scheduler answers at the address", scheduler, "Start one with: dask scheduler"
        ) from err
    with client:
        try:
            client.wait_for_workers(1, timeout=worker_seconds)
        except TimeoutError as err:
            raise SweepError(
                "the Dask scheduler has no workers", scheduler, f"Start some with: dask worker {scheduler}"
            ) from err
        yield client
