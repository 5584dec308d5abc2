"""What the learned poolings share: parameters, the comparison of poolings, predictions, and the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d

from spikepool.data.estimator_input import EMPTY, feature_names, named, read_tokens, refuse_empty_rows
from spikepool.data.folds import assign_folds, balanced_rows, group_numbers, seen_elsewhere
from spikepool.data.tokens import TokenInput
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.memory import task_threads
from spikepool.pooling.learned_report import Candidate, FittedReport
from spikepool.pooling.learning_rows import (
    LearningRows,
    distinct_rows,
    row_bytes,
    rows_in_memory,
    rule_head_weights,
    same_layers,
    split_layers,
)
from spikepool.pooling.query import QueryPooling
from spikepool.pooling.registry import Part, Pooling, RulePooling
from spikepool.pooling.row_functions import EncodedRows, FeatureRows, ValueRows, WeightRows
from spikepool.pooling.saving import Portable
from spikepool.pooling.selection import (
    Choice,
    Comparison,
    Fitted,
    Options,
    Task,
    candidate_names,
    compare,
    pooling_names,
    poolings,
)
from spikepool.pooling.sequence import SequencePooling, position_importance
from spikepool.ridge.folds import StreamedRidge

# Learning holds its rows as one array: that of the user where it takes them all, else a copy of at most this size.
LEARNING_BYTES = 2**29
# Fewer rows than this in each fold leave nothing to compare poolings by.
ROWS_PER_FOLD = 4
EFFORTS = ("screened", "full")
# Numbers in the learning rows from which the folds are worth threads of their own.
THREADED_SIZE = 1 << 22


class LearnedPooling(TransformerMixin, Portable, FittedReport):  # type: ignore[misc]
    """Base of the classifier and the regressor."""

    # masks travel through pipelines and searches without being asked for (where metadata routing is enabled)
    __metadata_request__fit = {"mask": True, "groups": True}  # noqa: RUF012  read by scikit-learn
    __metadata_request__predict = {"mask": True}  # noqa: RUF012
    __metadata_request__transform = {"mask": True}  # noqa: RUF012
    __metadata_request__score = {"mask": True}  # noqa: RUF012

    def __init__(
        self,
        ridge: Any = "cv",
        *,
        pooling: str = "auto",
        n_heads: int = 4,
        n_components: int = 32,
        sink: Any = "auto",
        n_positions: int | None = None,
        table: Any = None,
        padding: int | None = None,
        folds: int = 4,
        max_steps: int = 25,
        max_samples: int | None = 3000,
        effort: str = "screened",
        empty: str = "error",
        progress: bool | None = None,
        random_state: Any = 0,
    ) -> None:
        self.ridge = ridge
        self.pooling = pooling
        self.n_heads = n_heads
        self.n_components = n_components
        self.sink = sink
        self.n_positions = n_positions
        self.table = table
        self.padding = padding
        self.folds = folds
        self.max_steps = max_steps
        self.max_samples = max_samples
        self.effort = effort
        self.empty = empty
        self.progress = progress
        self.random_state = random_state

    def _code(self, target: AnyArray, weights: FloatArray) -> tuple[FloatArray, IntArray]:
        """Targets (n, k) and strata (n,)."""
        raise NotImplementedError

    def _options(self) -> Options:
        check.choice(self.empty, "empty", EMPTY)
        check.choice(self.effort, "effort", EFFORTS)
        check.choice(self.pooling, "pooling", pooling_names())
        check.size(self.folds, "folds", minimum=2)
        check.size(self.n_components, "n_components")
        if self.max_samples is not None:
            check.size(self.max_samples, "max_samples")
        if isinstance(self.sink, str):
            check.choice(self.sink, "sink", ("auto",))
        else:
            check.flag(self.sink, "sink")
        ridge: float | None = None
        if isinstance(self.ridge, str):
            check.choice(self.ridge, "ridge", ("cv", "gcv"))
        else:
            ridge = check.positive(self.ridge, "ridge")
        return Options(check.size(self.n_heads, "n_heads"), check.size(self.max_steps, "max_steps"), ridge)

    def _read(self, X: Any, y: Any, mask: Any) -> tuple[dict[Any, TokenInput], AnyArray]:
        """Every layer's tokens, and the targets as one array."""
        if y is None:
            raise InvalidInputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None"
            )
        sources = {layer: read_tokens(self, part, mask, reset=True) for layer, part in split_layers(X).items()}
        first = next(iter(sources.values()))
        for layer, source in sources.items():
            if (source.n, source.T) != (first.n, first.T):
                raise ShapeError(f"layer {layer} has another number of rows or tokens", source.n, "Match the layers")
        shape = np.asarray(y).shape
        if len(shape) == 2 and shape[1] > 1:
            raise InvalidInputError(
                "y should be a 1d array of one label per row: multilabel and multi-output targets are not supported",
                shape,
                "Fit one estimator for each column of y",
            )
        try:
            target = column_or_1d(y, warn=True)
            check_consistent_length(first.source, target)
        except ValueError as err:
            raise named(err, "Pass one label per row") from err
        return sources, target

    def _row_weights(self, sample_weight: Any, n: int) -> FloatArray:
        if sample_weight is None:
            return np.ones(n)
        try:
            weights = np.asarray(_check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64))
        except ValueError as err:
            raise named(err, "Pass one non-negative number per row") from err
        if (weights < 0).any() or not weights.any():
            raise InvalidInputError(
                "sample_weight must be non-negative, and positive for some row", weights.min(), "Drop the row instead"
            )
        return weights

    def _seed(self) -> int:
        """scikit-learn's notion of a seed, with our error."""
        try:
            return int(check_random_state(self.random_state).randint(2**31))
        except ValueError as err:
            raise InvalidInputError(
                "random_state must be an int, a RandomState or None", self.random_state, "Pass an integer seed"
            ) from err

    def _compare(
        self,
        sources: dict[Any, TokenInput],
        Y: FloatArray,
        strata: IntArray,
        groups: Any,
        weights: FloatArray,
        score: Any,
        average: Any = None,
    ) -> Comparison:
        """Compare poolings on at most `max_samples` rows.

        Parameters
        ----------
        sources : dict of TokenInput
            All sequences, by layer.
        Y : array (n, k)
            Targets.
        strata : array (n,) of int
            Classes, spread evenly over folds and subsets.
        groups : array (n,) or None
            As given by the user.
        weights : array (n,)
            Row weights; rows of weight zero are left out.
        score : callable
            ``score(values, rows)``: score of rows, given predicted values and their numbers.
        average : callable, optional
            :func:`spikepool.pooling.logistic.average_layers`, for layers that are screened.
        """
        options, seed = self._options(), self._seed()
        last = list(sources)[-1]
        source = sources[last]
        cluster = None if groups is None else group_numbers(groups, source.n)
        rows = balanced_rows(strata, weights, self._learning_limit(source), seed)
        part = rows_in_memory(source, rows)
        rows, part = self._with_tokens(rows, part)
        streamed = len(rows) < int((weights > 0).sum()) and source.n > self._learning_limit(source)
        rows, part, merged, clusters = distinct_rows(rows, part, Y, cluster, weights)
        count = len(np.unique(clusters))
        names, self.reason_ = self._candidates(part, Y[rows], count, len(sources))
        if count < 2:  # no row can be left out
            folds = np.full(len(rows), -1, dtype=np.intp)
            options = options if options.ridge else replace(options, ridge=1.0)
        elif count < ROWS_PER_FOLD * int(self.folds):  # one cluster at a time
            folds = np.unique(clusters, return_inverse=True)[1].reshape(-1)
        else:
            folds = assign_folds(strata[rows], clusters, int(self.folds), seed)
        task = Task(Y[rows], merged, folds, clusters, np.where(seen_elsewhere(strata[rows], folds), merged, 0.0))
        if self.pooling == "auto" and not task.judging.any():
            names, self.reason_ = ("mean",), "no class is in two folds, so that no prediction can be judged"

        whole = len(rows) == source.n  # nothing is copied
        held: dict[Any, LearningRows] = {}  # else of one layer at a time

        def rows_of(layer: Any) -> LearningRows:
            if layer not in held:
                if not whole:
                    held.clear()
                tokens = part if layer == last else rows_in_memory(sources[layer], rows)
                sink = None if self.sink == "auto" else bool(self.sink)
                shares = merged / merged.sum()
                held[layer] = LearningRows(tokens, shares, int(self.n_components), sink, streamed)
            return held[layer]

        def row_score(values: FloatArray) -> FloatArray:
            return np.asarray(score(values, rows))

        screened = self.effort == "screened" and len(sources) > 1 and len(names) > 1
        with task_threads(large=part.n * part.T * part.d > THREADED_SIZE, most=2) as over_tasks:
            given = (tuple(sources), rows_of, task)
            averaged = average(*given, options, over_tasks, self.progress) if screened and average else None
            if averaged:
                task, choice, mixture = averaged
                return Comparison(sources, task, choice, rows_of, streamed, rows, mixture)
            choice = compare(*given, names, row_score, options, over_tasks, self.progress, screened=screened)
        return Comparison(sources, task, choice, rows_of, streamed, rows)

    def _finish(self, comparison: Comparison, Y: FloatArray, weights: FloatArray) -> None:
        """Fit the ridges in use on all rows, and set the attributes."""
        if comparison.streamed and comparison.mixture is None:
            total = float(comparison.task.weights.sum())
            comparison = replace(
                comparison, choice=self._fit_all(comparison.choice, comparison.sources, Y, weights, total)
            )
        self._conclude(comparison)

    def fit_pooling(self, X: Any, y: Any, mask: Any = None) -> LearnedPooling:
        """Learn the weights of the one pooling that is asked for, and nothing else: enough for `transform`.

        A tenth of the time of ``fit``, which also finds a penalty, out-of-fold predictions and probabilities.
        """
        check.choice(self.pooling, "pooling", tuple(name for name in pooling_names() if name != "auto"))
        options, seed = self._options(), self._seed()
        sources, target = self._read(X, y, mask)
        weights = np.ones(len(target))
        Y, strata = self._code(target, weights)
        last = list(sources)[-1]
        source = sources[last]
        rows = balanced_rows(strata, weights, self._learning_limit(source), seed)
        rows, part = self._with_tokens(rows, rows_in_memory(source, rows))
        weights = weights[rows]
        sink = None if self.sink == "auto" else bool(self.sink)
        shares = weights / weights.sum()
        learning = LearningRows(part, shares, int(self.n_components), sink, len(rows) < source.n)
        for name in ("_parts", "_logistic", "_left_out"):  # of an earlier fit
            if hasattr(self, name):
                delattr(self, name)
        self._pooling = poolings()[self.pooling].fit(learning, Y[rows], weights, np.arange(len(rows)), options)
        self.layers_, self.layer_, self.decision_ = tuple(sources), last, self._pooling.name
        self.n_positions_, self._d = source.T, source.d
        self.n_features_out_ = len(self._pooling.feature_names(source.d))
        self.weights_ = learning.average_weights(self._pooling).mean(axis=0)
        return self

    def _require_model(self) -> None:
        """Raise unless there is more than the pooling that `fit_pooling` learns."""
        if "weights_" not in vars(self):  # at once: the check of scikit-learn takes as long as a small prediction
            check_is_fitted(self, "weights_")
        if "_parts" not in vars(self):
            raise InvalidInputError(
                "fit_pooling learned the pooling alone, for transform: no classifier or regressor was fitted",
                self.decision_,
                "Call fit instead",
            )

    def _candidates(self, part: TokenInput, Y: FloatArray, count: int, layers: int) -> tuple[tuple[str, ...], str]:
        """Poolings to compare, and why there is only one."""
        if self.pooling != "auto":
            return (self.pooling,), "asked for"
        if not (Y[:1] != Y).any():
            return ("mean",), "the targets do not vary"
        if count < ROWS_PER_FOLD * int(self.folds):
            return ("mean",), f"{count} different rows (or groups) are too few to compare poolings"
        if part.T == 1:
            return ("mean",), "compared" if layers > 1 else "a single position leaves nothing to weigh"
        return candidate_names(), "compared"

    def _conclude(self, comparison: Comparison) -> None:
        """The fitted attributes."""
        choice, best = comparison.choice, comparison.choice.best
        source = comparison.sources[best.layer]
        rows = comparison.rows_of(best.layer)
        self._parts = tuple(Part(weight, fit.layer, fit.pooling, fit.ridge) for weight, fit in choice.parts)
        self._pooling, self._ridge = best.pooling, best.ridge
        self.layers_ = tuple(comparison.sources)
        self.layer_ = best.layer
        self.decision_ = best.pooling.name
        self.prediction_ = choice.prediction
        self.candidates_: tuple[Candidate, ...] = choice.candidates
        self.n_positions_, self._d = source.T, source.d
        self.n_features_out_ = len(best.pooling.feature_names(source.d))
        self.sink_, self.sink_ratio_ = rows.space.sink, rows.space.sink_ratio
        self.ridge_ = best.ridge.ridge
        self.improvement_, self.improvement_error_ = choice.gain, choice.error
        if isinstance(best.pooling, SequencePooling):
            self._importance: FloatArray | None = position_importance(best.pooling, best.ridge.coef)
            self.head_weights_ = best.pooling.full_row_importance(self._importance, source.T)
        else:
            self._importance = None
            fixed = isinstance(best.pooling, RulePooling)
            self.head_weights_ = (
                rule_head_weights(best.pooling, source) if fixed else rows.average_weights(best.pooling)
            )
        heads = self.head_weights_
        self.weights_ = heads[:-1].mean(axis=0) if isinstance(best.pooling, QueryPooling) else heads.mean(axis=0)
        for name in ("queries_", "components_", "token_mean_"):
            self.__dict__.pop(name, None)
        if isinstance(best.pooling, QueryPooling):
            self.queries_ = best.pooling.full_queries
            self.components_, self.token_mean_ = rows.space.directions, rows.space.mean

    def keep_layers(self) -> None:
        """Forget the layers that neither predict nor are those of `transform`: they need not be passed any more."""
        used = {self.layer_, *(part.layer for part in (*self._parts, *getattr(self, "_logistic", ())))}
        self.layers_ = tuple(layer for layer in self.layers_ if layer in used)

    def _learning_limit(self, source: TokenInput) -> int:
        most = source.n if self.max_samples is None else int(self.max_samples)
        if source.n <= most:
            return most
        return min(most, max(1, LEARNING_BYTES // row_bytes(source)))

    def _with_tokens(self, rows: IntArray, part: TokenInput) -> tuple[IntArray, TokenInput]:
        """Without the rows in which nothing is observed, or an error that names them."""
        keep = np.concatenate([observed.any(axis=1) for _, observed in part.blocks()])
        if keep.all():
            return rows, part
        if self.empty == "error":
            hidden = np.ones((int(rows.max()) + 1, 1), dtype=bool)
            hidden[rows[~keep]] = False
            refuse_empty_rows(hidden, 0, self.empty)
        if not keep.any():
            raise InvalidInputError("no token is observed in any row", remedy="Pass a mask that shows some tokens")
        return rows[keep], part.take(np.flatnonzero(keep))

    def _fit_all(
        self, choice: Choice, sources: dict[Any, TokenInput], Y: FloatArray, weights: FloatArray, total: float
    ) -> Choice:
        """The ridges in use, on the features of all rows, which never exist at once.

        `total` is the weight of the learning rows. The penalty stays what it was for them: what it balances, noise
        against signal, does not grow with the rows.
        """

        def again(fit: Fitted) -> Fitted:
            a = fit.ridge.ridge * total
            sums = StreamedRidge(scaled=not isinstance(fit.pooling, SequencePooling))
            for start, C in self._feature_chunks(sources[fit.layer], fit.pooling):
                rows = slice(start, start + len(C))
                sums.add(C, Y[rows], weights[rows])
            ridge = sums.fit(a)
            return replace(fit, finish=lambda: ridge)

        fitted = {fit.label: again(fit) for fit in [choice.best, *(f for _, f in choice.parts)]}
        parts = tuple((weight, fitted[fit.label]) for weight, fit in choice.parts)
        return replace(choice, parts=parts, best=fitted[choice.best.label])

    def _feature_chunks(self, source: TokenInput, pooling: Pooling) -> Iterator[tuple[int, FloatArray]]:
        """First row and features of chunks of all rows."""
        return source.map_blocks(FeatureRows(pooling, self.empty), "pooling", self.progress)

    def _sources(self, X: Any, mask: Any, wanted: tuple[Any, ...]) -> dict[Any, TokenInput]:
        """Tokens of the layers asked for, of any length."""
        check_is_fitted(self, "weights_")
        given = split_layers(X)
        same_layers(self.layers_, given)
        sources = {}
        for layer in wanted:
            source = read_tokens(self, given[layer], mask, reset=False, any_length=True)
            if source.d != self._d:
                raise ShapeError(
                    f"X has {source.T * source.d} features, but {type(self).__name__} is expecting "
                    f"{self._d} features per token as input",
                    source.d,
                    "Pass tokens of the dimension seen in fit",
                )
            sources[layer] = source
        return sources

    def _source(self, X: Any, mask: Any) -> TokenInput:
        return self._sources(X, mask, (self.layer_,) if hasattr(self, "weights_") else ())[self.layer_]

    def _predict_values(self, X: Any, mask: Any, given: Any = None) -> FloatArray:
        """The weighted sum of what the given parts predict, by default the ridges."""
        self._require_model()
        given = self._parts if given is None else given
        if isinstance(X, EncodedRows):
            blocks = {part.layer: X.block(part.layer) for part in given}
            each = [p.weight * p.model.predict(FeatureRows(p.pooling, self.empty)(blocks[p.layer], 0)) for p in given]
            return np.asarray(sum(each[1:], each[0]))
        wanted = tuple(dict.fromkeys(part.layer for part in given))
        total: FloatArray | None = None
        for layer, source in self._sources(X, mask, wanted).items():
            parts = tuple(part for part in given if part.layer == layer)
            width = len(parts[0].model.intercept)
            values = source.map_rows(ValueRows(parts, self.empty), width, "predicting", self.progress)
            total = values if total is None else total + values
        assert total is not None
        return total

    def transform(self, X: Any, mask: Any = None) -> Any:
        """Features (n, F) of the pooling in ``decision_``, in the layer ``layer_``."""
        if isinstance(X, EncodedRows):
            return self._pool_block(X.block(self.layer_), 0)
        source = self._source(X, mask)
        return source.map_rows(FeatureRows(self._pooling, self.empty), self.n_features_out_, "pooling", self.progress)

    @property
    def _pool_block(self) -> FeatureRows:
        return FeatureRows(self._pooling, self.empty)

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None, groups: Any = None) -> Any:
        """Fit, then pool the same sequences; the mask serves both."""
        return self.fit(X, y, mask=mask, groups=groups).transform(X, mask=mask)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Names of the features: ``pooled0``, ... or, with several heads, ``mean_0``, ``query1_0``, ..."""
        check_is_fitted(self, "weights_")
        names = self._pooling.feature_names(self._d)
        if names[0] == "pooled0":
            return feature_names("pooled", len(names), getattr(self, "feature_names_in_", None))
        return np.asarray(names, dtype=object)

    def token_weights(self, X: Any, mask: Any = None) -> FloatArray:
        """Weight of every token in every head, (n, heads, T); unit sum over the observed tokens of a row.

        For queries the softmax weights, the mean last; for ``"flat"`` and ``"positions"`` the size of the ridge
        coefficients at the place of the token.
        """
        source = self._source(X, mask)
        H = len(self.head_weights_)
        rows = WeightRows(self._pooling, self._importance)
        flat = source.map_rows(rows, H * source.T, "weights", self.progress)
        return flat.reshape(source.n, H, source.T)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
