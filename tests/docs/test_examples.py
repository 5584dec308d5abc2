"""Every example runs and draws its figure, and the gallery shows each."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_draws_its_figure(path, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the plot extra is not installed")
    pyplot.switch_backend("Agg")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(str(tmp_path / "figure.png"))
    pyplot.close("all")
    image = (tmp_path / "figure.png").read_bytes()
    assert image.startswith(b"\x89PNG")
    assert len(image) > 10_000


def test_gallery_shows_every_example():
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    for path in EXAMPLES:
        assert f"images/gallery/{path.stem}.png" in gallery
        assert (ROOT / "docs" / "images" / "gallery" / f"{path.stem}.png").is_file()
