"""The page on extending the library is executed, block by block."""

import re
from pathlib import Path

import pytest

from spikepool.pooling import heads, registry
from spikepool.world import correlation, weights

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "extend.md"
BLOCKS = re.findall(r"## ([^\n]+)\n.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)


@pytest.fixture(scope="module")
def namespace():
    import numpy as np

    return {"np": np, "__name__": "extend"}


@pytest.mark.slow
@pytest.mark.parametrize(("title", "code"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_what_is_added_works(title, code, namespace):
    if title in ("A pooling", "A head"):
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    if title == "A figure":
        pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    registries = [weights.NAMED_WEIGHTS, correlation.NAMED_CORRELATIONS, registry._REGISTRY, heads._HEADS]
    before = [dict(one) for one in registries]
    try:
        exec(compile(code, f"extend.md, {title}", "exec"), namespace)
        assert "assert" in code
    finally:
        for one, kept in zip(registries, before, strict=True):
            one.clear()
            one.update(kept)


def test_the_page_has_everything_that_can_be_added():
    titles = ["A law", "A weighting", "A correlation", "A pooling", "A head", "A figure"]
    assert [title for title, _ in BLOCKS] == titles
