"""What a sweep needs of a model: its fields, the numbers of its prediction, and how a cell is computed.

A :class:`Kind` is all that tells sweeps of different models apart. Cells, seeds, stores and schedulers are the same.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import FloatArray
from spikepool.model import ClassModel, Prediction, QueryModel, SequenceModel
from spikepool.simulation.drawn import maximal_rank, usual_pairs
from spikepool.simulation.simulate import simulate_draw, takes_drawn_table
from spikepool.sweeps.seeds import cell_key, prediction_seed, trial_seed
from spikepool.theory.closed_form import concentration, is_plain, predict_gains, predict_strengths
from spikepool.theory.given_tokens import prepare_tokens
from spikepool.world.tokens import draw_tokens

Values = dict[str, NDArray[Any]]
Model = SequenceModel | ClassModel | QueryModel

_COMMON = {
    "alpha": "signal gain of the weights",
    "kappa": "noise gain of the weights",
    "edge": "right edge of the bulk",
    "predicted_eigenvalue": "largest eigenvalue of S: the top outlier, or the edge",
    "predicted_alignment": "squared cosine of the top eigenvector of S with the signal",
}
_SIGNAL = {
    "signal_eigenvalue": "eigenvalue of the signal's outlier; NaN where it is not detectable",
    "signal_alignment": "its squared cosine with u; NaN where it is not detectable",
}
_THRESHOLDS = {
    "detectable": "1 where S has an outlier made of the signal, 0 where not",
    "mu_population": "signal strength at which the outlier appears in the population",
    "mu_sample": "signal strength at which the outlier appears in the sample",
}


def describe(error: BaseException) -> str:
    """One line: ``NotRealizableError: ...``."""
    return " ".join(f"{type(error).__name__}: {error}".split())


class Asked(Protocol):
    """What a cell needs of :class:`spikepool.sweeps.SweepSpec`."""

    @property
    def weights(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def trials(self) -> int: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def exact(self) -> bool: ...  # noqa: D102
    @property
    def table_drawn(self) -> bool | None: ...  # noqa: D102
    @property
    def models(self) -> tuple[Any, ...]: ...  # noqa: D102
    @property
    def mus(self) -> tuple[float, ...]: ...  # noqa: D102
    @property
    def pairs(self) -> int: ...  # noqa: D102
    def weight_vector(self, name: str, place: int) -> FloatArray: ...  # noqa: D102


class Kind(ABC):
    """One class of models.

    Attributes
    ----------
    model : type
        The class.
    arrays : tuple of str
        Fields that hold arrays; they vary over a mapping from label to array.
    inside : tuple of str
        Dimensions that one cell holds whole; all others tell cells apart.
    predicted : mapping of str to str
        Numbers of a prediction and what they are.
    options : tuple of str
        Which of `weights`, `exact` and `table_drawn` a sweep takes.
    """

    model: ClassVar[type[Any]]
    arrays: ClassVar[tuple[str, ...]]
    inside: ClassVar[tuple[str, ...]]
    predicted: ClassVar[Mapping[str, str]]
    options: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.model.__name__

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of the model."""
        return tuple(field.name for field in dataclasses.fields(self.model))

    @abstractmethod
    def usual_pairs(self, model: Any) -> int:
        """Number of eigenpairs kept by default."""

    @abstractmethod
    def most_pairs(self, model: Any) -> int:
        """Largest number of eigenpairs."""

    def route(self, models: tuple[Any, ...], table_drawn: bool | None) -> bool | None:
        """Whether tables are drawn; None when some are and some are not."""
        return table_drawn

    @abstractmethod
    def predict(self, spec: Asked, place: int, values: Values, caution: NDArray[Any], errors: NDArray[Any]) -> None:
        """Fill in the predictions of combination `place`; what fails keeps NaN and its message."""

    @abstractmethod
    def simulate(self, spec: Asked, place: int, trial: int, values: Values, errors: NDArray[Any]) -> None:
        """Fill in the simulations of a cell of combination `place`; what fails keeps NaN and its message."""


