"""Checks of arguments, shared by every package. Each returns the checked value in canonical form or raises."""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections import deque
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from spikepool.errors import (
    CorrelationError,
    DomainError,
    InvalidInputError,
    NonFiniteError,
    ShapeError,
    SizeError,
    WeightsError,
)
from spikepool.kit.arrays import FloatArray

# Rounding allowance for identities that hold exactly on paper (sum of weights, unit diagonal, symmetry).
IDENTITY_TOLERANCE = 1e-8
# The same for numbers that were rounded to single precision.
SINGLE_TOLERANCE = 1e-6
# Sums of squares of larger pooling weights, and products of these, would overflow.
LARGEST_WEIGHT = 1e50
# Squares of squares of larger features or targets, and of the inverse of smaller ones, overflow.
LARGEST_NUMBER = 1e70

# Sizes enter formulas as floats; beyond this they would not be whole numbers any more.
LARGEST_SIZE = 1 << 53


def dense(value: Any, name: str) -> None:
    """Refuse sparse matrices, which numpy would take for one object."""
    if issparse(value):
        raise InvalidInputError(
            f"{name} is a sparse matrix", value, f"Pass {name}.toarray(), or fewer dense features of it (TruncatedSVD)"
        )


def real_array(value: ArrayLike, name: str) -> FloatArray:
    """`value` as a float64 array; NaN and infinities pass, what a conversion would change does not."""
    dense(value, name)
    try:
        given = np.asanyarray(value)
        # conversion would parse text and silently drop imaginary parts
        if given.dtype.kind in "cSUmM":
            raise TypeError
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as err:
        raise InvalidInputError(f"{name} must be real numbers", value, "Pass a numeric array") from err
    if np.ma.is_masked(given):  # which the conversion has revealed
        raise InvalidInputError(f"{name} has masked entries", given, "Fill or drop them first")
    return numbers


def finite_array(
    value: Any, name: str, *, ndim: int | None = None, empty: bool = False, remedy: str | None = None
) -> FloatArray:
    """`value` as a float64 array without NaN or infinities; of `ndim` dimensions when given.

    `remedy` says what to pass where the number of dimensions is wrong.
    """
    if isinstance(value, float) and ndim is None and math.isfinite(value):
        return np.array(value)  # by far the most frequent case, and most of the time of a prediction
    array = real_array(value, name)
    if ndim is not None and array.ndim != ndim:
        wanted = "one dimension" if ndim == 1 else f"{ndim} dimensions"
        raise ShapeError(f"{name} must have {wanted}", array, remedy or f"Pass an array with {wanted}")
    if not empty and array.size == 0:
        raise ShapeError(f"{name} is empty", array, "Pass at least one value")
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].ravel()[0]
        raise NonFiniteError(f"{name} contains NaN or infinities", float(bad), "Remove or impute them first")
    return array


def feature_rows(value: Any, name: str) -> FloatArray:
    """Pooled features as a finite (n, d) array; tokens are told apart by their third dimension."""
    remedy = "Pass features of shape (n, d), one row per item"
    if np.ndim(value) == 3:
        remedy = "These are tokens (n, T, d): pool them first, by X.mean(axis=1) or LearnedPoolingClassifier"
    return finite_array(value, name, ndim=2, remedy=remedy)


