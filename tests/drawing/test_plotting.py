"""Drawing functions put the right data on the axes, and touch nothing else."""

import subprocess
import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from spikepool.drawing import palette, plotting  # noqa: E402
from spikepool.errors import InvalidInputError, NonFiniteError, ShapeError  # noqa: E402
from spikepool.laws.free_product import FreeProductLaw  # noqa: E402


@pytest.fixture
def ax():
    return plotting.new_figure()[1][0, 0]


def test_methods_differ_in_colour_marker_and_line():
    styles = list(palette.METHODS.values())
    assert list(palette.METHODS) == ["mean", "causal", "optimal", "learned"]
    for attribute in ("color", "marker", "linestyle", "label"):
        assert len({getattr(style, attribute) for style in styles}) == len(styles)


def test_methods_differ_in_greyscale():
    from matplotlib.colors import to_rgb

    greys = sorted(np.dot(to_rgb(style.color), [0.299, 0.587, 0.114]) for style in palette.METHODS.values())
    assert np.diff(greys).min() > 0.06


def luminance(color):
    """Relative luminance of the Web Content Accessibility Guidelines."""
    from matplotlib.colors import to_rgb

    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def test_shades_for_screens_stand_out_from_the_page():
    from spikepool.explorer.figures import SURFACE

    for style in palette.METHODS.values():
        for shade, page in ((style.on_light, SURFACE["light"]), (style.on_dark, SURFACE["dark"])):
            low, high = sorted((luminance(shade), luminance(page)))
            assert (high + 0.05) / (low + 0.05) >= 4.5


def test_curves_and_markers_carry_the_data(ax):
    x, y, e = np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.5, 0.4]), np.array([0.01, 0.02, 0.03])
    for draw in (plotting.plot_theory, plotting.plot_published, plotting.plot_method):
        line = draw(ax, x, y, "causal")
        assert np.array_equal(line.get_xydata(), np.column_stack([x, y]))
        assert line.get_color() == palette.METHODS["causal"].color
    container = plotting.plot_simulated(ax, x, y, e, "mean", label="m")
    assert np.array_equal(container[0].get_xydata(), np.column_stack([x, y]))
    bars = container[2][0].get_segments()
    assert [b[1][1] - b[0][1] for b in bars] == pytest.approx(4 * e)  # two standard errors either way
    exact, published = ax.lines[0], ax.lines[1]
    assert exact.get_linestyle() != published.get_linestyle()


def test_histogram_has_the_mass_of_what_it_shows(ax):
    values = np.concatenate([np.linspace(0.01, 0.99, 99), [5.0]])  # one outlier outside the bins
    stairs = plotting.plot_histogram(ax, values, np.linspace(0, 1, 11))
    heights, edges, _ = stairs.get_data()
    assert np.sum(heights * np.diff(edges)) == pytest.approx(0.99)


def test_density_integrates_to_the_continuous_mass(ax):
    law = FreeProductLaw(0.4, 0.5, 0.3)
    line = plotting.plot_density(ax, law, points=4000)
    x, y = line.get_data()
    assert np.trapezoid(y, x) == pytest.approx(1 - law.atom, abs=2e-3)


def test_marks(ax):
    assert plotting.mark_edge(ax, 0.7).get_xdata()[0] == 0.7
    signal, mean = (plotting.mark_outlier(ax, 1.0, kind) for kind in ("signal", "mean"))
    assert signal.get_linestyle() != mean.get_linestyle()
    assert plotting.mark_observed(ax, [1.2, 1.1]).get_xdata().tolist() == [1.2, 1.1]
    assert plotting.panel_label(ax, "b", "title").get_text() == "(b) title"


def test_phase_diagram_orientation(ax):
    alignment = np.array([[0.0, 0.1, 0.2], [0.5, 0.6, 0.7]])
    mesh = plotting.plot_phase_diagram(ax, [0.0, 1.0, 2.0], [0.5, 1.0], alignment)
    assert np.array_equal(np.asarray(mesh.get_array()).reshape(2, 3), alignment)
    assert mesh.get_clim() == (0, 1)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda ax: plotting.plot_theory(ax, [0, 1], [0, 1], "median"), InvalidInputError),
        (lambda ax: plotting.plot_theory(ax, [0, 1], [0, 1, 2], "mean"), ShapeError),
        (lambda ax: plotting.plot_theory(ax, [0, 1], [0, np.nan], "mean"), NonFiniteError),
        (lambda ax: plotting.plot_simulated(ax, [0, 1], [0, 1], [0.1], "mean"), ShapeError),
        (lambda ax: plotting.plot_histogram(ax, [1.0], [1.0, 0.0]), InvalidInputError),
        (lambda ax: plotting.mark_outlier(ax, 1.0, "bulk"), InvalidInputError),
        (lambda ax: plotting.plot_phase_diagram(ax, [0, 1], [0, 1], np.zeros((3, 2))), ShapeError),
    ],
)
def test_invalid_input_is_named(ax, call, error):
    with pytest.raises(error):
        call(ax)


@pytest.mark.slow
@pytest.mark.parametrize("extension", ["png", "svg", "pdf"])
def test_saved_files_are_reproducible(tmp_path, extension):
    written = []
    for name in ("a", "b"):
        figure, axes = plotting.new_figure()
        plotting.plot_theory(axes[0, 0], [0, 1], [0, 1], "mean", label="mean")
        axes[0, 0].legend()
        (path,) = plotting.save_figure(figure, tmp_path / name / "picture", (extension,))
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert len(written[0]) > 1000


def test_unknown_format_is_refused_before_anything_is_written(tmp_path):
    figure, _ = plotting.new_figure()
    with pytest.raises(InvalidInputError):
        plotting.save_figure(figure, tmp_path / "picture", ("png", "bmp"))
    assert list(tmp_path.iterdir()) == []


def test_settings_of_the_caller_are_left_alone():
    before = dict(matplotlib.rcParams)
    axes = plotting.new_figure(2, 2)[1]
    assert axes.shape == (2, 2)
    with plotting.theme():
        assert matplotlib.rcParams["legend.frameon"] is False
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_no_pyplot_and_no_display_needed():
    code = (
        "import sys; from spikepool.drawing import plotting; assert 'matplotlib' not in sys.modules; "
        "plotting.new_figure(); assert 'matplotlib.pyplot' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_explorer_s_style_sheet_uses_the_palette():
    from importlib import resources

    css = resources.files("spikepool.explorer").joinpath("assets/explorer.css").read_text().lower()
    light, dark = css.index(":root {"), css.index(':root[data-theme="dark"]')
    for name, start in (("light", light), ("dark", dark)):
        block = css[start : css.index("}", start)]
        screen = palette.SCREENS[name]
        for variable in ("ground", "surface", "ink", "muted"):
            assert f"--{variable}: {getattr(screen, variable).lower()};" in block
        assert f"--none: {screen.signal.lower()};" in block


def test_colours_have_one_home(repository):
    import re

    strangers = {
        str(path.relative_to(repository)): found
        for path in (repository / "src").rglob("*.py")
        if path.name not in ("palette.py", "pages.py") and (found := re.findall(r'"#[0-9a-fA-F]{6}"', path.read_text()))
    }
    assert strangers == {}
