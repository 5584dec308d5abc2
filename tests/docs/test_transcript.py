"""The tutorial's transcript is what the commands print: the same words, numbers to within rounding."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest

from spikepool.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "your-data.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?(?:\d[\d,]*)?\.?\d+")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files the tutorial makes."""
    place = tmp_path_factory.mktemp("tutorial")
    code = next(text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == "python")
    with contextlib.chdir(place):
        exec(compile(code, str(PAGE), "exec"), {"__name__": "__documentation__"})
    return place


def transcripts():
    found = [text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == "text" and text.startswith("$ ")]
    return [(text.splitlines()[0][2:], text.split("\n", 1)[1]) for text in found]


def values(text):
    return [float(x.replace(",", "")) for x in NUMBER.findall(text)]


def test_there_is_something_to_run():
    commands = [shlex.split(command)[1] for command, _ in transcripts()]
    assert commands == ["report", "forecast"]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "expected"), transcripts(), ids=lambda x: x.split("\n")[0][:40])
def test_a_command_prints_what_the_tutorial_shows(folder, command, expected, monkeypatch, capsys):
    program, *arguments = shlex.split(command)
    assert program == "spikepool"
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as left:
        main(arguments)
    printed, said = capsys.readouterr()
    # on a slow machine a command says how long it will take
    assert left.value.code == 0
    assert all(re.search(r"about [\d.]+ (s|min) in all", line) for line in said.splitlines()), said
    words = [NUMBER.sub("#", text).split() for text in (printed, expected)]
    assert words[0] == words[1]
    for found, shown in zip(values(printed), values(expected), strict=True):
        # another BLAS moves last digits: accuracies by .01, numbers of rows by a tenth
        assert abs(found - shown) <= max(0.011, 0.1 * abs(shown))


@pytest.mark.slow
def test_the_page_is_there(folder):
    assert (folder / "report.html").read_text().count("<svg") >= 2
