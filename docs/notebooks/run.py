"""Execute the notebooks in place, as ``make notebooks`` does; what they show is what the code gives today."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
TIMEOUT = 600  # seconds per cell


def execute(path: Path, folder: Path) -> Any:
    """The notebook with fresh outputs; a cell that raises, raises here."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": folder}})
    os.environ["TQDM_DISABLE"] = "1"  # progress bars come and go with the speed of the machine
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return notebook


def main(names: list[str]) -> None:
    """Execute the named notebooks, or all."""
    import nbformat

    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(execute(path, FOLDER), path)
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
