"""Joint ridge: gradient, evaluations, the paper's experiment; the estimators and their fallback."""

import pickle

import numpy as np
import pytest
import sklearn
from scipy.optimize import approx_fprime
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import spikepool as sp
from spikepool.kit.gcv import RELATIVE_PENALTIES, fit_ridge
from spikepool.pooling.joint_ridge import JointRidge, choose_method
from spikepool.pooling.learn_weights import learn_weights, softmax


@parametrize_with_checks([sp.LearnedPoolingClassifier(), sp.LearnedPoolingRegressor()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


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


@pytest.mark.parametrize("shape", [(60, 8), (20, 45)])
def test_ridge_equals_scikit_learn_primal_and_dual(shape):
    rng = np.random.default_rng(0)
    C, Y = rng.normal(size=shape) + 1, rng.normal(size=(shape[0], 2))
    fitted = fit_ridge(C, Y, 0.2)
    reference = Ridge(alpha=0.2 * shape[0]).fit(C, Y)
    np.testing.assert_allclose(fitted.coef.T, reference.coef_, atol=1e-10)
    np.testing.assert_allclose(fitted.intercept, reference.intercept_, atol=1e-10)


@pytest.mark.parametrize("shape", [(60, 8), (20, 45)])
def test_generalised_cross_validation_from_the_hat_matrix(shape):
    n, d = shape
    rng = np.random.default_rng(1)
    C = rng.normal(size=shape)
    Y = C[:, :2] @ rng.normal(size=(2, 2)) + rng.normal(size=(n, 2))
    X, Z = C - C.mean(axis=0), Y - Y.mean(axis=0)
    scores = []
    grid = RELATIVE_PENALTIES * (X**2).sum() / min(n, d)
    for penalty in grid:
        H = X @ np.linalg.solve(X.T @ X + penalty * np.eye(d), X.T) + np.ones((n, n)) / n
        freedom = n - np.trace(H)
        scores.append(((Z - (H - 1 / n) @ Z) ** 2).sum() / freedom**2 if freedom > 1e-6 * n else np.inf)
    assert fit_ridge(C, Y).ridge * n == pytest.approx(grid[int(np.argmin(scores))], rel=1e-9)


def test_constant_features_predict_the_mean():
    fitted = fit_ridge(np.ones((10, 3)), np.arange(10.0)[:, None])
    np.testing.assert_allclose(fitted.predict(np.ones((2, 3))), 4.5)


@pytest.fixture(scope="module")
def prefix():
    model = sp.SequenceModel(d=30, V=60, N=900, R=sp.prefix_correlation(8, 2), mu=1.0)
    sample = model.sample(rng=2)
    return sample.tokens, sample.table.T, sample.latent[:, 0]


def test_classifier_learns_where_positions_differ(prefix):
    ids, table, y = prefix
    learned = sp.LearnedPoolingClassifier(table=table).fit(ids[:600], y[:600])
    assert learned.decision_ == "learned"
    assert learned.weights_[:2].sum() > 0.5  # twice what the mean gives them
    mean = fit_ridge(table[ids[:600]].mean(axis=1), y[:600, None].astype(float))
    baseline = (np.sign(mean.predict(table[ids[600:]].mean(axis=1))[:, 0]) == y[600:]).mean()
    assert learned.score(ids[600:], y[600:]) > baseline + 0.03
    assert "learned" in learned.summary()


def test_fallback_is_mean_pooling_with_ridge_to_the_last_digit():
    """Labels that depend on all tokens alike: nothing to learn, and then nothing may differ."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5, 6))
    lengths = rng.integers(1, 6, size=300)
    mask = np.arange(5) < lengths[:, None]
    pooled = (X * mask[..., None]).sum(axis=1) / lengths[:, None]
    y = (pooled @ rng.normal(size=(6, 3))).argmax(axis=1)
    learned = sp.LearnedPoolingClassifier().fit(X, y, mask=mask)
    assert learned.decision_ == "mean"
    np.testing.assert_array_equal(learned.weights_, np.full(5, 0.2))
    features = sp.SpectralPooling("mean").fit(X, mask=mask).transform(X, mask=mask)
    reference = fit_ridge(features, np.where(y[:, None] == np.arange(3), 1.0, -1.0))
    np.testing.assert_array_equal(learned.coef_, reference.coef.T)
    np.testing.assert_array_equal(learned.decision_function(X, mask=mask), reference.predict(features))
    assert "mean" in learned.summary()


def test_random_labels_do_not_learn_weights():
    decisions = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 4, 5))
        decisions.append(sp.LearnedPoolingClassifier().fit(X, rng.integers(0, 3, 200)).decision_)
    assert decisions.count("mean") >= 9


def test_forms_of_input_agree(prefix):
    ids, table, y = prefix
    X = table[ids]
    mask = np.random.default_rng(0).random(ids.shape) < 0.8
    mask[:, 0] = True
    a = sp.LearnedPoolingClassifier().fit(X, y, mask=mask)
    b = sp.LearnedPoolingClassifier(table=table).fit(ids, y, mask=mask)
    c = sp.LearnedPoolingClassifier(n_positions=8).fit(X.reshape(900, -1), y, mask=mask)
    d = sp.LearnedPoolingClassifier(table=table, padding=-7).fit(np.where(mask, ids, -7), y)
    for other in (b, c, d):
        np.testing.assert_allclose(other.weights_, a.weights_, atol=1e-10)
        np.testing.assert_allclose(other.coef_, a.coef_, atol=1e-10)


def test_regressor_learns_where_positions_differ():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6, 5))
    y = X[:, :2].sum(axis=1) @ rng.normal(size=5) + 0.5 * rng.normal(size=500)
    learned = sp.LearnedPoolingRegressor().fit(X[:400], y[:400])
    assert learned.decision_ == "learned"
    mean = Ridge(alpha=1e-3).fit(X[:400].mean(axis=1), y[:400]).score(X[400:].mean(axis=1), y[400:])
    assert learned.score(X[400:], y[400:]) > mean + 0.2
    np.testing.assert_allclose(learned.predict(X), learned.pool(X) @ learned.coef_ + learned.intercept_, atol=1e-12)


def test_large_data_are_learned_on_a_subset_but_fitted_on_all(prefix):
    ids, table, y = prefix
    learned = sp.LearnedPoolingClassifier(table=table, max_samples=200).fit(ids, y)
    pooled = learned.pool(ids)
    reference = fit_ridge(pooled, y[:, None].astype(float))
    np.testing.assert_allclose(learned.coef_[0], reference.coef[:, 0], atol=1e-10)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_targets_are_predicted_with_mean_weights(value):
    X = np.random.default_rng(0).standard_normal((60, 5, 8))
    fitted = sp.LearnedPoolingRegressor().fit(X, np.full(60, value))
    np.testing.assert_allclose(fitted.weights_, 0.2)
    np.testing.assert_allclose(fitted.predict(X), value, atol=1e-12)


def test_bad_input_is_named(prefix):
    ids, table, y = prefix
    X = table[ids]
    with pytest.raises(sp.InvalidInputError, match="one class"):
        sp.LearnedPoolingClassifier().fit(X, np.ones(900))
    mask = np.ones(ids.shape, dtype=bool)
    mask[4] = False
    with pytest.raises(sp.InvalidInputError, match="no observed token: 4"):
        sp.LearnedPoolingClassifier().fit(X, y, mask=mask)
    assert sp.LearnedPoolingClassifier(empty="zero").fit(X, y, mask=mask).predict(X, mask=mask).shape == (900,)
    for parameters in ({"ridge": 0.0}, {"ridge": "loo"}, {"folds": 1}, {"restarts": 0}, {"max_samples": 0}):
        with pytest.raises(sp.InvalidInputError):
            sp.LearnedPoolingClassifier(**parameters).fit(X, y)
    with pytest.raises(sp.NonFiniteError):
        sp.LearnedPoolingRegressor().fit(X, np.where(np.arange(900) == 3, np.nan, 1.0))


def test_few_rows_and_equal_tokens_fall_back_to_the_mean():
    rng = np.random.default_rng(0)
    few = sp.LearnedPoolingClassifier().fit(rng.normal(size=(6, 9, 3)), [0, 1] * 3)
    assert few.decision_ == "mean"
    equal = sp.LearnedPoolingClassifier().fit(np.ones((60, 4, 3)), [0, 1, 1] * 20)
    assert equal.decision_ == "mean"
    assert equal.score(np.ones((3, 4, 3)), [1, 1, 1]) == 1.0


def test_pickle_grid_search_and_routing(prefix):
    ids, table, y = prefix
    learned = sp.LearnedPoolingClassifier(table=table).fit(ids, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(learned)).predict(ids), learned.predict(ids))
    mask = np.ones(ids.shape, dtype=bool)
    mask[:, 5:] = False
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = sp.LearnedPoolingClassifier(table=table, max_steps=10)
        estimator.set_fit_request(mask=True).set_score_request(mask=True)
        search = GridSearchCV(estimator, {"ridge": [0.01, 10.0]}, cv=3).fit(ids, y, mask=mask)
    assert search.best_params_ == {"ridge": 0.01}
    assert search.best_estimator_.weights_.shape == (8,)
