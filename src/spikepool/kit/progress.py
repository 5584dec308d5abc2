"""A progress bar for long work: shown on a terminal after a short delay, silent everywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from spikepool.kit import validation as check

DELAY_SECONDS = 2.0


class Progress:
    """Context manager that shows ``description  done/total  rate  time left`` on standard error.

    Parameters
    ----------
    total : int
        Number of steps.
    description : str
        What is being done.
    show : bool, optional
        True to show at once, False to stay silent; by default shown only on a terminal or in a notebook, and only once
        the work has taken more than a couple of seconds.
    """

    def __init__(self, total: int, description: str, *, show: bool | None = None) -> None:
        if show is not None:
            check.flag(show, "progress")
        self.total = max(int(total), 1)
        self.description = description
        self._forced = show is True
        self._allowed = show if show is not None else sys.stderr.isatty() or "ipykernel" in sys.modules
        self._done = 0
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        if self._forced:
            self._open()
        return self

    def advance(self, steps: int = 1) -> None:
        """Count `steps` as done."""
        self._done += steps
        if self._bar is None and self._allowed and time.monotonic() - self._start > DELAY_SECONDS:
            self._open()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=self._rate())

    def _open(self) -> None:
        try:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bar
        except ImportError:  # rich comes with the extras; without it long work is simply silent
            self._allowed = False
            return
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(self.description, total=self.total, completed=self._done, rate="")

    def _rate(self) -> str:
        return f"{self._done / max(time.monotonic() - self._start, 1e-9):.3g}/s"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
