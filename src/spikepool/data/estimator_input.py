"""How the pooling estimators read their X: scikit-learn's checks for arrays, named errors for everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from spikepool.data.in_memory import as_array, padded
from spikepool.data.tokens import TokenForm, TokenInput, check_ids, check_mask, check_table, split_width
from spikepool.errors import InvalidInputError, RaggedError, ShapeError
from spikepool.kit import validation as check

EMPTY = ("error", "zero")
_PAD = "Pad them to one length T, an array (n, T, d), and pass mask= (n, T), True where there is a token"


def shape_of(X: Any) -> tuple[int, ...]:
    """Shape of anything that numpy reads; an error for sequences of different lengths, and for sparse matrices."""
    check.dense(X, "X")
    try:
        shape = tuple(X.shape if hasattr(X, "shape") else np.asarray(X).shape)
    except ValueError as err:
        raise RaggedError("the sequences of X differ in length", remedy=_PAD) from err
    if len(shape) == 1 and getattr(X, "dtype", None) == np.dtype(object) and len({np.shape(row) for row in X}) > 1:
        raise RaggedError("the sequences of X differ in length", remedy=_PAD)
    return shape


def read_tokens(
    estimator: BaseEstimator,
    X: Any,
    mask: Any,
    *,
    reset: bool,
    any_length: bool = False,
) -> TokenInput:
    """X in any accepted form as a :class:`TokenInput`; sets or checks ``n_features_in_``.

    The estimator has parameters `n_positions`, `table` and `padding`. A 3-D array counts T*d features, like its flat
    form; token ids count T. A `numpy.ma` array brings its own mask. With `reset` it is remembered whether a mask hid
    something; later calls without a mask are then refused instead of pooling padding.
    """
    table = None if estimator.table is None else check_table(estimator.table)
    n_positions = None if estimator.n_positions is None else check.size(estimator.n_positions, "n_positions")
    padding = estimator.padding
    if padding is not None:
        if table is None:
            raise InvalidInputError("padding names a token id and needs a table", padding, "Pass mask instead")
        padding = check.finite_number(padding, "padding")
        if not float(padding).is_integer():
            raise InvalidInputError("padding must be a token id", padding, "Pass an integer")
        padding = int(padding)
    X, mask = padded(X, mask)
    X = as_array(X)
    mask = None if mask is None else as_array(mask, "mask")
    if isinstance(X, np.ma.MaskedArray):
        X, mask = _unmask(X, mask, 1 if n_positions is None else n_positions, ids=table is not None)
    _remember_or_require_mask(estimator, mask, reset)
    if table is not None:
        source = check_ids(X)
        T, d = int(source.shape[1]), int(table.shape[1])
        _shape(estimator, source, T, reset, any_length)
    elif len(shape_of(X)) == 3:
        source = np.asarray(X)
        if source.dtype.kind not in "fiub":
            raise InvalidInputError("X must hold real numbers", source.dtype, "Convert it to a float array")
        T, d = int(source.shape[1]), int(source.shape[2])
        if n_positions is not None and n_positions != T and not any_length:
            raise ShapeError(f"X has {T} positions, n_positions is", n_positions, "Match them")
        _shape(estimator, source, T * d, reset, any_length)
    else:
        try:
            source = validate_data(
                estimator, X, reset=reset, dtype=(np.float64, np.float32), ensure_all_finite=False, ensure_min_samples=1
            )
        except ValueError as err:
            raise named(err, "Pass (n, T, d), or (n, T*d) with n_positions=T") from err
        T, d = split_width(int(source.shape[1]), n_positions)
    form = TokenForm(T, d, table, padding)
    observed = check_mask(mask, int(source.shape[0]), T)
    _check_observed(source, observed, form)
    return TokenInput(source, observed, form)


def named(err: ValueError, remedy: str) -> InvalidInputError:
    """scikit-learn's refusal as one of ours."""
    return err if isinstance(err, InvalidInputError) else InvalidInputError(str(err).rstrip("."), remedy=remedy)


