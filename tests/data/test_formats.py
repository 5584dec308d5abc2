"""Every file format of rows: what it holds, and what is wrong with a file that cannot be read."""

import gzip
import json

import numpy as np
import pytest

import spikepool as sp
from spikepool.cli import main
from spikepool.data.formats import records
from spikepool.data.reading import read_array, read_column, read_records
from spikepool.data.targets import check_target
from spikepool.errors import RaggedError, TableFormatError
from spikepool.kit import memory

RNG = np.random.default_rng(0)
N, D = 120, 6
Y = np.arange(N) % 2
FEATURES = (RNG.normal(size=(N, D)) + (2 * Y - 1)[:, None]).astype(np.float32)
X = RNG.normal(size=(240, 6, 10)).astype(np.float32)


def csv_text(separator=",", header=True):
    lines = [separator.join(["id", *(f"f{i}" for i in range(D)), "label", "text"])] if header else []
    for i, row in enumerate(FEATURES):
        said = f'"line {i}\nwith a ""quote"" and a {separator}"'
        lines.append(separator.join([str(i), *map(repr, row.tolist()), "up" if Y[i] else "down", said]))
    return "\n".join(lines) + "\n"


def json_lines(vector=False):
    rows = []
    for i, row in enumerate(FEATURES.tolist()):
        numbers = {"features": row} if vector else {f"f{k}": v for k, v in enumerate(row)}
        rows.append(json.dumps({**numbers, "label": "up" if Y[i] else "down", "text": f"line {i}"}))
    return "\n".join(rows) + "\n"


TABLES = {
    "t.csv": csv_text().encode(),
    "t.tsv": csv_text("\t").encode(),
    "semicolon.csv": csv_text(";").encode(),
    "bom.csv": b"\xef\xbb\xbf" + csv_text().encode(),
    "windows.csv": csv_text().replace("\n", "\r\n").encode(),
    "t.csv.gz": gzip.compress(csv_text().encode()),
    "t.jsonl": json_lines().encode(),
    "vector.jsonl": json_lines(vector=True).encode(),
    "t.jsonl.gz": gzip.compress(json_lines().encode()),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_text_hold_features_labels_and_texts(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(TABLES[name])
    np.testing.assert_allclose(read_array(path), FEATURES, rtol=1e-7)
    assert read_column(path).tolist() == ["up" if y else "down" for y in Y]
    assert read_column(path, role="texts")[7].startswith("line 7")
    assert read_column(path, "text", role="texts").shape == (N,)


def test_a_label_column_is_never_a_feature(tmp_path):
    lines = ["a,b,c,d,answer"] + [",".join(map(str, [*row[:4], y])) for row, y in zip(FEATURES, Y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert read_array(tmp_path / "t.csv").shape == (N, 5)
    assert read_array(tmp_path / "t.csv", exclude=("answer",)).shape == (N, 4)
    with pytest.raises(SystemExit) as left:
        main(["forecast", str(tmp_path / "t.csv"), "--label-column", "answer"])
    assert left.value.code == 0
    (tmp_path / "y.csv").write_text("\n".join(["a,b,c,d,y", *lines[1:]]))
    assert read_array(tmp_path / "y.csv").shape == (N, 4)


@pytest.mark.parametrize(
    ("name", "content", "error", "match"),
    [
        ("short.csv", "a,b\n1,2\n3\n", RaggedError, "row 1 is too short"),
        ("words.csv", "a,b\nx,y\nz,w\n", TableFormatError, "not a table of numbers"),
        ("late.csv", "a,b\n" + "1,2\n" * 150 + "1,oops\n", TableFormatError, "row 150.*oops"),
        ("broken.jsonl", '{"a": 1}\n{"a": \n', TableFormatError, "line 2 is not JSON"),
        ("list.jsonl", '{"a": 1}\n[1]\n', TableFormatError, "not an object"),
        ("lacks.jsonl", '{"a": 1, "b": 2}\n{"a": 1}\n', RaggedError, "lacks"),
        ("page.npy", "<html>404</html>", TableFormatError, "damaged"),
        ("empty.csv", "", TableFormatError, "empty"),
        ("header.csv", "a,b\n", TableFormatError, "no rows"),
    ],
)
def test_tables_of_text_that_are_broken_are_named(name, content, error, match, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(error, match=match):
        read_array(tmp_path / name)


def test_a_file_that_does_not_fit_in_memory_is_refused(tmp_path, monkeypatch):
    """What compressed files become is known before it is held, or while it is read."""
    big = np.zeros((5000, 200))
    np.savez_compressed(tmp_path / "a.npz", X=big)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"1,1\n" * 300_000))
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"features": list(big)}), tmp_path / "a.parquet")
    pytest.importorskip("zarr").create_array(str(tmp_path / "a.zarr"), data=big)
    for module in (memory, records):
        monkeypatch.setattr(module, "available_bytes", lambda: 4_000_000)
    for name in ("a.npz", "a.csv.gz", "a.parquet", "a.zarr"):
        with pytest.raises(sp.MemoryBudgetError, match=name):
            read_array(tmp_path / name)


def put_parquet(path, array, *, nested=True, **options):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {"tokens": array.tolist()} if nested else {f"f{j}": array[:, j] for j in range(array.shape[1])}
    pq.write_table(pa.table({**columns, "id": np.arange(len(array))}), path, **options)
    return path


