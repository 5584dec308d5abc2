"""Every format gives back the table another program wrote; names are found, guesses are not made."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.hub import HubUnreachableError
from spikepool.data.names import choose_tensor
from spikepool.tables import open_table

safetensors_numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")


@pytest.fixture
def table():
    return np.random.default_rng(0).standard_normal((90, 32)).astype(np.float32)


def read(source, rows=17):
    return np.concatenate(list(source.blocks()))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_safetensors(tmp_path, table, dtype):
    path = tmp_path / "model.safetensors"
    safetensors_numpy.save_file(
        {
            "wte.weight": table.astype(dtype),
            "wpe.weight": np.ones((10, 32), dtype),
            "steps": np.arange(3),
        },
        path,
        metadata={"format": "np"},
    )
    source = open_table(path)
    assert (source.shape, source.name) == ((90, 32), "wte.weight")
    np.testing.assert_array_equal(read(source), table.astype(dtype))
    np.testing.assert_array_equal(read(source), table.astype(dtype))  # a second pass gives the same
    np.testing.assert_array_equal(read(open_table(tmp_path)), table.astype(dtype))  # the folder will do
    assert open_table(path, "wpe.weight").shape == (10, 32)


def test_safetensors_bfloat16(tmp_path, table):
    bits = (table.view(np.uint32) >> 16).astype("<u2")
    header = {"embed_tokens.weight": {"dtype": "BF16", "shape": [90, 32], "data_offsets": [0, bits.nbytes]}}
    text = json.dumps(header).encode()
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bits.tobytes())
    np.testing.assert_array_equal(read(open_table(path)), (table.view(np.uint32) & 0xFFFF0000).view(np.float32))


def test_sharded_safetensors(tmp_path, table):
    safetensors_numpy.save_file({"model.embed_tokens.weight": table}, tmp_path / "model-1.safetensors")
    safetensors_numpy.save_file({"model.norm.weight": table[0]}, tmp_path / "model-2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    weights = {"model.embed_tokens.weight": "model-1.safetensors", "model.norm.weight": "model-2.safetensors"}
    index.write_text(json.dumps({"weight_map": weights}))
    np.testing.assert_array_equal(read(open_table(index)), table)
    np.testing.assert_array_equal(read(open_table(tmp_path)), table)
    index.write_text(json.dumps({"weight_map": {"wte.weight": "../../etc/model-1.safetensors"}}))
    with pytest.raises(sp.TableFormatError, match="outside its folder"):
        open_table(index)
    index.write_text(json.dumps({"weight_map": {"wte.weight": "model-3.safetensors"}}))
    with pytest.raises(sp.TableFormatError, match="missing"):
        open_table(index)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8"])
def test_npy(tmp_path, table, dtype, order):
    np.save(tmp_path / "a.npy", np.asarray(table.astype(dtype), order=order))
    np.testing.assert_array_equal(read(open_table(tmp_path / "a.npy")), table.astype(dtype).astype(float))
    with pytest.raises(sp.TableFormatError, match="without a name"):
        open_table(tmp_path / "a.npy", "x")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, table, save):
    save(tmp_path / "a.npz", embeddings=table, other=table[:, :8])
    np.testing.assert_array_equal(read(open_table(tmp_path / "a.npz")), table)
    np.testing.assert_array_equal(read(open_table(tmp_path / "a.npz", "other")), table[:, :8])
    save(tmp_path / "f.npz", a=np.asfortranarray(table))
    np.testing.assert_array_equal(read(open_table(tmp_path / "f.npz")), table)


@pytest.mark.parametrize("layout", ["list", "fixed", "columns"])
def test_parquet(tmp_path, table, layout):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    words = pa.array([f"w{i}" for i in range(90)])
    if layout == "columns":
        content = {"word": words, **{f"x{i}": pa.array(table[:, i]) for i in range(32)}}
    else:
        kind = pa.list_(pa.float32(), 32) if layout == "fixed" else pa.list_(pa.float32())
        content = {"word": words, "vector": pa.array(list(table), type=kind)}
    pq.write_table(pa.table(content), tmp_path / "a.parquet", row_group_size=40)
    source = open_table(tmp_path / "a.parquet")
    assert source.shape == (90, 32)
    np.testing.assert_array_equal(read(source), table)


def test_vectors_of_different_lengths(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"vector": [[1.0, 2.0, 3.0], [1.0, 2.0]]}), tmp_path / "a.parquet")
    with pytest.raises(sp.RaggedError):
        read(open_table(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["transformer.wte.weight", "transformer.wpe.weight"], "transformer.wte.weight"),
        (["model.embed_tokens.weight", "lm_head.weight"], "model.embed_tokens.weight"),
        (["embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"], None),
        (["token_embd.weight", "output.weight"], "token_embd.weight"),
        (["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"], "shared.weight"),
        (["text_model.embeddings.token_embedding.weight", "visual.proj"], None),
        (["gpt_neox.embed_in.weight", "embed_out.weight"], None),
        (["anything"], "anything"),
    ],
)
def test_usual_names(names, chosen):
    assert choose_tensor(dict.fromkeys(names, (9, 4)), None, "f") == (chosen or names[0])


def test_no_guess_between_candidates():
    with pytest.raises(sp.TableFormatError, match="several input embeddings"):
        choose_tensor({"a.wte.weight": (9, 4), "b.wte.weight": (9, 4)}, None, "f")
    with pytest.raises(sp.TableFormatError, match="tensor="):
        choose_tensor({"a": (9, 4), "b": (9, 4)}, None, "f")
    with pytest.raises(sp.TableFormatError, match="It has a"):
        choose_tensor({"a": (9, 4)}, "c", "f")


def test_missing_file_and_bad_arguments(tmp_path):
    with pytest.raises(sp.MissingSourceError, match="nothing at"):
        open_table(tmp_path / "nothing.npy")
    with pytest.raises(sp.InvalidInputError):
        open_table(None)
    with pytest.raises(sp.InvalidInputError):
        open_table("a.npy", tensor=3)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(sp.UnsafeFormatError, match="safetensors"):
        open_table(tmp_path)


def test_hub_offline_is_a_clear_error(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")

    def offline(*arguments, **options):
        raise OSError("name or service not known")

    def unexpected(*arguments, **options):
        raise AssertionError("the hub was asked although its name does not resolve")

    monkeypatch.setattr("socket.getaddrinfo", offline)
    monkeypatch.setattr("spikepool.data.hub.getproxies", dict)
    monkeypatch.setattr(hub, "list_repo_files", unexpected)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HubUnreachableError, match="not a file here") as info:
        open_table("openai-community/gpt2")
    assert isinstance(info.value, sp.SpikepoolError)
    with pytest.raises(sp.InvalidInputError, match="model id"):
        open_table("hf://../../etc/passwd")


def test_hub_takes_only_plain_data(tmp_path, monkeypatch, table):
    """Against a stand-in for the hub: which files are asked for, and which models are refused."""
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    safetensors_numpy.save_file({"wte.weight": table}, tmp_path / "model.safetensors")
    asked = []

    def download(model, name):
        asked.append(name)
        return str(tmp_path / name)

    listing = {"a/plain": ["config.json", "model.safetensors", "modeling.py"], "a/pickled": ["pytorch_model.bin"]}
    monkeypatch.setattr("spikepool.data.hub._check_reachable", lambda hub: None)
    monkeypatch.setattr(hub, "list_repo_files", lambda model: listing[model])
    monkeypatch.setattr(hub, "hf_hub_download", download)
    np.testing.assert_array_equal(read(open_table("hf://a/plain")), table)
    assert asked == ["model.safetensors"]
    with pytest.raises(sp.UnsafeFormatError, match="run code"):
        open_table("hf://a/pickled")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a file the user may not read")
def test_unreadable_file(tmp_path):
    path = Path(tmp_path / "a.npy")
    path.write_bytes(b"x")
    path.chmod(0)
    with pytest.raises(sp.TableFormatError, match="cannot read"):
        open_table(path)
