"""Attributes of a fitted pooling, read from its one fitted state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spikepool.kit.arrays import FloatArray
from spikepool.pooling.fitted import Candidate
from spikepool.pooling.learned_report import FittedReport
from spikepool.pooling.query import QueryPooling


class FittedAttributes(FittedReport):
    """Read-only views of ``fitted_``."""

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
    def layers_(self) -> tuple[Any, ...]:
        """Layers that must be passed."""
        return self.fitted_.layers

    @property
    def prediction_(self) -> str:
        """What predicts."""
        return self.fitted_.prediction

    @property
    def candidates_(self) -> tuple[Candidate, ...]:
        """What was compared."""
        return self.fitted_.candidates

    @property
    def reason_(self) -> str:
        """Why nothing was compared, or "compared"."""
        return self.fitted_.reason

    @property
    def improvement_(self) -> float:
        """Score over that of the mean."""
        return self.fitted_.gain

    @property
    def improvement_error_(self) -> float:
        """Its standard error."""
        return self.fitted_.error

    @property
    def head_weights_(self) -> FloatArray:
        """Weight of each position in each head."""
        return self.fitted_.head_weights

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
    def sink_(self) -> bool:
        """Whether the first token is an attention sink."""
        return self.fitted_.sink

    @property
    def sink_ratio_(self) -> float:
        """Median norm of the first token over that of the others."""
        return self.fitted_.sink_ratio

    @property
    def n_positions_(self) -> int:
        """Positions of the fit."""
        return self.fitted_.positions

    @property
    def n_features_out_(self) -> int:
        """Features of `transform`."""
        return len(self.fitted_.leading.pooling.feature_names(self.fitted_.d))
