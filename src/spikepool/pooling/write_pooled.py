"""Pooled features of any number of sequences, from store to store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spikepool.data.map_merge import map_chunks
from spikepool.data.row_map import ChunkFunction
from spikepool.data.writing import check_output
from spikepool.kit.arrays import FloatArray
from spikepool.pooling.catalogue import poolings


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
