"""The notebooks run as they are, show tables and pictures, and are stored with outputs that today's code gives."""

import importlib.util
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def runner():
    spec = importlib.util.spec_from_file_location("run_notebooks", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kinds(notebook):
    """What each code cell shows, by number: the set of its kinds of output."""
    shown = {}
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            outputs = [set(o["data"]) if "data" in o else {o.get("name", o.output_type)} for o in cell.outputs]
            shown[number] = set().union(*outputs) if outputs else set()
    return shown


def test_there_is_one_for_each_kind_of_reader():
    assert [path.stem for path in NOTEBOOKS] == ["practitioner", "table", "texts", "theorist"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_and_shows_what_is_stored(path, tmp_path):
    stored, fresh = nbformat.read(path, as_version=4), runner().execute(path, tmp_path)
    assert {n: k - {"text/plain"} for n, k in kinds(fresh).items()} == {
        n: k - {"text/plain"} for n, k in kinds(stored).items()
    }
    found = set().union(*kinds(fresh).values())
    assert {"text/html", "image/png", "stdout"} <= found
    assert "stderr" not in found, "a warning in a notebook"
    assert not list(tmp_path.iterdir())
    for cell in stored.cells:
        assert "/site-packages/" not in str(cell.get("outputs", ""))
