"""The paper's joint ridge over the simplex: gradient, and the experiment of its last appendix."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import spikepool as sp
from spikepool.simulation.learned_weights import joint_loss, learn_weights, softmax


def slow_loss(w, x, y, ridge):
    """The joint loss from the definition, beta by scikit-learn."""
    C = np.einsum("t,ntd->nd", w, x)
    beta = Ridge(alpha=ridge * len(x), fit_intercept=False, solver="svd").fit(C, y).coef_
    return ((y - C @ beta) ** 2).sum() / len(x) + ridge * (beta**2).sum()


@pytest.mark.parametrize("shape", [(50, 4, 6), (14, 3, 25)])
def test_loss_equals_the_definition_and_gradient_its_differences(shape):
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=shape), rng.normal(size=shape[0]), softmax(rng.normal(size=shape[1]))
    value, gradient, _ = joint_loss(x, y, 0.3, w)
    assert value == pytest.approx(slow_loss(w, x, y, 0.3), rel=1e-10)
    steps = 1e-5 * np.eye(len(w))
    numerical = [(slow_loss(w + h, x, y, 0.3) - slow_loss(w - h, x, y, 0.3)) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, numerical, atol=1e-8)


@pytest.fixture(scope="module")
def paper():
    """The paper's classification experiment at a fifth of its size."""
    model = sp.SequenceModel(d=60, V=100, N=320, R=sp.prefix_correlation(10, 3), mu=2.0)
    sample = model.sample(rng=0)
    return sample.table.T[sample.tokens], sample.latent[:, 0].astype(float)


def test_learned_weights_find_the_prefix_and_beat_every_fixed_choice(paper):
    X, y = paper
    result = learn_weights(X, y, ridge=1.0)
    for w in (sp.mean_weights(10), sp.causal_weights(10), sp.optimal_weights(sp.prefix_correlation(10, 3))):
        assert result.loss <= slow_loss(w, X, y, 1.0) + 1e-9
    assert result.loss == pytest.approx(slow_loss(result.weights, X, y, 1.0), rel=1e-9)
    assert result.weights[:3].sum() > 0.95
    assert result.weights.sum() == pytest.approx(1)
    assert result.loss == result.losses.min()
    C = np.einsum("t,ntd->nd", result.weights, X)
    gradient = C.T @ (C @ result.coef - y) / len(y) + result.coef
    np.testing.assert_allclose(gradient, 0, atol=1e-10)  # beta solves the ridge problem


def test_learned_weights_are_stationary_on_the_simplex(paper):
    X, y = paper
    w = learn_weights(X, y, ridge=1.0).weights
    _, gradient, _ = joint_loss(X, y, 1.0, w)
    excess = gradient - gradient @ w
    assert np.abs(excess[w > 1e-3]).max() < 1e-4  # equal where weight is, no smaller where none is
    assert excess[w <= 1e-3].min() > -1e-4


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (sp.NonFiniteError, {"X": np.nan}),
        (sp.ShapeError, {"y": np.zeros(3)}),
        (sp.DomainError, {"ridge": 0.0}),
        (sp.SizeError, {"restarts": 0}),
    ],
)
def test_learn_weights_refuses_bad_input(paper, error, change):
    X, y = paper
    arguments = {"X": X, "y": y, **change}
    if np.isscalar(arguments["X"]):
        arguments["X"] = np.where(np.arange(60) == 0, np.nan, X)
    with pytest.raises(error):
        learn_weights(**arguments)
