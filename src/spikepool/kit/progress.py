"""A progress bar for long work: shown on a terminal after a short delay, silent everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from spikepool.kit import validation as check

DELAY_SECONDS = 2.0
REFRESH_SECONDS = 0.3  # of the line in a notebook, which crosses a network
BAR_WIDTH = 30

# Called with what is being done and the share that is, instead of showing a bar.
Listener = Callable[[str, float], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
# Whether long work without a bar says how long it will take, once.
_announcing: ContextVar[bool] = ContextVar("announcing", default=False)
LONG_SECONDS = 10.0


@contextmanager
def announced() -> Iterator[None]:
    """Context in which work that shows no bar and will be long prints its expected duration on standard error.

    For commands whose output goes to a file or a log.
    """
    token = _announcing.set(True)
    try:
        yield
    finally:
        _announcing.reset(token)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Context in which bars are silent and tell `listener`; a bar within another is not heard.

    For work of several steps, each with its own bar, that shows one bar for the whole.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


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
        self._allowed = show if show is not None else sys.stderr.isatty() or _in_notebook()
        self._done = 0
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._heard: Listener | None = None
        self._silenced: Any = None
        self._announces = show is None and not self._allowed and _announcing.get()

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        self._heard = _listener.get()
        if self._heard is not None:
            self._forced = self._allowed = self._announces = False
            self._silenced = _listener.set(_deaf)
        if self._forced:
            self._open()
        return self

    def advance(self, steps: int = 1) -> None:
        """Count `steps` as done."""
        self._done += steps
        if self._heard is not None:
            self._heard(self.description, min(self._done / self.total, 1.0))
        if self._announces and time.monotonic() - self._start > DELAY_SECONDS:
            self._announce(time.monotonic() - self._start)
        if self._bar is None and self._allowed and time.monotonic() - self._start > DELAY_SECONDS:
            self._open()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=self._rate())

    def _announce(self, elapsed: float) -> None:
        """Say how long the whole will take, from what is done."""
        self._announces = False
        whole = elapsed * self.total / max(self._done, 1e-9)
        if whole > LONG_SECONDS:
            told = f"{whole:.0f} s" if whole < 120 else f"{whole / 60:.0f} min"
            print(f"{self.description}: about {told} in all", file=sys.stderr, flush=True)

    def describe(self, description: str) -> None:
        """Say what is being done now."""
        self.description = description
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=self._rate(), description=description)

    def _open(self) -> None:
        if _in_notebook():
            self._bar, self._task = _NotebookBar(self.description, self.total), 0
            return
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
        if self._silenced is not None:
            _listener.reset(self._silenced)


def _deaf(description: str, share: float) -> None:
    """The listener of bars within a bar."""


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


class _NotebookBar:
    """The same bar as one line of text below a cell, rewritten in place and gone at the end.

    rich draws in notebooks by means of ipywidgets, which need not be there, and complains when they are not.
    """

    def __init__(self, description: str, total: int) -> None:
        from importlib import import_module

        self._description, self._total = description, total
        self._handle: Any = import_module("IPython.display").display(
            {"text/plain": description}, raw=True, display_id=True
        )
        self._last = 0.0

    def update(self, task: int, *, completed: int, rate: str, description: str | None = None) -> None:
        self._description = description or self._description
        now = time.monotonic()
        if now - self._last < REFRESH_SECONDS and completed < self._total:
            return
        self._last = now
        done = round(BAR_WIDTH * min(completed / self._total, 1.0))
        bar = "█" * done + "░" * (BAR_WIDTH - done)
        self._show(f"{self._description} {bar} {completed}/{self._total} {rate}")

    def stop(self) -> None:
        self._show("")

    def _show(self, text: str) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": text}, raw=True)
