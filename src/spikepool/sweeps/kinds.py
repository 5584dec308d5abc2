"""The models that sweeps know."""

from __future__ import annotations

from typing import Any

from spikepool.errors import InvalidInputError
from spikepool.model import ClassModel, QueryModel, SequenceModel
from spikepool.sweeps.class_kind import ClassKind
from spikepool.sweeps.kind import Kind
from spikepool.sweeps.query_kind import QueryKind
from spikepool.sweeps.sequence_kind import SequenceKind

Model = SequenceModel | ClassModel | QueryModel

KINDS: dict[str, Kind] = {kind.name: kind for kind in (SequenceKind(), ClassKind(), QueryKind())}


def kind_of(model: Any) -> Kind:
    """The kind of a model."""
    for kind in KINDS.values():
        if isinstance(model, kind.model):
            return kind
    raise InvalidInputError("model must be a SequenceModel, ClassModel or QueryModel", model, "Build one first")
