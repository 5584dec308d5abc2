"""The ridge classifier itself, beside its predicted accuracy: an estimator, and a simulation of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.kit.threads import task_threads
from spikepool.simulation.ridge_undrawn import held_out_scores
from spikepool.simulation.simulate import takes_drawn_table
from spikepool.simulation.undrawn import UndrawnSource
from spikepool.world.labels import flip_probability, flipped, label_positions, labels_of
from spikepool.world.sampling import Sample, draw_sample
from spikepool.world.seeds import seed_sequence
from spikepool.world.sequences import SequenceWorld, checked_model

# Token positions from which threads are worth their overhead.
_THREADED_SIZE = 1 << 21


class RidgeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two-class least squares with ridge penalty and no intercept, the classifier of the paper's experiment.

    ``beta = (C C' + ridge·n I)⁻¹ C y`` with the pooled columns C and labels y = ±1; a sequence is classified by the
    sign of beta'c.

    Parameters
    ----------
    ridge : float
        Penalty, above 0.
    weights : array_like of shape (T,), optional
        Pooling weights for token input (n, T, d); the mean when not given. Features given as (n, d) are taken as
        already pooled.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; the second counts as +1.
    coef_ : ndarray of shape (d,)
        beta.
    n_features_in_ : int
        d.
    """

    def __init__(self, ridge: float = 1.0, weights: ArrayLike | None = None) -> None:
        self.ridge = ridge
        self.weights = weights

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _pool(self, X: Any, *, reset: bool) -> FloatArray:
        """Pooled features (n, d) of token input (n, T, d), or of features given as (n, d)."""
        if np.asarray(X).ndim != 3:
            if self.weights is not None:
                raise ShapeError("with weights, X must be tokens of shape (n, T, d)", np.asarray(X), "Pass 3 axes")
            return np.asarray(validate_data(self, X, reset=reset, dtype=np.float64))
        tokens = check_array(X, allow_nd=True, dtype=np.float64)
        T = tokens.shape[1]
        w = np.full(T, 1 / T) if self.weights is None else check.weight_vector(self.weights, T)
        if reset:
            self.n_features_in_ = tokens.shape[2]
        elif tokens.shape[2] != self.n_features_in_:
            raise ShapeError(f"X must have {self.n_features_in_} features", tokens, "Use the features of the fit")
        return np.asarray(np.einsum("t,ntd->nd", w, tokens))

    def fit(self, X: ArrayLike, y: ArrayLike) -> RidgeClassifier:
        """Fit on tokens (n, T, d) or pooled features (n, d) with labels of two classes."""
        ridge = check.ridge_penalty(self.ridge)
        C = self._pool(X, reset=True)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(C, labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            noun = "class" if len(self.classes_) == 1 else "classes"
            raise InvalidInputError(
                f"Only binary classification is supported. y has {len(self.classes_)} {noun}",
                self.classes_,
                "Pass labels of two kinds, or wrap in OneVsRestClassifier",
            )
        signs = 2.0 * codes - 1.0
        n, d = C.shape
        if d <= n:
            self.coef_ = np.linalg.solve(C.T @ C + ridge * n * np.eye(d), C.T @ signs)
        else:
            self.coef_ = C.T @ np.linalg.solve(C @ C.T + ridge * n * np.eye(n), signs)
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores beta'c; positive for the second class."""
        check_is_fitted(self)
        return np.asarray(self._pool(X, reset=False) @ self.coef_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels by the sign of the score."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])


def simulate_ridge(
    model: SequenceWorld,
    w: ArrayLike,
    ridge: float | ArrayLike = 1.0,
    n_train: int | None = None,
    *,
    n_test: int = 4000,
    trials: int = 20,
    label: int | ArrayLike = 0,
    label_noise: float = 0.0,
    rng: Any = None,
    table_drawn: bool | None = None,
) -> FloatArray:
    """Test accuracies of the classifier over independent draws of table, training and test sequences.

    Parameters
    ----------
    model, w, ridge, n_train, label, label_noise
        As in :func:`spikepool.theory.ridge.ridge_accuracy`; several values of `ridge` share each draw.
    n_test : int
        Fresh test sequences of each draw, from the same table.
    trials : int
        Number of draws.
    rng : optional
        Seed.
    table_drawn : bool, optional
        Whether the table is drawn; by default not where its noise is Gaussian. The law of the results is the same,
        their numbers are others.

    Returns
    -------
    ndarray of shape (trials,) or (trials, number of ridges)
    """
    checked_model(model)
    w = check.weight_vector(w, model.T)
    ridges = check.finite_array(ridge, "ridge")
    for value in ridges.ravel():
        check.ridge_penalty(float(value))
    if ridges.ndim > 1:
        raise ShapeError("ridge must be a number or a list of numbers", ridges, "Flatten it")
    n_train = model.N if n_train is None else check.size(n_train, "n_train")
    n_test = check.size(n_test, "n_test")
    positions = label_positions(label, model.T)
    trials = check.size(trials, "trials")
    flips = flip_probability(label_noise)
    world = model.replace(N=n_train + n_test)
    source = None if takes_drawn_table(model, [w], table_drawn) else UndrawnSource(world)
    generator = check.generator(rng)
    require_memory(8 * trials * ridges.size, f"{trials:,} trials", "Ask for fewer trials")
    result = np.empty((trials, ridges.size))
    with Progress(trials, "ridge classifier") as progress:
        for trial in range(trials):
            if source is None:
                sample = draw_sample(world, rng=generator)
                y = labels_of(sample.latent, positions)
                trained = flipped(y[:n_train], flips, generator)
                scores = _drawn_scores(sample, w, trained, ridges.ravel())
            else:
                with task_threads(large=world.N * world.T > _THREADED_SIZE) as run:
                    draw = source.draw(seed_sequence(generator), run=run)
                    y = labels_of(draw.latent, positions)
                    trained = flipped(y[:n_train], flips, generator)
                    found = held_out_scores(draw, w, trained, ridges.ravel())
                    scores = _drawn_scores(draw.sample(), w, trained, ridges.ravel()) if found is None else found
            result[trial] = np.mean(scores * y[n_train:] > 0, axis=1)
            progress.advance()
    return result[:, 0] if ridges.ndim == 0 else result


def _drawn_scores(sample: Sample, w: FloatArray, y: FloatArray, ridges: FloatArray) -> FloatArray:
    """Scores (ridges, n_test) of the sequences that follow the ``len(y)`` training ones, by a full decomposition."""
    C, n = sample.pooled(w), len(y)
    train, test = C[:, :n], C[:, n:]
    values, vectors = np.linalg.eigh(train @ train.T / n)
    target = vectors.T @ (train @ y) / n
    # one decomposition serves every ridge
    beta = vectors @ (target[:, None] / (values[:, None] + ridges))
    return np.asarray((test.T @ beta).T)
