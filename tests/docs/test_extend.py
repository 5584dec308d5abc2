"""The page on extending the library is executed, block by block."""

import re
from pathlib import Path

import pytest

from spikepool.data import formats
from spikepool.world import weights

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "extend.md"
BLOCKS = re.findall(r"## ([^\n]+)\n.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)


@pytest.fixture(scope="module")
def namespace():
    import numpy as np

    return {"np": np, "__name__": "extend"}


@pytest.mark.slow
@pytest.mark.parametrize(("title", "code"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_what_is_added_works(title, code, namespace):
    formats.known_formats()
    before = [dict(formats.FORMATS), dict(weights.NAMED_WEIGHTS)]
    try:
        exec(compile(code, f"extend.md, {title}", "exec"), namespace)
        assert "assert" in code
    finally:
        for registry, kept in zip((formats.FORMATS, weights.NAMED_WEIGHTS), before, strict=True):
            registry.clear()
            registry.update(kept)


def test_the_page_has_the_three_things():
    assert [title for title, _ in BLOCKS] == ["A law", "A weighting", "A format"]
