"""The tutorial's transcript is what the commands print: the same words, numbers to within rounding."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "your-data.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?(?:\d[\d,]*)?\.?\d+")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files the tutorial makes."""
    place = tmp_path_factory.mktemp("tutorial")
    code = next(text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == "python")
    subprocess.run([sys.executable, "-c", code], cwd=place, check=True)
    return place


def transcripts():
    found = [text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == "text" and text.startswith("$ ")]
    return [(text.splitlines()[0][2:], text.split("\n", 1)[1]) for text in found]


def values(text):
    return [float(x.replace(",", "")) for x in NUMBER.findall(text)]


def test_there_is_something_to_run():
    commands = [shlex.split(command)[1] for command, _ in transcripts()]
    assert commands == ["report", "pool", "forecast"]


@pytest.mark.parametrize(("command", "expected"), transcripts(), ids=lambda x: x.split("\n")[0][:40])
def test_a_command_prints_what_the_tutorial_shows(folder, command, expected):
    program, *arguments = shlex.split(command)
    assert program == "spikepool"
    done = subprocess.run(
        [sys.executable, "-m", "spikepool", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    words = [NUMBER.sub("#", text).split() for text in (done.stdout, expected)]
    assert words[0] == words[1]
    for printed, shown in zip(values(done.stdout), values(expected), strict=True):
        # another BLAS moves last digits: accuracies by .01, numbers of rows by a tenth
        assert abs(printed - shown) <= max(0.011, 0.1 * abs(shown))


def test_the_page_is_there(folder):
    assert (folder / "report.html").read_text().count("<svg") >= 2
