"""SequenceModel: predictions as identities, properties over the whole domain, and named errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spikepool as sp
from spikepool.theory import spikes

R = sp.prefix_correlation(T=10, L=3)
WEIGHTS = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}


def model(**changes):
    return sp.SequenceModel(**{"d": 500, "V": 800, "N": 1000, "R": R, "mu": 2.5, **changes})


# published / exact alignment, three digits, centred (the simulated column is in tests/statistical)
TABLE = [
    ("mean", 1.6, 0.757, 0.666),
    ("causal", 1.0, 0.294, 0.444),
    ("causal", 1.3, 0.740, 0.615),
    ("optimal", 0.8, 0.000, 0.366),
    ("optimal", 2.5, 0.969, 0.884),
]


@pytest.mark.parametrize(("name", "mu", "published", "exact"), TABLE)
def test_published_and_exact_table(name, mu, published, exact):
    w = WEIGHTS[name]
    assert model(mu=mu).predict(w).alignment == pytest.approx(exact, abs=1e-3)
    assert model(mu=mu, table="class_centered").predict(w).alignment == pytest.approx(published, abs=1e-3)


def test_bulk_figure_outliers():
    # the causal outlier: 3.53 by the paper's own formula (it prints 3.17), 3.85 with the vocabulary's class means
    published = model(table="class_centered").predict(WEIGHTS["causal"])
    assert published.eigenvalue == pytest.approx(3.53, abs=5e-3)
    assert model().predict(WEIGHTS["causal"]).eigenvalue == pytest.approx(3.85, abs=5e-3)
    assert model(table="class_centered").predict(WEIGHTS["mean"]).eigenvalue == pytest.approx(1.17, abs=5e-3)


def test_uncentred_mean_pooling_is_led_by_the_vocabulary_mean():
    p = model(mu=1.6, centered=False).predict(WEIGHTS["mean"])
    assert [o.kind for o in p.outliers] == ["mean", "signal"]
    assert p.alignment == 0
    assert p.detectable
    assert p.outliers[0].alignment == 0
    assert p.outliers[1] == model(mu=1.6).predict(WEIGHTS["mean"]).outliers[0]


def test_class_centred_and_gaussian_latents_have_no_class_means():
    w = WEIGHTS["causal"]
    assert [o.kind for o in model(table="class_centered", centered=False).predict(w).outliers] == ["signal"]
    gaussian = model(latent="gaussian").predict(w)
    assert gaussian.alignment == model(table="class_centered").predict(w).alignment
    kinds = [o.kind for o in model(latent="gaussian", centered=False).predict(w).outliers]
    assert sorted(kinds) == ["mean", "signal"]


def test_prediction_is_the_spike_map():
    m, w = model(), WEIGHTS["causal"]
    p = m.predict(w)
    x = p.alpha * (m.mu**2 + m.delta) / p.kappa - m.delta
    outlier = p.outliers[0]
    assert outlier.eigenvalue == pytest.approx(spikes.sample_outlier(x, m.delta, m.gamma, p.kappa))
    assert outlier.alignment == pytest.approx(
        spikes.total_alignment(x, m.delta, m.gamma) * m.mu**2 / (m.mu**2 + m.delta)
    )
    assert outlier.population_eigenvalue == pytest.approx(spikes.population_outlier(x, m.delta, p.kappa))
    assert p.bulk == sp.FreeProductLaw(m.delta, m.gamma, p.kappa)
    assert p.edge == pytest.approx(p.bulk.support()[1])
    assert p.signal is outlier
    assert p.eigenvalue == outlier.eigenvalue


@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_detectable_exactly_above_the_threshold(table, name):
    m = model(table=table)
    threshold = m.predict(WEIGHTS[name]).mu_sample
    assert m.predict(WEIGHTS[name]).mu_population <= threshold
    assert m.replace(mu=threshold * (1 + 1e-9) + 1e-9).predict(WEIGHTS[name]).detectable
    if threshold > 0:
        below = m.replace(mu=threshold * (1 - 1e-9)).predict(WEIGHTS[name])
        assert not below.detectable
        assert below.alignment == 0
        assert below.outliers == ()
        assert below.eigenvalue == below.edge


def test_weights_that_cancel_the_signal():
    m = sp.SequenceModel(10, 20, 30, np.ones((3, 3)) * 1.0, 1.0)
    p = m.predict([1 / 3, 1 / 3, 1 / 3])
    assert p.alpha == pytest.approx(1)
    opposed = sp.SequenceModel(10, 20, 30, [[1.0, -1.0], [-1.0, 1.0]], 1.0)
    p = opposed.predict([0.5, 0.5])
    assert p.alpha == 0
    assert p.mu_sample == math.inf
    assert not p.detectable
    with pytest.raises(sp.UnreachableError):
        opposed.required_mu([0.5, 0.5], 0.5)


def test_replace_checks_again_and_fields_are_frozen():
    m = model()
    assert m.replace(mu=1.0).mu == 1.0
    assert m.replace(R=np.eye(4)).T == 4
    with pytest.raises(sp.SizeError):
        m.replace(V=801)
    with pytest.raises(AttributeError):
        m.mu = 3.0
    with pytest.raises(ValueError, match="read-only"):
        m.R[0, 0] = 2.0


# d up to 300, so that a ratio of 1e-12, ten times over, still is a size below 2^53
sizes = st.floats(0, 2.5).map(lambda e: max(1, round(10**e)))
ratio = st.one_of(st.just(1.0), st.floats(-12, 3).map(lambda e: 10.0**e))


@st.composite
def worlds(draw, *, table=None):
    """Models with ratios from 1e-12 to 1e3, exactly 1, T = 1 and mu = 0 included."""
    T = draw(st.integers(1, 12))
    d = draw(sizes)
    delta, gamma = draw(ratio), draw(ratio)
    V = 2 * max(1, round(d / delta / 2))
    N = max(1, round(d / gamma))
    kind = draw(st.sampled_from(["prefix", "markov", "equal"]))
    if kind == "prefix":
        R = sp.prefix_correlation(T, draw(st.integers(1, T)))
    elif kind == "markov":
        R = sp.markov_correlation(T, draw(st.floats(-1, 1)))
    else:
        R = sp.equicorrelation(T, draw(st.floats(0, 1)))
    raw = np.array(draw(st.lists(st.floats(0, 1), min_size=T, max_size=T))) + 1e-3
    made = sp.SequenceModel(
        d,
        V,
        N,
        R,
        draw(st.one_of(st.just(0.0), st.floats(-4, 4).map(lambda e: 10.0**e))),
        table=table or draw(st.sampled_from(["sampled", "class_centered"])),
        centered=draw(st.booleans()),
        latent=draw(st.sampled_from(["signs", "gaussian"])),
    )
    return made, raw / raw.sum()


@pytest.mark.slow
@settings(max_examples=300)
@given(worlds())
def test_predictions_are_sane_over_the_whole_domain(world):
    m, w = world
    p = m.predict(w)
    assert 0 <= p.alignment <= 1
    assert 0 < p.edge < math.inf
    assert p.mu_population <= p.mu_sample * (1 + 1e-12)
    for outlier in p.outliers:
        assert outlier.eigenvalue >= p.edge * (1 - 1e-12)
        assert 0 <= outlier.alignment <= outlier.population_alignment * (1 + 1e-9) <= 1 + 1e-9
        assert math.isfinite(outlier.population_eigenvalue)
    left, right = p.bulk.support()
    x = left + (right - left) * np.linspace(0, 1, 11)[1:-1]
    density = p.bulk.pdf(x)
    assert np.all(np.isfinite(density))
    assert np.all(density >= 0)
    mass = p.bulk.cdf(x)
    assert np.all(np.diff(mass) >= 0)
    assert p.bulk.atom <= mass[0] <= mass[-1] <= 1


@pytest.mark.slow
@settings(max_examples=150)
@given(worlds(), st.floats(1, 10))
def test_alignment_is_monotone_in_mu_and_samples(world, factor):
    m, w = world
    base = m.predict(w).alignment
    assert m.replace(mu=m.mu * factor).predict(w).alignment >= base - 1e-12
    if m.centered or m.predict(w).outliers == () or m.predict(w).outliers[0].kind == "signal":
        # uncentred, more sequences can bring out the vocabulary mean ahead of nothing, never ahead of the signal
        assert m.replace(N=math.ceil(m.N * factor)).predict(w).alignment >= base - 1e-12


@pytest.mark.slow
@settings(max_examples=150)
@given(worlds(table="class_centered"), st.integers(1, 10))
def test_alignment_is_monotone_in_the_vocabulary_of_class_centred_tables(world, factor):
    m, w = world
    assert m.replace(V=m.V * factor).predict(w).alignment >= m.predict(w).alignment - 1e-12


def test_alignment_is_not_monotone_in_the_vocabulary_of_sampled_tables():
    w = WEIGHTS["optimal"]
    m = model(mu=0.4)
    values = [m.replace(V=V).predict(w).alignment for V in (100, 500, 800, 1668, 50_000)]
    assert values == pytest.approx([0.027, 0.070, 0.063, 0, 0], abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"d": 0}, sp.SizeError),
        ({"d": -1}, sp.SizeError),
        ({"d": 2.5}, sp.SizeError),
        ({"d": True}, sp.SizeError),
        ({"V": 801}, sp.SizeError),
        ({"V": 0}, sp.SizeError),
        ({"N": np.nan}, sp.SizeError),
        ({"N": "many"}, sp.SizeError),
        ({"mu": -0.1}, sp.DomainError),
        ({"mu": np.inf}, sp.NonFiniteError),
        ({"mu": 1e200}, sp.DomainError),
        ({"d": 10**400}, sp.SizeError),
        ({"mu": np.array([1.0, 2.0])}, sp.InvalidInputError),
        ({"R": np.ones((2, 3))}, sp.ShapeError),
        ({"R": []}, sp.ShapeError),
        ({"R": [[1.0, np.nan], [np.nan, 1.0]]}, sp.NonFiniteError),
        ({"R": [[1.0, 0.5], [0.4, 1.0]]}, sp.CorrelationError),
        ({"R": [[1.0, 2.0], [2.0, 1.0]]}, sp.CorrelationError),
        ({"R": [[2.0, 0.0], [0.0, 1.0]]}, sp.CorrelationError),
        ({"table": "drawn"}, sp.InvalidInputError),
        ({"latent": 3}, sp.InvalidInputError),
        ({"centered": "yes"}, sp.InvalidInputError),
        ({"noise": "cauchy"}, sp.InvalidInputError),
        ({"noise": "student-t", "noise_df": 4.0}, sp.InvalidInputError),
        ({"frequencies": np.ones(799)}, sp.ShapeError),
        ({"frequencies": -np.ones(800)}, sp.InvalidInputError),
        ({"covariance": np.ones(3)}, sp.ShapeError),
        ({"covariance": -np.ones(500)}, sp.CorrelationError),
        ({"direction": np.zeros(500)}, sp.ShapeError),
    ],
)
def test_bad_models_are_named(changes, error):
    with pytest.raises(error) as caught:
        model(**changes)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, sp.SpikepoolError)
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize(
    ("w", "error"),
    [
        (np.ones(10), sp.WeightsError),
        (np.ones(9) / 9, sp.WeightsError),
        (np.ones((2, 5)) / 10, sp.WeightsError),
        ([np.nan] * 10, sp.NonFiniteError),
        ([], sp.ShapeError),
        (["a"], sp.InvalidInputError),
    ],
)
def test_bad_weights_are_named(w, error):
    with pytest.raises(error):
        model().predict(w)


def test_closed_form_refuses_what_it_does_not_cover():
    assert model(frequencies=np.arange(800) + 1.0).predict(WEIGHTS["mean"]).alignment > 0
    with pytest.raises(sp.InvalidInputError, match="exact=True"):
        model(covariance=np.linspace(0.5, 1.5, 500)).predict(WEIGHTS["mean"])


def test_vanishing_signals_do_not_divide_by_zero():
    for table in ("sampled", "class_centered"):
        for mu in (0.0, 1e-200, 1e-160):
            p = model(mu=mu, table=table).predict(WEIGHTS["mean"])
            assert p.alignment == pytest.approx(0, abs=1e-12)


def test_the_correlation_is_proved_once_for_each_model(monkeypatch):
    proofs = []
    plain = np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda *a, **k: proofs.append(a) or plain(*a, **k))
    R = sp.prefix_correlation(6, 2)
    model = sp.SequenceModel(40, 60, 80, R, 1.5)
    w = sp.causal_weights(6)
    model.predict(w)
    model.replace(mu=2.0, N=100).predict(w)
    model.required_samples(w, alignment=0.2)
    model.fluctuations(w)
    model.ridge_accuracy(w)
    assert len(proofs) == 1
    model.replace(R=np.eye(6))
    assert len(proofs) == 2


def test_models_from_ratios_and_equal_models():
    m = sp.SequenceModel.from_ratios(0.625, 0.5, d=500, R=R, mu=1.5, centered=False)
    assert (m.V, m.N, m.delta, m.gamma, m.centered) == (800, 1000, 0.625, 0.5, False)
    assert m == sp.SequenceModel(500, 800, 1000, R.copy(), 1.5, centered=False)
    assert hash(m) == hash(m.replace(mu=1.5))
    assert m != m.replace(mu=1.6)
    assert m != m.replace(frequencies=np.arange(1, 801))
    assert m.replace(token_weights=np.ones(800)) != m
    assert m != "model"
    assert len({m, m.replace(mu=1.5), m.replace(N=7)}) == 2
    for bad in ({"delta": 0.0, "gamma": 1.0}, {"delta": 1.0, "gamma": -1.0}):
        with pytest.raises(sp.InvalidInputError):
            sp.SequenceModel.from_ratios(**bad, d=10, R=R, mu=1.0)


@pytest.mark.parametrize("name", ["mean", "causal", "optimal"])
def test_weights_by_name(name):
    R = sp.prefix_correlation(6, 3)
    model = sp.SequenceModel(40, 64, 80, R, 1.5)
    w = {"mean": sp.mean_weights(6), "causal": sp.causal_weights(6), "optimal": sp.optimal_weights(R)}[name]
    assert model.predict(name).alignment == model.predict(w).alignment
    assert model.predict(name, exact=True, rng=0).alignment == model.predict(w, exact=True, rng=0).alignment
    assert model.required_samples(name, 0.5) == model.required_samples(w, 0.5)
    np.testing.assert_array_equal(
        model.simulate(name, trials=2, rng=0).alignment, model.simulate(w, trials=2, rng=0).alignment
    )
    classes = model.as_classes()
    assert classes.predict(name).outliers == classes.predict(w).outliers
    with pytest.raises(sp.InvalidInputError, match="one of 'mean', 'causal', 'optimal'"):
        model.predict("median")
