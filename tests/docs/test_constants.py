"""docs/constants.md has the values of the code."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def load():
    spec = importlib.util.spec_from_file_location("write_constants", DOCS / "write_constants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_code_says():
    assert (DOCS / "constants.md").read_text(encoding="utf-8") == load().page(), "run python docs/write_constants.py"


def test_a_changed_value_is_seen(monkeypatch):
    from spikepool.trust import isotropic as bulk_fit

    module = load()
    before = module.page()
    monkeypatch.setattr(bulk_fit, "TRACY_WIDOM_MARGIN", 3.7)
    assert module.page() != before
