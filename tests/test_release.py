"""The release agrees with itself: one version everywhere, a changelog for it, and files that are shipped."""

import re
import tomllib

import pytest

import spikepool as sp


def test_one_version_everywhere(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert project["version"] == sp.__version__
    citation = (repository / "CITATION.cff").read_text()
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == sp.__version__
    assert re.search(r"^date-released: \d{4}-\d{2}-\d{2}$", citation, re.MULTILINE)
    first = re.search(r"^## (\S+)", (repository / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    assert first == sp.__version__


def test_the_citation_is_one(repository):
    """What the command prints, what the page of the documentation shows and what the file for machines says."""
    pytest.importorskip("typer", reason="the command line is not installed")
    from spikepool.cli.application import CITATION

    assert CITATION in (repository / "docs" / "citing.md").read_text()
    machine = (repository / "CITATION.cff").read_text()
    fields = dict(re.findall(r"^(title|version|date-released|license): \"?(.+?)\"?$", machine, re.MULTILINE))
    software = CITATION[CITATION.index("@software") :]
    for name in ("title", "version", "date-released", "license"):
        assert f"{{{fields[name]}}}" in software, name
    paper = re.search(r'^  title: "(.+)"$', machine, re.MULTILINE).group(1)
    assert paper in CITATION
    assert "doi" not in machine.lower(), "then the command and the page should give it too"


def test_every_extra_is_in_all(repository):
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    reached, todo = set(), ["all"]
    while todo:
        for requirement in extras[todo.pop()]:
            inner = re.match(r"spikepool\[(.+)\]", requirement)
            new = set(inner.group(1).split(",")) - reached if inner else set()
            reached |= new
            todo += new
    # torch, which transformers needs, is several gigabytes on most machines: asked for by name only
    assert set(extras) - {"all", "test", "docs", "dev", "transformers"} <= reached


@pytest.mark.parametrize("pattern", ["*.html", "*.css", "*.js", "py.typed", "*.pyi"])
def test_files_that_are_no_code_are_inside_the_package(repository, pattern):
    assert list((repository / "src" / "spikepool").rglob(pattern))
