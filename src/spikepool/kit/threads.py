"""Threads: one for BLAS, and maps over independent tasks in threads of their own.

A threaded BLAS sums in an order that depends on its number of threads. Simulations therefore keep BLAS to one
thread and run fixed pieces of the work in threads of their own, added up in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # a dependency of scikit-learn

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
