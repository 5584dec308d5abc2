"""Named exceptions.

Every error of the library derives from :class:`SpikepoolError`. Errors caused by the caller's input derive
from :class:`InvalidInputError`, which is also a :class:`ValueError`. A message has three parts: what was
wrong, the offending value, and what to do about it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def _shorten(value: Any) -> str:
    """One-line rendering of `value`, short enough for an error message."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, np.ndarray) and value.ndim > 1:
        text = f"an array of shape {value.shape}"
    elif isinstance(value, np.ndarray):
        with np.printoptions(threshold=6, edgeitems=2, precision=6):
            text = f"array of shape {value.shape}: {value}"
    else:
        text = repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 160 else text[:157] + "..."


class SpikepoolError(Exception):
    """Base of every error raised by spikepool.

    Parameters
    ----------
    problem : str
        What was wrong, as a clause without a final full stop. A clause that ends with "is" is completed by the value.
    value : optional
        The offending value; rendered on one line.
    remedy : str, optional
        What the caller can do, as an imperative sentence without a final full stop.
    **details
        Attributes that the class declares, None where they are not given.
    """

    _missing = object()

    def __init__(self, problem: str, value: Any = _missing, remedy: str | None = None, **details: Any) -> None:
        if unknown := set(details) - set(type(self).__annotations__):
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.__dict__.update(details)
        message = problem
        if value is not SpikepoolError._missing:
            message += f" {_shorten(value)}" if problem.endswith(" is") else f" (got {_shorten(value)})"
        if remedy:
            message += f" {remedy}" if message.endswith("?") else f". {remedy}"
        # names in files may hold control characters, which must not reach a terminal
        message = " ".join(message.split())
        super().__init__("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message) + ".")

    def __reduce__(self) -> tuple[Any, ...]:
        # the arguments of an exception are its finished message, which __init__ must not see again
        return _restore, (type(self), self.args, self.__dict__.copy())


def _restore(kind: type[SpikepoolError], args: tuple[Any, ...], state: dict[str, Any]) -> SpikepoolError:
    """An error as it was before it was pickled or copied."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidInputError(SpikepoolError, ValueError):
    """An argument is outside the domain of the function."""


class NonFiniteError(InvalidInputError):
    """An argument contains NaN or an infinity."""


class ShapeError(InvalidInputError):
    """An array has the wrong shape, or is empty."""


class SizeError(InvalidInputError):
    """A size (d, V, N, T, trials, ...) is not a positive integer, or V is odd."""


class DomainError(InvalidInputError):
    """A number is outside the range in which the formula holds (ratio, scale, probability, ...)."""


class CorrelationError(InvalidInputError):
    """A matrix is not a correlation matrix: not symmetric, not PSD, or not of unit diagonal."""


class WeightsError(InvalidInputError):
    """Pooling weights do not sum to one, or have the wrong length."""


class TokenError(InvalidInputError):
    """Token ids outside the vocabulary, or signs other than -1 and +1."""


class NotRealizableError(CorrelationError):
    """No random signs have the requested correlation matrix.

    Attributes
    ----------
    coefficients : numpy.ndarray or None
        Symmetric (T, T) matrix B of the violated inequality.
    bound, attained : float or None
        Every sign vector s satisfies ``sum(B * s s') / 2 >= bound``; the requested matrix attains `attained`,
        which is smaller.
    """

    coefficients: Any = None
    bound: float | None = None
    attained: float | None = None


class NoOptimumError(SpikepoolError, ValueError):
    """The best signal-to-noise ratio is a supremum that no weights with unit sum attain.

    Attributes
    ----------
    supremum : float or None
        The largest eigenvalue of R, approached but not attained.
    """

    supremum: float | None = None


class UnreachableError(SpikepoolError, ValueError):
    """No value of the planned quantity reaches the target.

    Attributes
    ----------
    limit : float or None
        The best alignment that can be approached, where known.
    """

    limit: float | None = None


class ConvergenceError(SpikepoolError, ArithmeticError):
    """A solver did not converge; no number is returned.

    Attributes
    ----------
    point : complex, float or None
        Where it failed.
    residual : float or None
        The residual that was left.
    """

    point: Any = None
    residual: float | None = None


class UnresolvedPointWarning(RuntimeWarning):
    """Some of many points did not converge: they are NaN in the result, the others are right. Names the first ones."""


class OnSupportError(DomainError):
    """The Stieltjes transform was asked for at a real point inside the support, where it has two values."""


class MemoryBudgetError(InvalidInputError):
    """The request would not fit in the memory available."""


class MissingDependencyError(SpikepoolError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


class DataSourceError(InvalidInputError):
    """Data cannot be opened or read where they lie: a file, a Zarr store, a bucket."""


class TableFormatError(DataSourceError):
    """A file is malformed, of an unknown format, or does not hold what was asked for."""


class ModelFormatError(DataSourceError):
    """A folder is not a saved model, is damaged, or was written by a newer version."""


class UnsafeFormatError(TableFormatError):
    """The file is of a format that executes code when loaded (a pickle); it was not loaded."""


class MissingSourceError(DataSourceError):
    """There is nothing at that path."""


class RaggedError(ShapeError):
    """A column of lists whose lengths differ."""


class SweepError(SpikepoolError):
    """A sweep could not be run or resumed."""


class SpecMismatchError(SweepError, ValueError):
    """A store on disk was made from another specification."""


class StoreCorruptError(SweepError):
    """A store on disk is damaged in a way that cannot be repaired by recomputation."""


class StoreLockedError(SweepError):
    """Another driver is writing to the same store."""


class StoreWriteError(SweepError, OSError):
    """The store cannot be written (disk full, read-only, ...); earlier results are intact."""


def require(module: str, extra: str) -> Any:
    """Import an optional dependency or raise :class:`MissingDependencyError` naming the extra."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as err:
        raise MissingDependencyError(
            f"this feature needs the package {module!r}, which is not installed",
            remedy=f"Install it with: pip install '.[{extra}]' in the folder of spikepool",
        ) from err
