"""Tables of the documentation: every row has as many cells as its head."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: str(p.relative_to(DOCS)))
def test_rows_have_the_cells_of_the_head(page):
    head = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("|"):
            head = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        head = cells if head is None else head
        assert cells == head, f"line {number}: a bar inside a cell must be written as \\| or \\vert"
