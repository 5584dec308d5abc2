"""Rows, labels, masks from every format a user may have; what cannot be read is named in a sentence."""

import json

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.reading import read_column, read_features, read_mask

X = np.arange(24, dtype=np.float32).reshape(6, 4)
TOKENS = np.arange(48, dtype=np.float32).reshape(6, 2, 4)


@pytest.mark.parametrize("rows", [X, TOKENS], ids=["features", "tokens"])
@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "zarr"])
def test_rows_of_every_format(tmp_path, rows, kind):
    path = tmp_path / f"rows.{kind}"
    if kind == "npy":
        np.save(path, rows)
    elif kind == "npz":
        np.savez(path, X=rows, other=np.zeros(3))
    elif kind == "zarr":
        pytest.importorskip("zarr", reason="zarr is not installed").create_array(str(path), data=rows)
    else:
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"features": rows.tolist(), "label": list("aabbcc")}), path)
    opened = read_features(path)
    assert tuple(opened.shape) == rows.shape
    np.testing.assert_array_equal(opened, rows)


def test_a_named_member(tmp_path):
    np.savez(tmp_path / "a.npz", first=X, second=2 * X)
    np.testing.assert_array_equal(read_features(tmp_path / "a.npz", "second"), 2 * X)
    with pytest.raises(sp.DataSourceError, match="which array of the archive"):
        read_features(tmp_path / "a.npz")
    with pytest.raises(sp.DataSourceError, match="first"):
        read_features(tmp_path / "a.npz", "third")


@pytest.mark.parametrize(
    ("name", "write", "error"),
    [
        ("absent.npy", lambda p: None, sp.MissingSourceError),
        ("vector.npy", lambda p: np.save(p, np.zeros(4)), sp.ShapeError),
        ("text.npy", lambda p: np.save(p, np.array([["a", "b"]])), sp.DataSourceError),
        ("objects.npy", lambda p: np.save(p, np.array([{}, {}], dtype=object)), sp.UnsafeFormatError),
        ("objects.npz", lambda p: np.savez(p, X=np.array([{}, {}], dtype=object)), sp.UnsafeFormatError),
        ("short.npy", lambda p: p.write_bytes(b"\x93NUMPY\x01\x00"), sp.DataSourceError),
        ("cut.npz", lambda p: p.write_bytes(b"PK\x03\x04" + bytes(40)), sp.DataSourceError),
        ("other.txt", lambda p: p.write_text("hello"), sp.DataSourceError),
    ],
)
def test_rows_that_cannot_be_read_are_named(tmp_path, name, write, error):
    write(tmp_path / name)
    with pytest.raises(error) as raised:
        read_features(tmp_path / name)
    assert isinstance(raised.value, sp.InvalidInputError)


WORDS = ["up", "down", "up"]


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("y.txt", "up\ndown\nup\n", WORDS),
        ("y.txt", "1\n2\n3", [1, 2, 3]),
        ("y.txt", "1.5\n2\n3", [1.5, 2.0, 3.0]),
        ("y.csv", "label\nup\ndown\nup\n", WORDS),
        ("y.csv", "id,label\n7,up\n8,down\n9,up\n", WORDS),
        ("y.csv", "up\ndown\nup", WORDS),
        ("y.jsonl", "\n".join(json.dumps({"label": word}) for word in WORDS), WORDS),
    ],
)
def test_labels_as_text(tmp_path, file, content, expected):
    (tmp_path / file).write_text(content)
    assert read_column(tmp_path / file, rows=3).tolist() == expected


def test_labels_as_arrays(tmp_path):
    for values in ([0, 1, 1], ["a", "b", "b"], [True, False, True], [0.5, 1.5, 2.0]):
        np.save(tmp_path / "y.npy", np.array(values))
        assert read_column(tmp_path / "y.npy").tolist() == values
    np.save(tmp_path / "y.npy", np.array([[1], [2]]))
    assert read_column(tmp_path / "y.npy").tolist() == [1, 2]
    np.save(tmp_path / "y.npy", np.array([b"a", b"b"]))
    assert read_column(tmp_path / "y.npy").tolist() == ["a", "b"]
    np.savez(tmp_path / "y.npz", X=X, labels=np.arange(6))
    assert read_column(tmp_path / "y.npz").tolist() == list(range(6))


def test_labels_of_a_table(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    table = pa.table({"v": X.tolist(), "class": list("aabbcc"), "speaker": list(range(6))})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_column(tmp_path / "a.parquet").tolist() == list("aabbcc")
    assert read_column(tmp_path / "a.parquet", "speaker").tolist() == list(range(6))
    with pytest.raises(sp.DataSourceError, match="which column"):
        read_column(tmp_path / "a.parquet", "absent")


@pytest.mark.parametrize(
    ("file", "content", "column", "words"),
    [
        ("y.csv", "id,value\n1,2\n", None, "which column"),
        ("y.csv", "id,label\n1,2\n3\n", None, "too short"),
        ("y.json", "[1, 2]", None, "not of a known format"),
        ("y.jsonl", '{"y": [1]}\n', "y", "which column"),
        ("y.txt", "", None, "is empty"),
        ("y.dat", b"\xff\xfe\x00", None, "not of a known format"),
        ("absent.txt", None, None, "nothing at"),
    ],
)
def test_labels_that_cannot_be_read_are_named(tmp_path, file, content, column, words):
    if isinstance(content, bytes):
        (tmp_path / file).write_bytes(content)
    elif content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(sp.InvalidInputError, match=words):
        read_column(tmp_path / file, column)


def test_labels_must_be_as_many_as_rows(tmp_path):
    np.save(tmp_path / "y.npy", np.arange(5))
    with pytest.raises(sp.ShapeError, match="5 values for 6 rows"):
        read_column(tmp_path / "y.npy", rows=6)
    np.save(tmp_path / "y.npy", np.zeros((5, 2)))
    with pytest.raises(sp.ShapeError, match="one value per row"):
        read_column(tmp_path / "y.npy")


def test_masks(tmp_path):
    mask = np.array([[1, 0], [1, 1]])
    for array in (mask, mask.astype(bool), mask.astype(float)):
        np.save(tmp_path / "m.npy", array)
        found = read_mask(tmp_path / "m.npy", (2, 2, 4))
        assert found.dtype == bool
        assert found.tolist() == mask.astype(bool).tolist()
    np.savez(tmp_path / "m.npz", attention_mask=mask, X=TOKENS)
    assert read_mask(tmp_path / "m.npz", (2, 2, 4)).sum() == 3
    np.save(tmp_path / "m.npy", 3 * mask)
    with pytest.raises(sp.DataSourceError, match="1 and 0"):
        read_mask(tmp_path / "m.npy", (2, 2, 4))
    with pytest.raises(sp.ShapeError, match="one value per token"):
        read_mask(tmp_path / "m.npy", (2, 3, 4))
