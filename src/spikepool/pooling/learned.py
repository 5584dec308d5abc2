"""Classifier and regressor of token sequences, with the pooling and the layer chosen from labelled sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, precision_recall_fscore_support, r2_score
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from spikepool.data.estimator_input import named
from spikepool.data.labels import refuse_many_classes
from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.pooling.decision import Decision
from spikepool.pooling.fitted import ClassScores
from spikepool.pooling.fitted_attributes import fitted_field
from spikepool.pooling.heads import Head
from spikepool.pooling.judging import Classes, Numbers, Task
from spikepool.pooling.learned_base import LearnedPooling
from spikepool.pooling.learned_input import read_labelled, row_weights


class LearnedPoolingClassifier(ClassifierMixin, LearnedPooling):  # type: ignore[misc]
    """Logistic regression on token sequences, with the pooling and the layer that serve it best.

    With one layer, compared are the mean, the last and the first token, a ramp (w_t ~ t), mean, last and first side by
    side (``"concat"``), mean and standard deviation (``"std"``), all tokens side by side (``"flat"``), a position
    kernel between that and the mean (``"positions"``), the mean with the covariances of the tokens
    (``"covariance"``), and the mean with one or several learned queries (``"query"``, ``"attention"``). With several
    layers, compared are the mean of the last one and attention in three middle layers.

    Every candidate predicts rows that were left out. The candidates are weighed by the likelihood of these rows. Where
    that is not above the likelihood of the mean (of the last layer) by one standard error, the mean predicts alone.
    ``candidates_`` has the table, ``decision_`` the candidate whose features `transform` gives.
    :mod:`spikepool.pooling.comparison` has the rules.

    Parameters
    ----------
    pooling : str, default="auto"
        ``"auto"`` compares; any other registered name is used without a comparison. ``"attention"`` (also
        ``"queries"``) learns queries.
    head : str or Head, default="auto"
        The linear model: ``"logistic"``, ``"ridge"``, a registered one
        (:func:`spikepool.pooling.heads.register_head`), or a head itself. By default both of the first are compared.
    n_heads : int, default=4
        Queries of ``"attention"``.
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
        Folds of the cross-validation. With more than a few hundred rows only some of them are left out.
    max_steps : int, default=25
        Steps of the optimiser of queries.
    max_samples : int or None, default=3000
        Poolings are compared on at most this many rows; the linear models in use are fitted to all, as far as their
        features take half a gigabyte.
    empty : {"error", "zero"}, default="error"
        Rows in which nothing is observed: an error that names them, or features of zero.
    progress : bool, optional
        Show a progress bar; by default only for long work on a terminal.
    random_state : int, RandomState or None, default=0
        Subset of rows and folds.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn. Balanced weights find more rows of rare classes; the probabilities
        are then those of classes that are equally frequent.

    Attributes
    ----------
    fitted_ : FittedPooling
        The fitted state, which all other attributes read.
    decision_ : str
        The candidate of largest likelihood among those that predict.
    layer_ : hashable or None
        Layer of ``decision_``; None where X has one layer. ``layers_`` has all of them.
    prediction_ : {"mean", "single", "weighted", "untold"}
        What predicts: the mean, ``decision_`` alone, or several candidates with the weights in ``candidates_``;
        "untold" where fewer than 100 rows of several layers could be left out, too few to tell them from the mean.
    candidates_ : tuple of Candidate
        Every candidate with ``name``, ``layer``, ``score`` (cross-validated), ``gain`` over the mean and its standard
        ``error``, ``loss`` and ``weight``; empty unless several were compared.
    reason_ : str
        "compared", or why poolings were not.
    weights_ : array of shape (T,)
        Weight of each position under ``decision_``, averaged over heads: that of a full row for fixed rules, the
        average over the training rows for attention, the size of the coefficients for ``"flat"`` and
        ``"positions"``.
    head_weights_ : array of shape (heads, T)
        The same for each head; of attention the last is the mean.
    queries_, components_, token_mean_ : arrays of shape (heads, d), (d, p) and (d,)
        For attention: with c = x − token_mean_, token x has the scores queries_ @ c / rms(components_.T @ c).
    improvement_, improvement_error_ : float
        Cross-validated gain in accuracy of the predictions over the mean's and its standard error; 0 for the mean, NaN
        when nothing was compared.
    accuracy_ : float
        Accuracy of the predictions on rows left out.
    class_scores_ : tuple of ClassScores
        Support, recall and precision of each class, on rows left out; empty where no row could be.
    sink_, sink_ratio_ : bool and float
        Whether the first token is an attention sink, and its median norm over that of the others.
    classes_ : array
        Class labels.
    coef_, intercept_ : arrays of shape (k, F) and (k,)
        The linear map on the features of ``decision_``; k = 1 for two classes.
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
    >>> fitted.decision_ in ("flat", "positions")
    True
    """

    _score_name = "accuracy"
    accuracy_: float = fitted_field("score", "Accuracy on rows left out.")
    class_scores_: tuple[ClassScores, ...] = fitted_field("class_scores", "Of each class, on rows left out.")
    __metadata_request__decision_function = {"mask": True}  # noqa: RUF012  read by scikit-learn
    __metadata_request__predict_proba = {"mask": True}  # noqa: RUF012

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
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            pooling=pooling,
            head=head,
            n_heads=n_heads,
            n_components=n_components,
            sink=sink,
            n_positions=n_positions,
            table=table,
            padding=padding,
            folds=folds,
            max_steps=max_steps,
            max_samples=max_samples,
            empty=empty,
            progress=progress,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def _heads(self) -> tuple[Head, ...]:
        return self._named_heads("logistic", "ridge")

    def fit(
        self, X: Any, y: Any, mask: Any = None, groups: Any = None, sample_weight: Any = None
    ) -> LearnedPoolingClassifier:
        """Compare poolings and layers, and fit the linear models in use.

        Parameters
        ----------
        X : array or mapping
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
        sources, target = read_labelled(self, X, y, mask)
        weights = row_weights(sample_weight, len(target))
        classes, codes = class_codes(target, weights)
        if self.class_weight is not None:
            seen = weights > 0
            try:
                factors = compute_sample_weight(self.class_weight, target[seen])
            except ValueError as err:
                raise named(err, "Pass class_weight as a mapping of labels to weights, or 'balanced'") from err
            weights[seen] *= factors

        def objective(rows: IntArray) -> Classes:
            return Classes(codes[rows], len(classes))

        task, decision, rows = self._fit(sources, objective, groups, weights, classes)
        # for a report: rows, folds (−1: never left out) and probabilities of rows left out; not saved
        judged = bool(task.judging.any())
        self._left_out = (rows, task.folds, softmax(decision.scores, axis=1)) if judged else None
        if judged:
            self.fitted_ = replace(self.fitted_, class_scores=_class_scores(task, decision, classes))
        return self

    @property
    def classes_(self) -> AnyArray:
        """Class labels."""
        classes = self.fitted_.classes
        assert classes is not None
        return classes

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of ``decision_``."""
        coef = self.fitted_.leading.linear.coef.T
        return np.asarray(coef[1:] - coef[:1] if len(coef) == 2 else coef)

    @property
    def intercept_(self) -> FloatArray:
        """Intercepts of ``decision_``."""
        level = self.fitted_.leading.linear.intercept
        return np.asarray(level[1:] - level[:1] if len(level) == 2 else level)

    def decision_function(self, X: Any, mask: Any = None) -> FloatArray:
        """Scores of the classes (n, K); for two classes their difference, (n,)."""
        scores = self._predict_scores(X, mask)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def predict(self, X: Any, mask: Any = None) -> AnyArray:
        """Class labels."""
        scores = self._predict_scores(X, mask)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_proba(self, X: Any, mask: Any = None) -> FloatArray:
        """Probabilities of the classes, (n, K), calibrated on rows left out: the softmax of the scores."""
        return np.asarray(softmax(self._predict_scores(X, mask), axis=1))

    def score(self, X: Any, y: Any, mask: Any = None, sample_weight: Any = None) -> float:
        """Mean accuracy."""
        return float(accuracy_score(y, self.predict(X, mask=mask), sample_weight=sample_weight))


def class_codes(target: AnyArray, weights: FloatArray) -> tuple[AnyArray, IntArray]:
    """The classes, and the number of each row's class; 0 for rows without weight."""
    try:
        check_classification_targets(target)
    except ValueError as err:
        continuous = type_of_target(target).startswith("continuous")
        remedy = "Pass classes, none of them missing, all text or all numbers"
        raise named(err, "For numbers use LearnedPoolingRegressor" if continuous else remedy) from err
    seen = weights > 0
    classes = np.unique(target[seen])
    k = len(classes)
    if k < 2:
        raise InvalidInputError(
            "a classifier needs at least two classes in y, not one class", classes[0], "Add rows of another class"
        )
    refuse_many_classes(k)
    return classes, np.where(seen, np.searchsorted(classes, target).clip(0, k - 1), 0)


