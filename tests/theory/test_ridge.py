"""Ridge accuracy: the stated integrals, limits, exact sums over signs, labels, ranking, the classifier, refusals."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtr
from sklearn.utils.estimator_checks import check_estimator

import spikepool as sp
from spikepool.simulation.ridge import simulate_ridge
from spikepool.simulation.ridge_classifier import RidgeClassifier
from spikepool.theory.ridge import optimal_ridge, rank_weights, ridge_accuracy, ridge_moments, ridge_prediction
from spikepool.world.labels import sign_sum_probability

R = sp.prefix_correlation(10, 3)
WEIGHTS = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}


def paper_model(mu, **options):
    return sp.SequenceModel(d=300, V=500, N=640, R=R, mu=mu, **options)


def noise_integral(f, kappa, delta):
    """∫ f dS̄ over kappa·MP_delta, by quadrature of the density in the angle that removes both square roots."""
    low, high = (1 - np.sqrt(delta)) ** 2, (1 + np.sqrt(delta)) ** 2

    def integrand(angle):
        s = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
        return f(kappa * s) * ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * np.pi * delta * s)

    atom = max(0.0, 1 - 1 / delta) * f(0.0)
    return atom + integrate.quad(integrand, 0, np.pi, epsabs=0, epsrel=1e-12, limit=400)[0]


@pytest.mark.parametrize("delta", [0.3, 0.6, 1.7])
@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("ratio", [0.2, 0.47, 1.6])
def test_moments_solve_the_stated_equations(delta, ridge, ratio):
    """The long form of the result, each integral done numerically and T1 differentiated numerically."""
    alpha, kappa, p, strength = 0.3, 0.22, 0.5, 1.6

    def m_tilde(lam):
        def gap(m):
            return m * (lam + ratio * noise_integral(lambda s: s / (1 + m * s), kappa, delta)) - 1

        from scipy.optimize import brentq

        return brentq(gap, 1e-9, 1 / lam, xtol=1e-15, rtol=1e-14)

    m = m_tilde(ridge)
    psi = strength / ridge * noise_integral(lambda s: 1 / (1 + m * s), kappa, delta)
    k = ridge * m / (1 + alpha * ridge * m * psi)
    chi = ratio * noise_integral(lambda s: (m * s / (1 + m * s)) ** 2, kappa, delta)
    v = 1 - 2 * p**2 * psi * k + p**2 * psi**2 * k**2 * alpha
    h = 1e-4 * ridge
    T1 = {x: 1 / (x * m_tilde(x)) - 1 for x in (ridge - h, ridge, ridge + h)}
    slope = (T1[ridge + h] - T1[ridge - h]) / (2 * h)
    J = noise_integral(lambda s: s / (1 + m * s) ** 2, kappa, delta)
    var = p**2 * k**2 * strength / ridge**2 * J / (1 - chi) + v * (T1[ridge] + ridge * slope)
    found = ridge_moments(
        alpha=alpha, kappa=kappa, covariance=p, strength=strength, delta=delta, ratio=ratio, ridge=ridge
    )
    assert found[0] == pytest.approx(p * k * psi, rel=1e-9)
    assert found[1] == pytest.approx(var, rel=2e-6)


def test_infinitely_many_training_sequences_give_the_population_classifier():
    """ratio → 0: beta = p (Sigma + ridge)⁻¹ h with Sigma = S̄ + alpha h h'."""
    alpha, kappa, p, strength, delta, ridge = 0.3, 0.22, 0.5, 1.6, 0.6, 0.05
    g1 = strength * noise_integral(lambda s: 1 / (s + ridge), kappa, delta)
    g2 = strength * noise_integral(lambda s: s / (s + ridge) ** 2, kappa, delta)
    mean, var = ridge_moments(
        alpha=alpha, kappa=kappa, covariance=p, strength=strength, delta=delta, ratio=1e-12, ridge=ridge
    )
    assert mean == pytest.approx(p * g1 / (1 + alpha * g1), rel=1e-9)
    assert var == pytest.approx(p**2 * g2 / (1 + alpha * g1) ** 2, rel=1e-9)


