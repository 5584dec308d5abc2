"""One driver a store, where no operating system holds a lock: a claim that must be renewed, and expires when it is not.

A driver writes a claim of its own, then lists all claims. It owns the store when it sees no other that is alive: of
two that claim at once, the one that lists last sees both, so at most one can win; if both see each other, both step
back and try again after random waits. This needs nothing of the object store but that a listing shows what was
written before it, which S3, Google and Azure promise; no conditional writes.

Ages are differences of the store's own times of writing, so that clocks of machines need not agree. A claim whose
process is known to be dead (same machine, same boot) need not be waited for. An owner that could not renew in time
stops. Should its last tasks still write, they write the same bytes as the next owner's: cells are a function of the
spec alone.

One driver a store: a lock that dies with its owner in a folder, a lease that expires anywhere else.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spikepool.errors import SpikepoolError, StoreLockedError, StoreWriteError
from spikepool.sweeps.folders import Folder, LocalFolder, RemoteFolder

# Long enough to outlast a stall of the network, short enough to wait for after a crash of another machine.
LEASE_SECONDS = 60.0
_RENEWALS = 4  # in the time of a lease
_ATTEMPTS = 5
_LONGEST_BACKOFF = 1.0


@contextmanager
def leased(store: RemoteFolder, seconds: float = LEASE_SECONDS) -> Iterator[Callable[[], None]]:
    """Hold the lease of `store`, renewed from a thread; gives a function that raises once it has been lost.

    Raises
    ------
    StoreLockedError
        Another driver holds it.
    """
    lease = _Lease(store, seconds)
    lease.acquire()
    renewing = threading.Thread(target=lease.renew_until_released, name="lease", daemon=True)
    renewing.start()
    try:
        yield lease.check
    finally:
        lease.released.set()
        renewing.join()
        lease.withdraw()


class _Lease:
    def __init__(self, store: RemoteFolder, seconds: float) -> None:
        self.store, self.seconds = store, seconds
        self.claims = store.sibling(".lease")
        self.name = f"{uuid.uuid4().hex}.json"
        self.released = threading.Event()
        self.lost = ""
        self._renewed = 0.0

    def acquire(self) -> None:
        for attempt in range(_ATTEMPTS):
            self._write(held=False)
            alive, expired = self._others()
            if not alive:
                self._write(held=True)
                for name in expired:
                    self.claims.remove(name)
                return
            self.withdraw()
            holder = next((claim for claim in alive if claim["held"]), None)
            if holder is not None or attempt == _ATTEMPTS - 1:
                raise _refusal(self.store, holder or alive[0])
            time.sleep(random.uniform(0.1, _LONGEST_BACKOFF))

    def _write(self, *, held: bool) -> None:
        claim = {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "identity": process_identity(os.getpid()),
            "seconds": self.seconds,
            "held": held,
        }
        self.claims.write(self.name, json.dumps(claim).encode())
        self._renewed = time.time()

    def _others(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Claims of other drivers that are alive, with the seconds they have left, and names of those that are not."""
        now = self.claims.modified(self.name)
        alive: list[dict[str, Any]] = []
        expired: list[str] = []
        names = [name for name in self.claims.names() if name != self.name]
        for name, raw in zip(names, self.claims.read(names), strict=True):
            written = self.claims.modified(name)
            if raw is None or written is None:
                continue  # withdrawn meanwhile
            try:
                claim = dict(json.loads(raw))
                left = written + float(claim["seconds"]) - (time.time() if now is None else now)
            except (ValueError, TypeError, KeyError):
                expired.append(name)  # not a claim of ours
                continue
            if left < 0 or _is_dead(claim):
                expired.append(name)
            else:
                alive.append({"held": False, **claim, "left": left})
        return alive, expired

    def renew_until_released(self) -> None:
        while not self.released.wait(self.seconds / _RENEWALS):
            try:
                if time.time() - self._renewed > self.seconds:
                    self.lost = f"it could not be renewed for {self.seconds:g} seconds"
                elif self.claims.modified(self.name) is None:
                    self.lost = "another driver has taken it over"
                else:
                    self._write(held=True)
            except (SpikepoolError, OSError):
                continue  # a stall of the network: try again while the lease lasts
            if self.lost:
                return

    def check(self) -> None:
        """Raise when the lease is no longer ours."""
        if self.lost:
            raise StoreLockedError(
                f"the lease of {self.store} was lost: {self.lost}",
                remedy="Run again to resume when no other driver is at work on it",
            )

    def withdraw(self) -> None:
        """Remove the claim; should the store be out of reach, it expires."""
        with suppress(SpikepoolError):
            self.claims.remove(self.name)


def _refusal(store: RemoteFolder, claim: dict[str, Any]) -> StoreLockedError:
    return StoreLockedError(
        f"another driver (process {claim.get('process')} on {claim.get('host')}) is writing to {store}",
        remedy=f"Wait for it, or choose another store; if it died, its lease ends in {claim['left']:.0f} seconds",
    )


def _is_dead(claim: dict[str, Any]) -> bool:
    """Whether the claimant ran on this machine, since its last boot and among the same processes, and is gone."""
    identity = str(claim.get("identity") or "")
    this_process = process_identity(os.getpid())
    if not identity or not this_process or identity.rsplit("/", 2)[0] != this_process.rsplit("/", 2)[0]:
        return False
    try:
        return process_identity(int(claim["process"])) != identity
    except (KeyError, TypeError, ValueError):
        return False


def process_identity(pid: int) -> str | None:
    """Boot, process namespace, number and start of a process: no other ever has the same. None where unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
        # the name in parentheses may hold anything; the state follows it, and the start is the 20th field after it
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        state, start = fields[0], fields[19]
    except (OSError, IndexError):
        return None
    if state == "Z":  # dead, and not yet asked about by its parent
        return None
    return f"{boot}/{namespace}/{pid}/{start}"


fcntl: Any
try:
    import fcntl
except ImportError:  # no such locks on Windows; two drivers then do the same work twice, but write the same bytes
    fcntl = None


@contextmanager
def exclusive(folder: Folder, seconds: float) -> Iterator[Callable[[], None]]:
    """Be the only driver of the store in `folder`; gives a function that raises when that is no longer so."""
    if isinstance(folder, RemoteFolder):
        with leased(folder, seconds) as still_ours:
            yield still_ours
    elif isinstance(folder, LocalFolder):
        with locked(folder.path):
            yield lambda: None


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
                "spikepool.sweeps.open_results",
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
