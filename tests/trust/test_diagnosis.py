"""diagnose: what it says of features whose truth is known, and what it refuses."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.trust.bulk_fit import edge_factor, edge_scale, fit_bulk
from spikepool.trust.diagnosis import UncenteredWarning

RNG = np.random.default_rng(0)


def spiked_features(n, d, theta, seed=0):
    rng = np.random.default_rng(seed)
    u = np.zeros(d)
    u[0] = 1.0
    return rng.standard_normal((n, d)) + np.sqrt(theta) * rng.standard_normal((n, 1)) * u, u


def test_planted_spike_is_found_and_explained():
    C, u = spiked_features(800, 200, 3.0)
    report = sp.diagnose(C)
    assert report.verdict == "signal"
    assert len(report.outliers) == 1
    outlier = report.outliers[0]
    truth = (report.components[0] @ u) ** 2
    assert abs(outlier.alignment - truth) < 3 * outlier.alignment_standard_error
    # a Gaussian spike: eigenvalue (1+theta)(1+gamma/theta)
    expected = 4.0 * (1 + 0.25 / 3.0)
    assert abs(outlier.eigenvalue - expected) < 4 * outlier.standard_error
    assert outlier.strength == pytest.approx(3.0, abs=4 * outlier.standard_error)
    assert report.bulk.scale == pytest.approx(1, abs=0.02)
    assert report.bulk.delta < 0.05


def test_required_samples_reach_the_target():
    C, _ = spiked_features(300, 200, 2.5, seed=3)
    outlier = sp.diagnose(C, V=10**9, target=0.9).outliers[0]
    from spikepool.theory import spikes

    assert outlier.required_samples > 300
    x = outlier.excess
    assert spikes.total_alignment(x, 0.0, 200 / outlier.required_samples) >= 0.9 - 1e-6
    assert spikes.total_alignment(x, 0.0, 200 / (outlier.required_samples - 2)) < 0.9


def test_scale_and_orientation_do_not_matter():
    C, u = spiked_features(500, 120, 3.0)
    base = sp.diagnose(C)
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((120, 120)))[0]
    turned = sp.diagnose(7.0 * C @ rotation)
    assert turned.outliers[0].alignment == pytest.approx(base.outliers[0].alignment, rel=1e-6)
    assert turned.outliers[0].eigenvalue == pytest.approx(49 * base.outliers[0].eigenvalue, rel=1e-9)
    # the component turns with the features
    assert abs(turned.components[0] @ (u @ rotation)) == pytest.approx(abs(base.components[0] @ u), rel=1e-9)


def test_fewer_samples_than_features():
    C, u = spiked_features(150, 400, 8.0)
    report = sp.diagnose(C)
    assert len(report.eigenvalues) == 400
    # the bulk is the other 399 eigenvalues, of which 148 are not zero
    assert report.bulk.atom == pytest.approx(1 - 148 / 399)
    assert len(report.outliers) == 1
    assert abs(report.outliers[0].alignment - (report.components[0] @ u) ** 2) < 0.1


def test_warns_when_the_mean_is_the_top_component():
    C, _ = spiked_features(400, 100, 2.0)
    shift = np.zeros(100)
    shift[5] = 4.0
    with pytest.warns(UncenteredWarning, match="centre"):
        report = sp.diagnose(C + shift)
    assert report.mean_is_top
    assert "mean" in report.summary()
    centred = sp.diagnose(C)
    assert not centred.mean_is_top
    assert report.outliers[0].alignment == pytest.approx(centred.outliers[0].alignment, rel=1e-9)


@pytest.mark.slow
def test_a_bulk_that_is_not_pooled_noise_is_called_a_poor_fit():
    variances = np.where(np.arange(200) < 100, 0.05, 8.0)
    report = sp.diagnose(RNG.standard_normal((800, 200)) * np.sqrt(variances))
    assert report.verdict == "poor fit"
    assert "poor fit" in report.summary()


def test_moment_fit_recovers_the_law():
    law = sp.FreeProductLaw(0.4, 0.7, 2.0)
    quantiles = np.asarray(law.ppf((np.arange(600) + 0.5) / 600))[::-1]
    fit = fit_bulk(quantiles, 0.7)
    assert fit.law.delta == pytest.approx(0.4, abs=0.01)
    assert fit.law.scale == pytest.approx(2.0, rel=2e-3)
    assert fit.n_outliers == 0
    assert fit.distance < 2 / 600
    with_outliers = np.concatenate([[40.0, 30.0], quantiles])
    assert fit_bulk(with_outliers, 0.7).n_outliers == 2


def test_edge_scale_is_that_of_the_wishart_edge():
    # known scaling of the largest Wishart eigenvalue: sigma = (sqrt(n)+sqrt(p))(1/sqrt(n)+1/sqrt(p))^{1/3}/n
    n, p = 4000, 1000
    expected = (np.sqrt(n) + np.sqrt(p)) * (1 / np.sqrt(n) + 1 / np.sqrt(p)) ** (1 / 3) / n
    assert edge_scale(sp.FreeProductLaw(0.0, p / n), p) == pytest.approx(expected, rel=1e-3)


def test_edge_factor_shrinks_as_sequences_lengthen():
    factors = [edge_factor(np.full(T, 1 / T), 300, 480, 600) for T in (1, 3, 30)]
    assert factors[0] > factors[1] > factors[2] >= 1
    assert factors[2] < 1.02


def test_summary_and_plot(tmp_path):
    C, _ = spiked_features(400, 100, 4.0)
    report = sp.diagnose(C, target=0.99)
    assert str(report) == report.summary()
    assert "alignment" in report.summary()
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = report.plot()
    assert ax.get_xlabel()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"bulk eigenvalues", "fitted law", "outliers"} <= set(labels)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sp.diagnose(np.ones(5)), sp.ShapeError),
        (lambda: sp.diagnose(np.ones((3, 10))), sp.ShapeError),
        (lambda: sp.diagnose(np.empty((0, 5))), sp.ShapeError),
        (lambda: sp.diagnose(np.full((10, 10), np.nan)), sp.NonFiniteError),
        (lambda: sp.diagnose(np.ones((10, 10))), sp.InvalidInputError),
        (lambda: sp.diagnose(np.full((10, 10), 1e300)), sp.DomainError),
        (lambda: sp.diagnose(1e-160 * RNG.standard_normal((9, 9))), sp.DomainError),
        (lambda: sp.diagnose(RNG.standard_normal((9, 9)), V=0), sp.SizeError),
        (lambda: sp.diagnose(RNG.standard_normal((9, 9)), target=1.0), sp.DomainError),
        (lambda: sp.diagnose(RNG.standard_normal((9, 9)), weights=[0.5, 0.6]), sp.WeightsError),
        (lambda: sp.diagnose(RNG.standard_normal((9, 9)), alpha=0.5), sp.InvalidInputError),
    ],
)
def test_bad_input_is_named(call, error):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, ValueError)
