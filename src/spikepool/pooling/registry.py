"""The registry of poolings, which says what is compared by default, and the fixed rules that come with the package.

A pooling is registered once and is then known to the estimators, the command line, the sentences of a report and the
documentation. A fixed rule needs a function of tokens; a learned one a function of the learning rows::

    from spikepool.pooling.registry import register_rule

    def middle(x, observed):                      # tokens (b, T, d), observed (b, T) -> features (b, F)
        ...

    register_rule("middle", "the token in the middle", middle, candidate=True)

Fixed rules give features that are the same function of the tokens whatever the labels are. One of them is the mean (d)
with the upper triangle of Cov_n = (1/L_n) Σ_t z_nt z_nt' − m_n m_n', z the tokens in their p leading components:
p(p + 1)/2 more features. A softmax at small scores pools the mean plus Cov_n q, so that a linear model on these
features contains every query to first order, without learning one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from spikepool.errors import InvalidInputError
from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.token_space import CONCAT, WEIGHT_RULES, TokenSpace, rule_weights

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


class Part(NamedTuple):
    """A term of a prediction: a weight, and a linear model on the features of a pooling in a layer."""

    weight: float
    layer: Any
    pooling: Pooling
    model: Any  # a RidgeFit or LogisticFit


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
        Whether ``pooling="auto"`` compares it.
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
    return register(PoolingSpec(name, description, lambda *_: pooling, candidate=candidate, cost=cost))


def registered() -> dict[str, PoolingSpec]:
    """What has been registered so far; :mod:`spikepool.pooling.selection` adds what comes with the package."""
    return dict(_REGISTRY)


def head_names(heads: tuple[str, ...], d: int) -> list[str]:
    """Names of d features for each head; of one head, ``pooled0``, ``pooled1``, ..."""
    if len(heads) == 1:
        return [f"pooled{i}" for i in range(d)]
    return [f"{head}_{i}" for head in heads for i in range(d)]


@saved
@dataclass(frozen=True)
class RulePooling:
    """Weighted sums with given weights: mean, last, first, ramp (w_t ~ t); or concat, the first three side by side."""

    name: str

    @property
    def heads(self) -> tuple[str, ...]:
        """The rules behind the features."""
        return CONCAT if self.name == "concat" else (self.name,)

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, heads, T), whatever the tokens are."""
        return np.stack([rule_weights(rule, observed) for rule in self.heads], axis=1)

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, heads·d), head by head."""
        return np.asarray(np.matmul(self.weights(x, observed), x).reshape(len(x), -1))

    def feature_names(self, d: int) -> list[str]:
        """Rule by rule."""
        return head_names(self.heads, d)


@saved
@dataclass(frozen=True)
class MaxPooling:
    """The largest value of each feature over the observed tokens; zeros for a row without any."""

    name: str = "max"

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Share of the features that each token supplies, (b, 1, T)."""
        winner = np.where(observed[..., None], x, -np.inf).argmax(axis=1)
        count = (winner[:, None, :] == np.arange(x.shape[1])[:, None]).mean(axis=2)
        return np.asarray(np.where(observed, count, 0.0)[:, None, :])

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, d)."""
        top = np.max(x, axis=1, where=observed[..., None], initial=-np.inf)
        return np.where(np.isfinite(top), top, 0.0)

    def feature_names(self, d: int) -> list[str]:
        """One for each feature of a token."""
        return head_names(("max",), d)


@saved
@dataclass(frozen=True, eq=False)
class SpreadPooling:
    """The mean of the usable tokens and the standard deviation of each feature over them."""

    space: TokenSpace
    name: str = "std"

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Equal weights of the usable tokens, (b, 1, T)."""
        return rule_weights("mean", self.space.usable(x, observed))[:, None]

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, 2d)."""
        w = self.weights(x, observed)
        mean = np.matmul(w, x - self.space.mean)[:, 0]
        square = np.matmul(w, (x - self.space.mean) ** 2)[:, 0]
        return np.concatenate([mean + self.space.mean, np.sqrt(np.maximum(square - mean**2, 0.0))], axis=1)

    def feature_names(self, d: int) -> list[str]:
        """Means, then deviations."""
        return head_names(("mean", "std"), d)


_DESCRIPTIONS = {
    "mean": "mean of the tokens",
    "last": "last token",
    "first": "first token",
    "ramp": "mean with weights that grow with the position (w_t ~ t)",
    "concat": "mean, last and first token side by side",
}


def _fixed(name: str) -> Any:
    return lambda *_: RulePooling(name)


for _name in (*WEIGHT_RULES, "concat"):
    register(PoolingSpec(_name, _DESCRIPTIONS[_name], _fixed(_name), cost=5.0 if _name == "concat" else 1.0))
register(PoolingSpec("max", "largest value of each feature", lambda *_: MaxPooling(), candidate=False))
register(
    PoolingSpec(
        "std", "mean and standard deviation of each feature", lambda rows, *_: SpreadPooling(rows.space), cost=2.0
    )
)


def token_covariances(z: FloatArray, usable: BoolArray) -> FloatArray:
    """Upper triangles (n, p(p+1)/2) of the covariances of tokens z (n, T, p) within each sequence."""
    w = rule_weights("mean", usable).astype(z.dtype)
    mean = np.matmul(w[:, None], z)[:, 0]
    second = np.matmul((z * w[..., None]).transpose(0, 2, 1), z)
    second -= mean[:, :, None] * mean[:, None, :]
    i, j = np.triu_indices(z.shape[2])
    return np.asarray(second[:, i, j])


@saved
@dataclass(frozen=True, eq=False)
class CovariancePooling:
    """Mean of the usable tokens, and the covariances of their components."""

    space: TokenSpace
    name: str = "covariance"

    def weights(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """Equal weights of the usable tokens, (b, 1, T)."""
        return rule_weights("mean", self.space.usable(x, observed))[:, None]

    def features(self, x: FloatArray, observed: BoolArray) -> FloatArray:
        """(b, d + p(p+1)/2)."""
        usable = self.space.usable(x, observed)
        mean = self.space.pooled(rule_weights("mean", usable)[:, None], x, observed, usable)
        return np.concatenate([mean, token_covariances(self.space.coordinates(x, usable), usable)], axis=1)

    def feature_names(self, d: int) -> list[str]:
        """Means, then pairs of components."""
        pairs = zip(*np.triu_indices(self.space.directions.shape[1]), strict=True)
        return [*head_names(("mean", ""), d)[:d], *(f"cov_{i}_{j}" for i, j in pairs)]


register(
    PoolingSpec(
        "covariance",
        "mean, and covariances of the tokens within a sequence",
        lambda rows, *_: CovariancePooling(rows.space),
        cost=4.0,
    )
)
