"""spectrum and compare on files: lists, every weight, names of tokens, gates, and bad input in one line."""

import csv
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


def test_every_weight_in_one_table(run, model, tmp_path):
    code, out, _ = run("spectrum", model, "--all", "--json", "--out", tmp_path / "all.svg")
    assert code == 0
    answer = json.loads(out)
    found = {entry["name"]: entry for entry in answer["weights"]}
    assert set(found) == {"embed_tokens.weight", "layers.0.up.weight"}
    assert found["layers.0.up.weight"]["shape"] == [90, D], "the longer side as rows"
    assert found["embed_tokens.weight"]["outliers"] == 1
    assert found["layers.0.up.weight"]["outliers"] == 0
    assert "equal" in answer["unmeasured"]["layers.0.constant.weight"]
    code, out, _ = run("spectrum", model, "--all")
    assert "layers.0.up.weight" in out
    assert "Verdict: look. layers.0.constant.weight is constant." in out
    assert out.index("embed_tokens.weight") < out.index("layers.0.up.weight"), "first what stands out"
    assert found["embed_tokens.weight"]["counts"]["coloured"] == 1
    assert found["embed_tokens.weight"]["frobenius"] == pytest.approx(np.linalg.norm(planted()), rel=1e-6)


@pytest.mark.slow
def test_values_for_a_spreadsheet(run, model):
    _, out, _ = run("spectrum", model, "--all", "--json")
    weights = {entry["name"]: entry for entry in json.loads(out)["weights"]}
    for arguments in (("--all",), ("--all", "--fast"), ()):
        code, out, err = run("spectrum", model, *arguments, "--csv")
        assert (code, err) == (0, "")
        rows = {row["weight"]: row for row in csv.DictReader(out.splitlines())}
        found = rows["embed_tokens.weight"]
        assert set(rows) == (set(weights) if arguments else {"embed_tokens.weight"})
        for key in ("outliers", "edge", "alpha", "stable_rank", "condition"):
            assert float(found[key]) == pytest.approx(weights["embed_tokens.weight"][key])
        assert (found["stable"] == "") == ("--fast" in arguments)
        assert (found["trusted"] == "") == bool(arguments), "with --all the held-out check is asked for"


@pytest.mark.slow
def test_the_held_out_check_of_every_weight_is_made_when_asked_for(run, model):
    for arguments in (("--held-out",), ("--fail-if", "p_value<0")):
        _, out, err = run("spectrum", model, "--all", "--json", *arguments)
        assert all(weight["trusted"] in (True, False) for weight in json.loads(out)["weights"]), err
    for arguments in (("--fast",), ("--held-out",), ("--all", "--fast", "--held-out"), ("--csv", "--json")):
        code, out, err = run("spectrum", model, *arguments)
        assert (code, out) == (2, "")
        assert len(err.strip().splitlines()) == 1


