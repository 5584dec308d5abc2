"""Every pooling by name: those of the package, which are registered here, and those of others."""

from __future__ import annotations

from spikepool.pooling import covariances, query, rules, sequence  # noqa: F401  each registers its poolings
from spikepool.pooling.registry import PoolingSpec, registered


def poolings() -> dict[str, PoolingSpec]:
    """Every registered pooling by name, those that are compared first."""
    return dict(sorted(registered().items(), key=lambda item: not item[1].candidate))


def pooling_names() -> tuple[str, ...]:
    """Values that ``pooling=`` accepts."""
    return ("auto", *poolings())


def candidate_names() -> tuple[str, ...]:
    """Poolings that ``pooling="auto"`` compares, the mean first."""
    return tuple(name for name, spec in poolings().items() if spec.candidate)
