"""predict, simulate, sweep: pictures and pages, the exact route, defaults that fit, notes that explain."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import spikepool as sp

SMALL = ["--d", "60", "--V", "96", "--N", "120"]
STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".html": b"<!doctype html>", ".PNG": b"\x89PNG"}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", STARTS)
@pytest.mark.parametrize("command", [("predict",), ("simulate", "--trials", "2", "-w", "mean")])
def test_a_picture_or_a_page_is_written(run, tmp_path, command, suffix):
    out = tmp_path / f"picture{suffix}"
    code, said, err = run(*command, *SMALL, "--out", out)
    assert (code, err) == (0, "")
    assert str(out) in said.replace("\n", "")
    content = out.read_bytes()
    assert content.startswith(STARTS[suffix])
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    if suffix == ".html":
        text = content.decode()
        assert "<svg" in text
        assert "<table" in text
        assert 'src="http' not in text


@pytest.mark.slow
def test_json_stays_json_beside_a_picture(run, tmp_path):
    code, said, _ = run("predict", *SMALL, "--json", "--out", tmp_path / "p.svg")
    assert code == 0
    assert json.loads(said)["predictions"][0]["weights"] == "mean"
    assert (tmp_path / "p.svg").is_file()


@pytest.mark.parametrize("command", ["predict", "simulate"])
@pytest.mark.parametrize("out", ["picture.bmp", "no/such/folder/picture.png"])
def test_a_bad_out_is_refused_before_the_work(run, tmp_path, monkeypatch, command, out):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sp.SequenceModel, "predict", lambda *_, **__: pytest.fail("worked"))
    code, said, err = run(command, *SMALL, "--out", out)
    assert (code, said) == (2, "")
    assert "--out" in err


def test_simulate_beside_the_exact_prediction(run):
    code, said, _ = run("simulate", *SMALL, "--trials", 2, "-w", "0.7,0.2,0.1,0,0,0,0,0,0,0", "--exact", "--json")
    assert code == 0
    answer = json.loads(said)
    assert answer["exact"] is True
    model = sp.SequenceModel(d=60, V=96, N=120, R=sp.prefix_correlation(10, 3), mu=2.5)
    expected = model.predict([0.7, 0.2, 0.1, *[0] * 7], exact=True, rng=0).alignment
    assert answer["simulations"][0]["predicted_alignment"] == expected


@pytest.mark.parametrize("T", [1, 2, 3, 40])
def test_a_correlation_that_was_not_given_fits_the_length(run, T):
    code, said, err = run("predict", *SMALL, "--T", T, "--json")
    assert (code, err) == (0, "")
    assert json.loads(said)["model"]["correlation"] == f"prefix:{min(3, T)}"
    code, _, err = run("predict", *SMALL, "--T", 2, "-R", "prefix:3")
    assert code == 2
    assert "L must be at most T" in err


def test_thresholds_of_zero_come_with_their_reason(run):
    code, said, _ = run("predict")
    assert code == 0
    text = " ".join(said.split())
    assert "causal, optimal: the threshold is 0 because the class means of a sampled table differ" in text
    assert text.count("the threshold is 0") == 1
    assert "threshold is 0" not in run("predict", "--table", "class_centered")[1]


def test_help_of_sweep_shows_its_sections(run):
    text = " ".join(run("sweep", "--help")[1].split())
    for section in ("[model]", "[weights]", "[sweep]"):
        assert section in text


def test_a_prediction_outside_its_range_says_so(run):
    steep = ("-w", "0.9,0.1,0,0,0,0,0,0,0,0", "--mu", 1.5, *SMALL)
    code, said, _ = run("predict", *steep)
    assert code == 0
    text = " ".join(said.split())
    assert "0.9,0.1,0,0,0,0,0,0,0,0: caution: the closed form is for weights spread over many tokens" in text
    assert json.loads(run("predict", *steep, "--json")[1])["predictions"][0]["validity"]["ok"] is False
    assert "caution" in run("simulate", *steep, "--trials", 2)[1]
    assert "effective" not in run("predict", *steep, "--exact")[1]
