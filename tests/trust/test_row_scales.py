"""Row scales: known ones are recovered in variance, equal ones are called equal."""

import numpy as np
import pytest

from spikepool.data.description import norm_scatter
from spikepool.trust.row_scales import candidates, shrunken
from spikepool.trust.sample import whitened_count


def rows(n, d, variance, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.gamma(1 / variance, variance, size=n) if variance else np.ones(n)
    s /= s.mean()
    tau = 1 / np.arange(1.0, d + 1)
    return rng.standard_normal((n, d)) * np.sqrt(tau) * np.sqrt(s)[:, None], s


def statistics(x):
    x = x - x.mean(axis=0)
    n, d = x.shape
    values, vectors = np.linalg.eigh(x.T @ x / (n - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    count = whitened_count(n, d)
    whitened = ((x @ vectors[:, :count]) ** 2 / values[:count]).mean(axis=1)
    return (x**2).sum(axis=1), whitened, values, count


@pytest.mark.parametrize("variance", [0.3, 1.0])
def test_scales_have_the_variance_of_the_truth(variance):
    x, s = rows(4000, 60, variance)
    found = candidates(*statistics(x))
    assert set(found) == {"gauss", "norm", "white"}
    for name in ("norm", "white"):
        assert found[name].mean() == pytest.approx(1)
        assert found[name].var() == pytest.approx(s.var(), rel=0.2)
        assert np.corrcoef(found[name], s)[0, 1] > 0.7
    assert np.all(found["gauss"] == 1)


def test_equal_scales_are_nearly_equal():
    norms, whitened, values, count = statistics(rows(4000, 60, 0.0)[0])
    found = candidates(norms, whitened, values, count)
    assert found["norm"].var() < 0.02
    assert found["white"].var() < 0.02


def test_scatter_of_norms_is_that_of_a_gaussian():
    tau = 1 / np.arange(1.0, 61)
    expected = 2 * (tau**2).sum() / tau.sum() ** 2
    values = statistics(rows(4000, 60, 0.0)[0])[2]
    assert norm_scatter(values.sum(), (values**2).sum(), 4000) == pytest.approx(expected, rel=0.1)


def test_shrinking_explains_the_variance_and_nothing_more():
    r = np.array([0.5, 1.0, 1.5, 1.0])
    assert np.all(shrunken(r, r.var()) == 1)
    g = 0.02
    assert shrunken(r, g).var() == pytest.approx((r.var() - g) / (1 + g))


def test_copies_multiply_the_scale():
    norms, whitened, values, count = statistics(rows(500, 20, 0.5)[0])
    counts = np.ones(500, dtype=int)
    counts[:10] = 3
    plain = candidates(norms, whitened, values, count)["gauss"]
    found = candidates(norms, whitened, values, count, counts)["gauss"]
    assert found[:10] == pytest.approx(3 * found[10])
    assert found.mean() == pytest.approx(1)
    assert plain[0] == 1