def test_large_ridge_is_the_mean_difference_classifier():
    """ridge → ∞: beta ∝ C y/n = p h + noise of covariance S̄/n and trace c∫s."""
    alpha, kappa, p, strength, delta, ratio = 0.3, 0.22, 0.5, 1.6, 0.6, 0.47
    second = kappa**2 * (1 + delta)
    expected = p * strength / np.sqrt(p**2 * strength * kappa + ratio * second)
    for ridge in (1e6, 1e10):
        mean, var = ridge_moments(
            alpha=alpha, kappa=kappa, covariance=p, strength=strength, delta=delta, ratio=ratio, ridge=ridge
        )
        assert mean / np.sqrt(var) == pytest.approx(expected, rel=1e-5)


def test_zero_delta_is_isotropic_noise():
    found = ridge_moments(alpha=0.3, kappa=0.2, covariance=0.5, strength=1.0, delta=0.0, ratio=1e-12, ridge=0.1)
    assert found[0] == pytest.approx(0.5 * (1 / 0.3) / (1 + 0.3 / 0.3), rel=1e-9)


@given(
    offset=st.floats(-1, 1),
    steps=st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=8),
    noise=st.floats(0.01, 5),
)
def test_fourier_sum_equals_enumeration(offset, steps, noise):
    steps = np.array(steps)
    sums = np.array(list(itertools.product([-1, 1], repeat=len(steps)))) @ steps
    exact = ndtr((offset + sums) / noise).mean()
    assert sign_sum_probability(offset, steps, noise) == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("T", [21, 100, 401])
def test_long_suffixes_against_the_binomial(T):
    """Mean pooling: the suffix's sum is binomial, so the average over 2^(T−L) signs is a sum of T − L + 1 terms."""
    L = 3
    model = sp.SequenceModel(d=300, V=500, N=640, R=sp.prefix_correlation(T, L), mu=1.5)
    w = sp.mean_weights(T)
    found = ridge_prediction(model, w, 0.1)
    k = np.arange(T - L + 1)
    scores = (L + 2 * k - (T - L)) / T * found.mean / found.std
    assert found.accuracy == pytest.approx(stats.binom.pmf(k, T - L, 0.5) @ ndtr(scores), abs=1e-12)
    assert found.accuracy_error == 0


@pytest.mark.parametrize("label", [0, 5, [0, 4, 5], [1, 2, 7]])
def test_any_label_by_brute_force_over_all_signs(label):
    model = paper_model(0.7)
    w = WEIGHTS["causal"]
    free = np.array(list(itertools.product([-1, 1], repeat=8)))
    xi = np.column_stack([free[:, [0, 0]], free])
    y = np.sign(xi[:, np.atleast_1d(label)].sum(axis=1))
    a = xi @ w
    mean, var = ridge_moments(
        alpha=np.mean(a**2),
        kappa=w @ w,
        covariance=np.mean(y * a),
        strength=0.49 + 0.6,
        delta=0.6,
        ratio=300 / 640,
        ridge=0.1,
    )
    assert ridge_accuracy(model, w, 0.1, label=label) == pytest.approx(
        ndtr(y * a * mean / np.sqrt(var)).mean(), abs=1e-12
    )


def test_signs_without_blocks_are_averaged_by_drawing():
    T, rho = 7, 0.6
    model = sp.SequenceModel(d=300, V=500, N=640, R=sp.markov_correlation(T, rho), mu=1.0)
    w = sp.causal_weights(T)
    signs = np.array(list(itertools.product([-1, 1], repeat=T)))
    probability = 0.5 * ((1 + rho * signs[:, 1:] * signs[:, :-1]) / 2).prod(axis=1)
    found = ridge_prediction(model, w, 0.1)
    exact = probability @ ndtr(signs[:, 0] * (signs @ w) * found.mean / found.std)
    assert 0 < found.accuracy_error < 1e-3
    assert abs(found.accuracy - exact) < 4 * found.accuracy_error
    assert found == ridge_prediction(model, w, 0.1)


