"""What a sweep needs of a model: its fields, the numbers of its prediction, and how a cell is computed.

A :class:`Kind` is all that tells sweeps of different models apart. Cells, seeds, stores and schedulers are the same.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from spikepool.kit.arrays import FloatArray

Values = dict[str, NDArray[Any]]

COMMON = {
    "alpha": "signal gain of the weights",
    "kappa": "noise gain of the weights",
    "edge": "right edge of the bulk",
    "predicted_eigenvalue": "largest eigenvalue of S: the top outlier, or the edge",
    "predicted_alignment": "squared cosine of the top eigenvector of S with the signal",
}
SIGNAL = {
    "signal_eigenvalue": "eigenvalue of the signal's outlier; NaN where it is not detectable",
    "signal_alignment": "its squared cosine with u; NaN where it is not detectable",
}
THRESHOLDS = {
    "detectable": "1 where S has an outlier made of the signal, 0 where not",
    "mu_population": "signal strength at which the outlier appears in the population",
    "mu_sample": "signal strength at which the outlier appears in the sample",
}


def describe(error: BaseException) -> str:
    """One line: ``NotRealizableError: ...``."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def common_numbers(prediction: Any) -> dict[str, float]:
    """Numbers that the predictions of sequences and queries share, under their names in a dataset."""
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
