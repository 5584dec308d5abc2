"""Ridge on pooled tokens, with the pooling and the layer chosen from labelled sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, precision_recall_fscore_support, r2_score
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from spikepool.data.estimator_input import named
from spikepool.data.folds import balanced_rows
from spikepool.data.labels import refuse_many_classes
from spikepool.data.tokens import TokenInput
from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.kit.memory import task_threads
from spikepool.pooling.learned_base import LearnedPooling
from spikepool.pooling.learned_report import BY_LIKELIHOOD, ClassScores
from spikepool.pooling.logistic import (
    LogisticFeatures,
    Mixture,
    average_layers,
    logistic_rows,
    mix_logistic,
    screened_strength,
)
from spikepool.pooling.registry import Part
from spikepool.pooling.stacking import DEFAULT_SCALE, class_scores, fit_scale, probabilities

# Rows times classes from which the folds of logistic regressions are worth threads of their own.
LOGISTIC_THREADED = 1 << 14


class LearnedPoolingClassifier(ClassifierMixin, LearnedPooling):  # type: ignore[misc]
    """Ridge classifier on token sequences, with the pooling and the layer that serve it best.

    Compared are the mean, the last and the first token, a ramp (w_t ~ t), mean, last and first side by side
    (``"concat"``), mean and standard deviation (``"std"``), all tokens side by side (``"flat"``), a position kernel
    between that and the mean (``"positions"``), the mean with the covariances of the tokens (``"covariance"``), and
    the mean with one or several learned queries (``"query"``, ``"queries"``). The function
    :func:`spikepool.pooling.selection.poolings` lists them.

    Each candidate predicts every row from the other folds. The predictions are combined with non-negative weights (a
    stack). The stack is used if its squared error is below that of the mean, and below that of the best candidate, by
    one standard error each; else the best candidate alone; and where the stack is not better than the mean, mean
    pooling. ``candidates_`` has the table, ``decision_`` the best candidate, whose features `transform`
    gives. Logistic regression on these features and on the mean is added where that raises the likelihood of rows left
    out; the mean is kept where all of this is not better, by one standard error, than ridge and logistic regression on
    the mean.

    Parameters
    ----------
    ridge : "cv" or float, default="cv"
        Penalty lam of (1/n)‖y − S beta‖² + lam‖beta‖² on standardised features S, or its choice for each candidate by
        the out-of-fold squared error.
    pooling : str, default="auto"
        ``"auto"`` compares; any other registered name is used without a comparison.
    n_heads : int, default=4
        Queries of ``"queries"``.
    n_components : int, default=32
        Leading components of the tokens in which queries are learned and covariances taken.
    sink : "auto" or bool, default="auto"
        Whether poolings other than the fixed rules pass over the first token of a sequence; ``"auto"``: when it is an
        attention sink (median norm above three times that of the others, and nearly the same in every sequence).
    n_positions : int, optional
        T, for X of shape (n, T*d).
    table : array of shape (V, d), optional
        Embedding table, rows = tokens; X then holds token ids.
    padding : int, optional
        Token id that stands for no token (only with `table`).
    folds : int, default=4
        Folds of the cross-validation.
    max_steps : int, default=25
        Steps of the optimiser of queries.
    max_samples : int or None, default=3000
        Poolings are compared on at most this many rows (of a larger or stored input: and half a gigabyte); the ridges
        in use are fitted on all.
    effort : {"screened", "full"}, default="screened"
        With several layers: average logistic regressions on learned queries of three middle layers, or make the full
        comparison of poolings in the best layers, which takes about four times as long. With more than 30
        classes queries of two layers and the mean of the last are weighed instead. Without effect for one layer.
    empty : {"error", "zero"}, default="error"
        Rows in which nothing is observed: an error that names them, or features of zero.
    progress : bool, optional
        Show a progress bar; by default only for long work on a terminal.
    random_state : int, RandomState or None, default=0
        Subset of rows and folds.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.

    Attributes
    ----------
    decision_ : str
        The single candidate of least out-of-fold squared error, or the mean where nothing is better than it.
    layer_ : hashable or None
        Layer of ``decision_``; None where X has one layer. ``layers_`` has all of them.
    prediction_ : {"mean", "single", "stack", "average"}
        What predicts: the mean, ``decision_`` alone, the stack, or (layers that were screened) the average of logistic
        regressions.
    candidates_ : tuple of Candidate
        Every candidate with ``name``, ``layer``, ``score`` (cross-validated), ``gain`` over the mean and its standard
        ``error``, ``loss`` and ``weight`` in the stack; empty unless several were compared.
    reason_ : str
        "compared", "compared with logistic regression" where that kept the mean, or why poolings were not.
    weights_ : array of shape (T,)
        Weight of each position under ``decision_``, averaged over heads: that of a full row for fixed rules, the
        average over the training rows for queries, the size of the ridge coefficients for ``"flat"`` and
        ``"positions"``.
    head_weights_ : array of shape (heads, T)
        The same for each head; of queries the last is the mean.
    queries_, components_, token_mean_ : arrays of shape (heads, d), (d, p) and (d,)
        For learned queries: with c = x − token_mean_, token x has the scores queries_ @ c / rms(components_.T @ c).
    improvement_, improvement_error_ : float
        Cross-validated gain in accuracy of the predictions over the mean's and its standard error; 0 for the mean, NaN
        when nothing was compared.
    head_shares_ : dict of str to float
        Weights of the scores of ridge and of logistic regression, on the features of ``decision_`` and on the mean.
    scale_ : float
        Scale of the ridge's scores in its probabilities.
    accuracy_ : float
        Out-of-fold accuracy of the predictions.
    class_scores_ : tuple of ClassScores
        Support, recall and precision of each class, on rows left out; empty where no row could be.
    sink_, sink_ratio_ : bool and float
        Whether the first token is an attention sink, and its median norm over that of the others.
    classes_ : array
        Class labels.
    coef_, intercept_ : arrays of shape (k, F) and (k,)
        Ridge coefficients on the features of ``decision_``; k = 1 for two classes. Those of logistic regression where
        ``prediction_`` is "average".
    ridge_ : float
        Penalty of the ridge; NaN for logistic regression.
    n_features_in_, n_positions_, n_features_out_ : int
        Sizes seen in fit.

    Notes
    -----
    X takes the forms of :class:`SpectralPooling`, and several layers as (n, layers, T, d) or as a mapping of names to
    (n, T, d), the last layer last. A 2-D array without `n_positions` and `table` is one position. Rows with equal
    tokens, and rows of one of the `groups` given to ``fit``, stay in one fold. Positions are counted over observed
    tokens: holes in a mask move what follows. ``predict`` and ``transform`` take sequences of any length.

    Examples
    --------
    >>> import numpy as np, spikepool as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 8, 5))
    >>> y = (X[:, 2] + X[:, 3] - X[:, 6]) @ np.ones(5) > 0  # three positions carry the label
    >>> fitted = sp.LearnedPoolingClassifier().fit(X[:400], y[:400])
    >>> fitted.decision_
    'flat'
    """

    _score_name = "accuracy"
    __metadata_request__decision_function = {"mask": True}  # noqa: RUF012  read by scikit-learn
    __metadata_request__predict_proba = {"mask": True}  # noqa: RUF012

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
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            ridge,
            pooling=pooling,
            n_heads=n_heads,
            n_components=n_components,
            sink=sink,
            n_positions=n_positions,
            table=table,
            padding=padding,
            folds=folds,
            max_steps=max_steps,
            max_samples=max_samples,
            effort=effort,
            empty=empty,
            progress=progress,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(
        self, X: Any, y: Any, mask: Any = None, groups: Any = None, sample_weight: Any = None
    ) -> LearnedPoolingClassifier:
        """Compare poolings and layers, and fit the ridges in use.

        Parameters
        ----------
        X : array, mapping or Dask array
            Tokens, in any of the accepted forms.
        y : array of shape (n,)
            Class labels.
        mask : array of shape (n, T), optional
            True where a token is observed.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold of the comparison.
        sample_weight : array of shape (n,), optional
            Weights of the rows; those of weight zero are left out.
        """
        sources, target = self._read(X, y, mask)
        weights = self._row_weights(sample_weight, len(target))
        Y, codes = self._code(target, weights)
        k = len(self.classes_)
        if self.class_weight is not None:
            seen = weights > 0
            try:
                factors = compute_sample_weight(self.class_weight, target[seen])
            except ValueError as err:
                raise named(err, "Pass class_weight as a mapping of labels to weights, or 'balanced'") from err
            weights[seen] *= factors

        def correct(values: FloatArray, rows: IntArray) -> FloatArray:
            return np.asarray(self._decide(values) == codes[rows], dtype=np.float64)

        comparison = self._compare(sources, Y, codes, groups, weights, correct, average_layers)
        task, choice = comparison.task, comparison.choice
        own = np.where(task.Y[:, 0] > 0, 1, 0) if k == 2 else task.Y.argmax(axis=1)
        judged = bool(np.isfinite(choice.values).all())
        left_out = task.weights * (task.folds >= 0)
        self.scale_ = fit_scale(choice.values, own, left_out) if judged else DEFAULT_SCALE
        mixture = comparison.mixture or Mixture(1.0, (), probabilities(choice.values, self.scale_))
        if comparison.mixture is None and judged and len(np.unique(task.folds)) == int(self.folds):
            mean_scale = fit_scale(choice.mean.values, own, left_out)
            scores = (self.scale_ * class_scores(choice.values), mean_scale * class_scores(choice.mean.values))
            with task_threads(large=len(own) * k > LOGISTIC_THREADED, most=2) as over:
                mixture = mix_logistic(choice, comparison.rows_of, task, own, *scores, over)
            if mixture.mean:
                comparison, self.scale_ = replace(comparison, choice=choice.mean_alone()), mean_scale
                self.reason_ = BY_LIKELIHOOD
        self._finish(comparison, Y, weights)
        self._logistic = (
            self._logistic_on_all(mixture.parts, sources, codes, weights) if comparison.streamed else mixture.parts
        )
        self.head_shares_ = {"ridge": mixture.ridge}
        for part in mixture.parts:
            where = "" if part.layer is None else f" @ {part.layer}"
            self.head_shares_[f"logistic {part.pooling.name}{where}"] = part.weight
        # for a report: rows, folds (−1: never left out) and out-of-fold probabilities; not saved
        self._left_out = (comparison.rows, task.folds, mixture.values) if judged else None
        classes = mixture.values.argmax(axis=1)
        self.accuracy_ = float(left_out @ (classes == own) / left_out.sum()) if judged else float("nan")
        self.class_scores_: tuple[ClassScores, ...] = ()
        if judged and left_out.any():
            precision, recall, _, support = precision_recall_fscore_support(
                own, classes, labels=np.arange(k), sample_weight=left_out, zero_division=np.nan
            )
            columns = (values.tolist() for values in (self.classes_, support, recall, precision))
            self.class_scores_ = tuple(map(ClassScores, *columns))
        self.coef_, self.intercept_ = self._ridge.coef.T, self._ridge.intercept
        return self

    def _logistic_on_all(
        self, parts: tuple[Part, ...], sources: dict[Any, TokenInput], codes: IntArray, weights: FloatArray
    ) -> tuple[Part, ...]:
        """The logistic regressions in use, fitted on all rows, or on as many as take no longer than the comparison."""
        refitted = []
        for part in parts:
            features, classes = part.model.coef.shape
            limit = logistic_rows(features, classes, int(self.folds))
            rows = balanced_rows(codes, weights, limit, self._seed())
            chunks = [
                C[np.isin(np.arange(start, start + len(C)), rows)].astype(np.float32)
                for start, C in self._feature_chunks(sources[part.layer], part.pooling)
            ]
            strength = None if self._parts else screened_strength(part.pooling, classes)
            again = LogisticFeatures(np.concatenate(chunks), weights[rows], strength).fit(codes[rows], classes)
            refitted.append(part._replace(model=again))
        return tuple(refitted)

    def _code(self, target: AnyArray, weights: FloatArray) -> tuple[FloatArray, IntArray]:
        """Targets −1 and 1, (n, K) or (n, 1) for two classes, and the number of each row's class."""
        try:
            check_classification_targets(target)
        except ValueError as err:
            raise named(err, "Pass classes, none of them missing, all text or all numbers") from err
        seen = weights > 0
        self.classes_ = np.unique(target[seen])
        k = len(self.classes_)
        if k < 2:
            raise InvalidInputError("a classifier needs at least two classes in y, not one class", self.classes_[0])
        refuse_many_classes(k)
        codes = np.where(seen, np.searchsorted(self.classes_, target).clip(0, k - 1), 0)
        indicators = codes[:, None] == (np.arange(1, 2) if k == 2 else np.arange(k))
        return np.where(indicators, 1.0, -1.0), codes

    def _decide(self, values: FloatArray) -> IntArray:
        return np.asarray((values[:, 0] > 0).astype(np.intp) if values.shape[1] == 1 else values.argmax(axis=1))

    def _scores(self, X: Any, mask: Any) -> FloatArray:
        """Scores (n, K) of the classes, whose softmax are the probabilities."""
        self._require_model()
        share = self.head_shares_["ridge"]
        if not share and self._logistic:
            return self._predict_values(X, mask, self._logistic)
        scores = share * self.scale_ * class_scores(self._predict_values(X, mask))
        return scores + self._predict_values(X, mask, self._logistic) if self._logistic else scores

    def decision_function(self, X: Any, mask: Any = None) -> FloatArray:
        """Scores of the classes (n, K); for two classes their difference, (n,)."""
        scores = self._scores(X, mask)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def predict(self, X: Any, mask: Any = None) -> AnyArray:
        """Class labels."""
        scores = self._scores(X, mask)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_proba(self, X: Any, mask: Any = None) -> FloatArray:
        """Probabilities of the classes, (n, K), calibrated on rows left out.

        The softmax of the ridge's values times ``scale_``, and of the scores of logistic regression where
        ``head_shares_`` has them, added with these weights.
        """
        scores = self._scores(X, mask)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any, mask: Any = None, sample_weight: Any = None) -> float:
        """Mean accuracy."""
        return float(accuracy_score(y, self.predict(X, mask=mask), sample_weight=sample_weight))