def test_gaussian_latents_by_two_dimensional_integration():
    model = sp.SequenceModel(d=300, V=500, N=640, R=sp.markov_correlation(5, 0.5) * 1.7, mu=1.2, latent="gaussian")
    w = sp.causal_weights(5)
    found = ridge_prediction(model, w, 0.3)
    alpha, cross, own = w @ model.R @ w, model.R[0] @ w, model.R[0, 0]
    mean, var = ridge_moments(
        alpha=alpha,
        kappa=w @ w,
        covariance=cross * np.sqrt(2 / (np.pi * own)),
        strength=1.44,
        delta=0.6,
        ratio=300 / 640,
        ridge=0.3,
    )

    def integrand(latent):
        center, spread = cross / own * latent, np.sqrt(alpha - cross**2 / own)
        return (
            2 * stats.norm.pdf(latent, scale=np.sqrt(own)) * ndtr(mean * center / np.sqrt(var + (mean * spread) ** 2))
        )

    assert found.accuracy == pytest.approx(integrate.quad(integrand, 0, 20, epsabs=1e-12)[0], abs=1e-10)


def test_no_signal_is_a_coin_toss_without_class_means():
    assert paper_model(0.0, table="class_centered").ridge_accuracy(WEIGHTS["causal"]) == 0.5
    sampled = paper_model(0.0).ridge_accuracy(WEIGHTS["causal"])
    assert sampled > 0.8


def test_label_that_the_weights_ignore_is_a_coin_toss():
    assert paper_model(2.0).ridge_accuracy(WEIGHTS["optimal"], label=9) == 0.5


def test_more_signal_and_more_data_help():
    w = WEIGHTS["causal"]
    by_mu = [paper_model(mu).ridge_accuracy(w, 0.1) for mu in np.linspace(0, 5, 12)]
    assert np.all(np.diff(by_mu) > -1e-12)
    by_n = [paper_model(1.0).ridge_accuracy(w, 0.1, n_train=n) for n in (50, 200, 640, 5000, 10**6)]
    assert np.all(np.diff(by_n) > 0)


def test_optimal_ridge_beats_a_grid():
    for name in WEIGHTS:
        best = optimal_ridge(paper_model(0.5), WEIGHTS[name])
        others = [paper_model(0.5).ridge_accuracy(WEIGHTS[name], x) for x in np.geomspace(1e-5, 1e3, 60)]
        assert best.accuracy >= max(others) - 1e-12
        assert best.accuracy == pytest.approx(paper_model(0.5).ridge_accuracy(WEIGHTS[name], best.ridge), abs=1e-12)
        assert not best.at_limit


def test_ranking_puts_the_best_weights_first():
    for ridge in (1.0, None):
        ranked = rank_weights(paper_model(1.0), WEIGHTS, ridge)
        assert [entry.name for entry in ranked] == ["optimal", "causal", "mean"]
    assert ranked[0].accuracy >= paper_model(1.0).ridge_accuracy(WEIGHTS["optimal"])


@pytest.mark.slow
def test_exact_accuracy_tends_to_the_closed_form_as_weights_spread_out():
    """The prefix of 40 among 160 positions: 1/kappa = 160 tokens in each sequence."""
    model = sp.SequenceModel(d=200, V=320, N=400, R=sp.prefix_correlation(160, 40), mu=0.1)
    w = sp.mean_weights(160)
    closed = ridge_prediction(model, w, 0.002)
    drawn = [ridge_prediction(model, w, 0.002, exact=True, rng=seed) for seed in range(6)]
    accuracy = np.array([one.accuracy for one in drawn])
    assert abs(accuracy.mean() - closed.accuracy) < 3 * accuracy.std(ddof=1) / np.sqrt(6) + 0.003
    assert np.mean([one.std for one in drawn]) == pytest.approx(closed.std, rel=0.05)


def test_exact_sum_over_test_sequences_equals_drawing_them():
    """The Fourier route of blocks against plain test draws for the same usage."""
    from spikepool.theory.ridge_given_tokens import _given_usage, token_scores
    from spikepool.world.labels import labels_of
    from spikepool.world.seeds import child_seed, seed_sequence
    from spikepool.world.tokens import draw_tokens

    frequencies = 1 / np.arange(1, 41) ** 0.7
    small = sp.SequenceModel(d=30, V=40, N=60, R=sp.prefix_correlation(5, 2), mu=0.8, frequencies=frequencies)
    w = sp.causal_weights(5)
    positions = np.array([0, 2, 3])
    found = _given_usage(small, w, 0.1, 60, positions, 0.0, 1000, seed_sequence(4))
    scores = token_scores(small, w, 0.1, 60, positions, child_seed(seed_sequence(4), 0))
    tokens, latent = draw_tokens(small.replace(N=400_000), 9)
    score = scores.signal * (latent @ w) + scores.offsets[tokens] @ w
    chance = ndtr(labels_of(latent, positions) * score / np.sqrt(scores.variances[tokens] @ w**2))
    assert abs(found.accuracy - chance.mean()) < 4 * chance.std() / np.sqrt(len(chance))