class SequenceKind(Kind):
    """A cell has all weights and all mu of one combination and trial: they share one draw."""

    model = SequenceModel
    arrays = ("R", "frequencies", "covariance", "direction", "token_weights")
    inside = ("weights", "mu", "rank")
    predicted: ClassVar = {
        **_COMMON,
        **_SIGNAL,
        "vocabulary_eigenvalue": "eigenvalue of the vocabulary mean's outlier; NaN where there is none",
        **_THRESHOLDS,
    }
    options = ("weights", "exact", "table_drawn")

    def usual_pairs(self, model: SequenceModel) -> int:
        """One where S is centred, else two."""
        return usual_pairs(model)

    def most_pairs(self, model: SequenceModel) -> int:
        """The largest rank of S."""
        return maximal_rank(model)

    def route(self, models: tuple[SequenceModel, ...], table_drawn: bool | None) -> bool | None:
        """Drawn where the noise is not Gaussian, or where asked for."""
        routes = {takes_drawn_table(model, (), table_drawn) for model in models}
        return routes.pop() if len(routes) == 1 else None

    def predict(self, spec: Asked, place: int, values: Values, caution: NDArray[Any], errors: NDArray[Any]) -> None:
        """Every weighting is prepared once and asked at all mu; exact predictions share one draw of the tokens."""
        model = spec.models[place]
        try:
            prepare = _prepared(spec, model)
        except Exception as err:
            errors[:] = describe(err)
            return
        for i, name in enumerate(spec.weights):
            try:
                predict = prepare(spec.weight_vector(name, place))
            except Exception as err:
                errors[i] = describe(err)
                continue
            for j, mu in enumerate(spec.mus):
                try:
                    prediction = predict(mu)
                except Exception as err:
                    errors[i, j] = describe(err)
                else:
                    for variable, number in _sequence_numbers(prediction).items():
                        values[variable][i, j] = number
                    caution[i, j] = "; ".join(prediction.validity.reasons)

    def simulate(self, spec: Asked, place: int, trial: int, values: Values, errors: NDArray[Any]) -> None:
        """One draw, shared by all weights and mu; each weights fail on their own."""
        model = spec.models[place]
        weights: dict[str, FloatArray] = {}
        places = list(spec.weights)
        for i, name in enumerate(places):
            try:
                weights[name] = spec.weight_vector(name, place)
            except Exception as err:
                errors[i] = describe(err)
        attempts = [weights] if weights else []
        while attempts:
            chosen = attempts.pop(0)
            rows = [places.index(name) for name in chosen]
            try:
                draw = simulate_draw(
                    model,
                    chosen,
                    spec.mus,
                    spec.pairs,
                    rng=trial_seed(spec.seed, cell_key(model), trial),
                    table_drawn=spec.table_drawn,
                )
            except Exception as err:
                if len(chosen) == 1:
                    errors[rows] = describe(err)
                else:  # each by itself, to tell which it was
                    attempts = [{name: w} for name, w in chosen.items()]
            else:
                values["eigenvalues"][rows], values["alignments"][rows] = draw


def _prepared(spec: Asked, model: SequenceModel) -> Callable[[FloatArray], Callable[[float], Prediction]]:
    """From weights to predictions as a function of mu."""
    if spec.exact:
        rng = prediction_seed(spec.seed, cell_key(model))
        drawn = draw_tokens(model, rng)
        return lambda w: prepare_tokens(model, drawn, w, rng=rng).predict

    def closed(w: FloatArray) -> Callable[[float], Prediction]:
        alpha, kappa = model.gains(w)
        if is_plain(model):  # all mu at once
            predictions = predict_strengths(model, alpha, kappa, spec.mus, concentration(w))
            return dict(zip(spec.mus, predictions, strict=True)).__getitem__
        return lambda mu: predict_gains(model.replace(mu=mu), alpha, kappa, concentration(w))

    return closed


def _sequence_numbers(prediction: Prediction) -> dict[str, float]:
    """The numbers of a prediction under the names of ``SequenceKind.predicted``."""
    vocabulary = next((outlier for outlier in prediction.outliers if outlier.kind == "mean"), None)
    return {
        **_common_numbers(prediction),
        "vocabulary_eigenvalue": vocabulary.eigenvalue if vocabulary else np.nan,
    }


def _common_numbers(prediction: Any) -> dict[str, float]:
    signal = prediction.signal
    return {
        "alpha": prediction.alpha,
        "kappa": prediction.kappa,
        "edge": prediction.edge,
        "predicted_eigenvalue": prediction.eigenvalue,
        "predicted_alignment": prediction.alignment,
        "signal_eigenvalue": signal.eigenvalue if signal else np.nan,
        "signal_alignment": signal.alignment if signal else np.nan,
        "detectable": float(prediction.detectable),
        "mu_population": prediction.mu_population,
        "mu_sample": prediction.mu_sample,
    }


