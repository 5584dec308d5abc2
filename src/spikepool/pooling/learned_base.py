"""What the learned poolings share: parameters, the choice of the pooling, the ridge on all rows, and the report."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state, estimator_html_repr
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from spikepool.data.estimator_input import EMPTY, feature_names, named, read_tokens
from spikepool.data.labels import group_array
from spikepool.data.map_merge import map_chunks
from spikepool.data.row_map import ChunkFunction, map_any, map_rows
from spikepool.data.tokens import TokenInput
from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.gcv import RidgeFit, RidgeSums, fit_ridge
from spikepool.kit.threads import Map, task_threads
from spikepool.pooling.candidates import Candidate, candidate_html, candidate_table
from spikepool.pooling.learning_rows import assign_folds, read_learning_rows, tie
from spikepool.pooling.places import CONCAT
from spikepool.pooling.poolings import (
    FIXED,
    LEARNED,
    POOLINGS,
    FeatureRows,
    Pooling,
    ValueRows,
    WeightRows,
    fixed_pooling,
)
from spikepool.pooling.selection import Choice, Learner, Score, choose_pooling

# Learning holds its rows as one array: that of the user where it takes them all, else a copy of at most this size.
LEARNING_BYTES = 2**29
# Fewer rows than this in each fold leave nothing to compare poolings by.
ROWS_PER_FOLD = 4
# Numbers in the learning rows from which the folds are worth threads of their own.
THREADED_SIZE = 1 << 22
# Folds run side by side as long as all together hold less than this many times the tokens of the learning rows.
MEMORY_SHARE = 2


class LearnedPooling(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the classifier and the regressor."""

    # masks travel through pipelines and searches without being asked for (where metadata routing is enabled)
    __metadata_request__fit = {"mask": True, "groups": True}  # noqa: RUF012  read by scikit-learn
    __metadata_request__predict = {"mask": True}  # noqa: RUF012
    __metadata_request__transform = {"mask": True}  # noqa: RUF012
    __metadata_request__score = {"mask": True}  # noqa: RUF012

    _score_name = "score"
    _values: RidgeFit
    _pooling: Pooling

    def __init__(
        self,
        ridge: Any = "gcv",
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
        self.empty = empty
        self.progress = progress
        self.random_state = random_state

    def _check_parameters(self) -> Learner:
        check.choice(self.empty, "empty", EMPTY)
        check.choice(self.pooling, "pooling", POOLINGS)
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
            check.choice(self.ridge, "ridge", ("gcv",))
        else:
            ridge = check.positive(self.ridge, "ridge")
        return Learner(check.size(self.n_heads, "n_heads"), check.size(self.max_steps, "max_steps"), ridge)

    def _read(self, X: Any, y: Any, mask: Any) -> tuple[TokenInput, AnyArray]:
        if y is None:
            raise InvalidInputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None"
            )
        source = read_tokens(self, X, mask, reset=True)
        try:
            target = column_or_1d(y, warn=True)
            check_consistent_length(source.source, target)
        except ValueError as err:
            raise named(err, "Pass one label a row") from err
        return source, target

    def _seed(self) -> int:
        """scikit-learn's notion of a seed, with our error."""
        try:
            return int(check_random_state(self.random_state).randint(2**31))
        except ValueError as err:
            raise InvalidInputError(
                "random_state must be an int, a RandomState or None", self.random_state, "Pass an integer seed"
            ) from err

    def _fit(self, source: TokenInput, Y: FloatArray, strata: IntArray, groups: Any, score: Score) -> None:
        """Choose and learn the pooling on at most `max_samples` rows, then fit the ridge on all of them.

        Parameters
        ----------
        source : TokenInput
            All sequences.
        Y : array (n, k)
            Targets.
        strata : array (n,) of int
            Classes, spread evenly over folds and subsets.
        groups : array (n,) or None
            As given by the user.
        score : callable
            Score of rows, given predicted values and their numbers.
        """
        learner = self._check_parameters()
        seed = self._seed()
        cluster = _group_numbers(groups, source.n)
        self.n_positions_ = source.T
        self.sink_, self.sink_ratio_ = False, float("nan")
        self._choice: Choice | None = None
        self._why = "asked for"
        large = source.n * source.T * source.d > THREADED_SIZE
        with task_threads(large=large, most=self._folds_at_once(source, learner)) as over_tasks:
            if self.pooling in FIXED:
                self._pooling = fixed_pooling(self.pooling)
                self.head_weights_ = _rule_head_weights(self._pooling, source)
            else:
                self._choose(source, Y, strata, cluster, score, learner, seed, over_tasks)
            self.decision_ = self._pooling.name
            self.weights_ = self.head_weights_.mean(axis=0)
            self.n_features_out_ = len(self._pooling.heads) * source.d
            self._values = self._fit_all(source, Y, learner.ridge)
        self.ridge_ = self._values.ridge
        candidates: tuple[Candidate, ...] = () if self._choice is None else self._choice.candidates
        chosen = next((c for c in candidates if c.name == self.decision_), None)
        self.candidates_ = candidates
        self.reason_ = self._why if self._choice is None else "compared"
        self.improvement_ = float("nan") if chosen is None else chosen.gain
        self.improvement_error_ = float("nan") if chosen is None else chosen.error

    def _choose(
        self,
        source: TokenInput,
        Y: FloatArray,
        strata: IntArray,
        cluster: IntArray | None,
        score: Score,
        learner: Learner,
        seed: int,
        over_tasks: Map,
    ) -> None:
        """Set the pooling in use, learned where it is a learned one, with its weights by position."""
        self._pooling = fixed_pooling("mean")
        rows = self._learning_rows(source, strata, seed)
        part = _in_memory(source, rows)
        rows, part = _with_tokens(rows, part)
        if source.T == 1:
            self._why = "a single position leaves nothing to weigh"
        elif not (Y[rows] != Y[rows][:1]).any():
            self._why = "the targets do not vary"
        elif self.pooling == "auto" and len(rows) < ROWS_PER_FOLD * int(self.folds):
            self._why = f"{len(rows)} rows are too few to compare poolings"
        else:
            data = read_learning_rows(part, int(self.n_components), None if self.sink == "auto" else bool(self.sink))
            self.sink_, self.sink_ratio_ = data.space.sink, data.space.sink_ratio
            clusters = tie(data.copies, None if cluster is None else cluster[rows])
            name = self.pooling
            if name == "auto" and len(np.unique(clusters)) < int(self.folds):
                name, self._why = "mean", "there are fewer different rows (or groups) than folds"
            elif name == "auto":
                self._choice = choose_pooling(
                    data,
                    Y[rows],
                    assign_folds(strata[rows], clusters, int(self.folds), seed),
                    clusters,
                    lambda values, which: score(values, rows[which]),
                    learner,
                    over_tasks,
                    self.progress,
                )
                name = self._choice.name
            if name in LEARNED:
                compared = None if self._choice is None else self._choice.pooling
                self._pooling = compared or learner.learn(name, data, Y[rows], np.arange(len(rows)))
                self.head_weights_ = data.head_weights(self._pooling)
                return
            self._pooling = fixed_pooling(name)
        self.head_weights_ = _rule_head_weights(self._pooling, source)

    def _folds_at_once(self, source: TokenInput, learner: Learner) -> int:
        """Folds that may be in memory together: each has its features, and two matrices for the ridge on them."""
        n = min(source.n, self._learning_limit(source))
        F = max(learner.heads, len(CONCAT)) * source.d
        components = 8 * source.T * min(int(self.n_components), source.d)
        return max(1, n * (MEMORY_SHARE * _row_bytes(source) - components) // (8 * (n * F + 2 * min(n, F) ** 2)))

    def _learning_limit(self, source: TokenInput) -> int:
        most = source.n if self.max_samples is None else int(self.max_samples)
        if source.in_memory and source.n <= most:
            return most
        return min(most, max(1, LEARNING_BYTES // _row_bytes(source)))

    def _learning_rows(self, source: TokenInput, strata: IntArray, seed: int) -> IntArray:
        limit = self._learning_limit(source)
        if source.n <= limit:
            return np.arange(source.n)
        # equal shares of every class, at random within each
        order = np.random.default_rng(seed).permutation(source.n)
        order = order[np.argsort(strata[order], kind="stable")]
        return np.sort(order[np.linspace(0, source.n - 1, limit).astype(np.intp)])

    def _fit_all(self, source: TokenInput, Y: FloatArray, ridge: float | None) -> RidgeFit:
        """Ridge on the pooled features of all rows; with more rows than features those never exist at once."""
        pool = FeatureRows(self._pooling, self.empty)
        if source.n < self.n_features_out_:
            pooled = map_rows(source, pool, self.n_features_out_, "pooling", self.progress)
            return fit_ridge(pooled, Y, ridge, standardize=True)
        sums = RidgeSums(Y, standardize=True)
        chunks = map_chunks(ChunkFunction(source.form, pool), source.sources, label="pooling", show=self.progress)
        for start, pooled in chunks:
            sums.add(pooled, Y[start : start + len(pooled)])
        return sums.fit(ridge)

    def _source(self, X: Any, mask: Any) -> TokenInput:
        check_is_fitted(self, "weights_")
        return read_tokens(self, X, mask, reset=False)

    def _predict_values(self, X: Any, mask: Any) -> FloatArray:
        source = self._source(X, mask)
        values = ValueRows(FeatureRows(self._pooling, self.empty), self._values)
        return map_rows(source, values, len(self._values.intercept), "predicting", self.progress)

    def transform(self, X: Any, mask: Any = None) -> Any:
        """Pooled features (n, heads·d), head by head; a lazy Dask array when X is one.

        Stored data are read chunk by chunk; the result is in memory. To write it to a store instead:
        :func:`spikepool.write_pooled`, or ``spikepool pool X --labels y --out P.zarr``.
        """
        source = self._source(X, mask)
        return map_any(source, FeatureRows(self._pooling, self.empty), self.n_features_out_, "pooling", self.progress)

    @property
    def _pool_block(self) -> FeatureRows:
        return FeatureRows(self._pooling, self.empty)

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None, groups: Any = None) -> Any:
        """Fit, then pool the same sequences; the mask serves both."""
        return self.fit(X, y, mask=mask, groups=groups).transform(X, mask=mask)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Names of the pooled features: ``pooled0``, ... or, with several heads, ``mean_0``, ``head1_0``, ..."""
        check_is_fitted(self, "weights_")
        heads = self._pooling.heads
        d = self.n_features_out_ // len(heads)
        if len(heads) == 1:
            return feature_names("pooled", d, getattr(self, "feature_names_in_", None))
        return np.asarray([f"{head}_{i}" for head in heads for i in range(d)], dtype=object)

    def token_weights(self, X: Any, mask: Any = None) -> FloatArray:
        """Weight of every token in every head, (n, heads, T); unit sum over the observed tokens of a row."""
        source = self._source(X, mask)
        H = len(self._pooling.heads)
        flat = map_rows(source, WeightRows(self._pooling), H * source.T, "weights", self.progress)
        return flat.reshape(source.n, H, source.T)

    def summary(self) -> str:
        """The table of candidates, then one line: which pooling is in use, and why."""
        check_is_fitted(self, "weights_")
        line = f"{self.decision_} pooling: {self._reason()}"
        if self.sink_:
            line += f"; position 0 masked as a sink (norm ratio {self.sink_ratio_:.3g})"
        if self._choice is None:
            return line
        return candidate_table(self.candidates_, self.decision_, self._score_name) + "\n" + line

    def _reason(self) -> str:
        if self._choice is None:
            return self._why
        if self.decision_ == "mean":
            best = max((c for c in self.candidates_ if c.name != "mean"), key=lambda c: c.gain)
            return f"nothing was better by two standard errors (best: {best.name} {_with_error(best.gain, best.error)})"
        text = f"{_with_error(self.improvement_, self.improvement_error_)} over the mean"
        if self._choice.rival not in ("mean", self.decision_):
            text += f", {_with_error(self._choice.rival_gain, self._choice.rival_error)} over {self._choice.rival}"
        return text

    def plot(
        self, ax: Any = None, what: str | None = None, *, X: Any = None, mask: Any = None, tokens: Any = None
    ) -> Any:
        """Draw the fit and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            A new figure's by default.
        what : {"candidates", "weights", "tokens"}, optional
            The candidates with their standard errors; the weights by position of each head; or the weights of the
            tokens of given sequences. By default the candidates where some were compared, else the weights.
        X, mask : optional
            A few sequences, for ``"tokens"``.
        tokens : list of lists of str, optional
            What to write for the tokens of each sequence, for ``"tokens"``; positions by default.
        """
        from spikepool.drawing import pooling as drawing

        check_is_fitted(self, "weights_")
        what = what or ("candidates" if self.candidates_ else "weights")
        check.choice(what, "what", ("candidates", "weights", "tokens"))
        if what == "tokens":
            if X is None:
                raise InvalidInputError(
                    "the weights of tokens need sequences", None, "Pass X, and mask if it has padding"
                )
            weights = self.token_weights(X, mask).mean(axis=1)
            return drawing.draw_token_weights(ax, weights, tokens)
        if what == "weights":
            return drawing.draw_position_weights(ax, self.head_weights_, self._pooling.heads)
        if not self.candidates_:
            raise InvalidInputError(f"no candidates were compared: {self._why}", remedy="Fit with pooling='auto'")
        return drawing.draw_candidates(ax, self.candidates_, self.decision_, self._score_name)

    def _repr_html_(self) -> str:
        """scikit-learn's diagram, and the table of candidates once fitted."""
        diagram = str(estimator_html_repr(self))
        if not getattr(self, "candidates_", ()):
            return diagram
        return diagram + candidate_html(self.candidates_, self.decision_, self._score_name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _with_error(gain: float, error: float) -> str:
    return f"{gain:+.3f} (s.e. {error:.3f})"


def _group_numbers(groups: Any, n: int) -> IntArray | None:
    if groups is None:
        return None
    return np.asarray(np.unique(group_array(groups, n), return_inverse=True)[1].reshape(-1), dtype=np.intp)


def _row_bytes(source: TokenInput) -> int:
    """Size of the tokens of a row, in their own precision."""
    table = source.form.table
    return source.T * source.d * int((source.source.dtype if table is None else table.dtype).itemsize)


def _in_memory(source: TokenInput, rows: IntArray) -> TokenInput:
    """The given rows; an array is taken as it is when all its rows are asked for, stored ones are read."""
    return source if source.in_memory and len(rows) == source.n else source.take(rows)


def _with_tokens(rows: IntArray, part: TokenInput) -> tuple[IntArray, TokenInput]:
    """Without the rows in which nothing is observed."""
    keep = np.concatenate([observed.any(axis=1) for _, observed in part.blocks()])
    return (rows, part) if keep.all() else (rows[keep], part.take(np.flatnonzero(keep)))


def _rule_head_weights(pooling: Pooling, source: TokenInput) -> FloatArray:
    """Weights of a fixed rule in a row without padding, (heads, T)."""
    return np.asarray(pooling.weights(np.zeros((1, source.T, 1)), np.ones((1, source.T), dtype=bool))[0])
