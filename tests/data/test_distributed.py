"""Fits on worker processes: data that workers open themselves, Dask arrays, a worker that dies in the middle."""

from __future__ import annotations

import os

import numpy as np
import pytest
import zarr
from chunk_counting import sequences

import spikepool as sp
from spikepool.data import map_merge

IDS, TABLE, X, MASK = sequences(n=400)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    monkeypatch.setattr(map_merge, "TASK_BYTES", 90 * X.shape[1] * X.shape[2] * 8)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    for name, array in (("x", X), ("mask", MASK)):
        zarr.create_array(folder / f"{name}.zarr", shape=array.shape, chunks=(37, *array.shape[1:]), dtype=array.dtype)[
            :
        ] = array
    return folder


def assert_same(found, expected):
    for name in ("weights_", "correlation_", "gain_interval_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-10)


@pytest.mark.slow
def test_stores_are_opened_by_workers_and_dask_arrays_computed_there(client, stored):
    import dask.array as da

    expected = sp.SpectralPooling().fit(X, mask=MASK)
    tasks = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.transition_log))
    by_path = sp.SpectralPooling().fit(stored / "x.zarr", mask=stored / "mask.zarr")
    assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.transition_log)) > tasks
    assert_same(by_path, expected)
    lazy = da.from_zarr(stored / "x.zarr")
    assert_same(sp.SpectralPooling().fit(lazy, mask=da.from_zarr(stored / "mask.zarr")), expected)
    ids = da.from_array(IDS, chunks=(90, -1))
    assert_same(sp.SpectralPooling(table=TABLE).fit(ids, mask=MASK), expected)
    pooled = expected.transform(lazy, mask=MASK).compute()
    np.testing.assert_allclose(pooled, expected.transform(X, mask=MASK), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_worker_that_dies_in_the_middle_is_survived(client, tmp_path):
    import dask.array as da

    marker = tmp_path / "died"

    def fatal_once(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 3 and not marker.exists():
            marker.write_text("here")
            os._exit(1)
        return block

    lazy = da.from_array(X, chunks=(50, -1, -1)).map_blocks(fatal_once, dtype=X.dtype)
    pooling = sp.SpectralPooling().fit(lazy, mask=MASK)
    assert marker.exists()
    assert_same(pooling, sp.SpectralPooling().fit(X, mask=MASK))


def test_an_error_of_ours_arrives_with_its_name(client, stored, tmp_path):
    bad = X.copy()
    bad[300, 2, 1] = np.nan
    zarr.create_array(tmp_path / "bad.zarr", shape=X.shape, chunks=(50, 6, 10), dtype=X.dtype)[:] = bad
    with pytest.raises(sp.NonFiniteError, match="300"):
        sp.SpectralPooling().fit(tmp_path / "bad.zarr")
    zarr.create_array(tmp_path / "damaged.zarr", shape=X.shape, chunks=(50, 6, 10), dtype=X.dtype)[:] = X
    (tmp_path / "damaged.zarr" / "c" / "1" / "0" / "0").write_bytes(b"damaged")
    with pytest.raises(sp.UnreadableChunkError, match=r"chunk 1 \(rows 50 to 99\)"):
        sp.SpectralPooling().fit(tmp_path / "damaged.zarr")


@pytest.mark.slow
def test_pooled_features_are_written_from_workers(client, stored, tmp_path):
    pooling = sp.SpectralPooling().fit(X, mask=MASK)
    sp.write_pooled(pooling, stored / "x.zarr", tmp_path / "c.zarr", mask=stored / "mask.zarr", dtype="float64")
    written = zarr.open_array(tmp_path / "c.zarr", mode="r")[:]
    np.testing.assert_allclose(written, pooling.transform(X, mask=MASK), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_learned_pooling_from_a_store_equals_that_of_the_array(client, stored):
    y = IDS[:, 0] % 2
    options = {"max_samples": 200, "random_state": 0}
    expected = sp.LearnedPoolingClassifier(**options).fit(X, y, mask=MASK)
    found = sp.LearnedPoolingClassifier(**options).fit(stored / "x.zarr", y, mask=stored / "mask.zarr")
    assert found.decision_ == expected.decision_
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-8)
    np.testing.assert_array_equal(found.predict(stored / "x.zarr", mask=MASK), expected.predict(X, mask=MASK))
