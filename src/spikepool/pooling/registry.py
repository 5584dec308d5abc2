"""The registry of poolings: what a pooling is, and which ones the estimators know.

A pooling is registered once and is then known to the estimators, the command line, the sentences of a report and the
documentation. A fixed rule needs a function of tokens; a learned one a function of the learning rows::

    from spikepool.pooling.registry import register_rule

    def middle(x, observed):                      # tokens (b, T, d), observed (b, T) -> features (b, F)
        ...

    register_rule("middle", "the token in the middle", middle)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import BoolArray, FloatArray

Kept = TypeVar("Kept")


class Pooling(Protocol):
    """A fitted way to turn sequences into features, whatever their length."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Features (b, F) of tokens (b, T, d) that are zero where not `observed`."""

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Weight of every token in every head, (b, heads, T), of unit sum over the observed tokens of a row."""

    def feature_names(self, d: int) -> list[str]:
        """Names of the features for tokens of `d` features."""


@dataclass(frozen=True)
class PoolingSpec:
    """An entry of the registry.

    Attributes
    ----------
    name, description : str
        The name that ``pooling=`` takes, and one line.
    fit : callable
        ``fit(rows, Y, weights, train, options)`` gives the :class:`Pooling` learned from the rows `train`.
    learned : bool
        Whether `fit` looks at the targets, so that every fold needs a separate fit.
    candidate : bool
        Whether ``pooling="auto"`` compares it where there is one layer.
    in_layers : bool
        Whether ``pooling="auto"`` compares it in the middle layers where there are several.
    cost : float
        Time of a fit relative to that of the mean, for readers.
    keeps_positions : bool
        Whether features are of single positions, as many as the sequence is long, and not of the sequence as a whole.
    """

    name: str
    description: str
    fit: Callable[..., Any]
    learned: bool = False
    candidate: bool = True
    in_layers: bool = False
    cost: float = 1.0
    keeps_positions: bool = False


_REGISTRY: dict[str, PoolingSpec] = {}
# Classes that a saved model may hold, by name; nothing else is made on loading.
SAVED: dict[str, type] = {}


def saved(cls: type[Kept]) -> type[Kept]:
    """Let models that hold this dataclass of numbers, text and arrays be saved."""
    SAVED[cls.__name__] = cls
    return cls


def register(spec: PoolingSpec) -> PoolingSpec:
    """Add a pooling; a name can be registered once."""
    if spec.name in _REGISTRY or spec.name == "auto":
        raise InvalidInputError("a pooling of this name is registered already", spec.name, "Choose another name")
    _REGISTRY[spec.name] = spec
    return spec


def unregister(name: str) -> None:
    """Remove a pooling that was registered before."""
    _REGISTRY.pop(name, None)


@dataclass(frozen=True, eq=False)
class FunctionPooling:
    """A fixed rule given as a function of tokens."""

    name: str
    function: Callable[[FloatArray, BoolArray], FloatArray]
    graph: Callable[[Any, Any], str] | None = None

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """What the function gives."""
        return np.asarray(self.function(x, observed), dtype=np.float64)

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Equal weights: a function does not say what it looks at."""
        return np.asarray((observed / np.maximum(observed.sum(axis=1, keepdims=True), 1))[:, None])

    def feature_names(self, d: int) -> list[str]:
        """Numbered."""
        width = self.features(np.zeros((1, 1, d)), np.ones((1, 1), dtype=bool)).shape[1]
        return [f"{self.name}_{i}" for i in range(width)]


def register_rule(
    name: str,
    description: str,
    function: Callable[[FloatArray, BoolArray], FloatArray],
    *,
    candidate: bool = True,
    cost: float = 1.0,
    graph: Callable[[Any, Any], str] | None = None,
) -> PoolingSpec:
    """Register a fixed rule: ``function(x, observed)`` gives features (b, F) of tokens (b, T, d).

    With ``graph(g, tokens)``, which adds the same features to an ONNX graph (:mod:`spikepool.pooling.onnx_export`),
    models with it can be exported.
    """
    pooling = FunctionPooling(name, function, graph)
    return register(
        PoolingSpec(name, description, lambda *_: pooling, candidate=candidate, in_layers=candidate, cost=cost)
    )


def registered() -> dict[str, PoolingSpec]:
    """What has been registered so far; :mod:`spikepool.pooling.catalogue` adds what comes with the package."""
    return dict(_REGISTRY)


def head_names(heads: tuple[str, ...], d: int) -> list[str]:
    """Names of d features for each head; of one head, ``pooled0``, ``pooled1``, ..."""
    if len(heads) == 1:
        return [f"pooled{i}" for i in range(d)]
    return [f"{head}_{i}" for head in heads for i in range(d)]