def test_parquet_in_other_forms(tmp_path):
    flat = X.reshape(240, -1)
    for name, nested in (("columns", False), ("lists", True)):
        where = put_parquet(tmp_path / f"{name}.parquet", flat, nested=nested, row_group_size=70)
        np.testing.assert_array_equal(read_array(where), flat)
    where = put_parquet(tmp_path / "tokens.parquet", X, row_group_size=70)
    np.testing.assert_array_equal(read_array(where), X)
    assert read_array(where, column="id").shape == (240, 1)


def test_zarr_groups_and_shards(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    states = group.create_array("states", shape=X.shape, chunks=(10, 6, 10), shards=(60, 6, 10), dtype=X.dtype)
    states[:] = X
    np.testing.assert_array_equal(read_array(tmp_path / "g.zarr"), X)
    group.create_array("mask", shape=(240, 6), chunks=(60, 6), dtype=bool)
    with pytest.raises(sp.DataSourceError, match=r"which array.*mask.*states"):
        read_array(tmp_path / "g.zarr")
    assert read_array(tmp_path / "g.zarr", column="mask").shape == (240, 6)
    assert read_array(tmp_path / "g.zarr" / "states").shape == X.shape


def test_rows_that_were_never_written_are_named(tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(tmp_path / "x.zarr"), shape=X.shape, chunks=(70, 6, 10), dtype=X.dtype)
    array[:] = X
    chunk = tmp_path / "x.zarr" / "c" / "2" / "0" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(b"damaged")
    with pytest.raises(sp.DataSourceError, match=r"cannot read .*x.zarr"):
        read_array(tmp_path / "x.zarr")
    chunk.unlink()
    with pytest.raises(sp.DataSourceError, match="rows 140 to 209 are missing"):
        read_array(tmp_path / "x.zarr")
    chunk.write_bytes(content)
    np.testing.assert_array_equal(read_array(tmp_path / "x.zarr"), X)


@pytest.mark.parametrize(
    ("name", "write", "error", "match"),
    [
        ("text.npy", lambda p: p.write_text("hello, world"), sp.DataSourceError, "damaged"),
        ("text.bin", lambda p: p.write_bytes(b"\x80\x04 a pickle"), sp.UnsafeFormatError, "pickle"),
        ("empty", lambda p: p.mkdir(), sp.DataSourceError, "neither a Zarr array"),
        ("objects.npy", lambda p: np.save(p, np.array([{}], dtype=object)), sp.UnsafeFormatError, "pickled"),
        ("a.tensors", lambda p: p.write_bytes(b"DATA" + bytes(40)), sp.DataSourceError, "not of a known format"),
        ("absent.npy", lambda p: None, sp.MissingSourceError, "nothing at"),
        ("cut.parquet", lambda p: p.write_bytes(b"PAR1" + bytes(40)), sp.DataSourceError, "damaged"),
    ],
)
def test_files_that_are_something_else(name, write, error, match, tmp_path):
    write(tmp_path / name)
    with pytest.raises(error, match=match):
        read_array(tmp_path / name)


@pytest.mark.parametrize("path", ["s3://bucket/x.npy", "https://example.org/x.npy", "memory://x.zarr", "", "a\0b", " "])
def test_urls_and_empty_names_are_refused(path):
    with pytest.raises(sp.InvalidInputError, match=r"URLs are not read|empty or has a NUL"):
        read_array(path)


def test_npy_files_are_mapped_in_either_order(tmp_path):
    for order in "CF":
        np.save(tmp_path / "x.npy", np.array(X, order=order))
        rows = read_array(tmp_path / "x.npy")
        assert isinstance(rows, np.memmap)
        np.testing.assert_array_equal(rows, X)
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-100])
    with pytest.raises(TableFormatError, match="damaged"):
        read_array(tmp_path / "x.npy")


def test_ragged_lists_are_named_with_their_row(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    lists = [[1.0, 2.0, 3.0]] * 57 + [[1.0, 2.0]] + [[1.0, 2.0, 3.0]] * 2
    pq.write_table(pa.table({"tokens": lists}), tmp_path / "ragged.parquet", row_group_size=20)
    with pytest.raises(sp.RaggedError, match=r"3 at first and 2 in row 57"):
        read_array(tmp_path / "ragged.parquet")
    nested = [[[1.0, 2.0], [3.0, 4.0]]] * 9 + [[[1.0, 2.0], [3.0]]]
    pq.write_table(pa.table({"tokens": nested}), tmp_path / "nested.parquet")
    with pytest.raises(sp.RaggedError, match="in row 9"):
        read_array(tmp_path / "nested.parquet")
    pq.write_table(pa.table({"tokens": [[1.0, None], [2.0, 3.0]]}), tmp_path / "missing.parquet")
    with pytest.raises(sp.DataSourceError, match="missing values"):
        read_array(tmp_path / "missing.parquet")


def test_half_a_surrogate_pair_is_named_with_its_line(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "fine \\ud83d\\ude00", "y": 1}\n{"text": "half \\ud83d", "y": 2}\n')
    for read in (lambda path: read_column(path, "text", role="texts"), lambda path: list(read_records(path))):
        with pytest.raises(TableFormatError, match="line 2 has half a surrogate pair"):
            read(tmp_path / "t.jsonl")
    with pytest.raises(sp.InvalidInputError, match="text 1 has half"):
        sp.encode(["fine", "half \ud83d"], lambda texts: [np.zeros((1, 2))] * len(texts))


@pytest.mark.parametrize("name", ["a\0b.onnx", "", " "])
def test_outputs_without_a_name_are_refused(name):
    with pytest.raises(sp.InvalidInputError, match="NUL"):
        check_target(name, "onnx")
