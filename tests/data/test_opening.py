"""The one door: every form of the same rows gives the same rows, chunks and estimates; what cannot be read is named."""

from __future__ import annotations

import pickle
import uuid

import numpy as np
import pytest
import zarr
from chunk_counting import sequences

import spikepool as sp
from s3_server import BUCKET, file_system, forget_connections, s3_server
from spikepool.data import open_blocks
from spikepool.data.blocks import ArrayBlocks, check_aligned

IDS, TABLE, X, MASK = sequences(n=240)
X = X.astype(np.float32)


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("moto")
    with s3_server() as settings:
        yield settings


@pytest.fixture(scope="module")
def in_memory():
    return sp.SpectralPooling().fit(X, mask=MASK)


def put_npy(where, array):
    import fsspec

    with fsspec.open(where, "wb") as file:
        np.save(file, array)
    return where


def put_zarr(where, array, rows=70):
    stored = zarr.create_array(where, shape=array.shape, chunks=(rows, *array.shape[1:]), dtype=array.dtype)
    stored[:] = array
    return where


def arrow_table(array, *, nested=True, fixed=False):
    import pyarrow as pa

    if not nested:
        return pa.table({f"c{i}": array[:, i] for i in range(array.shape[1])})
    values = pa.array(array.reshape(-1))
    for size in array.shape[:0:-1]:
        values = (
            pa.FixedSizeListArray.from_arrays(values, size)
            if fixed
            else pa.ListArray.from_arrays(np.arange(0, len(values) + 1, size, dtype=np.int32), values)
        )
    return pa.table({"id": pa.array(range(len(array))), "tokens": values})


def put_parquet(where, array, rows=70, compression="snappy", **form):
    import fsspec
    import pyarrow.parquet as pq

    with fsspec.open(where, "wb") as file:
        pq.write_table(arrow_table(array, **form), file, row_group_size=rows, compression=compression)
    return where


def put_arrow(where, array, rows=70, **form):
    import fsspec
    import pyarrow as pa

    table = arrow_table(array, **form)
    with fsspec.open(where, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return where


FORMATS = {"npy": put_npy, "zarr": put_zarr, "parquet": put_parquet, "arrow": put_arrow}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("place", ["disk", "memory", "s3"])
def test_files_and_urls_give_the_estimate_of_the_array(kind, place, tmp_path, in_memory, request):
    if place == "s3":
        request.getfixturevalue("s3")
    name = uuid.uuid4().hex
    base = {"disk": str(tmp_path), "memory": f"memory://{name}", "s3": f"s3://{BUCKET}/{name}"}[place]
    where = FORMATS[kind](f"{base}/x.{kind}", X)
    source = open_blocks(where)
    assert source.shape == X.shape
    assert source.dtype == X.dtype
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in source.chunks()]), X)
    if kind != "npy":
        assert source.borders == (0, 70, 140, 210, 240)
    rows = np.array([0, 3, 69, 70, 239])
    np.testing.assert_array_equal(source.take(rows), X[rows])
    mask = FORMATS[kind](f"{base}/mask.{kind}", MASK.astype(np.uint8) if kind in ("parquet", "arrow") else MASK)
    pooling = sp.SpectralPooling().fit(where, mask=mask)
    np.testing.assert_allclose(pooling.weights_, in_memory.weights_, rtol=0, atol=1e-10)
    pooled = pooling.transform(where, mask=mask)
    np.testing.assert_allclose(pooled, in_memory.transform(X, mask=MASK), rtol=0, atol=1e-10)
    if place != "memory":  # what workers are sent opens the same rows
        again = pickle.loads(pickle.dumps(source))
        np.testing.assert_array_equal(again.read(0), source.read(0))