def finite_number(value: Any, name: str) -> float:
    """`value` as a finite float."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInputError(f"{name} must be a real number", value, "Pass one number")
    try:
        number = float(value)
    except OverflowError as err:
        raise InvalidInputError(f"{name} is too large for a float", value, "Pass a smaller number") from err
    if not np.isfinite(number):
        raise NonFiniteError(f"{name} must be finite", value, "Pass a finite number")
    return number


def non_negative(value: Any, name: str) -> float:
    """`value` as a finite float that is at least zero."""
    number = finite_number(value, name)
    if number < 0:
        raise DomainError(f"{name} must be at least 0", value, "Pass a non-negative number")
    return number


def positive(value: Any, name: str) -> float:
    """`value` as a finite float above zero."""
    number = finite_number(value, name)
    if number <= 0:
        raise DomainError(f"{name} must be above 0", value, "Pass a positive number")
    return number


def fraction(value: Any, name: str, *, closed: bool = True) -> float:
    """`value` as a float in [0, 1], or in (0, 1) when not `closed`."""
    number = finite_number(value, name)
    inside = 0 <= number <= 1 if closed else 0 < number < 1
    if not inside:
        raise DomainError(f"{name} must lie in {'[0, 1]' if closed else '(0, 1)'}", value, "Pass a fraction")
    return number


def size(value: Any, name: str, *, minimum: int = 1) -> int:
    """`value` as an int of at least `minimum`; integral floats are accepted, others are not."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    integral = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    if not integral and not (isinstance(value, Real) and float(value).is_integer()):
        raise SizeError(f"{name} must be an integer", value, "Pass a whole number")
    number = int(value)
    if isinstance(value, (bool, np.bool_)) or number < minimum:
        raise SizeError(f"{name} must be at least {minimum}", value, f"Pass an integer >= {minimum}")
    if number > LARGEST_SIZE:
        raise SizeError(f"{name} must be at most 2^53", value, "Pass a size that some array could have")
    return number


def vocabulary_size(value: Any) -> int:
    """V: an even integer of at least 2, so that the two classes are balanced."""
    number = size(value, "V", minimum=2)
    if number % 2:
        raise SizeError("V must be even, half of the vocabulary in each class", value, "Use V + 1 or V - 1")
    return number


def choice(value: Any, name: str, options: tuple[str, ...]) -> str:
    """`value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, options))}", value, "Choose one of these")
    return value


def fields(model: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` if every name is a field of the dataclass `model`."""
    known = [field.name for field in dataclasses.fields(model)]
    for name in changes:
        if name not in known:
            near = {field.lower(): field for field in known}.get(name.lower())
            remedy = f"Write {near}" if near else f"Choose among {', '.join(known)}"
            raise InvalidInputError(f"{type(model).__name__} has no such field", name, remedy)
    return changes


def flag(value: Any, name: str) -> bool:
    """`value` as a bool; nothing else counts as true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInputError(f"{name} must be True or False", value, "Pass a bool")
    return bool(value)


# The last matrices that were proved positive semi-definite; they are read-only, so what was proved stays true.
_PROVEN: deque[weakref.ref[FloatArray]] = deque(maxlen=64)


def symmetric_psd(value: ArrayLike, name: str = "R") -> FloatArray:
    """A symmetric positive semi-definite matrix, returned exactly symmetric and read-only.

    A matrix that this function returned is proved: handed in again, it comes back at once.
    """
    if isinstance(value, np.ndarray) and not value.flags.writeable and any(m() is value for m in tuple(_PROVEN)):
        return value
    remedy = f"Pass one ({'T, T' if name == 'R' else 'n, n'}) matrix"
    if name == "R":
        remedy += ", such as spikepool.prefix_correlation(T=10, L=3)"
        if isinstance(value, str):
            raise InvalidInputError("R must be a matrix of correlations", value, remedy)
        if np.ndim(value) == 3:
            remedy += "; sweep(R=spikepool.prefix_correlation, T=[10, 20], L=[2, 3]) varies it"
    matrix = finite_array(value, name, ndim=2, remedy=remedy)
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{name} must be square", matrix, remedy)
    scale = max(1.0, float(np.abs(matrix).max()))
    asymmetry = float(np.abs(matrix - matrix.T).max())
    if asymmetry > IDENTITY_TOLERANCE * scale:
        raise CorrelationError(f"{name} must be symmetric; its largest asymmetry is", asymmetry, "Use (R + R.T) / 2")
    matrix = (matrix + matrix.T) / 2
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -IDENTITY_TOLERANCE * scale * len(matrix):
        raise CorrelationError(
            f"{name} must be positive semi-definite; its smallest eigenvalue is",
            smallest,
            "Project it on the PSD cone or correct the estimate",
        )
    matrix.setflags(write=False)
    _PROVEN.appendleft(weakref.ref(matrix))
    return matrix


def unit_diagonal(matrix: FloatArray, name: str = "R") -> None:
    """Raise unless `matrix` has ones on the diagonal."""
    worst = float(np.abs(np.diag(matrix) - 1).max())
    if worst > IDENTITY_TOLERANCE:
        raise CorrelationError(
            f"{name} must have a unit diagonal to be a correlation of signs; the largest deviation is",
            worst,
            "Divide by sqrt(diag x diag), or use latent='gaussian'",
        )


def moderate_squares(values: FloatArray, name: str) -> None:
    """Raise for numbers of which squares of squares, or the inverses of these, are not floats."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest > 0 and not 1 / LARGEST_NUMBER <= largest <= LARGEST_NUMBER:
        raise DomainError(f"squares of {name} under- or overflow; its largest entry is", largest, "Rescale it")