def test_classifier_is_the_stated_formula():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6, 9))
    y = np.where(rng.random(40) < 0.5, "no", "yes")
    w = sp.causal_weights(6)
    C = np.einsum("t,ntd->dn", w, X)
    signs = np.where(y == "yes", 1.0, -1.0)
    beta = np.linalg.solve(C @ C.T + 0.3 * 40 * np.eye(9), C @ signs)
    fitted = RidgeClassifier(ridge=0.3, weights=w).fit(X, y)
    assert np.allclose(fitted.coef_, beta, atol=1e-12)
    assert np.allclose(fitted.decision_function(X), C.T @ beta, atol=1e-12)
    assert list(fitted.classes_) == ["no", "yes"]
    assert np.array_equal(fitted.predict(X), np.where(C.T @ beta > 0, "yes", "no"))
    assert np.allclose(RidgeClassifier(ridge=0.3).fit(C.T, y).coef_, beta, atol=1e-12)
    wide = RidgeClassifier(ridge=0.3).fit(C.T[:5], y[:5]).coef_
    assert np.allclose(wide, np.linalg.solve(C[:, :5] @ C[:, :5].T + 1.5 * np.eye(9), C[:, :5] @ signs[:5]), atol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_classifier_passes_scikit_learns_checks():
    failed = [check for check in check_estimator(RidgeClassifier(), on_fail=None) if check["status"] == "failed"]
    assert failed == []


def test_simulation_matches_the_classifier():
    model = sp.SequenceModel(d=20, V=30, N=50, R=sp.prefix_correlation(4, 2), mu=1.0)
    w = sp.mean_weights(4)
    rng = np.random.default_rng(3)
    found = simulate_ridge(model, w, [0.1, 1.0], n_train=50, n_test=200, trials=1, rng=rng, table_drawn=True)
    sample = model.replace(N=250).sample(rng=np.random.default_rng(3))
    C, y = sample.pooled(w).T, sample.latent[:, 0]
    for column, ridge in enumerate((0.1, 1.0)):
        expected = RidgeClassifier(ridge).fit(C[:50], y[:50]).score(C[50:], y[50:])
        assert found[0, column] == pytest.approx(expected, abs=1e-12)
    assert simulate_ridge(model, w, 0.1, n_test=10, trials=2, rng=0, table_drawn=True).shape == (2,)


@pytest.mark.parametrize(
    "arguments",
    [
        {"ridge": 0.0},
        {"ridge": -1.0},
        {"ridge": np.nan},
        {"ridge": np.inf},
        {"ridge": 1e-200},
        {"ridge": 1e200},
        {"exact": np.ones(2)},
        {"label": [[0], [1, 2]]},
        {"exact": True, "n_train": 10**13},
        {"n_train": 0},
        {"n_train": 2.5},
        {"label": 10},
        {"label": -1},
        {"label": [0, 0]},
        {"label": [0, 9]},
        {"label": []},
        {"label": 0.5},
        {"w": np.ones(10)},
        {"w": np.ones(3) / 3},
    ],
)
def test_bad_requests_are_refused(arguments):
    arguments = {"w": WEIGHTS["mean"], **arguments}
    with pytest.raises(sp.InvalidInputError):
        paper_model(1.0).ridge_accuracy(**arguments)


def test_worlds_outside_the_theory_are_refused():
    frequent = paper_model(1.0, frequencies=np.arange(1, 501))
    with pytest.raises(sp.InvalidInputError):
        frequent.ridge_accuracy(WEIGHTS["mean"])
    assert 0.5 < frequent.ridge_accuracy(WEIGHTS["mean"], exact=True) < 1
    colored = paper_model(1.0, covariance=np.linspace(0.5, 1.5, 300))
    for exact in (False, True):
        with pytest.raises(sp.InvalidInputError):
            colored.ridge_accuracy(WEIGHTS["mean"], exact=exact)
    with pytest.raises(sp.InvalidInputError):
        rank_weights(paper_model(1.0), {})
    with pytest.raises(sp.InvalidInputError):
        rank_weights(paper_model(1.0), [WEIGHTS["mean"]])
    with pytest.raises(sp.ShapeError):
        simulate_ridge(paper_model(1.0), WEIGHTS["mean"], [[1.0]])
    with pytest.raises(ValueError, match="binary"):
        RidgeClassifier().fit(np.ones((3, 2)), [1, 2, 3])


@given(
    logs=st.tuples(st.floats(-12, 12), st.floats(-6, 4), st.floats(-6, 3), st.floats(-6, 6), st.floats(-4, 0)),
    share=st.floats(-1, 1),
)
def test_moments_are_finite_over_twenty_decades(logs, share):
    ridge, ratio, delta, strength, kappa = (10.0**x for x in logs)
    mean, var = ridge_moments(
        alpha=0.3, kappa=kappa, covariance=share * 0.3**0.5, strength=strength, delta=delta, ratio=ratio, ridge=ridge
    )
    assert np.isfinite(mean)
    assert 0 <= var < np.inf
    assert mean * share >= 0


def test_overwhelming_signal_leaves_the_vote_of_the_suffix():
    """mu → ∞: the score is a itself, so the accuracy is P(y a > 0), counting ties as half."""
    free = np.array(list(itertools.product([-1, 1], repeat=7)))
    votes = 3 + free.sum(axis=1)
    expected = np.mean(votes > 0) + np.mean(votes == 0) / 2
    for exact in (False, True):
        assert paper_model(1e6).ridge_accuracy(WEIGHTS["optimal"], exact=exact) == pytest.approx(1, abs=1e-9)
    large = sp.SequenceModel(d=30, V=50, N=10**7, R=R, mu=1e6).ridge_accuracy(WEIGHTS["mean"], 1e-6)
    assert large == pytest.approx(expected, abs=1e-6)


def _plain_ridge(rng, d, V, n, T, L, mu, ridge):
    """Accuracy of ridge on one training set of mean pooled sequences of the prefix model, in plain numpy."""
    signs = np.where(np.arange(V) % 2 == 0, 1.0, -1.0)
    table = rng.standard_normal((V, d))
    table[:, 0] += mu * signs

    def sequences(count):
        label = np.where(rng.random(count) < 0.5, 1, -1)
        latent = np.where(rng.random((count, T)) < 0.5, 1, -1)
        latent[:, :L] = label[:, None]
        return table[2 * rng.integers(0, V // 2, (count, T)) + (latent < 0)].mean(axis=1), label

    C, y = sequences(n)
    beta = np.linalg.solve(C.T @ C + ridge * n * np.eye(d), C.T @ y)
    fresh, truth = sequences(1000)
    return np.mean(np.sign(fresh @ beta) == truth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("V", "n", "mu", "ridge"),
    [
        (60, 60, 1.0, 1.0),
        (60, 60, 1.0, 10.0),
        (60, 80, 0.7, 3.0),
        (80, 66, 1.3, 5.0),
        (50, 92, 1.0, 4.0),
        (60, 70, 1.5, 8.0),
    ],
)
def test_few_training_sequences_have_the_accuracy_of_the_caution(V, n, mu, ridge):
    model = sp.SequenceModel(d=100, V=V, N=n, R=sp.prefix_correlation(T=10, L=3), mu=mu)
    expected = ridge_prediction(model, sp.mean_weights(10), ridge)
    assert any("not balanced" in reason for reason in expected.validity.reasons)
    rng = np.random.default_rng(V + n)
    seen = [_plain_ridge(rng, 100, V, n, 10, 3, mu, ridge) for _ in range(150)]
    off = np.mean(seen) - (expected.accuracy - expected.validity.error)
    assert abs(off) < 3 * np.std(seen) / np.sqrt(150) + 0.003
    assert ridge_prediction(model, sp.mean_weights(10), ridge, n_train=5000).validity.ok