def test_memory_maps_and_zarr_arrays_and_stored_ids(tmp_path, in_memory):
    mapped = np.load(put_npy(tmp_path / "x.npy", X), mmap_mode="r")
    stored = zarr.open_array(put_zarr(tmp_path / "x.zarr", X), mode="r")
    ids = put_parquet(tmp_path / "ids.parquet", IDS)
    table = put_npy(tmp_path / "table.npy", TABLE.astype(np.float32))
    for form, parameters in ((mapped, {}), (stored, {}), (ids, {"table": table})):
        pooling = sp.SpectralPooling(**parameters).fit(form, mask=MASK)
        np.testing.assert_allclose(pooling.weights_, in_memory.weights_, rtol=0, atol=1e-10)


def test_a_copy_on_write_map_keeps_its_changes(tmp_path):
    mapped = np.load(put_npy(tmp_path / "x.npy", X), mmap_mode="c")
    mapped[5] = 7.0
    source = open_blocks(mapped)
    assert (np.concatenate([rows for _, rows in source.chunks()])[5] == 7).all()
    assert (mapped[5] == 7).all()


def test_parquet_in_other_forms(tmp_path):
    flat = X.reshape(240, -1)
    for name, form in (("columns", {"nested": False}), ("lists", {}), ("fixed", {"fixed": True})):
        where = put_parquet(tmp_path / f"{name}.parquet", flat, **form)
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in open_blocks(where).chunks()]), flat)
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        put_parquet(folder / f"part-{k}.parquet", X[80 * k : 80 * (k + 1)], rows=50)
    source = open_blocks(folder)
    assert source.borders == (0, 50, 80, 130, 160, 210, 240)
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in source.chunks()]), X)
    assert open_blocks(folder, column="id").shape == (240, 1)


def test_zarr_groups_and_shards(tmp_path):
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    tokens = group.create_array("tokens", shape=X.shape, chunks=(10, 6, 10), shards=(60, 6, 10), dtype=X.dtype)
    tokens[:] = X
    assert open_blocks(tmp_path / "g.zarr").borders == (0, 60, 120, 180, 240)
    group.create_array("mask", shape=MASK.shape, chunks=(60, 6), dtype=bool)
    with pytest.raises(sp.DataSourceError, match=r"2 arrays.*tokens"):
        open_blocks(tmp_path / "g.zarr")
    assert open_blocks(tmp_path / "g.zarr", column="mask").shape == MASK.shape
    assert open_blocks(tmp_path / "g.zarr" / "tokens").shape == X.shape


# -- what cannot be read -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_there(tmp_path, s3):
    for where in (tmp_path / "x.npy", f"memory://{uuid.uuid4().hex}/x.zarr", f"s3://{BUCKET}/nothing/x.zarr"):
        with pytest.raises(sp.MissingSourceError, match="nothing at"):
            sp.SpectralPooling().fit(where)
    for suffix in ("zarr", "npy", "parquet"):
        with pytest.raises(sp.MissingSourceError, match="bucket of s3://no-such-bucket"):
            sp.SpectralPooling().fit(f"s3://no-such-bucket/x.{suffix}")


def test_missing_credentials(s3, monkeypatch):
    put_npy(f"s3://{BUCKET}/credentials/x.npy", X)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    forget_connections()
    try:
        for where in (f"s3://{BUCKET}/credentials/x.npy", f"s3://{BUCKET}/credentials/x.zarr"):
            with pytest.raises(sp.CredentialsError, match="AWS_ACCESS_KEY_ID"):
                sp.SpectralPooling().fit(where)
    finally:
        forget_connections()


def test_files_that_are_something_else(tmp_path):
    (tmp_path / "text.npy").write_text("hello, world")
    (tmp_path / "text.bin").write_bytes(b"\x80\x04 a pickle")
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    whole = put_npy(tmp_path / "whole.npy", X).read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-100])
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))
    np.testing.assert_array_equal(open_blocks(tmp_path / "columns.npy").whole(), X)
    for name, error, match in (
        ("text.npy", sp.DataSourceError, "damaged"),
        ("text.bin", sp.UnsafeFormatError, "pickle"),
        ("empty", sp.MissingSourceError, "neither a Zarr array"),
        ("objects.npy", sp.UnsafeFormatError, "pickled"),
        ("short.npy", sp.DataSourceError, "does not match"),
    ):
        with pytest.raises(error, match=match):
            open_blocks(tmp_path / name)


