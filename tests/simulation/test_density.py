"""The spectrum as a density: against the completed table, exact moments, atoms, and the law at another size."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.simulation import density as module
from spikepool.simulation.undrawn import UndrawnSource

R = sp.prefix_correlation(T=10, L=3)
W = sp.causal_weights(10)


def model(**options):
    return sp.SequenceModel(**{"d": 200, "V": 320, "N": 400, "R": R, "mu": 1.5, **options})


def completed_spectrum(m, draw):
    """Eigenvalues of S on the completed table, from the definition."""
    sample = draw.sample()
    C = sum(w * sample.noise.T[:, sample.tokens[:, t]] for t, w in enumerate(W))
    C = C + m.mu * np.outer(sample.direction, sample.latent @ W)
    if m.centered:
        C = C - C.mean(axis=1, keepdims=True)
    return C @ C.T / m.N


@pytest.fixture
def drawn(monkeypatch):
    """The draw behind a density, kept."""
    kept, draw = [], UndrawnSource.draw
    monkeypatch.setattr(
        UndrawnSource, "draw", lambda self, root, **options: kept.append(draw(self, root, **options)) or kept[-1]
    )
    return kept


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"centered": False},
        {"N": 120},
        {"V": 100},
        {"table": "class_centered"},
        {"latent": "gaussian"},
        {"covariance": np.linspace(0.2, 3.0, 200)},
    ],
)
def test_against_the_completed_table(drawn, options):
    """Shares of the eigenvalues within four standard errors of a probe's scatter, and what the steps do not resolve."""
    m = model(**options)
    probes = 48
    found = m.spectrum_density(W, rng=3, probes=probes, steps=40)
    S = completed_spectrum(m, drawn[0])
    values = np.linalg.eigvalsh(S)
    x = np.linspace(0.02, 1.1, 60) * values[-1]
    exact = np.searchsorted(values, x, side="right") / m.d
    scatter = np.sqrt(2 * exact * (1 - exact) / (m.d * probes))
    assert np.all(np.abs(found.cdf(x) - exact) < 4 * scatter + 1.5 / 40)
    zeros = np.mean(values < 1e-9 * values[-1])
    assert abs(found.atom - zeros) < 4 * np.sqrt(2 * zeros * (1 - zeros) / (m.d * probes)) + 1e-12
    # moments of the measure at the probes: means of x'S^k x
    for k in (1, 2):
        moments = [weights @ nodes**k for nodes, weights in zip(found.nodes, found.weights, strict=True)]
        exact_moment = np.trace(np.linalg.matrix_power(S, k)) / m.d
        assert abs(np.mean(moments) - exact_moment) < 4.5 * np.std(moments, ddof=1) / np.sqrt(probes)
    # the outlier is a node
    assert max(nodes[-1] for nodes in found.nodes) == pytest.approx(values[-1], rel=1e-6)


def test_against_the_law_at_a_larger_size():
    m = model(d=3000, V=4800, N=6000, mu=0.0)
    found = m.spectrum_density(sp.mean_weights(10), rng=0, probes=2, steps=50)
    law = m.predict(sp.mean_weights(10)).bulk
    x = np.linspace(0.05, 1.2, 40) * law.support()[1]
    assert np.abs(found.cdf(x) - law.cdf(x)).max() < 4 * 0.5 * np.sqrt(2 / (3000 * 2)) + 0.5 / 50
    edges = np.linspace(0.05, 1.0, 12) * law.support()[1]
    heights = np.diff(law.cdf(edges)) / np.diff(edges)
    np.testing.assert_allclose(found.histogram(edges), heights, atol=0.12 * heights.max())
    assert np.all(found.standard_error(x) < 0.05)
    assert found.cdf(-1.0) == 0
    assert found.cdf(1e6) == 1


def test_more_steps_than_dimensions(drawn):
    m = model(d=12, V=20, N=30)
    found = m.spectrum_density(W, rng=0, probes=3, steps=50)
    values = np.linalg.eigvalsh(completed_spectrum(m, drawn[0]))
    for nodes, weights in zip(found.nodes, found.weights, strict=True):
        np.testing.assert_allclose(nodes, values, atol=1e-10)
        assert weights.sum() == pytest.approx(1.0)


def test_plot_and_refusals():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    m = model()
    found = m.spectrum_density(W, rng=0, probes=1, steps=30)
    ax = found.plot(law=m.predict(W).bulk)
    assert len(ax.patches) == 1
    assert len(ax.lines) >= 1
    assert np.isnan(found.standard_error([1.0])).all()
    with pytest.raises(sp.InvalidInputError, match="laplace"):
        model(noise="laplace").spectrum_density(W)
    with pytest.raises(sp.SizeError, match="probes"):
        m.spectrum_density(W, probes=0)
    with pytest.raises(sp.MemoryBudgetError, match="Lower probes"):
        module.spectrum_density(model(V=10**9), W, probes=100)
