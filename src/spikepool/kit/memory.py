"""Available memory, and the refusal of work that would not fit."""

from __future__ import annotations

import os
from pathlib import Path

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
