"""Attributes of a fitted pooling, read from its one fitted state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.pooling.fitted import Candidate
from spikepool.pooling.learned_report import FittedReport
from spikepool.pooling.query import QueryPooling


def fitted_field(name: str, meaning: str) -> Any:
    """A read-only view of a field of ``fitted_``."""
    return property(lambda self: getattr(self.fitted_, name), doc=meaning)


class FittedAttributes(FittedReport):
    """Read-only views of ``fitted_``."""

    layers_: tuple[Any, ...] = fitted_field("layers", "Layers that must be passed.")
    prediction_: str = fitted_field("prediction", "What predicts.")
    candidates_: tuple[Candidate, ...] = fitted_field("candidates", "What was compared.")
    reason_: str = fitted_field("reason", 'Why nothing was compared, or "compared".')
    improvement_: float = fitted_field("gain", "Score over that of the mean.")
    improvement_error_: float = fitted_field("error", "Its standard error.")
    head_weights_: FloatArray = fitted_field("head_weights", "Weight of each position in each head.")
    sink_: bool = fitted_field("sink", "Whether the first token is an attention sink.")
    sink_ratio_: float = fitted_field("sink_ratio", "Median norm of the first token over that of the others.")
    n_positions_: int = fitted_field("positions", "Positions of the fit.")

    def keep_layers(self) -> None:
        """Forget the layers that do not predict: they need not be passed any more."""
        used = {part.layer for part in (*self.fitted_.parts, self.fitted_.leading)}
        self.fitted_ = replace(self.fitted_, layers=tuple(layer for layer in self.fitted_.layers if layer in used))

    @property
    def decision_(self) -> str:
        """Name of the pooling of `transform`."""
        return self.fitted_.leading.pooling.name

    @property
    def layer_(self) -> Any:
        """Layer of `transform`; None where X has one."""
        return self.fitted_.leading.layer

    @property
    def weights_(self) -> FloatArray:
        """Weight of each position."""
        heads = self.fitted_.head_weights
        attention = isinstance(self.fitted_.leading.pooling, QueryPooling)
        return np.asarray(heads[:-1].mean(axis=0) if attention else heads.mean(axis=0))

    @property
    def queries_(self) -> FloatArray:
        """Learned queries, in the space of tokens."""
        return self._attention().full_queries

    @property
    def components_(self) -> FloatArray:
        """Directions in which queries were learned."""
        return self._attention().space.directions

    @property
    def token_mean_(self) -> FloatArray:
        """Mean token of the fit."""
        return self._attention().space.mean

    def _attention(self) -> QueryPooling:
        pooling = self.fitted_.leading.pooling
        if not isinstance(pooling, QueryPooling):
            raise AttributeError(f"{self.decision_} pooling has no queries")
        return pooling

    @property
    def n_features_out_(self) -> int:
        """Features of `transform`."""
        return len(self.fitted_.leading.pooling.feature_names(self.fitted_.d))
