"""A hook of the site: cross-references of docstrings (``:func:`name```) become links where the name has an entry."""

import re
from typing import Any

ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|exc):<code>~?([\w.]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Replace the roles, which Markdown does not know, by references that mkdocs-autorefs resolves."""
    return ROLE.sub(r'<autoref optional identifier="\1"><code>\1</code></autoref>', html)