def test_a_chunk_that_cannot_be_read_is_named(tmp_path):
    where = put_zarr(tmp_path / "x.zarr", X)
    (tmp_path / "x.zarr" / "c" / "2" / "0" / "0").write_bytes(b"damaged")
    with pytest.raises(sp.UnreadableChunkError, match=r"chunk 2 \(rows 140 to 209\) of .*x.zarr"):
        sp.SpectralPooling().fit(where)
    (tmp_path / "x.zarr" / "c" / "2" / "0" / "0").unlink()
    with pytest.raises(sp.UnreadableChunkError, match="rows 140 to 209 are missing"):
        sp.SpectralPooling().fit(where)
    where = put_parquet(tmp_path / "x.parquet", X, compression="zstd")
    raw = bytearray(where.read_bytes())
    raw[len(raw) // 3 : len(raw) // 3 + 400] = bytes(400)
    where.write_bytes(raw)
    with pytest.raises(sp.UnreadableChunkError, match=r"chunk 1 \(rows 70 to 139\)"):
        sp.SpectralPooling().fit(where)


def test_a_failing_chunk_of_a_dask_array_is_named_and_nothing_is_fitted():
    import dask.array as da

    def load(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 2:
            raise OSError("the disk is gone")
        return block

    lazy = da.from_array(X, chunks=(70, -1, -1)).map_blocks(load, dtype=X.dtype)
    pooling = sp.SpectralPooling()
    with pytest.raises(sp.UnreadableChunkError, match="the disk is gone"):
        pooling.fit(lazy)
    assert not hasattr(pooling, "weights_")


def test_unequal_chunks_of_tokens_and_mask(tmp_path):
    import dask.array as da

    lazy = da.from_array(X, chunks=(70, -1, -1))
    for mask in (da.from_array(MASK, chunks=(60, -1)), zarr.open_array(put_zarr(tmp_path / "m.zarr", MASK, rows=50))):
        for call in (sp.SpectralPooling().fit, sp.SpectralPooling("mean").fit(X).transform):
            with pytest.raises(sp.ChunkMismatchError, match=r"X and mask have unequal chunks.*rechunk"):
                call(lazy, mask=mask)
    with pytest.raises(sp.ShapeError, match="mask must have shape"):
        sp.SpectralPooling().fit(lazy, mask=da.from_array(MASK[:100], chunks=(70, -1)))
    check_aligned([ArrayBlocks(X, "X"), ArrayBlocks(MASK, "mask", ArrayBlocks(X, "X").borders)])


def test_ragged_lists_are_named_with_their_row(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists = [[1.0, 2.0, 3.0]] * 57 + [[1.0, 2.0]] + [[1.0, 2.0, 3.0]] * 2
    pq.write_table(pa.table({"tokens": lists}), tmp_path / "ragged.parquet", row_group_size=20)
    with pytest.raises(sp.RaggedError, match=r"3 at first and 2 in row 57"):
        sp.SpectralPooling(n_positions=3).fit(tmp_path / "ragged.parquet")
    nested = [[[1.0, 2.0], [3.0, 4.0]]] * 9 + [[[1.0, 2.0], [3.0]]]
    pq.write_table(pa.table({"tokens": nested}), tmp_path / "nested.parquet")
    with pytest.raises(sp.RaggedError, match="in row 9"):
        sp.SpectralPooling().fit(tmp_path / "nested.parquet")
    pq.write_table(pa.table({"tokens": [[1.0, None], [2.0, 3.0]]}), tmp_path / "missing.parquet")
    with pytest.raises(sp.DataSourceError, match="missing values"):
        sp.SpectralPooling().fit(tmp_path / "missing.parquet")


def test_bad_values_in_a_store_are_named_by_row(tmp_path):
    bad = X.copy()
    bad[200, 1, 3] = np.nan
    with pytest.raises(sp.NonFiniteError, match="200"):
        sp.SpectralPooling().fit(put_zarr(tmp_path / "x.zarr", bad))
    half = bad.astype(np.float16)
    half[200, 1, 3] = np.inf
    with pytest.raises(sp.NonFiniteError, match="200"):
        sp.SpectralPooling().fit(put_zarr(tmp_path / "half.zarr", half))
    seen = np.ones(MASK.shape, dtype=bool)
    seen[200, 1] = False  # nobody looks there
    sp.SpectralPooling().fit(put_npy(tmp_path / "half.npy", half), mask=seen)
    with pytest.raises(sp.InvalidInputError, match="0 and 1"):
        sp.SpectralPooling().fit(tmp_path / "half.npy", mask=put_npy(tmp_path / "m.npy", 2 * seen.astype(np.int8)))


# -- pooled features ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["c.zarr", "c.parquet"])
@pytest.mark.parametrize("place", ["disk", "s3"])
def test_pooled_features_from_store_to_store(name, place, tmp_path, in_memory, request, monkeypatch):
    from spikepool.data import writing

    if place == "s3":
        request.getfixturevalue("s3")
    monkeypatch.setattr(writing, "WRITTEN_BYTES", 100 * 10 * 4)  # several chunks
    out = f"s3://{BUCKET}/{uuid.uuid4().hex}/{name}" if place == "s3" else str(tmp_path / name)
    tokens = put_zarr(tmp_path / "x.zarr", X)
    sp.write_pooled(in_memory, tokens, out, mask=MASK)
    expected = in_memory.transform(X, mask=MASK)
    source = open_blocks(out)
    assert source.borders == (0, 100, 200, 240)
    np.testing.assert_array_equal(np.concatenate([r for _, r in source.chunks()]), expected.astype(np.float32))
    with pytest.raises(sp.InvalidInputError, match="overwrite"):
        sp.write_pooled(in_memory, tokens, out, mask=MASK)
    sp.write_pooled(sp.SpectralPooling("mean").fit(X), tokens, out, overwrite=True, dtype="float64")
    np.testing.assert_allclose(open_blocks(out).take(np.arange(240)), X.mean(axis=1), atol=1e-6)


@pytest.mark.parametrize("name", ["c.zarr", "c.parquet"])
@pytest.mark.parametrize("place", ["disk", "s3"])
def test_an_error_half_way_leaves_nothing(name, place, tmp_path, in_memory, request, monkeypatch):
    from spikepool.data import writing

    if place == "s3":
        request.getfixturevalue("s3")
    monkeypatch.setattr(writing, "WRITTEN_BYTES", 30 * 10 * 4)
    folder = f"s3://{BUCKET}/{uuid.uuid4().hex}" if place == "s3" else str(tmp_path / "out")
    tokens = put_zarr(tmp_path / "x.zarr", X)
    (tmp_path / "x.zarr" / "c" / "2" / "0" / "0").write_bytes(b"damaged")
    with pytest.raises(sp.UnreadableChunkError, match="chunk 2"):
        sp.write_pooled(in_memory, tokens, f"{folder}/{name}", mask=MASK)
    if place == "s3":
        assert file_system().find(folder.removeprefix("s3://")) == []
    else:
        assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    with pytest.raises(sp.MissingSourceError):
        open_blocks(f"{folder}/{name}")


def test_outputs_that_cannot_be_are_refused_before_any_work(tmp_path, in_memory, s3):
    def write(out, **options):
        sp.write_pooled(in_memory, X, out, mask=MASK, **options)

    with pytest.raises(sp.InvalidInputError, match="end in"):
        write(tmp_path / "c.csv")
    with pytest.raises(sp.InvalidInputError, match="dtype"):
        write(tmp_path / "c.zarr", dtype="int8")
    with pytest.raises(sp.InvalidInputError, match="path or URL"):
        write(3)
    with pytest.raises(sp.MissingSourceError, match="bucket"):
        write("s3://no-such-bucket/c.zarr")
