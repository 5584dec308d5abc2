"""Write docs/constants.md: values from the code, meanings and origins from constants.toml.

python docs/write_constants.py            # writes the page
python docs/write_constants.py --check    # fails when the page is not what would be written
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

import spikepool

HERE = Path(__file__).parent
HEAD = """# Constants

Numbers in the code that decide something a reader sees, with where each was measured. What only sets a precision far
below anything printed is not listed. It is written by `python docs/write_constants.py`: values come from the code.
"""
TABLE = "| name | value | decides | where measured |\n| --- | --- | --- | --- |\n"


def value_of(name: str) -> str:
    """The value of a constant as text."""
    module, _, attribute = name.rpartition(".")
    return shown(getattr(importlib.import_module(f"spikepool.{module}"), attribute))


def shown(value: Any) -> str:
    """A value as a cell of the table."""
    if isinstance(value, np.ndarray):
        return f"{len(value)} values, {value[0]:g} to {value[-1]:g}"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(shown(v) for v in value) + ")"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return str(value).replace("|", "\\|")


def page() -> str:
    """The page: one table for each module."""
    tables: dict[str, list[str]] = {}
    for entry in tomllib.loads((HERE / "constants.toml").read_text(encoding="utf-8"))["constants"]:
        module = entry["names"][0].rpartition(".")[0]
        names = ", ".join(f"`{name.removeprefix(module + '.')}`" for name in entry["names"])
        values = ", ".join(value_of(name) for name in entry["names"])
        line = f"| {names} | {values} | {entry['decides']} | {entry['origin']} |\n"
        tables.setdefault(module, []).append(line)
    sections = [
        f"\n## `spikepool.{module}`\n\n{TABLE}{''.join(sorted(lines))}" for module, lines in sorted(tables.items())
    ]
    return HEAD + "".join(sections)


if __name__ == "__main__":
    target = HERE / "constants.md"
    if "--check" in sys.argv:
        assert spikepool.__version__
        sys.exit(0 if target.read_text(encoding="utf-8") == page() else "docs/constants.md is not up to date")
    target.write_text(page(), encoding="utf-8")
