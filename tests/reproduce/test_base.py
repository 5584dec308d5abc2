"""What a verdict means, and that seeds and biases are what they are said to be."""

import numpy as np
import pytest

pytest.importorskip("xarray")

import spikepool as sp
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.reproduce import FIGURES, select
from spikepool.reproduce.base import Settings, alignment_bias, compare, mean_and_error, within


def test_agreement_is_three_standard_errors_beyond_the_bias():
    predicted, error = np.zeros(4), np.full(4, 0.1)
    simulated = np.array([0.05, -0.29, 0.34, -0.36])
    check = compare("x", predicted, simulated, error, bias=0.05, where=lambda index: f"at {index[0]}")
    assert check.absolute == 0.36
    assert check.sigmas == pytest.approx((0.36 - 0.05) / 0.1)
    assert check.where == "at 3"
    assert (check.markers, check.beyond, check.passed) == (4, 1, False)
    assert compare("x", predicted, simulated, error, bias=0.07).passed


def test_missing_markers_are_left_out_and_nothing_is_never_agreement():
    check = compare("x", [0.0, np.nan], [0.0, 1.0], [0.1, 0.1])
    assert (check.markers, check.passed) == (1, True)
    empty = compare("x", [np.nan], [0.0], [0.1])
    assert (empty.markers, empty.passed, empty.sigmas) == (0, False, None)


def test_a_gap_without_any_spread_disagrees():
    check = compare("x", [1.0], [2.0], [0.0])
    assert not check.passed
    assert check.sigmas == np.inf


def test_shapes_must_match():
    with pytest.raises(ShapeError):
        compare("x", [0.0, 1.0], [0.0], [0.1])


def test_within_states_its_limit():
    assert within("x", 0.5, 0.6, "here").passed
    failed = within("x", 0.7, 0.6, "here", markers=3)
    assert (failed.passed, failed.beyond, failed.sigmas, failed.bias) == (False, 1, None, "limit 0.6")


def test_bias_follows_the_critical_scaling():
    d = np.array([125, 1000, 8000])
    at = [float(alignment_bias(1.0, 1.0, int(n))) for n in d]
    assert at == pytest.approx(d ** (-1 / 3.0))
    away = [float(alignment_bias(2.0, 1.0, int(n))) for n in d]
    assert np.all(np.array(away) * d < 1)
    assert away[2] * 8000 == pytest.approx(1, rel=0.01)


def test_mean_and_error_from_the_definition():
    values = np.array([[1.0, 2.0, 6.0], [0.0, 0.0, 0.0]])
    mean, error = mean_and_error(values)
    assert mean.tolist() == [3.0, 0.0]
    assert error[0] == pytest.approx(np.sqrt(((4 + 1 + 9) / 2) / 3))
    with pytest.raises(ShapeError):
        mean_and_error([[1.0]])


def test_streams_are_reproducible_and_distinct():
    settings = Settings(seed=7)
    first = settings.rng(4, 1).random(3)
    assert np.array_equal(first, Settings(seed=7).rng(4, 1).random(3))
    others = [settings.rng(4, 2), settings.rng(5, 1), Settings(seed=8).rng(4, 1)]
    assert all(not np.array_equal(first, rng.random(3)) for rng in others)
    assert settings.sweep_seed(4, 0) != settings.sweep_seed(4, 1)


def test_registry_is_complete_and_selection_names_mistakes():
    assert list(FIGURES) == list(range(1, 18))
    assert len({spec.name for spec in FIGURES.values()}) == len(FIGURES)
    assert [spec.number for spec in select([4, 2, 4])] == [2, 4]
    assert [spec.number for spec in select(["fig4", "alignment", "2", "real_attention"])] == [2, 4, 12]
    assert {select([name])[0].number for name in ("fig04", "Figure 4", "fig. 4", "04", "FIG-4")} == {4}
    assert select() == list(FIGURES.values())
    with pytest.raises(InvalidInputError, match="no such figure"):
        select([99])


@pytest.mark.slow
@pytest.mark.statistical
def test_the_stated_bias_bounds_the_alignment_at_the_threshold_and_shrinks_with_size():
    """At mu_samp the limit is 0; finite matrices have a mean alignment of order d^(-1/3)."""
    found = []
    for d, trials in ((60, 80), (480, 40)):
        model = sp.SequenceModel(d=d, V=8 * d // 5, N=2 * d, R=sp.prefix_correlation(10, 3), mu=1.0)
        w = sp.mean_weights(10)
        critical = model.predict(w).mu_sample
        draws = model.replace(mu=critical).simulate(w, trials=trials, k=1, rng=0).alignment
        mean, error = mean_and_error(draws)
        assert mean < alignment_bias(critical, critical, d) + 3 * error
        found.append((float(mean), float(error)))
    (small, small_error), (large, large_error) = found
    # the scaling says half; three standard errors of the ratio either way
    ratio, spread = large / small, 3 * np.hypot(large_error / small, small_error * large / small**2)
    assert abs(ratio - 0.5) < spread + 0.1
