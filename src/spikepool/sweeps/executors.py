"""How cells are computed: in this process, in processes of this machine, or on a Dask scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack
from functools import lru_cache
from types import TracebackType
from typing import Any

from spikepool import __version__
from spikepool.errors import SweepError, require
from spikepool.kit.threads import single_threaded_blas
from spikepool.sweeps import cells as cell_work
from spikepool.sweeps import cluster
from spikepool.sweeps.cells import Cell, blank
from spikepool.sweeps.kind import Values, describe
from spikepool.sweeps.spec import SweepSpec

Computed = Generator[tuple[Cell, Values], None, None]


class _SingleThreadedBLAS:
    """One BLAS thread while any cell is being computed in this process.

    The order in which several threads add numbers up changes the last bits, and every core has a worker anyway.
    The limit belongs to the process, so it is lifted only when the last of several threads leaves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits.enter_context(single_threaded_blas())
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.close()


_one_blas_thread = _SingleThreadedBLAS()


def here(spec: SweepSpec, pending: list[Cell]) -> Computed:
    """Compute cells one after the other in this process."""
    for cell in pending:
        with _one_blas_thread:
            values = cell_work.compute(spec, cell)
        yield cell, values


# What starting a local cluster costs on two cores; work that takes no longer is done in the calling process.
STARTUP_SECONDS = 6.0


def here_then_on_dask(spec: SweepSpec, pending: list[Cell]) -> Computed:
    """In this process while the rest should take no longer than starting others; the numbers are the same."""
    cores = cluster.default_workers()
    for i in range(len(pending)):
        start = time.monotonic()
        yield from here(spec, pending[i : i + 1])
        rest = pending[i + 1 :]
        if cores > 1 and (time.monotonic() - start) * len(rest) > STARTUP_SECONDS:
            yield from on_dask(spec, rest, cluster.local(min(cores, len(rest))))
            return


@lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> SweepSpec:
    """The spec, read once per process."""
    spec: SweepSpec = require("cloudpickle", "sweeps").loads(packed)
    return spec


def run_cell(cell: Cell, packed: bytes, version: str) -> Values | str:
    """On a worker: the values of a cell, or why this worker cannot compute it."""
    if version != __version__:
        return f"the driver runs spikepool {version}, this worker {__version__}"
    with _one_blas_thread:
        return cell_work.compute(_unpacked(packed), cell)


def on_dask(spec: SweepSpec, pending: list[Cell], connection: AbstractContextManager[Any]) -> Computed:
    """Compute cells on the workers of a Dask client; cells come as they are finished.

    A cell on which every worker dies has its error as its value.
    """
    distributed = require("distributed", "sweeps")
    packed = require("cloudpickle", "sweeps").dumps(spec)  # a dependency of Dask; a kernel may be a function

    def submit(batch: list[Cell]) -> list[Any]:
        # impure: the answer of an earlier run may be that of another version of a function
        futures: list[Any] = client.map(run_cell, batch, pure=False, packed=packed, version=__version__)
        return futures

    with connection as client:
        futures = submit(pending)
        cell_of = dict(zip((future.key for future in futures), pending, strict=True))
        suspects = []
        try:
            for future in distributed.as_completed(futures, loop=client.loop):
                values = _answer(future, distributed)
                if values is None:
                    suspects.append(cell_of[future.key])
                else:
                    yield cell_of[future.key], values
                future.release()
            for cell in suspects:  # Dask also blames cells that only waited on a worker that died: one at a time
                values = _answer(submit([cell])[0], distributed)
                message = "KilledWorker: every worker that tried it died, perhaps for want of memory"
                yield cell, blank(spec, cell, message) if values is None else values
        finally:
            client.cancel([future for future in futures if not future.done()])


def _answer(future: Any, distributed: Any) -> Values | None:
    """The answer of a worker; None when several died on the task."""
    try:
        values: Values | str = future.result()
    except distributed.scheduler.KilledWorker:
        return None
    except Exception as err:
        raise SweepError(
            f"the Dask cluster failed ({describe(err)})",
            remedy="Check its logs and that its workers have spikepool installed, then run again: finished "
            "cells are kept",
        ) from err
    if isinstance(values, str):
        raise SweepError(values, remedy="Install the same version of spikepool on the workers")
    return values
