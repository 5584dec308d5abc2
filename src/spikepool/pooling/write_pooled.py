"""Pooled features of any number of sequences, from store to store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spikepool.data.map_merge import map_chunks
from spikepool.data.row_map import ChunkFunction
from spikepool.data.writing import check_output
from spikepool.kit.arrays import FloatArray


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
    """Pool `X` with a fitted estimator and write the features to Zarr or Parquet, in one pass over the chunks.

    Chunks are pooled wherever Dask runs; the features, T times fewer numbers, pass through this process in order.
    The output is there whole or not at all: an error leaves nothing, an interrupted process nothing that opens.

    Parameters
    ----------
    estimator : SpectralPooling, LearnedPoolingClassifier or LearnedPoolingRegressor
        Fitted.
    X, mask : array, Dask or Zarr array, path or URL
        As for its ``transform``.
    out : path or URL
        Ends in ``.zarr`` (an (n, d) array) or ``.parquet`` (a column ``features`` of lists).
    dtype : {"float16", "float32", "float64"}
        Of the written numbers.
    overwrite : bool
        Replace what is there.
    progress : bool, optional
        Show a progress bar over chunks; by default only for long work on a terminal or in a notebook.
    """
    source = estimator._source(X, mask)
    location, write = check_output(out, dtype, overwrite=overwrite)
    task = ChunkFunction(source.form, estimator._pool_block)

    def pooled() -> Iterator[FloatArray]:
        for _, rows in map_chunks(task, source.sources, label="pooling", show=progress):
            yield rows

    write(location, pooled(), source.n, int(estimator.n_features_out_), dtype)
