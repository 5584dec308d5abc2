"""Threads: how many to use, and linear algebra whose rounding does not depend on that number.

A threaded BLAS sums in an order that depends on its number of threads. Simulations therefore keep BLAS to one
thread and run fixed pieces of the work in threads of their own, added up in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  loaded so that its BLAS is known to the controller below
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # a dependency of scikit-learn


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
