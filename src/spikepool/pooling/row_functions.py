"""What fitted poolings do to a block of rows: features, predicted values, weights; sent to workers as they are.

Pooled features of any number of sequences, from store to store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.estimator_input import refuse_empty_rows
from spikepool.data.map_merge import ChunkFunction, map_chunks
from spikepool.data.tokens import Block
from spikepool.data.writing import check_output
from spikepool.kit.arrays import BoolArray, FloatArray
from spikepool.pooling.registry import FunctionPooling, Part, Pooling
from spikepool.pooling.selection import poolings
from spikepool.pooling.sequence import SequencePooling


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Tokens (n, T, d) of a few rows by layer, finite and zero where not observed: they are not checked again."""

    tokens: dict[Any, FloatArray]
    observed: BoolArray

    def block(self, layer: Any) -> Block:
        """Tokens of a layer, and the mask."""
        return self.tokens[layer].astype(np.float64), self.observed


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features of blocks of rows; small, and sent to workers in place of an estimator."""

    pooling: Pooling
    empty: str

    @property
    def trims(self) -> bool:
        """Whether padding may be cut off: a function of others may look at it."""
        return not isinstance(self.pooling, FunctionPooling)

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, F) for a block whose first row is number `start`; zeros for a row without tokens."""
        x, observed = block
        refuse_empty_rows(observed, start, self.empty)
        features = self.pooling.features(x, observed)
        nothing = ~observed.any(axis=1)
        if nothing.any():
            features[nothing] = 0.0
        return features


@dataclass(frozen=True, eq=False)
class ValueRows:
    """The sum of what ridges or logistic regressions on several poolings predict, each with its weight."""

    parts: tuple[Part, ...]
    empty: str

    @property
    def trims(self) -> bool:
        """Whether padding may be cut off."""
        return all(FeatureRows(part.pooling, self.empty).trims for part in self.parts)

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, k) for a block whose first row is number `start`."""
        features = [
            part.weight * part.model.predict(FeatureRows(part.pooling, self.empty)(block, start)) for part in self.parts
        ]
        return np.asarray(sum(features[1:], features[0]))


@dataclass(frozen=True, eq=False)
class WeightRows:
    """Weights of the tokens, flattened."""

    pooling: Pooling
    importance: FloatArray | None = None

    def __call__(self, block: Block, start: int) -> FloatArray:
        """(b, heads·T)."""
        if self.importance is None or not isinstance(self.pooling, SequencePooling):
            return self.pooling.weights(*block).reshape(len(block[0]), -1)
        return self.pooling.token_importance(self.importance, *block)


def write_pooled(
    estimator: Any,
    X: Any,
    out: str | Path,
    mask: Any = None,
    *,
    dtype: str = "float32",
    overwrite: bool = False,
    progress: bool | None = None,
) -> None:
    """Pool `X` with a fitted estimator and write the features to npy, Zarr or Parquet, in one pass over the chunks.

    Chunks are pooled wherever Dask runs; the features, T times fewer numbers, pass through this process in order.
    The output is complete or not there at all: after an error or an interruption an existing target is unchanged.

    Parameters
    ----------
    estimator : SpectralPooling, LearnedPoolingClassifier or LearnedPoolingRegressor
        Fitted.
    X, mask : array, Dask or Zarr array, path or URL
        As for its ``transform``.
    out : path or URL
        Ends in ``.npy``, ``.zarr`` (an (n, d) array) or ``.parquet`` (a column ``features`` of lists). An output that
        is an input, or lies above or inside one, is refused.
    dtype : {"float16", "float32", "float64"}
        Of the written numbers.
    overwrite : bool
        Replace an existing file of the same format, or Zarr array. Other folders are never replaced.
    progress : bool, optional
        Show a progress bar over chunks; by default only for long work on a terminal or in a notebook.
    """
    output = check_output(out, dtype, overwrite=overwrite, inputs=(X, mask))
    source = estimator._source(X, mask)
    task = ChunkFunction(source.form, estimator._pool_block)

    def pooled() -> Iterator[FloatArray]:
        for _, rows in map_chunks(task, source.sources, label="pooling", show=progress):
            yield rows

    learned = getattr(poolings().get(estimator.decision_), "learned", False)
    output.write(pooled(), source.n, int(estimator.n_features_out_), estimator.decision_ if learned else None)
