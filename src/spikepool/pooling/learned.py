"""Ridge on pooled tokens with the pooling weights learned jointly, and never worse than the mean by intention."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from spikepool.data.estimator_input import EMPTY, read_tokens
from spikepool.data.row_map import map_rows
from spikepool.data.tokens import TokenInput
from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.gcv import fit_ridge
from spikepool.pooling.pooled_rows import PooledRows
from spikepool.pooling.weight_choice import Score, WeightChoice, choose_weights
from spikepool.world.weights import mean_weights

# Learning holds its rows as one dense float64 array.
LEARNING_BYTES = 2**29


class _LearnedPooling(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share."""

    def __init__(
        self,
        ridge: Any = "gcv",
        *,
        n_positions: int | None = None,
        table: Any = None,
        padding: int | None = None,
        folds: int = 5,
        restarts: int = 1,
        max_steps: int = 40,
        max_samples: int | None = 3000,
        empty: str = "error",
        progress: bool | None = None,
        random_state: Any = 0,
    ) -> None:
        self.ridge = ridge
        self.n_positions = n_positions
        self.table = table
        self.padding = padding
        self.folds = folds
        self.restarts = restarts
        self.max_steps = max_steps
        self.max_samples = max_samples
        self.empty = empty
        self.progress = progress
        self.random_state = random_state

    def _check_parameters(self) -> float | None:
        """The fixed ridge penalty, or None for generalised cross-validation."""
        check.choice(self.empty, "empty", EMPTY)
        check.size(self.folds, "folds", minimum=2)
        check.size(self.restarts, "restarts")
        check.size(self.max_steps, "max_steps")
        if self.max_samples is not None:
            check.size(self.max_samples, "max_samples")
        if isinstance(self.ridge, str):
            check.choice(self.ridge, "ridge", ("gcv",))
            return None
        return check.positive(self.ridge, "ridge")

    def _read(self, X: Any, y: Any, mask: Any) -> tuple[TokenInput, NDArray[Any]]:
        if y is None:
            raise InvalidInputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None"
            )
        source = read_tokens(self, X, mask, reset=True)
        target = column_or_1d(y, warn=True)
        check_consistent_length(source.source, target)
        return source, target

    def _random_state(self) -> np.random.RandomState:
        """scikit-learn's notion of a seed, with our error."""
        try:
            state: np.random.RandomState = check_random_state(self.random_state)
            return state
        except ValueError as err:
            raise InvalidInputError(
                "random_state must be an int, a RandomState or None", self.random_state, "Pass an integer seed"
            ) from err

    def _fit_weights(self, source: TokenInput, Y: FloatArray, groups: NDArray[np.intp], score: Score) -> None:
        """Choose the weights on a subset of rows, then fit the ridge on all of them."""
        ridge = self._check_parameters()
        rng = np.random.default_rng(self._random_state().randint(2**31))
        self.n_positions_ = source.T
        uniform = mean_weights(source.T)
        baseline = fit_ridge(self._pool(source, uniform), Y, ridge)
        choice = WeightChoice(uniform, 0.0, 0.0, 0.0)
        rows = self._learning_rows(source, groups, rng)
        if source.T > 1 and len(rows) >= 4 * self.folds and baseline.ridge > 0:
            parts = list(source.take(rows).blocks())
            x = np.concatenate([part[0] for part in parts])
            observed = np.concatenate([part[1] for part in parts])
            keep = observed.any(axis=1)
            rows, x, observed = rows[keep], x[keep], observed[keep]

            def score_rows(values: FloatArray, which: NDArray[np.intp]) -> FloatArray:
                return np.asarray(score(values, rows[which]))

            choice = choose_weights(
                x,
                observed,
                Y[rows],
                _balanced_folds(groups[rows], int(self.folds), rng),
                score_rows,
                ridge=baseline.ridge,
                restarts=int(self.restarts),
                max_iter=int(self.max_steps),
                rng=rng,
                progress=self.progress,
            )
        self.weights_ = choice.weights
        self.share_ = choice.share
        self.decision_ = "learned" if choice.share > 0 else "mean"
        self.improvement_, self.improvement_error_ = choice.improvement, choice.error
        fitted = baseline if choice.share == 0 else fit_ridge(self._pool(source, choice.weights), Y, ridge)
        self.ridge_ = fitted.ridge
        self._values = fitted

    def _learning_rows(
        self, source: TokenInput, groups: NDArray[np.intp], rng: np.random.Generator
    ) -> NDArray[np.intp]:
        limit = max(1, LEARNING_BYTES // (8 * source.T * source.d))
        if self.max_samples is not None:
            limit = min(limit, int(self.max_samples))
        if source.n <= limit:
            return np.arange(source.n)
        # equal shares of every group, at random within each
        order = rng.permutation(source.n)
        order = order[np.argsort(groups[order], kind="stable")]
        return np.sort(order[np.linspace(0, source.n - 1, limit).astype(np.intp)])

    def _pool(self, source: TokenInput, weights: FloatArray) -> FloatArray:
        return map_rows(source, PooledRows(weights, None, self.empty), source.d, "pooling", self.progress)

    def _predict_values(self, X: Any, mask: Any) -> FloatArray:
        check_is_fitted(self, "weights_")
        return self._values.predict(self._pool(read_tokens(self, X, mask, reset=False), self.weights_))

    def pool(self, X: Any, mask: Any = None) -> FloatArray:
        """Tokens pooled with the weights in use, (n, d)."""
        check_is_fitted(self, "weights_")
        return self._pool(read_tokens(self, X, mask, reset=False), self.weights_)

    def summary(self) -> str:
        """One line: which weights are in use, and why."""
        check_is_fitted(self, "weights_")
        gain = (
            f"cross-validated gain of the best candidate {self.improvement_:+.4f} (s.e. {self.improvement_error_:.4f})"
        )
        if self.decision_ == "mean":
            return f"mean pooling: learned weights did not clearly beat it; {gain}; ridge {self.ridge_:.3g}"
        return f"learned pooling: {100 * self.share_:.0f}% learned, rest uniform; {gain}; ridge {self.ridge_:.3g}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class LearnedPoolingClassifier(ClassifierMixin, _LearnedPooling):  # type: ignore[misc]
    """Ridge classifier on pooled tokens, with pooling weights learned on the simplex jointly with the ridge.

    The joint loss of the paper's last appendix, for any number of classes. Learned weights are mixed with the uniform
    ones by a share chosen by cross-validation, and used only if they clearly beat mean pooling on held-out rows;
    otherwise the fit IS mean pooling with ridge, to the last digit.

    X takes the forms of :class:`SpectralPooling`; a 2-D array without `n_positions` and `table` is one position.

    Parameters
    ----------
    ridge : "gcv" or float, default="gcv"
        Penalty lam of (1/n)‖y − C beta‖² + lam‖beta‖², or its choice by generalised cross-validation.
    n_positions : int, optional
        T, for X of shape (n, T*d).
    table : array of shape (V, d), optional
        Embedding table, rows = tokens; X then holds token ids.
    padding : int, optional
        Token id that stands for no token (only with `table`).
    folds : int, default=5
        Folds of the cross-validation that decides between mean and learned weights.
    restarts : int, default=1
        Starts of the optimiser; the first is uniform.
    max_steps : int, default=40
        Its iterations.
    max_samples : int or None, default=3000
        Weights are learned and validated on at most this many rows (and half a gigabyte); the ridge uses all.
    empty : {"error", "zero"}, default="error"
        Rows in which nothing is observed: an error that names them, or features of zero.
    progress : bool, optional
        Show a progress bar; by default only for long work on a terminal.
    random_state : int, RandomState or None, default=0
        Subset of rows, folds and random starts.

    Attributes
    ----------
    weights_ : array of shape (T,)
        Weights in use, on the simplex; renormalised over the observed positions of a padded row.
    classes_ : array
        Class labels.
    coef_, intercept_ : arrays of shape (k, d) and (k,)
        Ridge coefficients on the pooled features; k = 1 for two classes.
    decision_ : {"learned", "mean"}
        Which weights are in use.
    share_ : float
        Share of the learned weights; the rest is uniform.
    improvement_, improvement_error_ : float
        Cross-validated gain in accuracy of the best candidate over the mean, and its standard error.
    ridge_ : float
        Penalty in use.
    """

    def fit(self, X: Any, y: Any, mask: Any = None) -> LearnedPoolingClassifier:
        """Learn weights and ridge.

        Parameters
        ----------
        X : array or Dask array
            Tokens, in any of the accepted forms.
        y : array of shape (n,)
            Class labels.
        mask : array of shape (n, T), optional
            True where a token is observed.
        """
        source, target = self._read(X, y, mask)
        check_classification_targets(target)
        self.classes_, codes = np.unique(target, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError("a classifier needs at least two classes in y, not one class", self.classes_[0])
        k = len(self.classes_)
        Y = np.where(codes == 1, 1.0, -1.0)[:, None] if k == 2 else np.where(codes[:, None] == np.arange(k), 1.0, -1.0)

        def correct(values: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
            return np.asarray(self._decide(values) == codes[rows], dtype=np.float64)

        self._fit_weights(source, Y, codes, correct)
        self.coef_, self.intercept_ = self._values.coef.T, self._values.intercept
        return self

    def _decide(self, values: FloatArray) -> NDArray[np.intp]:
        return np.asarray((values[:, 0] > 0).astype(np.intp) if values.shape[1] == 1 else values.argmax(axis=1))

    def decision_function(self, X: Any, mask: Any = None) -> FloatArray:
        """Ridge values: (n,) for two classes, (n, k) otherwise."""
        values = self._predict_values(X, mask)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any, mask: Any = None) -> NDArray[Any]:
        """Class labels."""
        values = self._predict_values(X, mask)
        return np.asarray(self.classes_[self._decide(values)])

    def score(self, X: Any, y: Any, mask: Any = None, sample_weight: Any = None) -> float:
        """Mean accuracy."""
        return float(accuracy_score(y, self.predict(X, mask=mask), sample_weight=sample_weight))


class LearnedPoolingRegressor(RegressorMixin, _LearnedPooling):  # type: ignore[misc]
    """Ridge regression on pooled tokens, with pooling weights learned on the simplex jointly with the ridge.

    As :class:`LearnedPoolingClassifier`, with the same parameters, for a real-valued y; candidates are compared by
    squared error.

    Attributes
    ----------
    weights_ : array of shape (T,)
        Weights in use, on the simplex; renormalised over the observed positions of a padded row.
    coef_, intercept_ : array of shape (d,) and float
        Ridge coefficients on the pooled features.
    decision_ : {"learned", "mean"}
        Which weights are in use.
    share_ : float
        Share of the learned weights; the rest is uniform.
    improvement_, improvement_error_ : float
        Cross-validated drop in mean squared error of the best candidate, and its standard error.
    ridge_ : float
        Penalty in use.
    """

    def fit(self, X: Any, y: Any, mask: Any = None) -> LearnedPoolingRegressor:
        """Learn weights and ridge.

        Parameters
        ----------
        X : array or Dask array
            Tokens, in any of the accepted forms.
        y : array of shape (n,)
            Targets.
        mask : array of shape (n, T), optional
            True where a token is observed.
        """
        source, target = self._read(X, y, mask)
        Y = check.finite_array(target, "y", ndim=1)[:, None]

        def closeness(values: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
            return np.asarray(-((values[:, 0] - Y[rows, 0]) ** 2))

        self._fit_weights(source, Y, np.zeros(len(Y), dtype=np.intp), closeness)
        self.coef_, self.intercept_ = self._values.coef[:, 0], float(self._values.intercept[0])
        return self

    def predict(self, X: Any, mask: Any = None) -> FloatArray:
        """Predicted targets."""
        return np.asarray(self._predict_values(X, mask)[:, 0])

    def score(self, X: Any, y: Any, mask: Any = None, sample_weight: Any = None) -> float:
        """Coefficient of determination."""
        return float(r2_score(y, self.predict(X, mask=mask), sample_weight=sample_weight))


def _balanced_folds(groups: NDArray[np.intp], folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Random folds in which every group is spread as evenly as it can be."""
    order = rng.permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    result = np.empty(len(groups), dtype=np.intp)
    result[order] = np.arange(len(groups)) % folds
    return result
