"""One driver per store: a lock file beside it, which the operating system releases when its process ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spikepool.errors import StoreLockedError, StoreWriteError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no flock: there, a second driver is not noticed
    fcntl = None


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock of `store`, a file beside it, or raise :class:`StoreLockedError` at once.

    The operating system releases the lock when the process ends, however it ends, so a killed driver never
    blocks the next one. (On a network file system this needs working ``flock``.)
    """
    path = store.with_name(f".{store.name}.lock")
    if fcntl is None:
        yield
        return
    descriptor = _acquire(path, store)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path, store: Path) -> int:
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as err:
            raise StoreWriteError(
                f"cannot create {path}: {err.strerror}",
                remedy="Choose a store in a folder that can be written, or read a finished one with "
                "spikepool.open_sweep",
            ) from err
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise StoreLockedError(
                f"another driver{f' (process {owner})' if owner else ''} is writing to {store}",
                remedy="Wait for it, or choose another store",
            ) from err
        # The previous owner may have removed the file between our open and our lock: then we hold the lock of
        # a file that nobody else will ever see, and must take the new one.
        try:
            current = os.stat(path).st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            current = False
        if current:
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return descriptor
        os.close(descriptor)
