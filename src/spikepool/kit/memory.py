"""What the machine has: memory, with the refusal of work that would not fit, and threads.

A threaded BLAS sums in an order that depends on its number of threads. Simulations therefore keep BLAS to one
thread and run fixed pieces of the work in threads of their own, added up in a fixed order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # a dependency of scikit-learn

from spikepool.errors import MemoryBudgetError

# What needs less than this is not worth asking the system about, which takes a fifth of a millisecond.
_ALWAYS_FITS = 1 << 20


def available_bytes() -> int | None:
    """Memory that can be used without swapping, or None where the system does not say.

    Linux: ``MemAvailable``, and no more than a container's limit leaves. Elsewhere the physical memory.
    """
    limits: list[int] = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(int(line.split()[1]) * 1024)
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            used = int((group / "memory.current").read_text())
            for line in (group / "memory.stat").read_text().splitlines():
                if line.startswith("inactive_file "):  # file cache, which the kernel gives up when asked
                    used -= int(line.split()[1])
            limits.append(int(limit) - used)
    except (OSError, ValueError):
        pass  # no such file here: another system, or no container
    if not limits:
        try:
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, ValueError, OSError):
            return None
    return max(min(limits), 0)


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Raise :class:`MemoryBudgetError` when `needed` bytes are more than is available."""
    available = available_bytes() if needed > _ALWAYS_FITS else None
    if available is not None and needed > available:
        raise MemoryBudgetError(
            f"{what} needs about {needed / 2**30:.3g} GiB of memory and {available / 2**30:.3g} GiB are available",
            remedy=remedy,
        )


Map = Callable[[Callable[[int], Any], int], list[Any]]


def serial_map(task: Callable[[int], Any], count: int) -> list[Any]:
    """``[task(0), ..., task(count − 1)]``."""
    return [task(i) for i in range(count)]


def threaded_map(pool: ThreadPoolExecutor) -> Map:
    """Like :func:`serial_map`, in the threads of `pool`, when there is more than one task."""

    def run(task: Callable[[int], Any], count: int) -> list[Any]:
        return serial_map(task, count) if count == 1 else list(pool.map(task, range(count)))

    return run


@cache
def _controller() -> Any:
    return ThreadpoolController()


def thread_count() -> int:
    """Threads BLAS may use now, which is how the user, a scheduler or the environment set the budget."""
    return max((library["num_threads"] for library in _controller().info()), default=1)


@contextmanager
def single_threaded_blas() -> Iterator[int]:
    """Keep BLAS to one thread inside the block; gives the number of threads that were allowed before."""
    allowed = thread_count()
    with _controller().limit(limits=1):
        yield allowed


@contextmanager
def task_threads(*, large: bool, most: int | None = None) -> Iterator[Map]:
    """A map over independent tasks, in as many threads as BLAS may use if they are `large`, else one by one.

    At most `most` threads, where tasks that run together would hold too much memory.

    BLAS keeps to one thread meanwhile. The threads of one small product wait for each other by spinning: as soon as
    another process holds a core, such a product takes many times as long as on one thread.
    """
    with single_threaded_blas() as threads:
        threads = threads if most is None else min(threads, most)
        if threads <= 1 or not large:
            yield serial_map
            return
        pool = ThreadPoolExecutor(threads)
        try:
            yield threaded_map(pool)
        finally:
            # on an interrupt, what has not begun is dropped
            pool.shutdown(cancel_futures=True)