class ClassKind(Kind):
    """A cell has all weights and all trials of one combination."""

    model = ClassModel
    arrays = ("R", "means", "shares")
    inside = ("weights", "trial", "rank")
    predicted: ClassVar = {
        **_COMMON,
        "predicted_alignment": "squared length of the top eigenvector's projection on the class differences",
        "outliers": "number of eigenvalues outside the bulk",
    }
    options = ("weights", "table_drawn")

    def usual_pairs(self, model: ClassModel) -> int:
        """One for each class."""
        return model.K

    def most_pairs(self, model: ClassModel) -> int:
        """The dimension."""
        return model.d

    def route(self, models: tuple[ClassModel, ...], table_drawn: bool | None) -> bool | None:
        """Drawn where asked for."""
        return bool(table_drawn)

    def predict(self, spec: Asked, place: int, values: Values, caution: NDArray[Any], errors: NDArray[Any]) -> None:
        """Each weighting by itself."""
        for i, name in enumerate(spec.weights):
            try:
                prediction = spec.models[place].predict(spec.weight_vector(name, place))
            except Exception as err:
                errors[i] = describe(err)
                continue
            top = prediction.outliers[0] if prediction.outliers else None
            numbers = {
                "alpha": prediction.alpha,
                "kappa": prediction.kappa,
                "edge": prediction.edge,
                "predicted_eigenvalue": top.eigenvalue if top else prediction.edge,
                "predicted_alignment": top.alignment if top else 0.0,
                "outliers": float(len(prediction.outliers)),
            }
            for variable, number in numbers.items():
                values[variable][i] = number
            caution[i] = "; ".join(prediction.validity.reasons)

    def simulate(self, spec: Asked, place: int, trial: int, values: Values, errors: NDArray[Any]) -> None:
        """All weights see the same draws."""
        model = spec.models[place]
        rng = np.random.SeedSequence(spec.seed, spawn_key=(cell_key(model),))
        for i, name in enumerate(spec.weights):
            try:
                drawn = model.simulate(
                    spec.weight_vector(name, place), spec.trials, spec.pairs, rng=rng, table_drawn=spec.table_drawn
                )
            except Exception as err:
                errors[i] = describe(err)
            else:
                values["eigenvalues"][i], values["alignments"][i] = drawn.eigenvalues, drawn.alignments


class QueryKind(Kind):
    """A cell has all trials of one combination. The weights of a query are its kernel, which is a field."""

    model = QueryModel
    arrays = ("noise", "prior")
    inside = ("trial", "rank")
    predicted: ClassVar = {
        **_COMMON,
        **_SIGNAL,
        "query_eigenvalue": "eigenvalue along the query, were it not projected out; NaN where there is none",
        **_THRESHOLDS,
    }
    options = ()

    def usual_pairs(self, model: QueryModel) -> int:
        """One: the query is projected out."""
        return 1

    def most_pairs(self, model: QueryModel) -> int:
        """The dimension without the query."""
        return model.d - 1

    def predict(self, spec: Asked, place: int, values: Values, caution: NDArray[Any], errors: NDArray[Any]) -> None:
        """One prediction."""
        try:
            prediction = spec.models[place].predict()
        except Exception as err:
            errors[...] = describe(err)
            return
        query = prediction.query
        numbers = _common_numbers(prediction) | {"query_eigenvalue": query.eigenvalue if query else np.nan}
        for variable, number in numbers.items():
            values[variable][...] = number
        caution[...] = "; ".join(prediction.validity.reasons)

    def simulate(self, spec: Asked, place: int, trial: int, values: Values, errors: NDArray[Any]) -> None:
        """Trial j of combination i draws from the child (i, j) of the seed."""
        rng = np.random.SeedSequence(spec.seed, spawn_key=(place,))
        try:
            drawn = spec.models[place].simulate(spec.trials, spec.pairs, rng=rng)
        except Exception as err:
            errors[:] = describe(err)
        else:
            values["eigenvalues"][:], values["alignments"][:] = drawn.eigenvalues, drawn.alignments


KINDS: dict[str, Kind] = {kind.name: kind for kind in (SequenceKind(), ClassKind(), QueryKind())}


def kind_of(model: Any) -> Kind:
    """The kind of a model."""
    for kind in KINDS.values():
        if isinstance(model, kind.model):
            return kind
    raise InvalidInputError("model must be a SequenceModel, ClassModel or QueryModel", model, "Build one first")
