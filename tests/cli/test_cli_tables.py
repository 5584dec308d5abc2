"""spectrum on files: lists, names of tokens, and bad input in one line."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
safetensors_numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")

V, D = 300, 40


def planted(seed=0, strength=6.0):
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((V, D)) + strength * np.outer(rng.standard_normal(V), np.eye(D)[0])
    return E.astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(1)
    tensors = {
        "embed_tokens.weight": planted(),
        "layers.0.up.weight": rng.standard_normal((D, 90)).astype(np.float32),
        "layers.0.bias": np.zeros(D, dtype=np.float32),
        "layers.0.constant.weight": np.ones((40, D), dtype=np.float32),
    }
    safetensors_numpy.save_file(tensors, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(f"word{i}" for i in range(V)))
    return folder


def test_tensors_are_listed(run, model):
    code, out, _ = run("spectrum", model, "--list", "--json")
    assert code == 0
    listed = {entry["name"]: entry for entry in json.loads(out)["tensors"]}
    assert listed["embed_tokens.weight"]["shape"] == [V, D]
    assert listed["layers.0.bias"]["matrix"] is False
    code, out, _ = run("spectrum", model, "--list")
    assert "40 x 90" in out
    assert "embedding" in out


@pytest.mark.slow
def test_names_are_found_beside_the_model(run, model, tmp_path):
    assert "'word" in run("spectrum", model)[1]
    text = run("spectrum", model, "--tokenizer", "none")[1]
    assert "'word" not in text
    (tmp_path / "names.txt").write_text("\n".join(f"other{i}" for i in range(V)))
    assert "'other" in run("spectrum", model, "--tokenizer", tmp_path / "names.txt")[1]
    (tmp_path / "names.txt").write_text("\n".join(f"other{i}" for i in range(V + 1)))
    code, _, err = run("spectrum", model, "--tokenizer", tmp_path / "names.txt")
    assert code == 2
    assert "301 tokens" in err


@pytest.mark.slow
def test_a_weight_that_is_no_table_has_no_tokens_and_no_outlying_direction(run, model):
    code, out, _ = run("spectrum", model, "--tensor", "layers.0.up.weight", "--transpose")
    assert code == 0
    assert "90 rows x 40 columns" in out
    assert "token" not in out
    assert "outlying" not in out
    code, out, _ = run("spectrum", model, "--tensor", "layers.0.up.weight", "--transpose", "--json")
    answer = json.loads(out)
    assert answer["influential_rows"] == []
    assert answer["trusted"] in (True, False)
    assert answer["stable"] in (True, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--list", "--tensor", "x"], "does not go with"),
        (["--list", "--transpose"], "does not go with"),
        (["--all"], "No such option"),
        (["--tensor", "absent"], "no tensor"),
        (["--tokenizer", "absent.json"], "tokenizer"),
        (["--out", "a.txt"], "--out must end in"),
    ],
)
def test_bad_input_is_one_line(run, model, arguments, words):
    code, out, err = run("spectrum", model, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1
