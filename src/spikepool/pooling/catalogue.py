"""Every pooling by name: those of the package, which are registered on import, and those of others."""

from __future__ import annotations

from spikepool.errors import InvalidInputError
from spikepool.pooling import query, rules, sequence  # each registers what it has
from spikepool.pooling.registry import PoolingSpec, registered

# Other names that ``pooling=`` accepts.
ALSO = {"queries": "attention"}

__all__ = ["ALSO", "candidate_names", "pooling_name", "pooling_names", "poolings", "query", "rules", "sequence"]


def poolings() -> dict[str, PoolingSpec]:
    """Every registered pooling by name: the mean, the others that are compared, the rest; cheap ones first."""

    def rank(item: tuple[str, PoolingSpec]) -> tuple[bool, bool, float]:
        # not the order in which modules happened to be imported
        return item[0] != "mean", not item[1].candidate, item[1].cost

    return dict(sorted(registered().items(), key=rank))


def pooling_names() -> tuple[str, ...]:
    """Values that ``pooling=`` accepts."""
    return ("auto", *poolings(), *ALSO)


def pooling_name(given: object) -> str:
    """The name under which a pooling is registered, or "auto"."""
    if not isinstance(given, str) or given not in pooling_names():
        raise InvalidInputError("pooling is not known", given, f"Choose one of {', '.join(pooling_names())}")
    return ALSO.get(given, given)


def candidate_names() -> tuple[str, ...]:
    """Poolings that ``pooling="auto"`` compares in one layer, the mean first."""
    return tuple(name for name, spec in poolings().items() if spec.candidate)
