"""Every pooling by name: those of the package, which are registered here, and those of others."""

from __future__ import annotations

from spikepool.pooling import covariances, query, rules, sequence  # noqa: F401  each registers its poolings
from spikepool.pooling.registry import PoolingSpec, registered


def poolings() -> dict[str, PoolingSpec]:
    """Every registered pooling by name: the mean, the others that are compared, the rest; cheap ones first."""

    def rank(item: tuple[str, PoolingSpec]) -> tuple[bool, bool, float]:
        # not the order in which modules happened to be imported
        return item[0] != "mean", not item[1].candidate, item[1].cost

    return dict(sorted(registered().items(), key=rank))


def pooling_names() -> tuple[str, ...]:
    """Values that ``pooling=`` accepts."""
    return ("auto", *poolings())


def candidate_names() -> tuple[str, ...]:
    """Poolings that ``pooling="auto"`` compares, the mean first."""
    return tuple(name for name, spec in poolings().items() if spec.candidate)
