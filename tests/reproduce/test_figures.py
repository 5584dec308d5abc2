"""Every quick figure computes, agrees with simulation, survives its file, and is drawn complete."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("matplotlib")

from drawn import baseline, differences, signature  # noqa: E402
from spikepool.drawing.plotting import save_figure  # noqa: E402
from spikepool.errors import MissingDependencyError  # noqa: E402
from spikepool.laws.free_product import MarchenkoPastur  # noqa: E402
from spikepool.reproduce import FIGURES, Settings  # noqa: E402
from spikepool.reproduce.base import kolmogorov_distance  # noqa: E402
from spikepool.reproduce.errata import published_rows  # noqa: E402
from spikepool.reproduce.fig11_attention import expected_square  # noqa: E402
from spikepool.reproduce.report import save_dataset  # noqa: E402

NUMBERS = list(FIGURES)


@pytest.fixture(scope="module")
def computed():
    """Data sets by figure number, each computed once, on demand."""
    found = {}

    def get(number):
        if number not in found:
            try:
                found[number] = FIGURES[number].compute(Settings())
            except MissingDependencyError as missing:
                pytest.skip(f"figure {number}: {missing}")
        return found[number]

    return get


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("number", NUMBERS)
def test_theory_and_simulation_agree(computed, number):
    checks = FIGURES[number].judge(computed(number))
    assert checks
    for check in checks:
        assert check.markers > 0
        assert np.isfinite(check.absolute)
        if check.expected:
            assert check.passed, check


@pytest.mark.slow
def test_the_published_curve_misses_the_prefix_model_and_not_the_spiked_one(computed):
    checks = {check.name: check for check in FIGURES[4].judge(computed(4))}
    assert checks["published curve, spiked model"].passed
    assert not checks["published curve, prefix model"].passed


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_the_file_gives_the_same_verdict_and_picture(computed, number, tmp_path):
    spec, dataset = FIGURES[number], computed(number)
    save_dataset(dataset, tmp_path / "data.nc")
    with xr.open_dataset(tmp_path / "data.nc", engine="scipy") as stream:
        loaded = stream.load()
    assert spec.judge(loaded) == spec.judge(dataset)
    figure = spec.picture(loaded)
    for ax in figure.axes:
        assert ax.has_data()
        shared = ax.get_shared_x_axes().get_siblings(ax)
        assert any(sibling.get_xlabel() or sibling.get_ylabel() for sibling in shared)
        assert np.all(np.isfinite([*ax.get_xlim(), *ax.get_ylim()]))
    assert differences(signature(figure), baseline(spec.name)) == []
    (path,) = save_figure(figure, tmp_path / "picture", ("svg",))
    ElementTree.parse(path)


@pytest.mark.slow
def test_a_missing_line_or_another_number_is_seen(computed):
    """The baseline would find what a look at the picture finds."""

    def seen(change):
        figure = FIGURES[3].picture(computed(3))
        change(figure.axes[0])
        return differences(signature(figure), baseline("bulk"))

    assert seen(lambda ax: None) == []
    for change in (
        lambda ax: ax.lines[1].remove(),
        lambda ax: ax.patches[0].remove(),
        lambda ax: ax.lines[0].set_ydata(1.2 * ax.lines[0].get_ydata()),
        lambda ax: ax.lines[0].set_color("red"),
        lambda ax: ax.set_xlabel("x"),
        lambda ax: ax.set_xlim(0, 2 * ax.get_xlim()[1]),
    ):
        assert seen(change)


@pytest.mark.slow
def test_the_printed_formulas_are_shown_to_fail(computed):
    """Figure 8 would be pointless if the published curves agreed."""
    shown = [check for check in FIGURES[8].judge(computed(8)) if not check.expected]
    assert len(shown) == 2
    assert all(not check.passed and check.sigmas > 10 for check in shown)


def test_the_table_has_the_known_numbers(computed):
    """Published and exact alignments as worked out by hand and measured independently, to three digits."""
    rows = {row.quantity: row for row in published_rows(computed(8))}
    for place, published, exact, measured in (
        ("mean weights, mu = 1.6", 0.757, 0.666, 0.669),
        ("causal weights, mu = 1", 0.294, 0.444, 0.439),
        ("causal weights, mu = 1.3", 0.740, 0.615, 0.614),
        ("optimal weights, mu = 0.8", 0.0, 0.366, 0.370),
        ("optimal weights, mu = 2.5", 0.969, 0.884, 0.883),
    ):
        row = rows[f"alignment, {place}"]
        assert row.published == pytest.approx(published, abs=6e-4)
        assert row.exact == pytest.approx(exact, abs=6e-4)
        # both means have about this standard error
        assert abs(row.simulated - measured) < 3 * np.sqrt(2) * row.standard_error + 6 / 500
    causal = rows["top eigenvalue, causal weights, mu = 2.5, not centred"]
    assert (causal.published, round(causal.exact, 2)) == (3.17, 3.85)


@pytest.mark.slow
def test_the_closed_law_fails_at_short_lengths_only(computed):
    ds = computed(10)
    closed = ds["distance"].sel(weights="mean", law="closed")
    assert float(closed.sel(T=1)) > 0.03
    assert float(closed.sel(T=50)) < 5 / ds.attrs["d"]


def test_kolmogorov_distance_from_the_definition():
    law = MarchenkoPastur(2.0)  # half of the mass at zero
    n = 400
    values = np.sort(np.asarray(law.ppf((np.arange(n) + 0.5) / n)))
    assert kolmogorov_distance(values, law.cdf) == pytest.approx(0.5 / n, abs=1e-9)
    shifted = values + 0.2
    grid = np.linspace(0, 8, 200_001)
    empirical = np.searchsorted(shifted, grid, side="right") / n
    assert kolmogorov_distance(shifted, law.cdf) == pytest.approx(np.max(np.abs(empirical - law.cdf(grid))), abs=2e-3)


@pytest.mark.statistical
def test_leading_order_of_the_attention_weights_from_an_independent_simulation():
    """Scores drawn as the proof has them: N(0, tau²/d), or tau where the token is the same."""
    rng = np.random.default_rng(0)
    T, d, V, tau, n = 6, 4000, 400, 1.5, 40_000
    tokens = rng.integers(0, V, (n, T))
    square = np.zeros(n)
    w = np.zeros((n, T))
    limit = np.zeros(T)
    w[:, 0] += 1 / T
    limit[0] += 1 / T
    for t in range(1, T):
        scores = rng.standard_normal((n, t)) * tau / np.sqrt(d)
        scores = np.where(tokens[:, :t] == tokens[:, [t]], tau, scores)
        rows = np.exp(scores)
        w[:, :t] += rows / rows.sum(axis=1, keepdims=True) / T
        limit[:t] += 1 / (t * T)
    square = np.sum((w - limit) ** 2, axis=1)
    expected = expected_square(tau, np.eye(T), d, V)
    # two repeats in one sequence, left out of the leading order, are a share of about T²/(2V) of the repeats
    assert abs(square.mean() - expected) < 3 * square.std() / np.sqrt(n) + expected * T**2 / (2 * V)


def test_a_missing_table_is_explained(monkeypatch):
    from spikepool.reproduce import fig07_real_table

    monkeypatch.setattr(fig07_real_table.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="--table"):
        fig07_real_table.table_file(Settings())


def test_figures_depend_on_the_seed_and_on_nothing_else():
    first, again, other = (FIGURES[1].compute(Settings(seed=seed)) for seed in (0, 0, 1))
    assert first.identical(again)
    assert not first["table"].equals(other["table"])
