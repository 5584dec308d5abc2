"""Features that span fewer dimensions than they are, in other units than each other, or far from zero."""

import numpy as np
import pytest

import spikepool as sp


def power_law(n=300, d=40, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * np.arange(1, d + 1) ** -0.5


def turned(C, d, seed=1):
    """The same rows in more columns: an isometry, under which nothing that is said may change."""
    return C @ np.linalg.qr(np.random.default_rng(seed).standard_normal((d, C.shape[1])))[0].T


@pytest.mark.slow
@pytest.mark.parametrize("wider", [100, 250], ids=["columns that sum up others", "few dimensions of many"])
def test_spans_are_those_of_the_dimensions_spanned(wider):
    C = power_law()
    plain, wide = sp.diagnose(C), sp.diagnose(turned(C, wider))
    assert plain.verdict == wide.verdict == "coloured"
    for a, b in zip(plain.spans, wide.spans, strict=True):
        assert (a.k, *a.interval) == pytest.approx((b.k, *b.interval), abs=1e-6)
    assert "span 40 dimensions" in wide.reason
    assert len(wide.eigenvalues) == len(wide.population) == wider
    assert (wide.eigenvalues[40:] == 0).all()


def test_signal_and_noise_are_those_of_the_dimensions_spanned():
    noise = np.random.default_rng(3).standard_normal((300, 40))
    assert sp.diagnose(turned(noise, 200)).verdict == sp.diagnose(noise).verdict == "no signal"
    noise[:, 0] *= 2.2
    plain, wide = sp.diagnose(noise), sp.diagnose(turned(noise, 200))
    assert plain.verdict == wide.verdict == "signal"
    assert wide.outliers[0].interval == pytest.approx(plain.outliers[0].interval, rel=1e-6)
    assert wide.components[0].vector.shape == (200,)


def test_no_span_is_larger_than_what_the_rows_span():
    rng = np.random.default_rng(0)
    report = sp.diagnose(rng.standard_normal((300, 12)) @ rng.standard_normal((12, 64)))
    assert report.spans is None or max(span.k for span in report.spans) <= 6


@pytest.mark.parametrize("rank", [1, 3])
def test_rounding_is_no_component(rank):
    rng = np.random.default_rng(0)
    C = rng.standard_normal((300, rank)) @ rng.standard_normal((rank, 64))
    with pytest.raises(sp.InvalidInputError, match="span too few dimensions"):
        sp.diagnose(C)


def test_copies_of_rows_are_no_lack_of_dimensions():
    C = power_law(60, 200)
    report = sp.diagnose(np.vstack([C, C[:20]]))
    assert "span" not in report.reason


@pytest.mark.parametrize("unit", [1e3, 1e4, 1e5])
def test_a_feature_in_other_units_is_a_component_and_no_error(unit):
    C = np.random.default_rng(0).standard_normal((300, 64))
    C[:, 5] *= unit
    report = sp.diagnose(C)
    assert report.verdict == "signal"
    assert len(report.outliers) == 1
    outlier = report.outliers[0]
    truth = report.components[0].vector[5] ** 2
    assert outlier.interval[0] <= truth <= outlier.interval[1] + 1e-12
    assert outlier.standard_error == pytest.approx(outlier.eigenvalue * np.sqrt(2 / 300), rel=0.05)


def test_units_beyond_precision_give_a_verdict():
    C = np.random.default_rng(0).standard_normal((300, 64))
    C[:, :3] *= [1e6, 5e5, 2.5e5]
    report = sp.diagnose(C)
    assert report.verdict == "coloured"
    components = np.linalg.svd(C - C.mean(axis=0), full_matrices=False)[2] ** 2
    for span in report.spans:  # the population's components are the axes, of which the last 61 are not told apart
        assert span.interval[0] <= components[: span.k, : span.k].sum() / span.k <= span.interval[1] + 1e-9


@pytest.mark.filterwarnings("ignore::spikepool.trust.diagnosis.UncenteredWarning")
def test_a_large_offset_does_not_make_rows_equal():
    C = power_law()
    plain, far = sp.diagnose(C), sp.diagnose(C + 1e8)
    assert far.verdict == plain.verdict
    assert far.spans[2].overlap == pytest.approx(plain.spans[2].overlap, abs=1e-4)
    with pytest.raises(sp.InvalidInputError, match="are equal"):
        sp.diagnose((C + 1e8).astype(np.float32))


def test_windows_of_a_series_that_swings_are_in_an_order():
    t = np.arange(400 * 8 + 64)
    rng = np.random.default_rng(0)
    series = np.sin(np.pi * t / 8 + np.cumsum(0.02 * rng.standard_normal(len(t)))) + 0.5 * rng.standard_normal(len(t))
    windows = np.stack([series[8 * i : 8 * i + 64] for i in range(400)])  # each half a period on from the last
    report = sp.diagnose(windows)
    assert "opposite" in next(str(w) for w in report.warnings if w.kind == "order")
    shuffled = sp.diagnose(rng.permutation(windows))
    assert "order" not in [w.kind for w in shuffled.warnings]
