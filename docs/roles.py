"""Hooks of the site: links from names to the reference, and pages whose text is a file of the project's root."""

import re
from pathlib import Path
from typing import Any

import spikepool

ROOT = Path(__file__).parents[1]
ROLE = re.compile(r":(?:func|class|mod|meth|attr|data|exc):<code>~?([\w.]+)</code>")
COPIES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
# links, blocks of code and headings stay as they are; `sp.name` and the names of classes become links
ENTRY = re.compile(r"^::: (spikepool\.[\w.]+)$", re.MULTILINE)
PAGES = "\n".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/api/*.md"))
ENTRIES = {entry.rpartition(".")[2]: entry for entry in ENTRY.findall(PAGES)}
NAME = re.compile(r"<a\b.*?</a>|<pre\b.*?</pre>|<h\d\b.*?</h\d>|<code>(sp\.)?(\w+)([.(\[][^<]*)?</code>", re.DOTALL)

CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Show the changelog and the guide for contributors, whose links start at the project's root."""
    source = COPIES.get(page.file.src_uri)
    return (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](") if source else markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Make references that mkdocs-autorefs resolves of roles (``:func:`name```) and of public names in code."""
    html = ROLE.sub(r'<autoref optional identifier="\1"><code>\1</code></autoref>', html)
    if not page.file.src_uri.startswith(("api/", "changelog")):
        html = NAME.sub(_linked, html)
    return CELL.sub(_breakable, html)


def _breakable(cell: re.Match[str]) -> str:
    """Let names in a table break behind dots, underscores and slashes."""
    return CODE.sub(lambda name: re.sub(r"([._/])(?=\w)", r"\1<wbr>", name[0]), cell[0])


def _linked(found: re.Match[str]) -> str:
    prefix, name, _ = found.groups()
    module = spikepool._REACHABLE.get(name)
    if module is None or not (prefix or name[0].isupper()):
        return found[0]
    entry = ENTRIES.get(name, f"spikepool.{module}.{name}")
    return f'<autoref optional identifier="{entry}">{found[0]}</autoref>'
