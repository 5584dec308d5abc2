"""What the learned poolings share: parameters, a fit to the rows that are compared, predictions and features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spikepool.data.estimator_input import EMPTY, feature_names, read_tokens, refuse_empty_rows
from spikepool.data.folds import assign_folds, balanced_rows, group_numbers, seen_elsewhere
from spikepool.data.tokens import TokenInput
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.threads import task_threads
from spikepool.pooling.catalogue import pooling_name
from spikepool.pooling.comparison import compare, proposals
from spikepool.pooling.decision import Decision, Rules
from spikepool.pooling.design import LinearMap, of_features
from spikepool.pooling.fitted import FittedPooling, Part
from spikepool.pooling.fitted_attributes import FittedAttributes
from spikepool.pooling.heads import Head, heads
from spikepool.pooling.judged import Judged, Options
from spikepool.pooling.judging import Objective, Task
from spikepool.pooling.layers import same_layers, split_layers
from spikepool.pooling.learned_input import seed_number
from spikepool.pooling.learning_rows import (
    LearningRows,
    distinct_rows,
    row_bytes,
    rows_in_memory,
    rule_head_weights,
)
from spikepool.pooling.registry import Pooling
from spikepool.pooling.row_functions import EncodedRows, FeatureRows, ScoreRows, WeightRows
from spikepool.pooling.rules import RulePooling
from spikepool.pooling.saving import Portable
from spikepool.pooling.sequence import SequencePooling, position_importance

# Learning holds its rows as one array: that of the user where it takes them all, else a copy of at most this size. The
# features of more rows, to which heads are fitted in the end, take at most as much.
LEARNING_BYTES = 2**29
# Fewer rows than this in each fold leave nothing to compare poolings by.
ROWS_PER_FOLD = 4
# Numbers in the learning rows from which the folds are worth threads of their own.
THREADED_SIZE = 1 << 22


class LearnedPooling(TransformerMixin, Portable, FittedAttributes):  # type: ignore[misc]
    """Base of the classifier and the regressor."""

    # masks travel through pipelines and searches without being asked for (where metadata routing is enabled)
    __metadata_request__fit = {"mask": True, "groups": True}  # noqa: RUF012  read by scikit-learn
    __metadata_request__predict = {"mask": True}  # noqa: RUF012
    __metadata_request__transform = {"mask": True}  # noqa: RUF012
    __metadata_request__score = {"mask": True}  # noqa: RUF012

    def __init__(
        self,
        *,
        pooling: str = "auto",
        head: str | Head = "auto",
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
        self.pooling = pooling
        self.head = head
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

    def _heads(self) -> tuple[Head, ...]:
        """The heads asked for; a subclass names its own."""
        raise NotImplementedError

    def _named_heads(self, *automatic: str) -> tuple[Head, ...]:
        if isinstance(self.head, Head):
            return (self.head,)
        check.choice(self.head, "head", ("auto", *heads()))
        return tuple(heads()[name] for name in (automatic if self.head == "auto" else (self.head,)))

    def _options(self) -> Options:
        check.choice(self.empty, "empty", EMPTY)
        pooling_name(self.pooling)
        check.size(self.folds, "folds", minimum=2)
        check.size(self.n_components, "n_components")
        if self.max_samples is not None:
            check.size(self.max_samples, "max_samples")
        if isinstance(self.sink, str):
            check.choice(self.sink, "sink", ("auto",))
        else:
            check.flag(self.sink, "sink")
        return Options(check.size(self.n_heads, "n_heads"), check.size(self.max_steps, "max_steps"))

    def _fit(
        self, sources: dict[Any, TokenInput], objective: Any, groups: Any, weights: FloatArray, classes: Any = None
    ) -> tuple[Task, Decision, IntArray]:
        """Compare candidates on at most `max_samples` rows, fit those in use to all rows, and keep what was found.

        Parameters
        ----------
        sources : dict of TokenInput
            All sequences, by layer.
        objective : callable
            ``objective(rows)``: the targets of some rows, as :class:`Classes` or :class:`Numbers`.
        groups : array (n,) or None
            As given by the user.
        weights : array (n,)
            Row weights; rows of weight zero are left out.
        classes : array, optional
            Class labels.

        Returns
        -------
        task, decision, rows
            What was compared, what was decided, and the numbers of the rows among all.
        """
        options, seed, rules, asked = self._options(), seed_number(self.random_state), Rules(), self._heads()
        last = list(sources)[-1]
        source = sources[last]
        everything: Objective = objective(np.arange(source.n))
        strata = everything.target if classes is not None else np.zeros(source.n, dtype=np.intp)
        cluster = None if groups is None else group_numbers(groups, source.n)
        rows = balanced_rows(strata, weights, self._learning_limit(source), seed)
        rows, part = self._with_tokens(rows, rows_in_memory(source, rows))
        streamed = len(rows) < int((weights > 0).sum()) and source.n > self._learning_limit(source)
        rows, part, merged, clusters = distinct_rows(rows, part, everything.target[:, None], cluster, weights)
        count = len(np.unique(clusters))
        target = objective(rows)
        folds = self._folds(strata[rows], clusters, count, rules, seed, classes is not None)
        judging = np.where((folds >= 0) & seen_elsewhere(strata[rows], folds), merged, 0.0)
        task = Task(target, merged, folds, clusters, judging)
        pooling = pooling_name(self.pooling)
        proposed = proposals(tuple(sources), pooling, rules, single_token=part.T == 1)
        reason = self._why_one(pooling, task, count, len(proposed))
        if reason not in ("compared", "asked for"):
            proposed = proposed[:1]
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

        with task_threads(large=part.n * part.T * part.d > THREADED_SIZE, most=2) as over:
            decision = compare(proposed, rows_of, task, asked, options, rules, over, self.progress)
            parts: list[Part] = []
            for weight, one in decision.used:
                linear = one.linear_map(task) if not streamed else self._on_all(one, sources, everything, weights, seed)
                part_of_one = Part(weight, one.pooled.layer, one.pooled.pooling, linear)
                same = [k for k, known in enumerate(parts) if known.pooling is one.pooled.pooling]
                if same:  # several heads on the same features are one linear map
                    parts[same[0]] = parts[same[0]].with_head(part_of_one)
                else:
                    parts.append(part_of_one)
        self._keep(parts, decision, task, sources, rows_of(decision.leading.pooled.layer), reason, classes)
        self._leading_head = decision.leading.fit.head  # for a forecast; not saved
        return task, decision, rows

    def _folds(
        self, strata: IntArray, clusters: IntArray, count: int, rules: Rules, seed: int, classes: bool
    ) -> IntArray:
        """Fold of each row, −1 for one that only trains; all −1 where nothing can be left out."""
        nothing = np.full(len(strata), -1, dtype=np.intp)
        if count < 2:
            return nothing
        if count < ROWS_PER_FOLD * int(self.folds):  # one cluster at a time
            folds = np.unique(clusters, return_inverse=True)[1].reshape(-1)
        else:
            folds = assign_folds(strata, clusters, int(self.folds), seed)
            used = -(-rules.rows_left_out * int(self.folds) // count)
            folds = np.where(folds < used, folds, -1)
        if classes and any(len(np.unique(strata[folds != k])) < 2 for k in range(int(folds.max()) + 1)):
            return nothing
        return np.asarray(folds)

    def _why_one(self, pooling: str, task: Task, count: int, proposed: int) -> str:
        """Why nothing is compared, or "compared"."""
        if pooling != "auto":
            return "asked for"
        if not (task.objective.target[:1] != task.objective.target).any():
            return "the targets do not vary"
        if count < ROWS_PER_FOLD * int(self.folds):
            return f"{count} different rows (or groups) are too few to compare poolings"
        if proposed == 1:
            return "a single position leaves nothing to weigh"
        if not task.judging.any():
            return "no class is in two folds, so that no prediction can be judged"
        return "compared"

    def _on_all(
        self, one: Judged, sources: dict[Any, TokenInput], everything: Any, weights: FloatArray, seed: int
    ) -> LinearMap:
        """The head of a candidate, fitted to as many of all rows as have features of ``LEARNING_BYTES``."""
        pooling, layer = one.pooled.pooling, one.pooled.layer
        width = len(pooling.feature_names(sources[layer].d))
        strata = everything.target if everything.classes else np.zeros(len(weights), dtype=np.intp)
        rows = balanced_rows(strata, weights, max(1, LEARNING_BYTES // (4 * width)), seed)
        chunks = [
            C[np.isin(np.arange(start, start + len(C)), rows)].astype(np.float32)
            for start, C in self._feature_chunks(sources[layer], pooling)
        ]
        whole = of_features(np.concatenate(chunks), weights[rows], scaled=not isinstance(pooling, SequencePooling))
        return whole.back(*one.fit.head.fit(whole.Z, everything.target[rows], weights[rows], everything.classes))

    def _keep(
        self,
        parts: list[Part],
        decision: Decision,
        task: Task,
        sources: dict[Any, TokenInput],
        rows: LearningRows,
        reason: str,
        classes: Any,
    ) -> None:
        """Set ``fitted_``."""
        pooled = decision.leading.pooled
        leading = next(part for part in parts if part.pooling is pooled.pooling)
        source, pooling = sources[pooled.layer], pooled.pooling
        importance = None
        if isinstance(pooling, SequencePooling):
            importance = position_importance(pooling, leading.linear.coef)
            head_weights = pooling.full_row_importance(importance, source.T)
        elif isinstance(pooling, RulePooling):
            head_weights = rule_head_weights(pooling, source)
        else:
            head_weights = rows.average_weights(pooling)
        judged = bool(task.judging.any())
        score = task.average(task.objective.score(decision.scores)) if judged else float("nan")
        self.fitted_ = FittedPooling(
            tuple(parts),
            leading,
            tuple(sources),
            classes,
            source.d,
            source.T,
            decision.candidates,
            decision.prediction,
            reason,
            float(decision.gain),
            float(decision.error),
            score,
            (),
            head_weights,
            importance,
            bool(rows.space.sink),
            float(rows.space.sink_ratio),
        )

    def _learning_limit(self, source: TokenInput) -> int:
        most = source.n if self.max_samples is None else int(self.max_samples)
        if source.n <= most:
            return most
        return min(most, max(1, LEARNING_BYTES // row_bytes(source)))

    def _with_tokens(self, rows: IntArray, part: TokenInput) -> tuple[IntArray, TokenInput]:
        """Without the rows in which nothing is observed, or an error that names them."""
        keep = np.asarray(part.observed().any(axis=1))
        if keep.all():
            return rows, part
        if self.empty == "error":
            refuse_empty_rows(keep[:, None], rows, self.empty)
        if not keep.any():
            raise InvalidInputError("no token is observed in any row", remedy="Pass a mask that shows some tokens")
        return rows[keep], part.take(np.flatnonzero(keep))

    def _feature_chunks(self, source: TokenInput, pooling: Pooling) -> Iterator[tuple[int, FloatArray]]:
        """First row and features of chunks of all rows."""
        return source.map_blocks(FeatureRows(pooling, self.empty), "pooling", self.progress)

    def _sources(self, X: Any, mask: Any, wanted: tuple[Any, ...]) -> dict[Any, TokenInput]:
        """Tokens of the layers asked for, of any length."""
        check_is_fitted(self, "fitted_")
        given = split_layers(X)
        same_layers(self.layers_, given)
        sources = {}
        for layer in wanted:
            source = read_tokens(self, given[layer], mask, reset=False, any_length=True)
            if source.d != self.fitted_.d:
                # scikit-learn's sentence where X is a table of features, as it expects
                rows = np.ndim(given[layer]) == 2
                has = f"X has {source.T * source.d} features" if rows else f"tokens of X have {source.d} features"
                raise ShapeError(
                    f"{has}, but {type(self).__name__} is expecting {self.fitted_.d} features per token as input",
                    remedy="Pass tokens of the dimension seen in fit",
                )
            sources[layer] = source
        return sources

    def _source(self, X: Any, mask: Any) -> TokenInput:
        check_is_fitted(self, "fitted_")
        return self._sources(X, mask, (self.layer_,))[self.layer_]

    def _predict_scores(self, X: Any, mask: Any) -> FloatArray:
        """Scores (n, k): the weighted sum over the parts."""
        if "fitted_" not in vars(self):  # at once: the check of scikit-learn takes as long as a small prediction
            check_is_fitted(self, "fitted_")
        parts = self.fitted_.parts
        wanted = tuple(dict.fromkeys(part.layer for part in parts))
        if isinstance(X, EncodedRows):
            each = [
                ScoreRows(tuple(p for p in parts if p.layer == layer), self.empty)(X.block(layer), X.rows)
                for layer in wanted
            ]
            return np.asarray(sum(each[1:], each[0]))
        total: FloatArray | None = None
        for layer, source in self._sources(X, mask, wanted).items():
            mine = tuple(part for part in parts if part.layer == layer)
            width = len(mine[0].linear.intercept)
            scores = source.map_rows(ScoreRows(mine, self.empty), width, "predicting", self.progress)
            total = scores if total is None else total + scores
        assert total is not None
        return total

    def transform(self, X: Any, mask: Any = None) -> Any:
        """Features (n, F) of the pooling in ``decision_``, in the layer ``layer_``."""
        check_is_fitted(self, "fitted_")
        pooling = FeatureRows(self.fitted_.leading.pooling, self.empty)
        if isinstance(X, EncodedRows):
            return pooling(X.block(self.layer_), X.rows)
        source = self._source(X, mask)
        return source.map_rows(pooling, self.n_features_out_, "pooling", self.progress)

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None, groups: Any = None) -> Any:
        """Fit, then pool the same sequences; the mask serves both."""
        return self.fit(X, y, mask=mask, groups=groups).transform(X, mask=mask)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Names of the features: ``pooled0``, ... or, with several heads, ``mean_0``, ``query1_0``, ..."""
        check_is_fitted(self, "fitted_")
        names = self.fitted_.leading.pooling.feature_names(self.fitted_.d)
        if names[0] == "pooled0":
            return feature_names("pooled", len(names), getattr(self, "feature_names_in_", None))
        return np.asarray(names, dtype=object)

    def token_weights(self, X: Any, mask: Any = None) -> FloatArray:
        """Weight of every token in every head, (n, heads, T); unit sum over the observed tokens of a row.

        For attention the softmax weights, the mean last; for ``"flat"`` and ``"positions"`` the size of the
        coefficients at the place of the token.
        """
        source = self._source(X, mask)
        H = len(self.head_weights_)
        rows = WeightRows(self.fitted_.leading.pooling, self.fitted_.importance)
        flat = source.map_rows(rows, H * source.T, "weights", self.progress)
        return flat.reshape(source.n, H, source.T)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
