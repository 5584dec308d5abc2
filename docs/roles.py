"""Hooks of the site: links of docstrings, and pages whose text is a file of the project's root."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|exc):<code>~?([\w.]+)</code>")
COPIES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show the changelog and the guide for contributors, whose links start at the project's root."""
    source = COPIES.get(page.file.src_uri)
    return (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](") if source else markdown


def on_page_content(html: str, **_: Any) -> str:
    """Replace the roles (``:func:`name```) by references that mkdocs-autorefs resolves."""
    return ROLE.sub(r'<autoref optional identifier="\1"><code>\1</code></autoref>', html)
