"""The release agrees with itself: one version everywhere, a changelog for it, and files that are shipped."""

import re
import tomllib

import pytest

import spikepool as sp


def test_one_version_everywhere(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    source = (repository / project["tool"]["hatch"]["version"]["path"]).read_text()
    assert re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE) == [sp.__version__]
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
    number = re.search(r"arxiv\.org/abs/([\d.]+)", machine).group(1)
    assert f"eprint = {{{number}}}" in CITATION
    assert f"abs/{number}" in (repository / "README.md").read_text()


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


def test_the_source_distribution_has_what_its_makefile_needs(repository):
    """Every file of constraints and every document that the targets and the README name."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    included = set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    named = set(re.findall(r"constraints[a-z-]*\.txt", (repository / "Makefile").read_text()))
    assert {"constraints.txt", "constraints-oldest.txt"} <= named
    assert named | {"constraints-runtime.txt", "SECURITY.md", "CONTRIBUTING.md", "LICENSE"} <= included
    assert all((repository / name).exists() for name in included)


def test_messages_name_an_extra_that_has_the_package(repository):
    """``require("module", "extra")``: the extra exists, and it or one that it includes has the distribution."""
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def distributions(extra):
        names = set()
        for entry in extras[extra]:
            inner = re.match(r"spikepool\[([a-z,-]+)\]", entry)
            names |= set().union(*map(distributions, inner[1].split(","))) if inner else {re.match(r"[\w-]+", entry)[0]}
        return names

    # google-crc32c comes with zarr
    for path in (repository / "src").rglob("*.py"):
        for module, extra in re.findall(r'require\("([\w.]+)", "([\w-]+)"\)', path.read_text()):
            top = {"sklearn": "scikit-learn"}.get(module.split(".")[0], module.split(".")[0].replace("_", "-"))
            assert top in distributions(extra) or top == "google-crc32c", (path.name, module, extra)


def test_the_runtime_has_hashes(repository):
    """Every runtime dependency of ``spikepool[all]`` is pinned with a hash, at a version of constraints.txt."""
    lines = [line for line in (repository / "constraints-runtime.txt").read_text().splitlines() if line[:1] not in "#"]
    pinned = dict(
        re.fullmatch(r"([a-z0-9.-]+)==(\S+)(?: --hash=sha256:[0-9a-f]{64})+", line).groups() for line in lines
    )
    tested = dict(re.findall(r"^([\w.-]+)==(\S+)$", (repository / "constraints.txt").read_text(), re.M))
    tested = {name.lower().replace("_", "-").replace(".", "-"): version for name, version in tested.items()}
    assert {"numpy", "scipy", "scikit-learn", "dash", "zarr", "onnxruntime"} <= set(pinned)
    assert all(tested.get(name.replace(".", "-"), version) == version for name, version in pinned.items())
