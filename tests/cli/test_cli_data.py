"""diagnose, forecast, report on files: the library's numbers, every format, bad input in one line."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

pytest.importorskip("typer")
pytest.importorskip("rich")

import spikepool as sp


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Digits as tokens and as features, with labels, a mask and groups."""
    folder = tmp_path_factory.mktemp("digits")
    X, y = load_digits(return_X_y=True)
    X, y = X[:300].astype(np.float32), y[:300]
    np.save(folder / "tokens.npy", X.reshape(-1, 8, 8))
    np.save(folder / "features.npy", X)
    np.save(folder / "y.npy", y)
    np.save(folder / "mask.npy", np.ones((300, 8), dtype=bool))
    (folder / "groups.txt").write_text("\n".join(f"g{i // 2}" for i in range(300)))
    (folder / "words.csv").write_text("label\n" + "\n".join(f"digit {v}" for v in y))
    np.savez(folder / "all.npz", X=X, y=y)
    return folder


@pytest.mark.slow
def test_diagnose(run, files, tmp_path):
    code, out, _ = run("diagnose", files / "features.npy", "--json", "--out", tmp_path / "d.html")
    assert code == 0
    answer = json.loads(out)
    with pytest.warns(UserWarning, match="mean of the features"):
        found = sp.diagnose(np.load(files / "features.npy"), target=0.9)
    assert answer["verdict"] == found.verdict == "coloured"
    assert [s["overlap"] for s in answer["spans"]] == [s.overlap for s in found.spans]
    assert "<svg" in (tmp_path / "d.html").read_text()
    code, out, err = run("diagnose", files / "all.npz", "--groups", files / "groups.txt")
    assert code == 0
    assert "agreement" in out
    assert all(line.startswith("spikepool: warning: ") for line in err.splitlines())


@pytest.mark.slow
def test_forecast(run, files, tmp_path):
    arguments = ("forecast", files / "features.npy", "--labels", files / "y.npy", "--n", "300,600", "--target", 0.95)
    code, out, _ = run(*arguments, "--json", "--out", tmp_path / "f.svg")
    assert code == 0
    answer = json.loads(out)
    found = sp.forecast(np.load(files / "features.npy"), np.load(files / "y.npy"), n=[300, 600], target=0.95)
    np.testing.assert_allclose(answer["accuracy"], found.accuracy)
    assert answer["n"] == [300, 600]
    assert (tmp_path / "f.svg").is_file()
    scaled = json.loads(run(*arguments, "--standardize", "--json")[1])
    assert (
        scaled["accuracy"]
        == sp.forecast(
            np.load(files / "features.npy"), np.load(files / "y.npy"), n=[300, 600], target=0.95, standardize=True
        ).to_dict()["accuracy"]
    )
    same = run("forecast", files / "all.npz", "--label-column", "y", "--n", "300,600", "--json")[1]
    assert json.loads(same)["accuracy"] == answer["accuracy"]


@pytest.mark.slow
def test_report_is_one_command(files, tmp_path):
    """As a user runs it: in a separate process, with the page in the current folder."""
    done = subprocess.run(
        [sys.executable, "-m", "spikepool", "report", files / "features.npy", "--labels", files / "words.csv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # on a slow machine it says how long it will take, and nothing else
    assert all(line.endswith("in all") for line in done.stderr.splitlines())
    for word in ("CHOOSE", "TRUST", "PLAN", "Next:", "Page: report.html"):
        assert word in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") >= 2
    assert "10 classes" in page


@pytest.mark.slow
def test_report_as_json(run, files, tmp_path):
    code, out, _ = run(
        "report", files / "tokens.npy", "-y", files / "y.npy", "--json", "--target", 0.9, "--out", tmp_path / "r.json"
    )
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "r.json").read_text())
    assert json.loads(out)["plan"]["result"]["target"] == 0.9


@pytest.mark.parametrize("command", ["diagnose", "forecast", "report"])
@pytest.mark.parametrize(
    ("data", "extra", "words"),
    [
        ("absent.npy", (), "nothing at"),
        ("y.npy", (), "must be features (n, d) or tokens"),
        ("groups.txt", (), "not a table of numbers"),
        ("nan.npy", ("--labels", "y.npy"), "NaN"),
        ("wrong", ("--labels", "y.npy"), ""),
        ("right", ("--labels", "short.txt"), "3 values for 300 rows"),
        ("right", ("--out", "x.bmp"), "--out must end in"),
        ("right", ("--labels", "objects.npy"), "pickled"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(run, files, monkeypatch, command, data, extra, words):
    monkeypatch.chdir(files)
    np.save("nan.npy", np.full((300, 64), np.nan))
    np.save("objects.npy", np.array([{}] * 300, dtype=object))
    (files / "short.txt").write_text("1\n2\n3")
    if command == "diagnose":
        extra = tuple(x for x in extra if x not in ("--labels", "y.npy", "short.txt", "objects.npy"))
        if data == "right" and not extra:
            pytest.skip("takes no labels")
    if data == "wrong":
        if command == "report":
            pytest.skip("takes both")
        data, words = "tokens.npy", "features (n, d)"
    if data == "right":
        data = "features.npy"
    code, out, err = run(command, data, *extra)
    assert code == 2, err
    assert out == ""
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


def test_forecast_asks_for_labels(run, files):
    code, _, err = run("forecast", files / "features.npy")
    assert code == 2
    assert "--labels" in err
    code, _, err = run("forecast", files / "features.npy", "-y", files / "y.npy", "--n", "many")
    assert code == 2


def test_a_folder_that_is_not_there_is_said_before_the_work(run, files, tmp_path, monkeypatch):
    monkeypatch.setattr("spikepool.trust.diagnosis.diagnose", lambda *_, **__: pytest.fail("it has begun"))
    out = tmp_path / "absent" / "p.png"
    code, said, err = run("diagnose", files / "features.npy", "--out", out)
    assert (code, said) == (2, "")
    assert "there is no such folder" in err
    assert not out.parent.exists()


def test_a_report_never_replaces_its_labels(run, files, tmp_path):
    labels = tmp_path / "y.jsonl"
    labels.write_text("\n".join(json.dumps({"y": int(y)}) for y in np.load(files / "y.npy")))
    out = tmp_path / "y.json"
    out.hardlink_to(labels)
    before = labels.read_bytes()
    code, _, err = run("report", files / "tokens.npy", "--labels", labels, "--out", out)
    assert code == 2
    assert "the same as the input" in err
    assert labels.read_bytes() == before
