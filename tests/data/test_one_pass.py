"""Each chunk is loaded once a pass, and the result does not depend on the chunks, their order or the scheduler."""

from __future__ import annotations

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
from chunk_counting import counting_dask, counting_zarr, once_each, sequences

import spikepool as sp
from spikepool.data import map_merge, tokens

IDS, TABLE, X, MASK = sequences()
BLOCK_ROWS = 100


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a hundred rows, so that chunks of every relation to them are small."""
    monkeypatch.setattr(tokens, "BLOCK_BYTES", BLOCK_ROWS * 8 * X.shape[1] * X.shape[2])


@pytest.fixture(scope="module")
def in_memory():
    return {masked: sp.SpectralPooling().fit(X, mask=MASK if masked else None) for masked in (False, True)}


def assert_same_fit(found, expected):
    assert found.decision_ == expected.decision_
    for name in ("weights_", "correlation_", "gain_", "gain_interval_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-10)
    assert found.n_samples_seen_ == expected.n_samples_seen_


# rows of a chunk: a divisor of the block, the block, a multiple, everything, and numbers that fit nothing
@pytest.mark.slow
@pytest.mark.parametrize("rows", [50, 100, 200, 600, 37, 170])
@pytest.mark.parametrize("form", ["dense", "dense, cut along positions", "ids"])
@pytest.mark.parametrize("masked", [False, "array", "dask"])
def test_a_fit_and_a_transform_load_each_dask_chunk_once(rows, form, masked, in_memory, monkeypatch):
    monkeypatch.setattr(map_merge, "TASK_BYTES", 120 * 8 * X.shape[1] * X.shape[2])  # some tasks of several chunks
    loads, mask_loads = Counter(), Counter()
    values, parameters = (IDS, {"table": TABLE}) if form == "ids" else (X, {})
    split = 4 if "cut" in form else None
    source = counting_dask(values, rows, loads, split=split)
    mask = {False: None, "array": MASK, "dask": counting_dask(MASK, rows, mask_loads)}[masked]
    chunks = -(-len(X) // rows)
    expected = in_memory[bool(masked)]
    with dask.config.set(scheduler="threads"):
        pooling = sp.SpectralPooling(**parameters).fit(source, mask=mask)
        assert once_each(loads, chunks * (1 if split is None else 2))
        assert masked != "dask" or once_each(mask_loads, chunks)
        assert_same_fit(pooling, expected)
        loads.clear()
        mask_loads.clear()
        lazy = pooling.transform(source, mask=mask)
        assert not loads  # nothing is read before it is computed
        assert lazy.chunks[0] == source.chunks[0]
        pooled = lazy.compute()
    assert once_each(loads, chunks * (1 if split is None else 2))
    assert masked != "dask" or once_each(mask_loads, chunks)
    np.testing.assert_allclose(pooled, expected.transform(X, mask=MASK if masked else None), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [100, 37, 170])
@pytest.mark.parametrize("masked", [False, True])
def test_a_fit_and_a_transform_load_each_zarr_chunk_once(rows, masked, in_memory, monkeypatch):
    loads, mask_loads = Counter(), Counter()
    source = counting_zarr(X, rows, loads, monkeypatch)
    mask = counting_zarr(MASK, rows, mask_loads, monkeypatch) if masked else None
    pooling = sp.SpectralPooling().fit(source, mask=mask)
    chunks = -(-len(X) // rows)
    assert once_each(loads, chunks)
    assert not masked or once_each(mask_loads, chunks)
    assert_same_fit(pooling, in_memory[masked])
    loads.clear()
    pooled = pooling.transform(source, mask=mask)
    assert once_each(loads, chunks)
    expected = in_memory[masked].transform(X, mask=MASK if masked else None)
    np.testing.assert_allclose(pooled, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_every_scheduler_gives_the_same_fit(scheduler, in_memory):
    with dask.config.set(scheduler=scheduler, num_workers=2):
        pooling = sp.SpectralPooling().fit(da.from_array(X, chunks=(170, -1, -1)), mask=MASK)
    assert_same_fit(pooling, in_memory[True])


def test_the_table_travels_once_not_with_every_chunk():
    """However many chunks, the graph holds one copy of an embedding table."""
    import cloudpickle

    table = np.random.default_rng(0).normal(size=(20000, 10))
    ids = da.from_array(np.random.default_rng(1).integers(0, 20000, size=(600, 6)), chunks=(20, 6))
    pooling = sp.SpectralPooling("mean", table=table).fit(ids)
    graph = dict(pooling.transform(ids).dask)
    assert len(graph) > 30
    assert len(cloudpickle.dumps(graph)) < 2 * table.nbytes


def test_rows_about_to_travel_leave_the_table_behind():
    import pickle

    from spikepool.pooling.spectral import ProbeRows

    table = np.random.default_rng(0).normal(size=(20000, 10))
    rows = ProbeRows(tokens.TokenForm(6, 10, table), "error", 2)
    rows.add(0, IDS[:50])
    assert len(pickle.dumps(rows)) < table.nbytes / 4
    other = ProbeRows(tokens.TokenForm(6, 10, table), "error", 2)
    other.add(50, IDS[50:91])
    both = pickle.loads(pickle.dumps(rows)).merged(other)
    np.testing.assert_array_equal(both.rows()[0], table[IDS[:91:2]].astype(np.float32))
    assert len(rows.rows()[0]) == 25  # merging changes neither side: a task may be done again
