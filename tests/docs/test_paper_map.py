"""The map of the paper: every function it names exists, every test it names exists, every status is one of three."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in (ROOT / "docs" / "paper-map.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| in the paper"))
]


def resolve(path):
    """The object behind a dotted name: a module, or an attribute of one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def test_the_map_is_complete_in_kinds():
    text = " ".join(row[0] for row in ROWS)
    for word in ("theorem", "lemma", "proposition", "remark", "assumption", "figure", "appendix", "classes"):
        assert word in text
    assert len(ROWS) >= 40


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_link_of_a_row_leads_somewhere(row):
    _, functions, status, tests = row
    names = re.findall(r"`(spikepool[\w.]*)`", functions)
    assert names
    for name in names:
        assert resolve(name) is not None
    assert status.startswith(("as printed", "corrected", "extended"))
    files = re.findall(r"`(tests/[\w/.]+)`", tests)
    assert files
    assert all((ROOT / file).is_file() for file in files)


def test_errata_that_are_named_exist():
    numbers = {
        int(n)
        for row in ROWS
        for part in re.findall(r"errat(?:um|a) ([\d, and]+)", row[2])
        for n in re.findall(r"\d+", part)
    }
    headings = {
        int(n) for n in re.findall(r"^## (\d+)\.", (ROOT / "docs" / "errata.md").read_text(), flags=re.MULTILINE)
    }
    assert numbers <= headings
    assert headings == numbers  # every erratum has its place on the map
