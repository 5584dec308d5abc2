"""The picture of a sweep: the dataset's numbers along the right axis, a panel for each combination left."""

import numpy as np
import pytest

xarray = pytest.importorskip("xarray", reason="the sweeps extra is not installed")
pytest.importorskip("matplotlib", reason="the plot extra is not installed")

from spikepool.drawing.sweeps import draw_sweep  # noqa: E402


def dataset(axes, simulated=True):
    """A sweep over `axes` whose numbers are all different."""
    coordinates = {"weights": ["mean", "mine"], **axes}
    dims = tuple(coordinates)
    shape = tuple(len(values) for values in coordinates.values())
    values = np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)
    data = {"predicted_alignment": (dims, values)}
    if simulated:
        data |= {"alignment_mean": (dims, values + 0.01), "alignment_se": (dims, np.full(shape, 0.02))}
    return xarray.Dataset(data, coordinates)


def test_lines_and_markers_are_the_numbers():
    found = dataset({"N": [100, 200], "mu": [0.5, 1.0, 2.0]})
    figure = draw_sweep(found)
    panels = [ax for ax in figure.axes if ax.axison]
    assert [ax.get_title() for ax in panels] == ["N = 100", "N = 200"]
    for place, ax in enumerate(panels):
        for series, name in enumerate(("mean", "mine")):
            here = found.isel(weights=series, N=place)
            lines = {line.get_label(): line for line in ax.lines}
            np.testing.assert_array_equal(lines[f"{name}: predicted"].get_xdata(), [0.5, 1.0, 2.0])
            np.testing.assert_array_equal(lines[f"{name}: predicted"].get_ydata(), here.predicted_alignment)
            bars = ax.containers[series]
            np.testing.assert_array_equal(bars.lines[0].get_ydata(), here.alignment_mean)
            segment = bars.lines[2][0].get_segments()[0][:, 1]
            np.testing.assert_allclose(np.diff(segment), 4 * 0.02)  # two standard errors either way
        assert ax.get_xlabel() == "mu"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "panels", "along"),
    [
        ({"mu": [1.0, 2.0]}, 1, "mu"),
        ({"d": [10, 20, 30], "N": [1, 2]}, 2, "d"),
        ({"table": ["sampled", "class_centered"]}, 1, "table"),
        ({"centered": [True, False], "mu": [1.0]}, 2, "mu"),
        ({}, 1, ""),
        ({"N": list(range(1, 41)), "mu": [1.0, 2.0]}, 24, "mu"),
    ],
)
def test_the_axis_is_mu_or_the_longest_of_numbers(axes, panels, along):
    figure = draw_sweep(dataset(axes, simulated=False))
    shown = [ax for ax in figure.axes if ax.axison]
    assert len(shown) == panels
    assert shown[0].get_xlabel() == along
