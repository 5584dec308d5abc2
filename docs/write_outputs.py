"""Write into the pages what their code prints and draws.

    python docs/write_outputs.py [PAGE ...]     # all pages with Python blocks, README.md included, or those named

The Python blocks of a page run one after the other in one namespace, in an empty folder. What a block prints follows it
as a block of kind ``output``; a figure that it leaves open is saved in docs/images/output/ and follows as a picture.
The tests run the pages in the same way and compare. Pictures of docs/images that are figures of the report are copied
from reports/ where ``make reproduce`` has written it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PICTURES = DOCS / "images" / "output"
# a block of Python, and what an earlier run put behind it
PLACE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n"
    r"(?P<shown>(?:\n```output\n(?P<text>.*?)^```\n)?(?:\n!\[[^\]]*\]\((?P<picture>[^)]*images/output/[^)]*)\)\n)?)",
    re.DOTALL | re.MULTILINE,
)
# extend.md fills registries: its own test runs it and clears up
SKIPPED = {"extend.md", "CHANGELOG.md", "CONTRIBUTING.md"}


def pages() -> list[Path]:
    """Every page that has Python to run."""
    candidates = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in candidates if page.name not in SKIPPED and PLACE.search(page.read_text("utf-8"))]


def runs(page: Path) -> Iterator[tuple[re.Match[str], str, Any]]:
    """Each Python block of a page, what it printed, and the figure that it left open (None without one)."""
    namespace: dict[str, Any] = {"__name__": "__documentation__"}
    for place in PLACE.finditer(page.read_text("utf-8")):
        printed = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore", UserWarning)
            exec(compile(place["code"], str(page), "exec"), namespace)
        yield place, printed.getvalue(), _open_figure()


def _open_figure() -> Any:
    if "matplotlib.pyplot" not in sys.modules:
        return None
    from matplotlib import pyplot

    figure = pyplot.figure(pyplot.get_fignums()[-1]) if pyplot.get_fignums() else None
    pyplot.close("all")
    return figure


def write(page: Path) -> bool:
    """Run a page in an empty folder and write its outputs; whether that changed it."""
    before = page.read_text("utf-8")
    parts, end = [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, (place, printed, figure) in enumerate(runs(page), 1):
            parts += [before[end : place.start()], f"```python\n{place['code']}```\n"]
            if printed.strip():
                parts.append(f"\n```output\n{printed.rstrip()}\n```\n")
            if figure is not None:
                PICTURES.mkdir(parents=True, exist_ok=True)
                path = PICTURES / f"{page.stem}-{number}.png"
                figure.savefig(path, dpi=110, bbox_inches="tight")
                link = os.path.relpath(path, page.parent)
                parts.append(f"\n![What the code above draws]({link})\n")
            end = place.end()
    after = "".join([*parts, before[end:]])
    if after != before:
        page.write_text(after, "utf-8")
    return after != before


def copy_figures() -> None:
    """Copy the figures of a report that is there over the pictures of the same name."""
    for figure in (DOCS.parent / "reports" / "figures").glob("figure-*.png"):
        picture = DOCS / "images" / f"{figure.stem.split('-', 2)[2].replace('-', '_')}.png"
        if picture.exists():
            shutil.copyfile(figure, picture)


def main() -> None:
    """Write the pages that are named, or all."""
    copy_figures()
    os.environ.setdefault("MPLBACKEND", "Agg")
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or pages()
    for page in chosen:
        print(f"{os.path.relpath(page, DOCS.parent)}: {'written' if write(page) else 'unchanged'}", flush=True)


if __name__ == "__main__":
    main()
