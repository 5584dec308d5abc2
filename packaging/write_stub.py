"""Write ``src/spikepool/__init__.pyi``: the public names for type checkers, which do not run ``__getattr__``.

python packaging/write_stub.py            # after a change of the names in src/spikepool/__init__.py
python packaging/write_stub.py --check    # exit 1 when the file is not up to date
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "spikepool"
STUB = PACKAGE / "__init__.pyi"
HEAD = '"""The public names of spikepool, for type checkers; written by packaging/write_stub.py."""\n'


def modules() -> list[tuple[str, tuple[str, ...]]]:
    """Modules and names, as ``__init__`` lists them, and every error."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for node in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", None) in ("_MODULES", "_ALSO") and node.value:
            found += ast.literal_eval(node.value).items()
    errors = ast.parse((PACKAGE / "errors.py").read_text(encoding="utf-8")).body
    return [*found, ("errors", tuple(node.name for node in errors if isinstance(node, ast.ClassDef)))]


def stub() -> str:
    """The text of the file."""
    lines = [f"from spikepool.{module} import {name} as {name}" for module, name in sorted(wanted())]
    return f"{HEAD}\n" + "\n".join(lines) + "\n\n__version__: str\n"


def wanted() -> set[tuple[str, str]]:
    """(module, name) of every public name."""
    return {(module, name) for module, names in modules() for name in names}


def written() -> set[tuple[str, str]]:
    """The same, as the file has them; formatting does not matter."""
    tree = ast.parse(STUB.read_text(encoding="utf-8")) if STUB.is_file() else ast.Module([], [])
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {((node.module or "").removeprefix("spikepool."), a.name) for node in imports for a in node.names}


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if written() == wanted() else "the stub is out of date: run python packaging/write_stub.py")
    STUB.write_text(stub(), encoding="utf-8")