class LearnedPoolingRegressor(RegressorMixin, LearnedPooling):  # type: ignore[misc]
    """Ridge regression on token sequences, with the pooling and the layer that serve it best.

    As :class:`LearnedPoolingClassifier`, with the same parameters but `class_weight`, for a real-valued y; scores
    are R².

    Attributes
    ----------
    decision_, layer_, prediction_, candidates_, reason_, weights_, head_weights_, sink_, sink_ratio_, ridge_ :
        As in :class:`LearnedPoolingClassifier`.
    improvement_, improvement_error_ : float
        Cross-validated gain in R² of the predictions over the mean's, and its standard error.
    coef_, intercept_ : array of shape (F,) and float
        Ridge coefficients on the features of ``decision_``.
    """

    _score_name = "R²"

    def fit(
        self, X: Any, y: Any, mask: Any = None, groups: Any = None, sample_weight: Any = None
    ) -> LearnedPoolingRegressor:
        """Compare poolings and layers, and fit the ridges in use.

        Parameters
        ----------
        X : array, mapping or Dask array
            Tokens, in any of the accepted forms.
        y : array of shape (n,)
            Targets.
        mask : array of shape (n, T), optional
            True where a token is observed.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold of the comparison.
        sample_weight : array of shape (n,), optional
            Weights of the rows; those of weight zero are left out.
        """
        sources, target = self._read(X, y, mask)
        weights = self._row_weights(sample_weight, len(target))
        Y, strata = self._code(target, weights)
        variance = float(weights @ (Y[:, 0] - weights @ Y[:, 0] / weights.sum()) ** 2 / weights.sum()) or 1.0

        def closeness(values: FloatArray, rows: IntArray) -> FloatArray:
            return np.asarray(1 - (values[:, 0] - Y[rows, 0]) ** 2 / variance)

        self._finish(self._compare(sources, Y, strata, groups, weights, closeness), Y, weights)
        self.coef_, self.intercept_ = self._ridge.coef[:, 0], float(self._ridge.intercept[0])
        return self

    def _code(self, target: AnyArray, weights: FloatArray) -> tuple[FloatArray, IntArray]:
        """Targets (n, 1), of one stratum."""
        Y = check.finite_array(target, "y", ndim=1)[:, None]
        return Y, np.zeros(len(Y), dtype=np.intp)

    def predict(self, X: Any, mask: Any = None) -> FloatArray:
        """Predicted targets."""
        return np.asarray(self._predict_values(X, mask)[:, 0])

    def score(self, X: Any, y: Any, mask: Any = None, sample_weight: Any = None) -> float:
        """Coefficient of determination."""
        return float(r2_score(y, self.predict(X, mask=mask), sample_weight=sample_weight))