def test_weights_that_are_unlike_their_kind_are_pointed_out(run, tmp_path):
    rng = np.random.default_rng(2)
    tensors = {f"layers.{i}.up.weight": rng.standard_normal((90, D)).astype(np.float32) for i in range(5)}
    tensors["layers.2.up.weight"][:, 7] = 0  # as the row of a padding token
    path = tmp_path / "m.safetensors"
    safetensors_numpy.save_file(tensors, path)
    assert "Verdict: OK. 5 weights are complete, and none lacks rank." in run("spectrum", path, "--all", "--fast")[1]
    safetensors_numpy.save_file({**tensors, "layers.3.up.weight": 30 * tensors["layers.3.up.weight"]}, path)
    code, out, _ = run("spectrum", path, "--all", "--fast")
    assert code == 0
    assert "Verdict: look. The spectral norm of layers.3.up.weight is" in out
    low = rng.standard_normal((90, 35)) @ rng.standard_normal((35, D))
    safetensors_numpy.save_file({**tensors, "layers.4.up.weight": low.astype(np.float32)}, path)
    _, out, _ = run("spectrum", path, "--all", "--fast")
    assert "Verdict: look. layers.4.up.weight has rank 35 of 40." in out
    assert out.index("layers.4.up") < out.index("layers.0.up")


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("outliers>0", 3),
        ("outliers>1", 0),
        ("outliers == 1", 3),
        ("outliers!=1", 0),
        ("trusted", 3),
        ("not trusted", 0),
        ("stable==false", 0),
        ("largest>=1e9", 0),
    ],
)
def test_gates(run, model, gate, code):
    got, out, err = run("spectrum", model, "--json", "--fail-if", gate)
    assert got == code, err
    assert json.loads(out)["n_outliers"] == 1
    assert ("gate" in err) == (code == 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fail-if", "outliers>>5"], "not understood"),
        (["--fail-if", "outliers>many"], "not understood"),
        (["--fail-if", "size>5"], "names no result"),
        (["--list", "--tensor", "x"], "does not go with"),
        (["--all", "--transpose"], "does not go with"),
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


@pytest.mark.slow
def test_compare(run, model, tmp_path):
    E = planted()
    moved = E.copy()
    moved[5] += 4
    np.save(tmp_path / "b.npy", moved)
    code, out, err = run("compare", model, tmp_path / "b.npy", "--out", tmp_path / "c.html")
    assert (code, err) == (0, "")
    assert "'word5' (row 5)" in out
    assert "<svg" in (tmp_path / "c.html").read_text()
    code, out, _ = run("compare", model, tmp_path / "b.npy", "--json")
    answer = json.loads(out)
    assert answer["common"] == V
    assert answer["moved"][0]["row"] == 5
    assert answer["basis"] == "as stored"
    assert run("compare", model, tmp_path / "b.npy", "--fail-if", "change>0.01")[0] == 3
    assert run("compare", model, model, "--fail-if", "change>0.01")[0] == 0
    np.save(tmp_path / "short.npy", E[:200])
    code, out, _ = run("compare", tmp_path / "b.npy", tmp_path / "short.npy")
    assert code == 0
    assert "cannot be matched" in out
    code, _, err = run("compare", tmp_path / "b.npy", tmp_path / "short.npy", "--fail-if", "change>0.1")
    assert code == 2
    assert "not measured" in err
    code, _, err = run("compare", model, tmp_path / "absent.npy")
    assert code == 2
    assert "nothing at" in err


@pytest.mark.slow
def test_compare_every_weight_of_two_checkpoints(run, model, tmp_path):
    tensors = dict(safetensors_numpy.load_file(model / "model.safetensors"))
    tensors["embed_tokens.weight"] = tensors["embed_tokens.weight"] * 1.5
    tensors["extra.weight"] = np.ones((3, 4), dtype=np.float32)
    safetensors_numpy.save_file(tensors, tmp_path / "b.safetensors")
    pair = ("compare", model, tmp_path / "b.safetensors", "--all")
    code, out, err = run(*pair, "--out", tmp_path / "c.html")
    assert (code, err) == (0, "")
    assert "Only in the second: extra.weight" in out
    assert "<svg" in (tmp_path / "c.html").read_text()
    code, out, _ = run(*pair, "--json", "--out", tmp_path / "c.pdf")
    assert code == 0
    found = {w["name"]: w for w in json.loads(out)["weights"]}
    assert found["embed_tokens.weight"]["drift"] == pytest.approx(0.5, rel=1e-6)
    assert found["embed_tokens.weight"]["overlap"] == pytest.approx(1)
    assert found["layers.0.up.weight"]["drift"] == 0
    assert (tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")
    for gate, wanted in (("drift>0.4", 3), ("drift>0.6", 0), ("outliers_first>1", 0), ("failed", 0)):
        assert run(*pair, "--fail-if", gate, "--allow", "unmatched")[0] == wanted
        assert run(*pair, "--fail-if", gate)[0] == 3, "a tensor has no partner"
    assert run(*pair, "--fail-if", "unmatched>1")[0] == 0
    for extra, words in (
        (["--tensor", "x"], "--tensor does not go with --all"),
        (["--transpose"], "--transpose does not go with --all"),
        (["--fail-if", "change>1"], "names no result"),
        (["--fail-if", "drift>nan"], "finite"),
        (["--fail-if", "drift>1e400"], "finite"),
        (["--allow", "everything"], "names no count"),
    ):
        code, _, err = run(*pair, *extra)
        assert code == 2
        assert words in err
        assert len(err.strip().splitlines()) == 1
