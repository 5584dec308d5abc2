"""One vocabulary: the question marks, the explorer's glossary and the documentation say the same."""

import re

import pytest

from spikepool.explorer.glossary import GROUPS, TERMS, to_markdown


def test_the_documentation_s_page_is_this_one(repository):
    assert (repository / "docs" / "glossary.md").read_text() == to_markdown()


def test_keys_are_unique_and_every_entry_says_something():
    assert len(TERMS) == sum(map(len, GROUPS.values()))
    for term in TERMS.values():
        assert len(term.text) > 25
        assert term.text.endswith(".")
        assert re.fullmatch(r"[A-Za-z-]+", term.key)


def test_every_question_mark_leads_to_an_entry(application):
    layout = application.client.get("/_dash-layout").get_data(as_text=True).replace("\\u002f", "/")
    links = set(re.findall(r'"glossary#([A-Za-z-]+)"', layout))
    assert len(links) >= 18
    page = application.client.get("/glossary").get_data(as_text=True)
    for key in links:
        assert f"id='{key}'" in page
    assert layout.count('"hint-button"') == layout.count('"glossary#')


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


def test_the_page_is_reached_and_styled(application):
    answer = application.client.get("/glossary")
    assert answer.status_code == 200
    for source in re.findall(r"(?:href|src)='(/assets[^']+)'", answer.get_data(as_text=True)):
        assert application.client.get(source).status_code == 200