def _class_scores(task: Task, decision: Decision, classes: AnyArray) -> tuple[ClassScores, ...]:
    """Support, recall and precision of each class on rows left out."""
    left_out = task.weights * (task.folds >= 0)
    given = {"labels": np.arange(len(classes)), "sample_weight": left_out, "zero_division": np.nan}
    precision, recall, _, support = precision_recall_fscore_support(
        task.objective.target, decision.scores.argmax(axis=1), **given
    )
    columns = (values.tolist() for values in (classes, support, recall, precision))
    return tuple(map(ClassScores, *columns))


class LearnedPoolingRegressor(RegressorMixin, LearnedPooling):  # type: ignore[misc]
    """Ridge regression on token sequences, with the pooling and the layer that serve it best.

    As :class:`LearnedPoolingClassifier`, with the same parameters but `class_weight`, for a real-valued y; scores
    are R², likelihoods those of a normal law.

    Attributes
    ----------
    fitted_, decision_, layer_, prediction_, candidates_, reason_, weights_, head_weights_, sink_, sink_ratio_ :
        As in :class:`LearnedPoolingClassifier`.
    improvement_, improvement_error_ : float
        Cross-validated gain in R² of the predictions over the mean's, and its standard error.
    coef_, intercept_ : array of shape (F,) and float
        The linear map on the features of ``decision_``.
    """

    _score_name = "R²"

    def _heads(self) -> tuple[Head, ...]:
        if self.head == "logistic":
            raise InvalidInputError("logistic regression is a head for classes", self.head, 'Pass head="ridge"')
        return self._named_heads("ridge")

    def fit(
        self, X: Any, y: Any, mask: Any = None, groups: Any = None, sample_weight: Any = None
    ) -> LearnedPoolingRegressor:
        """Compare poolings and layers, and fit the linear models in use.

        Parameters
        ----------
        X : array or mapping
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
        sources, target = read_labelled(self, X, y, mask)
        weights = row_weights(sample_weight, len(target))
        numbers = check.finite_array(target, "y", ndim=1)
        check.moderate_squares(numbers, "y")
        level = weights @ numbers / weights.sum()
        variance = float(weights @ (numbers - level) ** 2 / weights.sum()) or 1.0
        self._fit(sources, lambda rows: Numbers(numbers[rows], variance), groups, weights)
        return self

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of ``decision_``."""
        return np.asarray(self.fitted_.leading.linear.coef[:, 0])

    @property
    def intercept_(self) -> float:
        """Intercept of ``decision_``."""
        return float(self.fitted_.leading.linear.intercept[0])

    def predict(self, X: Any, mask: Any = None) -> FloatArray:
        """Predicted targets."""
        return np.asarray(self._predict_scores(X, mask)[:, 0])

    def score(self, X: Any, y: Any, mask: Any = None, sample_weight: Any = None) -> float:
        """Coefficient of determination."""
        return float(r2_score(y, self.predict(X, mask=mask), sample_weight=sample_weight))
