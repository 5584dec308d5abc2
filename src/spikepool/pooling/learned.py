"""Ridge on pooled tokens, with the pooling chosen and its weights learned from labelled sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets

from spikepool.data.estimator_input import named
from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import AnyArray, FloatArray, IntArray
from spikepool.pooling.learned_base import LearnedPooling


class LearnedPoolingClassifier(ClassifierMixin, LearnedPooling):  # type: ignore[misc]
    """Ridge classifier on pooled tokens, with the pooling that serves it best.

    Candidates are the mean, the last and the first token, a ramp (w_t ~ t), mean, last and first side by side
    (``"concat"``), one learned query (attentive pooling: s_nt = q·z_nt/rms(z_nt)), and a few learned heads over
    positions counted from both ends (s_nth = a_h[t] + b_h[L_n − 1 − t]); weights are the softmax of s over the
    tokens. They are compared by cross-validation with the weights relearned in every fold. A fixed rule replaces the
    mean only if it is better by two standard errors of the paired difference, a learned one replaces that only if it
    is better by two more; otherwise the fit IS mean pooling with ridge, to the last digit. ``candidates_`` has the
    table.

    A learned pooling that was compared is used as it was compared: its weights are the average of those that agree
    among the fits to the other folds of each fold, and to all rows, the unseen rows deciding where folds disagree.
    One that is asked for by name is learned once, on all rows.

    Weights are learned by ridge in the leading components of the tokens (z) and then applied to the tokens as they
    are; the final ridge is on standardised pooled features.

    X takes the forms of :class:`SpectralPooling`; a 2-D array without `n_positions` and `table` is one position. Rows
    with equal tokens, and rows of one of the `groups` given to ``fit``, stay in one fold. Positions are counted over
    observed tokens: holes in a mask move what follows. Where a place is a time, fill them instead.

    Parameters
    ----------
    ridge : "gcv" or float, default="gcv"
        Penalty lam of (1/n)‖y − S beta‖² + lam‖beta‖² on standardised features S, or its choice by generalised
        cross-validation.
    pooling : {"auto", "mean", "last", "first", "ramp", "max", "concat", "positions", "query"}, default="auto"
        ``"auto"`` compares; any other name is used without a comparison.
    n_heads : int, default=4
        Heads of ``"positions"``.
    n_components : int, default=32
        Leading components of the tokens in which weights are learned.
    sink : "auto" or bool, default="auto"
        Whether learned weights pass over the first token of a sequence; ``"auto"``: when it is an attention sink
        (median norm above three times that of the others, and nearly the same in every sequence).
    n_positions : int, optional
        T, for X of shape (n, T*d).
    table : array of shape (V, d), optional
        Embedding table, rows = tokens; X then holds token ids.
    padding : int, optional
        Token id that stands for no token (only with `table`).
    folds : int, default=4
        Folds of the cross-validation that compares the candidates.
    max_steps : int, default=25
        Steps of the optimiser.
    max_samples : int or None, default=3000
        Poolings are compared and weights learned on at most this many rows (of a larger or stored input: and half a
        gigabyte); the ridge uses all.
    empty : {"error", "zero"}, default="error"
        Rows in which nothing is observed: an error that names them, or features of zero.
    progress : bool, optional
        Show a progress bar; by default only for long work on a terminal.
    random_state : int, RandomState or None, default=0
        Subset of rows and folds.

    Attributes
    ----------
    decision_ : str
        Name of the pooling in use.
    candidates_ : tuple of Candidate
        Every candidate with ``name``, ``score`` (cross-validated), ``gain`` over the mean and its standard ``error``;
        empty unless ``pooling="auto"``.
    reason_ : str
        "compared", or why poolings were not.
    weights_ : array of shape (T,)
        Weight of each position, averaged over heads: that of a full row for fixed rules, the average over the training
        rows for learned ones.
    head_weights_ : array of shape (heads, T)
        The same for each head.
    improvement_, improvement_error_ : float
        Cross-validated gain in accuracy of the pooling in use over the mean and its standard error; 0 for the mean, NaN
        when nothing was compared.
    sink_, sink_ratio_ : bool and float
        Whether the first token is passed over, and its median norm over that of the others (NaN when not looked at).
    classes_ : array
        Class labels.
    coef_, intercept_ : arrays of shape (k, heads·d) and (k,)
        Ridge coefficients on the pooled features; k = 1 for two classes.
    ridge_ : float
        Penalty in use.
    n_features_in_, n_positions_, n_features_out_ : int
        Sizes seen in fit.

    Examples
    --------
    >>> import numpy as np, spikepool as sp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 8, 5))
    >>> y = (X[:, 2] + X[:, 3] - X[:, 6]) @ np.ones(5) > 0  # three positions carry the label
    >>> fitted = sp.LearnedPoolingClassifier().fit(X[:400], y[:400])
    >>> fitted.decision_
    'positions'
    """

    _score_name = "accuracy"
    __metadata_request__decision_function = {"mask": True}  # noqa: RUF012  read by scikit-learn

    def fit(self, X: Any, y: Any, mask: Any = None, groups: Any = None) -> LearnedPoolingClassifier:
        """Choose the pooling, learn its weights, fit the ridge.

        Parameters
        ----------
        X : array or Dask array
            Tokens, in any of the accepted forms.
        y : array of shape (n,)
            Class labels.
        mask : array of shape (n, T), optional
            True where a token is observed.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold of the comparison.
        """
        source, target = self._read(X, y, mask)
        try:
            check_classification_targets(target)
        except ValueError as err:
            raise named(err, "Pass classes, none of them missing, all text or all numbers") from err
        self.classes_, codes = np.unique(target, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError("a classifier needs at least two classes in y, not one class", self.classes_[0])
        k = len(self.classes_)
        Y = np.where(codes == 1, 1.0, -1.0)[:, None] if k == 2 else np.where(codes[:, None] == np.arange(k), 1.0, -1.0)

        def correct(values: FloatArray, rows: IntArray) -> FloatArray:
            return np.asarray(self._decide(values) == codes[rows], dtype=np.float64)

        self._fit(source, Y, codes, groups, correct)
        self.coef_, self.intercept_ = self._values.coef.T, self._values.intercept
        return self

    def _decide(self, values: FloatArray) -> IntArray:
        return np.asarray((values[:, 0] > 0).astype(np.intp) if values.shape[1] == 1 else values.argmax(axis=1))

    def decision_function(self, X: Any, mask: Any = None) -> FloatArray:
        """Ridge values: (n,) for two classes, (n, k) otherwise."""
        values = self._predict_values(X, mask)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any, mask: Any = None) -> AnyArray:
        """Class labels."""
        values = self._predict_values(X, mask)
        return np.asarray(self.classes_[self._decide(values)])

    def score(self, X: Any, y: Any, mask: Any = None, sample_weight: Any = None) -> float:
        """Mean accuracy."""
        return float(accuracy_score(y, self.predict(X, mask=mask), sample_weight=sample_weight))


class LearnedPoolingRegressor(RegressorMixin, LearnedPooling):  # type: ignore[misc]
    """Ridge regression on pooled tokens, with the pooling that serves it best.

    As :class:`LearnedPoolingClassifier`, with the same parameters, for a real-valued y; candidates are compared by
    squared error in units of the variance of y, so that scores are R².

    Attributes
    ----------
    decision_, candidates_, reason_, weights_, head_weights_, sink_, sink_ratio_, ridge_ :
        As in :class:`LearnedPoolingClassifier`.
    improvement_, improvement_error_ : float
        Cross-validated gain in R² of the pooling in use over the mean, and its standard error.
    coef_, intercept_ : array of shape (heads·d,) and float
        Ridge coefficients on the pooled features.
    """

    _score_name = "R²"

    def fit(self, X: Any, y: Any, mask: Any = None, groups: Any = None) -> LearnedPoolingRegressor:
        """Choose the pooling, learn its weights, fit the ridge.

        Parameters
        ----------
        X : array or Dask array
            Tokens, in any of the accepted forms.
        y : array of shape (n,)
            Targets.
        mask : array of shape (n, T), optional
            True where a token is observed.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold of the comparison.
        """
        source, target = self._read(X, y, mask)
        Y = check.finite_array(target, "y", ndim=1)[:, None]
        variance = float(Y.var()) or 1.0

        def closeness(values: FloatArray, rows: IntArray) -> FloatArray:
            return np.asarray(1 - (values[:, 0] - Y[rows, 0]) ** 2 / variance)

        self._fit(source, Y, np.zeros(len(Y), dtype=np.intp), groups, closeness)
        self.coef_, self.intercept_ = self._values.coef[:, 0], float(self._values.intercept[0])
        return self

    def predict(self, X: Any, mask: Any = None) -> FloatArray:
        """Predicted targets."""
        return np.asarray(self._predict_values(X, mask)[:, 0])

    def score(self, X: Any, y: Any, mask: Any = None, sample_weight: Any = None) -> float:
        """Coefficient of determination."""
        return float(r2_score(y, self.predict(X, mask=mask), sample_weight=sample_weight))
