"""One vocabulary: the glossary, the documentation and the command line use the same words."""

import re

import pytest


def test_every_entry_of_the_glossary_says_something(repository):
    page = (repository / "docs" / "glossary.md").read_text()
    entries = re.findall(r'^\| <span id="([^"]+)"></span>\*\*(.+?)\*\*[^|]*\| ([^|]*)\|', page, flags=re.MULTILINE)
    assert len(entries) >= 40
    assert len({key for key, *_ in entries}) == len({name for _, name, _ in entries}) == len(entries)
    for _, name, text in entries:
        assert len(text) > 25, name
        assert text.strip().endswith("."), name


def test_words_with_one_meaning(repository):
    """Alignment is of directions and overlap of spans; the closed form is never called exact where a reader looks."""
    texts = {path: path.read_text() for path in (repository / "docs").rglob("*.md")}
    texts[repository / "README.md"] = (repository / "README.md").read_text()
    for path, text in texts.items():
        assert not re.search(r"\|\s*exact( \(ours\))?\s*\|", text), path
        assert not re.search(r"[Pp]ublished, exact", text), path
        assert not re.search(r"alignment edge|edge of detection|overlap with (the )?(signal|hidden)", text), path
        assert not re.search(r"drift by token|number of samples|signal norm|sentence length", text), path


def test_the_command_line_speaks_the_same_words(repository):
    """Rows of a user's files, sequences of the model; strength for mu; change of tokens, drift of weights."""
    pytest.importorskip("typer", reason="the command line is not installed")
    for path in (repository / "src" / "spikepool" / "cli").glob("*.py"):
        said = re.findall(r'help="([^"]*)"|"""(.*?)"""', path.read_text(), flags=re.DOTALL)
        text = " ".join(" ".join(part) for part in said)
        assert not re.search(r"\b(samples|sentences|examples|instances|drift by token|signal mu)\b", text), path