def _unmask(X: Any, mask: Any, n_positions: int, *, ids: bool) -> tuple[Any, Any]:
    """The data of a masked array, and where its tokens are observed (as `mask`, if given, says too)."""
    hidden = np.asarray(np.ma.getmaskarray(X), dtype=bool)
    if not ids:
        hidden = hidden.reshape(len(X), hidden.shape[1] if X.ndim == 3 else n_positions, -1)
        partly = hidden.any(axis=2) & ~hidden.all(axis=2)
        if partly.any():
            row, position = np.argwhere(partly)[0]
            raise InvalidInputError(
                f"X masks some features of the token at row {row}, position {position}, but not all",
                remedy="Mask whole tokens, or impute the features that are missing",
            )
        hidden = np.asarray(hidden.all(axis=2))
    observed = np.asarray(~hidden)
    if mask is not None:
        observed = observed & check_mask(mask, *observed.shape)
    return np.ma.getdata(X), observed


def _remember_or_require_mask(estimator: BaseEstimator, mask: Any, reset: bool) -> None:
    if reset:
        estimator._mask_hid_tokens = mask is not None and not np.asarray(mask).all()
    elif mask is None and getattr(estimator, "_mask_hid_tokens", False):
        raise InvalidInputError(
            f"this {type(estimator).__name__} was fitted with a mask and is called without one: padding would be "
            "pooled as if it were tokens",
            remedy="Pass mask= here too (all True if nothing is missing). In a pipeline: "
            "sklearn.set_config(enable_metadata_routing=True), then pipeline.predict(X, mask=mask); "
            "or hand over X as a numpy.ma array, which carries its mask",
        )


def _shape(estimator: BaseEstimator, X: Any, features: int, reset: bool, any_length: bool) -> None:
    """Non-empty, and as many features as in fit (unless relative positions make the length free)."""
    if X.shape[0] == 0 or features == 0:
        raise ShapeError("X is empty", tuple(X.shape), "Pass at least one sequence with one token")
    if reset:
        estimator.n_features_in_ = features
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif not any_length and features != estimator.n_features_in_:
        raise ShapeError(
            f"X has {features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input",
            tuple(X.shape),
            "Pass sequences of the length and dimension seen in fit",
        )


def _surely_finite(part: NDArray[Any]) -> bool:
    """Whether all numbers are finite; a large block of finite numbers may be False, and is then looked at closely."""
    if part.dtype == np.float16:  # in software, so that its bits are faster: an exponent of ones is not finite
        return bool(((part.view(np.uint16) & np.uint16(0x7C00)) < 0x7C00).all())
    return bool(np.isfinite(np.sum(part, dtype=np.float64)))  # a finite sum proves finite terms


def _check_observed(source: NDArray[Any], mask: NDArray[np.bool_] | None, form: TokenForm) -> None:
    """Read through an in-memory input once, so that bad values are refused before any work starts."""
    if form.table is not None:
        if source.size and source.min() >= 0 and source.max() < len(form.table):
            return
        rows = max(1, 2**22 // max(source.shape[1], 1))
        for start in range(0, len(source), rows):
            part = None if mask is None else mask[start : start + rows]
            form.check_ids_in_table(source[start : start + rows], part, start)
        return
    rows = form.rows_per_block()
    for start in range(0, len(source), rows):
        part = source[start : start + rows]
        if not _surely_finite(part):
            form.token_block(part, None if mask is None else mask[start : start + rows], start)


def feature_names(prefix: str, d: int, names: NDArray[Any] | None) -> NDArray[np.object_]:
    """Names of pooled features: those of the input when it has one position, else prefix and number."""
    if names is not None and len(names) == d:
        return np.asarray(names, dtype=object)
    return np.asarray([f"{prefix}{i}" for i in range(d)], dtype=object)


def refuse_empty_rows(observed: NDArray[np.bool_], rows: NDArray[np.intp], empty: str) -> None:
    """Raise for rows without any observed token, by their numbers, unless zeros were asked for."""
    if empty == "zero":
        return
    hidden = rows[~observed.any(axis=1)]
    if hidden.size:
        shown = ", ".join(map(str, hidden[:10])) + (", ..." if hidden.size > 10 else "")
        raise InvalidInputError(
            f"{hidden.size} row(s) have no observed token: {shown}",
            remedy="Drop them, or pass empty='zero' to pool them to zeros",
        )