def moderate_weights(w: FloatArray, name: str = "weights") -> None:
    """Raise for weights whose squares, or the squares of these, are not floats."""
    largest = float(np.abs(w).max(initial=0.0))
    if largest > LARGEST_WEIGHT:
        raise WeightsError(f"{name} must be at most {LARGEST_WEIGHT:g} in size", largest, "Pass weights of order one")


def weight_vector(value: ArrayLike, T: int | None = None, name: str = "weights") -> FloatArray:
    """Pooling weights: (T,), finite, summing to one.

    Numbers that single precision holds exactly may miss the sum by its rounding, which is then divided out.
    """
    w = finite_array(value, name, ndim=1)
    if T is not None and len(w) != T:
        raise WeightsError(f"{name} must have one entry for each of the {T} positions", w, f"Pass {T} numbers")
    moderate_weights(w, name)
    total = float(w.sum())
    error = abs(total - 1) / max(1.0, float(np.abs(w).sum()))
    if error <= IDENTITY_TOLERANCE:
        return w
    if error <= SINGLE_TOLERANCE and np.array_equal(w, w.astype(np.float32)):
        return w / total
    raise WeightsError(f"{name} must sum to one; their sum is", total, "Divide them by their sum")


def token_weights(value: ArrayLike, V: int, name: str = "token_weights") -> FloatArray:
    """Weights of the tokens of a vocabulary: (V,), finite, at least 0, not all zero."""
    a = finite_array(value, name, ndim=1)
    if len(a) != V:
        raise WeightsError(f"{name} must have V = {V} entries", a, "Pass one weight per token")
    moderate_weights(a, name)
    if a.min() < 0 or not a.any():
        raise WeightsError(f"{name} must be at least 0, with one above", float(a.min()), "Pass one weight per token")
    return a


def generator(rng: Any) -> np.random.Generator:
    """`numpy.random.default_rng(rng)`, with a named error for what it does not take."""
    try:
        if isinstance(rng, np.random.RandomState):  # default_rng takes it only from numpy 2.2 on
            rng = rng._bit_generator
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as err:
        raise bad_rng(rng) from err


def bad_rng(rng: Any) -> InvalidInputError:
    """The error for something no random numbers can be drawn from."""
    return InvalidInputError(
        "rng must be an int, a SeedSequence, or a numpy Generator or BitGenerator", rng, "Pass an integer seed"
    )


# Outside these, squares of the classifier under- or overflow.
_RIDGES = (1e-100, 1e100)


def ridge_penalty(ridge: Any) -> float:
    """`ridge` as a positive float whose square and its inverse are floats too."""
    value = positive(ridge, "ridge")
    if not _RIDGES[0] <= value <= _RIDGES[1]:
        raise DomainError("ridge must lie in [{:g}, {:g}]".format(*_RIDGES), ridge, "Scale the features")
    return value
