"""What is in a file, from its header; and the names of its rows."""

import json

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.table_input import list_tensors, open_table
from spikepool.data.token_names import read_tokens, tokens_beside

safetensors_numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")

TENSORS = {
    "model.embed_tokens.weight": np.arange(60, dtype=np.float32).reshape(12, 5),
    "layer.weight": np.ones((4, 3), dtype=np.float16),
    "layer.bias": np.ones(4, dtype=np.float32),
    "ids": np.arange(6, dtype=np.int64).reshape(2, 3),
}


def entries(found):
    return {t.name: (t.shape, t.is_matrix) for t in found}


def test_safetensors_and_its_index(tmp_path):
    safetensors_numpy.save_file(TENSORS, tmp_path / "model.safetensors")
    expected = {name: (array.shape, name.endswith(".weight")) for name, array in TENSORS.items()}
    assert entries(list_tensors(tmp_path / "model.safetensors")) == expected
    folder = tmp_path / "sharded"
    folder.mkdir()
    names = list(TENSORS)
    for shard, part in (("a.safetensors", names[:2]), ("b.safetensors", names[2:])):
        safetensors_numpy.save_file({name: TENSORS[name] for name in part}, folder / shard)
    index = {"weight_map": {name: "a.safetensors" if i < 2 else "b.safetensors" for i, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert entries(list_tensors(folder)) == expected


def test_npy_npz_and_parquet(tmp_path):
    np.save(tmp_path / "a.npy", TENSORS["layer.weight"])
    assert entries(list_tensors(tmp_path / "a.npy")) == {"a.npy": ((4, 3), True)}
    np.savez(tmp_path / "a.npz", w=TENSORS["layer.weight"], b=TENSORS["layer.bias"])
    assert entries(list_tensors(tmp_path / "a.npz")) == {"w": ((4, 3), True), "b": ((4,), False)}
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [1.0, 3.0]}), tmp_path / "a.parquet")
    assert entries(list_tensors(tmp_path / "a.parquet")) == {"a.parquet": ((2, 2), True)}
    with pytest.raises(sp.MissingSourceError):
        list_tensors(tmp_path / "absent.npy")


def test_a_transposed_table_is_the_transpose(tmp_path):
    rng = np.random.default_rng(0)
    E = rng.standard_normal((6, 5000)).astype(np.float32)  # wider than an analysis accepts
    np.save(tmp_path / "wide.npy", E)
    np.savez(tmp_path / "wide.npz", E=E)
    for file in ("wide.npy", "wide.npz"):
        with pytest.raises(sp.MemoryBudgetError, match="transpose"):
            open_table(tmp_path / file)
        source = open_table(tmp_path / file, transpose=True)
        assert source.shape == (5000, 6)
        np.testing.assert_array_equal(np.concatenate(list(source.blocks())), E.T)


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("vocab.txt", "a\nb\nc\n", ["a", "b", "c"]),
        ("vocab.json", '{"b": 1, "a": 0, "c": 2}', ["a", "b", "c"]),
        ("names.json", '["a", "b"]', ["a", "b"]),
        (
            "tokenizer.json",
            '{"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 3, "content": "<s>"}]}',
            None,
        ),
        ("tokenizer.json", '{"model": {"vocab": [["a", -1.5], ["b", -2]]}}', ["a", "b"]),
    ],
)
def test_token_names(tmp_path, file, content, expected):
    (tmp_path / file).write_text(content)
    assert read_tokens(tmp_path / file) == (expected or ["a", "b", "[row 2]", "<s>"])


@pytest.mark.parametrize(
    "content", ["{", "3", '{"model": {}}', '{"a": "b"}', '{"a": 100000}', '{"model": {"vocab": [[]]}}', "{}"]
)
def test_a_file_that_is_no_tokenizer_is_named(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(sp.TableFormatError):
        read_tokens(tmp_path / "tokenizer.json")
    with pytest.raises(sp.TableFormatError):
        read_tokens(tmp_path / "absent.json")


def test_names_beside_a_model_must_fit_its_table(tmp_path):
    safetensors_numpy.save_file(TENSORS, tmp_path / "model.safetensors")
    assert tokens_beside(tmp_path, 12) is None
    (tmp_path / "vocab.txt").write_text("\n".join("abcdefghij"))
    assert tokens_beside(tmp_path, 12) == [*"abcdefghij", "[row 10]", "[row 11]"]
    assert tokens_beside(tmp_path, 9) is None, "more names than rows"
    assert tokens_beside(tmp_path, 5000) is None, "names of another table"
