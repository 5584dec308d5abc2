"""What happens on a worker: one cell, computed and written. Nothing here raises but for a bug."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Literal

from spikepool import __version__
from spikepool.errors import DataSourceError, SpikepoolError, StoreWriteError, SweepError
from spikepool.kit.threads import single_threaded_blas
from spikepool.sweeps.cell import compute
from spikepool.sweeps.grid import Cell
from spikepool.sweeps.store import Store


@dataclass(frozen=True)
class Outcome:
    """How a cell went: ``"done"`` and ``"failed"`` are on disk, ``"unwritable"`` and ``"refused"`` end the sweep."""

    status: Literal["done", "failed", "unwritable", "refused"]
    message: str = ""


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


_single_threaded_blas = _SingleThreadedBLAS()


@lru_cache(maxsize=8)
def _store(path: str, fingerprint: str) -> Store:
    """The store, opened once a process; `fingerprint` tells it from an earlier one at the same path."""
    store = Store.open(path)
    if store.fingerprint != fingerprint:
        raise SweepError("the store there is another one", path)
    return store


def run_cell(cell: Cell, path: str, fingerprint: str, version: str) -> Outcome:
    """Compute `cell` of the store at `path` (or URL) and write it; the spec is read from the store."""
    if version != __version__:
        return Outcome("refused", f"the driver runs spikepool {version}, this worker {__version__}")
    try:
        store = _store(path, fingerprint)
    except SpikepoolError as err:
        return Outcome("refused", f"a worker cannot use the store: {err}")
    with _single_threaded_blas:
        values, failed = compute(store.spec, cell)
    try:
        store.write(cell, values, failed=failed)
    except (StoreWriteError, DataSourceError) as err:
        return Outcome("unwritable", str(err))
    return Outcome("failed" if failed else "done")
