"""Every public name has an entry in the reference."""

import re

import pytest

import spikepool as sp

NAMES = {name: module for name, module in sp._REACHABLE.items() if not name.endswith(("Error", "Warning"))}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_page_explains_it(name, repository):
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (repository / "docs" / "api").glob("*.md"))
    entries = set(re.findall(r"^::: (spikepool[\w.]*)$", pages, re.MULTILINE))
    module = f"spikepool.{NAMES[name]}"
    there = module in entries or any(entry.endswith(f".{name}") for entry in entries)
    assert there, f"add ::: {module}.{name} to a page of docs/api"
