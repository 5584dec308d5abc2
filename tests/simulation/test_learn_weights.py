"""The paper's joint ridge over the simplex: gradient, evaluations, and the experiment of its last appendix."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.linear_model import Ridge

import spikepool as sp
from spikepool.simulation.joint_ridge import JointRidge, choose_method
from spikepool.simulation.learn_weights import learn_weights, softmax


def tokens(n, T, d, k, missing, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, T, d))
    observed = rng.random((n, T)) >= missing
    observed[:, 0] = True
    x[~observed] = 0.0
    return x, observed, rng.normal(size=(n, k)), softmax(rng.normal(size=T))


def slow_loss(w, x, observed, Y, ridge, intercept):
    """The joint loss from the definition, beta by scikit-learn."""
    W = observed * w
    C = np.einsum("nt,ntd->nd", W / W.sum(axis=1, keepdims=True), x)
    model = Ridge(alpha=ridge * len(x), fit_intercept=intercept, solver="svd").fit(C, Y)
    beta = np.atleast_2d(model.coef_)
    return ((Y - model.predict(C).reshape(Y.shape)) ** 2).sum() / len(x) + ridge * (beta**2).sum()


CASES = [
    (method, missing, intercept, shape)
    for shape in [(50, 4, 6, 1), (14, 3, 25, 3)]
    for method, missing in [("moments", 0.0), ("primal", 0.0), ("dual", 0.0), ("primal", 0.4), ("dual", 0.4)]
    for intercept in (False, True)
]


@pytest.mark.parametrize(("method", "missing", "intercept", "shape"), CASES)
def test_loss_equals_the_definition_and_gradient_its_differences(method, missing, intercept, shape):
    x, observed, Y, w = tokens(*shape, missing)
    problem = JointRidge(x, observed, Y, 0.3, intercept=intercept, method=method)
    value, gradient = problem.evaluate(w)
    assert value == pytest.approx(slow_loss(w, x, observed, Y, 0.3, intercept), rel=1e-10)
    steps = 1e-5 * np.eye(len(w))
    numerical = [(problem.evaluate(w + h)[0] - problem.evaluate(w - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, numerical, atol=1e-8)
    # not only along the simplex: the whole gradient, through the softmax too
    phi = np.log(w)
    through = approx_fprime(phi, lambda p: problem.evaluate(softmax(p))[0], 1e-6)
    np.testing.assert_allclose(w * (gradient - gradient @ w), through, atol=1e-5)


def test_the_cheapest_evaluation_depends_on_shape():
    assert choose_method(640, 10, 300, complete=True) == "primal"  # as many steps as the moments take to prepare
    assert choose_method(100_000, 10, 300, complete=True) == "moments"
    assert choose_method(5000, 10, 300, complete=False) == "primal"
    assert choose_method(50, 10, 3000, complete=True) == "dual"
    assert choose_method(100_000, 512, 1024, complete=True) == "primal"  # the moments would not fit


def test_underflowing_weights_leave_no_row_without_features():
    x, observed, Y, _ = tokens(20, 3, 2, 1, 0.0)
    observed[0] = [False, False, True]
    problem = JointRidge(x * observed[..., None], observed, Y, 0.1, method="primal")
    value, gradient = problem.evaluate(np.array([1.0, 0.0, 0.0]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.fixture(scope="module")
def paper():
    """The paper's classification experiment at a fifth of its size."""
    model = sp.SequenceModel(d=60, V=100, N=320, R=sp.prefix_correlation(10, 3), mu=2.0)
    sample = model.sample(rng=0)
    return sample.table.T[sample.tokens], sample.latent[:, 0].astype(float)


def test_every_evaluation_learns_the_same_weights(paper):
    X, y = paper
    results = [learn_weights(X, y, ridge=1.0, restarts=2, method=m) for m in ("moments", "primal", "dual")]
    for result in results[1:]:
        assert result.loss == pytest.approx(results[0].loss, rel=1e-9)
        np.testing.assert_allclose(result.weights, results[0].weights, atol=1e-4)


def test_learned_weights_find_the_prefix_and_beat_every_fixed_choice(paper):
    X, y = paper
    result = learn_weights(X, y, ridge=1.0)
    everything = np.ones(X.shape[:2], dtype=bool)
    for w in (sp.mean_weights(10), sp.causal_weights(10), sp.optimal_weights(sp.prefix_correlation(10, 3))):
        assert result.loss <= slow_loss(w, X, everything, y[:, None], 1.0, False) + 1e-9
    assert result.loss == pytest.approx(slow_loss(result.weights, X, everything, y[:, None], 1.0, False), rel=1e-9)
    assert result.weights[:3].sum() > 0.95
    assert result.weights.sum() == pytest.approx(1)
    assert result.loss == result.losses.min()
    C = np.einsum("t,ntd->nd", result.weights, X)
    gradient = C.T @ (C @ result.coef - y) / len(y) + result.coef
    np.testing.assert_allclose(gradient, 0, atol=1e-10)  # beta solves the ridge problem


def test_learned_weights_are_stationary_on_the_simplex(paper):
    X, y = paper
    w = learn_weights(X, y, ridge=1.0).weights
    _, gradient = JointRidge(X, None, y[:, None], 1.0).evaluate(w)
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
        (sp.InvalidInputError, {"method": "newton"}),
        (sp.ShapeError, {"mask": np.zeros((320, 10), dtype=bool)}),
    ],
)
def test_learn_weights_refuses_bad_input(paper, error, change):
    X, y = paper
    arguments = {"X": X, "y": y, **change}
    if np.isscalar(arguments["X"]):
        arguments["X"] = np.where(np.arange(60) == 0, np.nan, X)
    with pytest.raises(error):
        learn_weights(**arguments)
