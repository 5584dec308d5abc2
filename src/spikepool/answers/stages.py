"""How far a report is: one bar, or one callback, over questions that have bars of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spikepool.errors import InvalidInputError
from spikepool.kit.progress import Progress, heard_by

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
