"""Token frequencies and token weights in closed form: identities, limits and an oracle written from the equation."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory.noise import Noise
from spikepool.theory.population_usage import population_usage
from spikepool.theory.token_weight_choice import same_table_accuracy, same_table_score
from spikepool.theory.token_weights import SpreadPopulation
from spikepool.theory.usage_spectrum import UsageBulk, UsageSpectrum

R = sp.prefix_correlation(10, 5)
W = sp.mean_weights(10)


def model(V=600, z=1.0, mu=1.5, **changes):
    fields = {"d": 150, "V": V, "N": 800, "R": R, "mu": mu, "frequencies": sp.zipf_frequencies(V, z)}
    return sp.SequenceModel(**{**fields, **changes})


def weightings(p, G, N):
    return {
        "one": np.ones(len(p)),
        "idf": np.log(2 / p),
        "sif": 1e-3 / (1e-3 + p),
        "derived": 1 / (p + 1 / (G * N)),
        "root": p**-0.5,
    }


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("latent", ["signs", "gaussian"])
@pytest.mark.parametrize("mu", [0.0, 0.4, 2.5])
def test_uniform_tables_give_the_rational_closed_form(centered, table, latent, mu):
    plain = sp.SequenceModel(300, 600, 400, R, mu, table=table, centered=centered, latent=latent)
    equal = plain.replace(frequencies=np.ones(600), token_weights=np.ones(600))
    for w in (W, sp.causal_weights(10), sp.optimal_weights(R)):
        p, q = plain.predict(w), equal.predict(w)
        # the closed form leaves out terms of order 1/V in the strength of the spikes and in the edge of the class means
        exact = 1e-12 if table == "sampled" and latent == "signs" else 5 / 600
        for name in ("alpha", "kappa", "edge", "alignment", "mu_sample", "mu_population"):
            tolerance = 1e-12 if name in ("alpha", "kappa") else exact
            assert getattr(q, name) == pytest.approx(getattr(p, name), rel=tolerance, abs=tolerance), name
        # at mu = 0 the mean and the class means are spikes of one strength where alpha = 1
        assert sorted(o.kind for o in q.outliers) == sorted(o.kind for o in p.outliers)
        assert q.detectable == p.detectable
        for ours, theirs in zip(q.outliers, p.outliers, strict=True):
            assert ours.eigenvalue == pytest.approx(theirs.eigenvalue, rel=exact)
            assert ours.population_eigenvalue == pytest.approx(theirs.population_eigenvalue, rel=exact)
            assert ours.population_alignment == pytest.approx(theirs.population_alignment, abs=exact)


def test_a_factor_on_all_token_weights_scales_eigenvalues_only():
    m = model(z=0.7)
    a = weightings(m.frequencies, 3.0, m.N)["sif"]
    p, q = m.replace(token_weights=a).predict(W), m.replace(token_weights=3 * a).predict(W)
    assert q.alignment == pytest.approx(p.alignment, rel=1e-10)
    assert q.mu_sample == pytest.approx(p.mu_sample, rel=1e-10)
    assert q.eigenvalue == pytest.approx(9 * p.eigenvalue, rel=1e-10)
    assert (q.alpha, q.kappa) == pytest.approx((9 * p.alpha, 9 * p.kappa))


def largest_root(d, N, p, a, G, mu):
    """Alignment and eigenvalue of the top outlier from the scalar equation theta = mu² sum y, symmetric classes."""
    tau, c, gamma = d * p * a**2, G - 1, d / N

    def y(theta):
        r = 1 / (1 - tau / theta)
        P1, P2 = np.sum(p * a * r), np.sum(p**2 * a**2 * r)
        return p * a**2 * r + c * p * a * r * P1 / (1 - d * c / theta * P2)

    low = tau.max()
    high = 1e6 * low
    for _ in range(200):  # the equation and its pole both lie below the largest root
        middle = np.sqrt(low * high)
        r = 1 / (1 - tau / middle)
        beyond = 1 - d * c / middle * np.sum(p**2 * a**2 * r) > 0 and middle > mu**2 * y(middle).sum()
        low, high = (low, middle) if beyond else (middle, high)
    x = tau / high
    E1, E2 = np.sum(x / (1 - x)) / d, np.sum((x / (1 - x)) ** 2) / d
    at = y(high)
    bracket = 1 - E2 - gamma * (1 + E1) * (E1 + E2) / (1 + gamma * E1)
    alignment = max(bracket, 0) * mu**2 / (mu**2 + d * np.sum(at**2) / np.sum(at) ** 2)
    return alignment, high * (1 + E1) * (1 + gamma * E1)


@pytest.mark.parametrize("z", [0.7, 1.0])
@pytest.mark.parametrize("name", ["sif", "derived", "root"])
@pytest.mark.parametrize("mu", [0.8, 2.0])
def test_the_bordered_matrix_solves_the_scalar_equation(z, name, mu):
    m = model(z=z, mu=mu, V=1500)
    alpha, kappa = m.gains(W)
    a = weightings(m.frequencies, alpha / kappa, m.N)[name]
    p = m.replace(token_weights=a).predict(W)
    alignment, eigenvalue = largest_root(m.d, m.N, m.frequencies, a, alpha / kappa, mu)
    # tokens of the tail share bins, and frequent ones that stand apart are left out of E1 and E2: terms of order 1/d
    assert p.alignment == pytest.approx(alignment, abs=1e-4)
    assert p.eigenvalue == pytest.approx(kappa * eigenvalue, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("table", ["sampled", "class_centered"])
def test_population_is_that_of_the_law_given_the_tokens(centered, table):
    """Two routes to N → ∞: the bordered matrix, and the separable equations over the same usage."""
    m = model(d=450, V=900, z=0.8, mu=1.2, centered=centered, table=table, N=10**9)
    a = np.repeat(np.random.default_rng(3).uniform(0.3, 2.0, m.V // 2), 2)
    alpha, kappa = m.gains(W)
    closed = m.replace(token_weights=a).predict(W)
    usage = population_usage(
        m.frequencies,
        m.signs,
        alpha - kappa,
        kappa,
        token_weights=a,
        centered=centered,
        class_centered=table == "class_centered",
    )
    spectrum = UsageSpectrum(UsageBulk(usage, Noise(None, m.d, None)), m.mu)
    # next to the edge it counts which of the last tokens are left out of the bulk, by terms of order 1/d
    clear = [o for o in closed.outliers if o.population_eigenvalue > 1.1 * closed.edge]
    assert len(clear) >= 8
    for ours, theirs in zip(clear, spectrum.outliers, strict=False):
        assert ours.population_eigenvalue == pytest.approx(theirs.eigenvalue, rel=4 / m.d)
        assert ours.population_alignment == pytest.approx(float(theirs.overlaps[0]), abs=1 / m.d)
    assert len(closed.outliers) == len(spectrum.outliers)


def test_bulk_law_ends_at_the_edge():
    p = model(z=0.6).replace(token_weights=weightings(sp.zipf_frequencies(600, 0.6), 3.0, 800)["root"]).predict(W)
    assert p.bulk.support()[1] == pytest.approx(p.edge, rel=1e-9)
    assert p.bulk.mean() == pytest.approx(p.kappa, rel=1e-3)  # the signal's directions are left out


@pytest.mark.slow
def test_planning_agrees_with_predictions():
    m = model(z=1.0, mu=2.0)
    m = m.replace(token_weights=weightings(m.frequencies, 3.0, m.N)["derived"])
    N = m.required_samples(W, alignment=0.8)
    assert m.replace(N=int(N)).predict(W).alignment >= 0.8 > m.replace(N=int(N) - 1).predict(W).alignment
    mu = m.required_mu(W, alignment=0.8)
    assert m.replace(mu=float(mu)).predict(W).alignment == pytest.approx(0.8, abs=1e-9)
    with pytest.raises(sp.UnreachableError):
        m.required_samples(W, alignment=0.999)


def test_recovery_weights_are_the_best_of_their_family():
    """The loss at order mu^-2 is least at the derived constant where G is large."""
    T, L = 100, 100
    big = sp.prefix_correlation(T, L)
    N, V = 300, 2000
    p = sp.zipf_frequencies(V, 1.0)
    w = sp.mean_weights(T)
    m = sp.SequenceModel(100, V, N, big, 3.0, frequencies=p)
    G = np.divide(*m.gains(w))
    constants = 1 / (G * N) * np.geomspace(1 / 8, 8, 13)
    values = [m.replace(token_weights=1 / (p + c)).predict(w).alignment for c in constants]
    assert abs(int(np.argmax(values)) - 6) <= 1  # within a factor of 1.4
    same = sp.recovery_token_weights(N * T * p, length=T, gain=G)
    ratio = same * (p + 1 / (G * N))
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


def test_recovery_and_prediction_want_opposite_weights():
    V, d = 1000, 100
    p = sp.zipf_frequencies(V, 1.0)
    recovery = sp.recovery_token_weights(20_000 * p, length=20, gain=5.0)
    m = sp.SequenceModel(d, V, 1000, R, 1.0, frequencies=p)
    assert m.replace(token_weights=recovery).predict(W).alignment > m.predict(W).alignment + 0.3
    scores = [same_table_score(p, a, 1.0, d) for a in (np.ones(V), recovery)]
    assert scores[0] > scores[1] + 0.2
    assert same_table_accuracy(scores[0], 20, 0.2) > same_table_accuracy(scores[1], 20, 0.2)


def test_flag_of_rare_tokens():
    m = model(z=1.2, V=1500, N=300)
    assert m.predict(W).validity.reasons == m.replace(token_weights=np.ones(1500)).predict(W).validity.reasons
    harsh = m.replace(token_weights=1 / m.frequencies).predict(W)
    assert any("rare tokens" in reason for reason in harsh.validity.reasons)
    assert SpreadPopulation(m, *m.gains(W)).concentration < 0.05


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("d", "V", "N", "T", "z"), [(90, 160, 90, 15, 0.6), (120, 300, 300, 10, 0.5), (100, 160, 160, 12, 0.6)]
)
def test_frequent_tokens_without_an_outlier_mix_with_the_signal(d, V, N, T, z):
    """Zipf frequencies at 1.3 times the threshold: the flag says what draws show, to 3 standard errors and a third."""
    base = sp.SequenceModel(d, V, N, np.eye(T), 1.0, frequencies=sp.zipf_frequencies(V, z))
    w = sp.mean_weights(T)
    model = base.replace(mu=1.3 * base.predict(w).mu_sample)
    found = model.predict(w)
    assert any("frequent tokens" in reason for reason in found.validity.reasons)
    seen = model.simulate(w, trials=150, k=1, rng=0).alignment
    lost, error = found.alignment - seen.mean(), seen.std(ddof=1) / np.sqrt(150)
    assert lost > 3 * error
    assert abs(found.validity.error - lost) <= 3 * error + found.validity.error / 3


@pytest.mark.parametrize(
    "bad",
    [np.ones(5), -np.ones(600), np.zeros(600), np.full(600, np.nan), np.tile([1.0, 0.0], 300), "ones"],
)
def test_bad_token_weights_are_named_errors(bad):
    with pytest.raises(sp.InvalidInputError):
        model(token_weights=bad)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sp.recovery_token_weights([1, -1], length=5), sp.InvalidInputError),
        (lambda: sp.recovery_token_weights([0, 0], length=5), sp.InvalidInputError),
        (lambda: sp.recovery_token_weights([1, 1], length=0), sp.InvalidInputError),
        (lambda: sp.recovery_token_weights([1, 1], length=5, gain=-1), sp.InvalidInputError),
        (lambda: same_table_score(np.ones(5), np.ones(5), 1.0, 5), sp.InvalidInputError),
        (lambda: model(token_weights=np.arange(1, 601)).ridge_accuracy(W), sp.InvalidInputError),
        (lambda: model(token_weights=np.arange(1, 601)).learned_weights(), sp.InvalidInputError),
        (lambda: model(token_weights=np.arange(1, 601)).fluctuations(W), sp.InvalidInputError),
        (lambda: model(latent="gaussian", R=2 * R, token_weights=np.arange(1, 601)).predict(W), sp.InvalidInputError),
    ],
)
def test_what_has_no_formula_is_refused(call, error):
    with pytest.raises(error):
        call()
