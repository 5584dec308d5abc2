"""A progress bar for long work: shown on a terminal after a short delay, silent everywhere else.

A report has one bar, or one callback, over questions that have bars of their own (:class:`Stages`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check

DELAY_SECONDS = 2.0
REFRESH_SECONDS = 0.3  # a notebook's line crosses a network

# Called with what is being done and the share that is, instead of showing a bar.
Listener = Callable[[str, float], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
# Whether long work without a bar says how long it will take, once.
_announcing: ContextVar[bool] = ContextVar("announcing", default=False)
LONG_SECONDS = 10.0
LEAST_SHARE = 0.05  # of the work that is done before its duration is estimated from it


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
    """Context manager that shows ``description  done/total  rate  time left`` on standard error, drawn by tqdm.

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
        self._delay = 0.0 if show else DELAY_SECONDS
        self._allowed = show if show is not None else sys.stderr.isatty() or _in_notebook()
        self._done = 0
        self._start = time.monotonic()
        self._bar: Any = None
        self._heard: Listener | None = None
        self._silenced: Any = None
        self._announces = show is None and not self._allowed and _announcing.get()

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        self._heard = _listener.get()
        if self._heard is not None:
            self._allowed = self._announces = False
            self._silenced = _listener.set(_deaf)
        if self._allowed:
            self._bar = _bar(self.total, self.description, self._delay)
        return self

    def advance(self, steps: int = 1) -> None:
        """Count `steps` as done."""
        self._done += steps
        if self._heard is not None:
            self._heard(self.description, min(self._done / self.total, 1.0))
        elapsed = time.monotonic() - self._start
        if self._announces and elapsed > DELAY_SECONDS and self._done >= LEAST_SHARE * self.total:
            self._announce(elapsed)
        if self._bar is not None:
            self._bar.update(steps)

    def _announce(self, elapsed: float) -> None:
        """Say how long the whole will take, from what is done."""
        self._announces = False
        whole = elapsed * self.total / max(self._done, 1e-9)
        if whole > LONG_SECONDS:
            duration = f"{whole:.0f} s" if whole < 120 else f"{whole / 60:.0f} min"
            print(f"{self.description}: about {duration} in all", file=sys.stderr, flush=True)

    def describe(self, description: str) -> None:
        """Say what is being done now."""
        self.description = description
        if self._bar is not None:
            self._bar.set_description(description, refresh=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._silenced is not None:
            _listener.reset(self._silenced)


def _bar(total: int, description: str, delay: float) -> Any:
    """A bar of tqdm, gone at the end; None without tqdm, which comes with the extras: long work is then silent."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    # plain text in notebooks too: tqdm's own bar for them needs ipywidgets
    return tqdm(total=total, desc=description, delay=delay, leave=False, mininterval=REFRESH_SECONDS, unit="")


def _deaf(description: str, share: float) -> None:
    """The listener of bars within a bar."""


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules


_STEPS = 1000  # of the bar
# Told the share that is done, from 0 to 1 and never falling, and what is being done.
Told = Callable[[float, str], object]


class Stages:
    """Context manager over named stages that are entered one after the other with :meth:`stage`.

    Parameters
    ----------
    shares : dict of str to float
        Share of the time that each stage takes, about; they are divided by their sum.
    progress : bool, callable or None
        As for :func:`spikepool.report`.
    """

    def __init__(self, shares: dict[str, float], progress: bool | Told | None) -> None:
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise InvalidInputError("progress must be True, False or a function of (share, text)", progress, "Pass one")
        total = sum(shares.values())
        self._shares = {name: share / total for name, share in shares.items()}
        self._told: Told | None = progress if callable(progress) else None
        show = False if self._told is not None else progress
        assert show is None or isinstance(show, bool)
        self._bar = Progress(_STEPS, "report", show=show)
        self._done = 0.0
        self._steps = 0

    def __enter__(self) -> Stages:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(None, None, None)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage; the bars of the work within it move the bar of the whole."""
        begin, share = self._done, self._shares[name]
        left, last = 1.0, 0.0

        def heard(what: str, part: float) -> None:
            nonlocal left, last
            if part < last:  # another bar: how many there will be is not known, so each takes half of what is left
                left /= 2
            last = part
            self._move(begin + share * (1 - left * (1 - part / 2)), f"{name}: {what}")

        self._move(begin, name)
        with heard_by(heard):
            yield
        self._move(begin + share, name)

    def _move(self, done: float, text: str) -> None:
        self._done = max(self._done, min(done, 1.0))
        if self._told is not None:
            self._told(self._done, text)
        self._bar.describe(text)
        steps = round(_STEPS * self._done)
        if steps > self._steps:
            self._bar.advance(steps - self._steps)
            self._steps = steps
