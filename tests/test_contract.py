"""The published interface, called literally: argument names, keyword and positional forms, returned names and types."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest

import spikepool as sp

T, L = 10, 3


@pytest.fixture(scope="module")
def R():
    return sp.prefix_correlation(T=10, L=3)


@pytest.fixture(scope="module")
def w():
    return sp.causal_weights(10)


@pytest.fixture(scope="module")
def model(R):
    return sp.SequenceModel(d=500, V=800, N=1000, R=R, mu=2.5, table="sampled", centered=True, latent="signs")


@pytest.fixture(scope="module")
def small(R):
    return sp.SequenceModel(d=60, V=100, N=120, R=R, mu=2.5)


def is_float(value):
    return isinstance(value, float) and np.isfinite(value)


def test_correlations(R):
    assert R.shape == (10, 10)
    np.testing.assert_array_equal(R[:3, :3], 1.0)
    np.testing.assert_array_equal(R[3:, 3:], np.eye(7))
    markov = sp.markov_correlation(T, rho=0.5)
    np.testing.assert_allclose(markov[0], 0.5 ** np.arange(T))
    np.testing.assert_array_equal(markov, sp.markov_correlation(T, 0.5))
    spiked = sp.spiked_correlation(T, 4.0, 5, signs=None)
    np.testing.assert_allclose(np.linalg.eigvalsh(spiked)[-2:], [1.0, 5.0])
    np.testing.assert_array_equal(spiked, sp.spiked_correlation(T=T, strength=4.0, support=5))
    signed = sp.spiked_correlation(T, strength=4.0, support=[1, 4], signs=[1, -1])
    np.testing.assert_allclose(signed[1, 4], -2.0)


def test_sign_sampler(R):
    draw = sp.sign_sampler(R)
    xi = draw(50, rng=0)
    assert xi.shape == (50, 10)
    assert set(np.unique(xi).tolist()) == {-1, 1}
    assert np.all(xi[:, 0] == xi[:, 1])
    np.testing.assert_array_equal(xi, draw(50, rng=0))
    assert np.any(xi != draw(50, rng=1))


def test_signs_that_do_not_exist_name_the_inequality():
    impossible = np.full((3, 3), -0.45) + 1.45 * np.eye(3)  # PSD, yet R_12 + R_13 + R_23 = -1.35 < -1
    assert np.linalg.eigvalsh(impossible)[0] > 0
    with pytest.raises(sp.NotRealizableError, match=">=") as info:
        sp.sign_sampler(impossible)
    assert isinstance(info.value, ValueError)
    assert info.value.attained < info.value.bound


def test_weights(R, w):
    assert w.shape == (10,)
    np.testing.assert_array_equal(w, sp.causal_weights(10, layers=1, residual=0.0))
    np.testing.assert_allclose(sp.mean_weights(T), 0.1)
    np.testing.assert_allclose(sp.optimal_weights(R), [1 / 3] * 3 + [0] * 7, atol=1e-12)
    for weights in (w, sp.causal_weights(10, layers=3, residual=0.5)):
        assert weights.sum() == pytest.approx(1)


def test_attention_weights():
    X = np.random.default_rng(0).normal(size=(4, 6, 50))
    per_sequence = sp.attention_weights(X, tau=1.0, scaling="d")
    assert per_sequence.shape == (4, 6)
    np.testing.assert_allclose(per_sequence.sum(axis=1), 1.0)
    np.testing.assert_array_equal(per_sequence, sp.attention_weights(X))
    assert sp.attention_weights(X, tau=1.0, scaling="sqrt_d").shape == (4, 6)
    np.testing.assert_allclose(sp.attention_weights(X, tau=0.0), np.tile(sp.causal_weights(6), (4, 1)))


LAWS = {
    "free product": lambda: sp.FreeProductLaw(delta=0.625, gamma=0.5, scale=0.1),
    "Marchenko-Pastur": lambda: sp.MarchenkoPastur(2.0, scale=1.0),
    "general": lambda: sp.GeneralizedLaw(
        noise=sp.AtomicLaw([1.0]), usage=sp.AtomicLaw([0.5, 2.0], weights=None), delta=0.625
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_law(name):
    law = LAWS[name]()
    left, right = law.support()
    x = np.linspace(left, right, 7)[1:-1]
    assert law.pdf(x).shape == law.cdf(x).shape == x.shape
    assert np.all(law.pdf(x) > 0)
    assert np.isscalar(law.pdf(float(x[0])))
    np.testing.assert_allclose(law.ppf(law.cdf(x)), x, rtol=1e-9)
    z = np.array([[0.3 + 0.1j, -1.0 - 0.2j]])
    assert law.stieltjes(z).shape == (1, 2)
    assert law.stieltjes(z)[0, 0].imag > 0 > law.stieltjes(z)[0, 1].imag
    assert is_float(float(law.stieltjes(-1.0)))
    assert isinstance(law.atom, float)
    assert law.cdf(0.0) == pytest.approx(law.atom)
    assert law.moment(0) == 1
    assert law.moment(1) == pytest.approx(law.mean())
    assert law.moment(2) - law.moment(1) ** 2 == pytest.approx(law.var())
    draws = law.rvs(50, rng=0)
    assert draws.shape == (50,)
    np.testing.assert_array_equal(draws, law.rvs(size=50, rng=0))
    assert law.rvs((3, 2), rng=0).shape == (3, 2)


def test_law_numbers_of_the_specification():
    law = sp.FreeProductLaw(delta=0.625, gamma=0.5)
    np.testing.assert_allclose(law.support(), (0.016713074647935783, 4.710743628489127), rtol=1e-14)
    np.testing.assert_allclose(law.mean(), 1.0)
    np.testing.assert_allclose(law.moment(2), 2.125)
    assert sp.MarchenkoPastur(ratio=4.0).atom == 0.75


def test_generalized_law_takes_any_law():
    """Marchenko-Pastur usage gives back the closed form."""
    general = sp.GeneralizedLaw(noise=sp.AtomicLaw([1.0]), usage=sp.MarchenkoPastur(0.8), delta=0.625)
    closed = sp.FreeProductLaw(delta=0.625, gamma=0.5)  # usage ratio V/N = gamma/delta
    x = np.linspace(0.1, 4.5, 9)
    np.testing.assert_allclose(general.pdf(x), closed.pdf(x), rtol=1e-9)
    np.testing.assert_allclose(general.support(), closed.support(), rtol=1e-9)
    noisy = sp.GeneralizedLaw(sp.MarchenkoPastur(0.3), sp.AtomicLaw([1.0, 2.0], [0.5, 0.5]), 0.4)
    assert noisy.mean() == pytest.approx(1.5)


def test_predict(model, w):
    p = model.predict(w)
    assert (p.alpha, p.kappa) == pytest.approx(sp.gains(w, model.R))
    assert isinstance(p.bulk, sp.FreeProductLaw)
    assert p.edge == pytest.approx(p.bulk.support()[1])
    assert isinstance(p.outliers, tuple)
    assert p.outliers[0].kind == "signal"
    for name in ("eigenvalue", "alignment", "population_eigenvalue", "population_alignment"):
        assert is_float(getattr(p.outliers[0], name))
    assert p.alignment == p.outliers[0].alignment
    assert p.detectable is True
    assert 0 <= p.mu_population < p.mu_sample < 2.5


def test_predict_uncentered_has_the_mean_as_second_outlier(R):
    w0 = sp.mean_weights(10)
    p = sp.SequenceModel(d=500, V=800, N=1000, R=R, mu=1.6, centered=False).predict(w0)
    assert {outlier.kind for outlier in p.outliers} == {"signal", "mean"}
    assert [o.eigenvalue for o in p.outliers] == sorted((o.eigenvalue for o in p.outliers), reverse=True)
    assert p.outliers[0].kind == "mean"
    assert p.alignment == 0  # of the TOP eigenvector, which is the mean's


@pytest.mark.parametrize(
    ("weights", "mu", "published", "exact"),
    [
        ("mean", 1.6, 0.757, 0.666),
        ("causal", 1.0, 0.294, 0.444),
        ("causal", 1.3, 0.740, 0.615),
        ("optimal", 0.8, 0.000, 0.366),
        ("optimal", 2.5, 0.969, 0.884),
    ],
)
def test_predict_gives_the_published_and_the_exact_numbers(model, R, weights, mu, published, exact):
    """Columns two and three of theory section 3: a class-centred and a sampled table."""
    pooling = {"mean": sp.mean_weights(T), "causal": sp.causal_weights(T), "optimal": sp.optimal_weights(R)}[weights]
    assert model.replace(mu=mu).predict(pooling).alignment == pytest.approx(exact, abs=6e-4)
    centred = sp.SequenceModel(500, 800, 1000, R, mu, table="class_centered")
    assert centred.predict(pooling).alignment == pytest.approx(published, abs=6e-4)


def test_planning(model, w):
    N = model.required_samples(w, alignment=0.8)
    assert isinstance(N, int)
    assert model.replace(N=N).predict(w).alignment >= 0.8 > model.replace(N=N - 1).predict(w).alignment
    assert model.required_samples(w, 0.8) == N
    with pytest.raises(sp.UnreachableError) as info:
        model.replace(mu=0.1).required_samples(w, alignment=0.8)
    assert isinstance(info.value, sp.SpikepoolError)


def test_simulate(small, w):
    s = small.simulate(w, trials=4, rng=0)
    trials, k = s.eigenvalues.shape
    assert trials == 4
    assert k >= 1
    assert s.alignments.shape == (4, k)
    assert s.alignment.shape == (4,)
    np.testing.assert_array_equal(s.alignment, s.alignments[:, 0])
    assert np.all(np.diff(s.eigenvalues, axis=1) <= 0)
    assert np.all((s.alignments >= 0) & (s.alignments <= 1))
    np.testing.assert_array_equal(s.eigenvalues, small.simulate(w, trials=4, rng=0).eigenvalues)


def test_sweep(small, w, tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    w0, mus = sp.mean_weights(10), [0.5, 1.0, 2.5]
    arguments = {"mu": mus, "trials": 3, "seed": 0, "store": str(tmp_path / "runs" / "a.zarr"), "scheduler": None}
    ds = sp.sweep(small, weights={"mean": w0, "causal": w}, **arguments)
    assert isinstance(ds, xarray.Dataset)
    assert ds.sizes["weights"] == 2
    assert ds.sizes["mu"] == 3
    assert ds.sizes["trial"] == 3
    assert list(ds.weights.values) == ["mean", "causal"]
    np.testing.assert_array_equal(ds.mu, mus)
    predicted = float(ds.predicted_alignment.sel(weights="causal", mu=2.5))
    assert predicted == pytest.approx(small.predict(w).alignment)
    assert ds.identical(sp.sweep(small, weights={"mean": w0, "causal": w}, **arguments))


def test_exact_predictions(small, w):
    p = small.predict(w, exact=True, rng=0)
    assert isinstance(p, sp.Prediction)
    assert p.detectable is True
    assert p.outliers[0].kind == "signal"
    assert p.alignment == small.predict(w, exact=True, rng=0).alignment
    rng = np.random.default_rng(0)
    V, d, mu = 40, 30, 3.0
    tokens, s = rng.integers(0, V, (200, 10)), np.repeat([1, -1], V // 2)
    q = sp.predict_tokens(tokens, V=V, weights=w, signs=s, mu=mu, d=d, noise=None)
    assert isinstance(q, sp.Prediction)
    for name in ("alpha", "kappa", "edge", "alignment", "mu_population", "mu_sample"):
        assert is_float(getattr(q, name)), name


def test_ridge_accuracy(model, w):
    accuracy = model.ridge_accuracy(w, ridge=1.0, n_train=640)
    assert isinstance(accuracy, float)
    assert 0.5 < accuracy < 1


def tokens_of_the_prefix_model(n=1500, d=20):
    rng = np.random.default_rng(0)
    xi = sp.sign_sampler(sp.prefix_correlation(T, L))(n, rng=1)
    X = 1.5 * xi[:, :, None] * np.eye(d)[0] + rng.normal(size=(n, T, d))
    return X, xi[:, 0]


def test_spectral_pooling():
    X, _ = tokens_of_the_prefix_model()
    pooling = sp.SpectralPooling().fit(X, mask=None)
    features = pooling.transform(X, mask=None)
    assert features.shape == (1500, 20)
    np.testing.assert_allclose(features, np.einsum("t,ntd->nd", pooling.weights_, X))
    assert pooling.weights_.shape == (T,)
    assert pooling.weights_.sum() == pytest.approx(1)
    assert pooling.correlation_.shape == (T, T)
    assert pooling.decision_ == "spectral"
    assert pooling.gain_ > 1
    noise = sp.SpectralPooling().fit(np.random.default_rng(1).normal(size=(300, T, 20)))
    assert noise.decision_ == "mean"
    np.testing.assert_allclose(noise.weights_, 1 / T)
    mask = np.ones((1500, T), dtype=bool)
    np.testing.assert_allclose(sp.SpectralPooling().fit(X, mask=mask).transform(X, mask=mask), features)


def test_learned_pooling():
    X, y = tokens_of_the_prefix_model(n=400, d=8)
    classifier = sp.LearnedPoolingClassifier().fit(X, y, mask=None)
    assert classifier.weights_.shape == (T,)
    assert classifier.weights_.min() >= 0
    assert classifier.weights_.sum() == pytest.approx(1)
    np.testing.assert_array_equal(classifier.classes_, [-1, 1])
    assert set(np.unique(classifier.predict(X)).tolist()) <= {-1, 1}
    assert classifier.score(X, y) > 0.8


def test_diagnose(small, w):
    C = small.sample(rng=0).pooled(w).T
    report = sp.diagnose(C, V=None, weights=None)
    assert isinstance(report.verdict, str)
    assert len(report.outliers) == 1
    outlier = report.outliers[0]
    assert is_float(outlier.eigenvalue)
    assert outlier.standard_error > 0
    assert 0 < outlier.alignment <= 1
    assert sp.diagnose(C, V=small.V, weights=w).outliers[0].eigenvalue == pytest.approx(outlier.eigenvalue)


@pytest.mark.slow
def test_table_spectrum(tmp_path):
    rng = np.random.default_rng(0)
    E = rng.normal(size=(900, 60))  # rows are tokens
    E += 3.0 * rng.normal(size=(900, 1)) * np.eye(60)[0]
    fitted = sp.TableSpectrum().fit(E)
    assert fitted.eigenvalues_.shape == (60,)
    centred = E - E.mean(axis=0)
    np.testing.assert_allclose(np.sort(fitted.eigenvalues_), np.linalg.eigvalsh(centred.T @ centred / 900))
    assert fitted.n_outliers_ == 1
    assert fitted.eigenvalues_.max() > fitted.edge_ > np.sort(fitted.eigenvalues_)[-2] / 1.2
    assert len(fitted.counts_) >= 2
    assert all(isinstance(null, str) and count >= 0 for null, count in fitted.counts_.items())
    assert isinstance(fitted.verdict_, str)
    np.save(tmp_path / "table.npy", E)
    again = sp.TableSpectrum.from_file(tmp_path / "table.npy", tensor=None)
    np.testing.assert_allclose(again.eigenvalues_, fitted.eigenvalues_)
    assert again.n_outliers_ == 1


def test_every_error_has_one_base():
    from spikepool import errors as module

    errors = [value for name, value in vars(module).items() if inspect.isclass(value) and name.endswith("Error")]
    assert len(errors) > 10
    assert all(issubclass(error, sp.SpikepoolError) for error in errors)
    for error in (sp.ShapeError, sp.SizeError, sp.DomainError, sp.CorrelationError, sp.WeightsError, sp.TokenError):
        assert issubclass(error, ValueError)


def test_rng_is_keyword_only_and_global_state_is_left_alone(small, w, R):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    with pytest.raises(TypeError):
        sp.sign_sampler(R)(3, 0)
    with pytest.raises(TypeError):
        sp.MarchenkoPastur(0.5).rvs(3, 0)
    small.simulate(w, trials=1)
    small.predict(w, exact=True)
    sp.sign_sampler(R)(3)
    sp.MarchenkoPastur(0.5).rvs(3)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def run_cli(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "spikepool.cli", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
def test_command_line_names():
    top = run_cli("--help")
    assert top.returncode == 0
    for name in ("predict", "plan", "simulate", "sweep", "reproduce", "spectrum", "explore"):
        assert name in top.stdout
    explore = run_cli("explore", "--help")
    assert "--port" in explore.stdout
    assert "--no-browser" in explore.stdout


class TestWhatIsNoModelIsNamed:
    @pytest.mark.parametrize("model", ["model", None, np.ones((2, 2, 2)), 3])
    def test_models(self, model, w):
        for ask in (sp.ridge_prediction, sp.optimal_ridge, sp.simulate_ridge):
            with pytest.raises(sp.InvalidInputError, match="model must be a SequenceModel"):
                ask(model, w)
        with pytest.raises(sp.InvalidInputError, match="model must be a SequenceModel"):
            sp.rank_weights(model, {"a": w})
        with pytest.raises(sp.InvalidInputError, match="model must be a SequenceModel"):
            sp.predict_attention(model, 1.0)

    @pytest.mark.parametrize("law", [[[1, 2], [3]], "abc", {}, [object()], [1j, 2.0]])
    def test_laws(self, law):
        with pytest.raises(sp.InvalidInputError, match="noise must be a law"):
            sp.GeneralizedLaw(law, [1.0], 0.5)
        with pytest.raises(sp.InvalidInputError, match="usage must be a law"):
            sp.GeneralizedLaw([1.0], law, 0.5)

    @pytest.mark.parametrize("seed", ["abc", 1.5, [1, "a"], {}])
    def test_seeds_of_the_estimators(self, seed):
        x, y = np.random.default_rng(0).normal(size=(40, 3, 4)), np.arange(40) % 2
        with pytest.raises(sp.InvalidInputError, match="random_state must be"):
            sp.LearnedPoolingClassifier(random_state=seed, max_steps=2).fit(x, y)


def test_the_target_of_a_diagnosis_is_the_same_in_python_and_on_the_command_line():
    import inspect

    from spikepool.cli import data_commands

    defaults = [inspect.signature(f).parameters["target"].default for f in (sp.diagnose, data_commands.diagnose)]
    assert defaults == [0.9, 0.9]


@pytest.mark.slow
def test_query_model():
    q = sp.QueryModel(
        d=200, N=800, T=20, L=3, mu=1.0, nu=1.5, overlap=1.0, kernel="softmax", beta=0.5, normalize=True, V=None
    )
    p = q.predict()
    assert isinstance(p, sp.Prediction)
    assert p.signal.kind == "signal"
    assert 0.6 < p.alignment < 0.66
    assert "query" in {o.kind for o in q.replace(kernel="sigmoid", beta=1.5, normalize=False).predict().outliers}
    s = q.simulate(trials=2, rng=0)
    assert s.eigenvalues.shape == s.alignments.shape == (2, 1)
    assert s.alignment.shape == (2,)
    assert is_float(q.gain())
    assert is_float(q.best_beta())
    assert q.replace(beta=1.0).beta == 1.0
    learned = q.learned(n_train=400)
    assert 0 < learned.first_step < learned.overlap < 1
    assert 0 < learned.token_pca < 1
    assert isinstance(q.required_samples(alignment=0.5), int)
    assert q.replace(kernel=lambda scores: scores**2, beta=None).predict().alignment > 0


def test_query_model_with_relevance():
    q = sp.QueryModel(d=60, N=200, T=12, L=3, mu=1.2, nu=1.0, relevance="span")
    for changes in ({"kernel": "posterior"}, {"kernel": "optimal"}, {"kernel": "softmax", "window": 3}):
        assert 0 <= q.replace(**changes).predict().alignment <= 1
    assert sp.QueryModel(d=60, N=200, T=12, L=3, mu=1.2, nu=1.0, relevance="chain", run=3.0).gain() > 0
    assert sp.QueryModel(d=60, N=200, T=4, L=1, mu=1.2, nu=1.0, prior=[0.4, 0.3, 0.2, 0.1]).gain() > 0
    limits = q.limits()
    assert limits.mu_pairs <= limits.mu_pooling <= limits.mu_mean
    assert limits.alignment_pooling <= limits.alignment_pairs <= limits.alignment_bayes
    kernel = sp.self_attention(0.5, layers=1, residual=0.0, causal=False, pool="mean")
    assert kernel(np.zeros((2, 12))).shape == (2, 12)
    assert q.replace(kernel=kernel).predict().alpha > 0
    assert q.replace(noise=np.linspace(0.5, 1.5, 60)).predict().kappa > 0
    assert 0.5 < q.ridge_accuracy(ridge=1.0, n_train=None) < 1
