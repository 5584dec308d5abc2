"""Token weights against simulation: plain numpy written from the definition, and both routes of the library."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import eigh

import spikepool as sp
from spikepool.theory.token_weight_choice import same_table_accuracy, same_table_score
from spikepool.theory.token_weights import SpreadPopulation

T, L = 20, 10
R = sp.prefix_correlation(T, L)
W = sp.mean_weights(T)


def plain_alignments(d, N, p, a, signs, mu, trials, rng, weights=None):
    """Squared cosine of the top eigenvector with u, from the definition, for prefix signs and centred S."""
    V = len(p)
    cumulative = np.cumsum(p.reshape(-1, 2) / p.reshape(-1, 2).sum(axis=0), axis=0)
    w = np.full(T, 1 / T) if weights is None else weights
    found = []
    for _ in range(trials):
        xi = rng.choice([-1, 1], (N, T))
        xi[:, 1:L] = xi[:, :1]
        uniform = rng.random((N, T))
        rank = [np.minimum(np.searchsorted(cumulative[:, k], uniform), V // 2 - 1) for k in (0, 1)]
        tokens = np.where(xi > 0, 2 * rank[0], 2 * rank[1] + 1)
        E = rng.standard_normal((V, d))
        E[:, 0] += mu * signs
        C = np.zeros((N, d))
        for t in range(T):
            C += w[t] * a[tokens[:, t], None] * E[tokens[:, t]]
        C -= C.mean(axis=0)
        _, vector = eigh(C.T @ C, subset_by_index=[d - 1, d - 1])
        found.append(vector[0, 0] ** 2)
    return np.array(found)


SETTINGS = [
    (z, name, mu)
    for z, name, mu in [
        (0.7, "one", 1.0),
        (0.7, "idf", 0.7),
        (0.7, "sif", 2.0),
        (0.7, "derived", 0.7),
        (0.7, "root", 1.5),
        (1.0, "one", 1.0),
        (1.0, "one", 3.0),
        (1.0, "idf", 1.0),
        (1.0, "sif", 0.8),
        (1.0, "derived", 3.0),
        (1.0, "root", 1.0),
        (1.2, "one", 2.0),
        (1.2, "idf", 2.0),
        (1.2, "sif", 3.0),
    ]
]


def token_weights(name, p, G, N):
    return {
        "one": np.ones(len(p)),
        "idf": np.log(2 / p),
        "sif": 1e-3 / (1e-3 + p),
        "derived": 1 / (p + 1 / (G * N)),
        "root": p**-0.5,
    }[name]


@pytest.mark.slow
@pytest.mark.parametrize(("z", "name", "mu"), SETTINGS)
def test_closed_form_against_plain_simulation(z, name, mu):
    d, V, N = 150, 2000, 900
    model = sp.SequenceModel(d, V, N, R, mu, frequencies=sp.zipf_frequencies(V, z))
    a = token_weights(name, model.frequencies, np.divide(*model.gains(W)), N)
    model = model.replace(token_weights=a)
    prediction = model.predict(W)
    values = plain_alignments(d, N, model.frequencies, a, model.signs, mu, 12, np.random.default_rng(7))
    error = values.std(ddof=1) / np.sqrt(len(values))
    # the limit of spread-out positions is too high by up to half of the concentration; other terms are of order 1/d
    concentration = SpreadPopulation(model, *model.gains(W)).concentration
    assert concentration < 0.1
    bias = concentration / 2 + 2 / d
    assert abs(values.mean() - prediction.alignment) < 3 * error + bias


@pytest.mark.slow
def test_flag_rises_where_the_limit_fails_and_the_law_given_the_tokens_does_not():
    d, V, N, mu = 150, 2000, 300, 1.0
    p = sp.zipf_frequencies(V, 1.2)
    model = sp.SequenceModel(d, V, N, R, mu, frequencies=p, token_weights=1 / p)
    prediction = model.predict(W)
    values = plain_alignments(d, N, p, 1 / p, model.signs, mu, 12, np.random.default_rng(3))
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert prediction.alignment > values.mean() + 3 * error + 0.05
    assert any("rare tokens" in reason for reason in prediction.validity.reasons)
    exact = np.mean([model.predict(W, exact=True, rng=i).alignment for i in range(4)])
    assert abs(exact - values.mean()) < 3 * error + 0.05  # near its threshold at d = 150


@pytest.mark.parametrize(
    ("table", "centered", "latent"),
    [("sampled", False, "signs"), ("class_centered", True, "signs"), ("sampled", True, "gaussian")],
)
def test_simulations_with_and_without_a_drawn_table(table, centered, latent):
    d, V, N = 120, 600, 500
    p = sp.zipf_frequencies(V, 0.8)
    model = sp.SequenceModel(
        d, V, N, R, 1.6, frequencies=p, token_weights=1 / (p + 1e-3), table=table, centered=centered, latent=latent
    )
    lazy = model.simulate(W, trials=16, k=1, rng=1)
    drawn = model.simulate(W, trials=16, k=1, rng=2, table_drawn=True)
    prediction = model.predict(W)
    for result in (lazy, drawn):
        error = result.alignment.std(ddof=1) / 4
        assert abs(result.alignment.mean() - prediction.alignment) < 3 * error + 0.03
        spread = result.eigenvalue.std(ddof=1) / 4
        assert abs(result.eigenvalue.mean() / prediction.eigenvalue - 1) < 3 * spread / prediction.eigenvalue + 0.03


def test_a_drawn_table_is_that_of_the_definition():
    model = sp.SequenceModel(30, 40, 50, R, 1.5, token_weights=np.linspace(0.5, 2, 40), centered=False)
    sample = model.sample(5)
    C = np.zeros((30, 50))
    for n, row in enumerate(sample.tokens):
        for t, v in enumerate(row):
            C[:, n] += W[t] * model.token_weights[v] * sample.table[:, v]
    np.testing.assert_allclose(sample.pooled(W), C, atol=1e-12)
    top = np.linalg.eigvalsh(C @ C.T / 50)[-1]
    values = model.simulate(W, trials=1, k=1, rng=np.random.SeedSequence(9), table_drawn=True).eigenvalue
    assert values.shape == (1,)
    assert model.spectrum(W, rng=1)[-1] > 0
    assert top > 0


@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("mu", [1.4, 1.6, 2.5])
def test_the_table_itself_is_the_baseline(table, mu):
    d, V = 300, 480
    rng = np.random.default_rng(4)
    model = sp.SequenceModel(d, V, 600, R, mu, table=table)
    values = []
    for _ in range(10):
        E = rng.standard_normal((V, d))
        if table == "class_centered":
            for first in (0, 1):
                E[first::2] -= E[first::2].mean(axis=0)
        E[:, 0] += mu * model.signs
        _, vector = eigh(E.T @ E, subset_by_index=[d - 1, d - 1])
        values.append(vector[0, 0] ** 2)
    error = np.std(values, ddof=1) / np.sqrt(10)
    assert abs(np.mean(values) - model.predict(W).table_alignment) < 3 * error + 4 / d


def test_neutral_tokens_free_sums_and_token_weights_given_the_tokens():
    """predict_tokens with signs of 0, a gate as token weights and no unit sums, against plain numpy."""
    rng = np.random.default_rng(0)
    d, V, N, mu = 150, 1500, 900, 2.0
    signs = np.where(rng.random(V) < 0.3, rng.choice([-1.0, 1.0], V), 0.0)
    gate = np.where(signs != 0, 1.0, 0.3)
    label = rng.choice([-1, 1], N)
    groups = {s: np.flatnonzero(signs == s) for s in (-1.0, 0.0, 1.0)}
    tokens = rng.choice(groups[0.0], (N, T))
    for n in range(N):
        tokens[n, :4] = rng.choice(groups[float(label[n])], 4)
    prediction = sp.predict_tokens(tokens, V=V, weights=np.ones(T), signs=signs, mu=mu, d=d, token_weights=gate)
    found = []
    for _ in range(12):
        E = rng.standard_normal((V, d))
        E[:, 0] += mu * signs
        C = np.einsum("nt,ntd->nd", gate[tokens], E[tokens])
        C -= C.mean(axis=0)
        values, vector = eigh(C.T @ C / N, subset_by_index=[d - 1, d - 1])
        found.append((vector[0, 0] ** 2, values[0]))
    found = np.array(found)
    error = found.std(axis=0, ddof=1) / np.sqrt(12)
    assert abs(found[:, 0].mean() - prediction.alignment) < 3 * error[0] + 2 / d
    assert abs(found[:, 1].mean() / prediction.eigenvalue - 1) < 3 * error[1] / prediction.eigenvalue + 2 / d
    # one description in two ways: the gate as weights of the positions
    again = sp.predict_tokens(tokens, V=V, weights=gate[tokens], signs=signs, mu=mu, d=d)
    assert again.alignment == pytest.approx(prediction.alignment, rel=1e-9)
    assert again.kappa == pytest.approx(prediction.kappa)
    # the population limit is one of alignments: above the sample's, below one
    signal = prediction.signal
    assert signal is not None
    assert prediction.alignment < signal.population_alignment < 1


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 1.0])
@pytest.mark.parametrize("name", ["one", "derived"])
def test_accuracy_on_the_same_table(mu, name):
    rng = np.random.default_rng(1)
    d, V, length, r = 60, 400, 15, 0.2
    p = sp.zipf_frequencies(V, 1.0)
    a = token_weights(name, p, 4.0, 2000)
    signs = np.where(np.arange(V) % 2 == 0, 1, -1)
    predicted = same_table_accuracy(same_table_score(p, a, mu, d), length, r)

    def draw(E, n):
        y = rng.choice([-1, 1], n)
        xi = np.where(rng.random((n, length)) < (1 + np.sqrt(r)) / 2, y[:, None], -y[:, None])
        tokens = 2 * rng.choice(V // 2, (n, length), p=2 * p[::2]) + (xi < 0)
        return sum((a * E).T[tokens[:, t]] for t in range(length)), y

    accuracy = []
    for _ in range(4):
        E = rng.standard_normal((d, V))
        E[0] += mu * signs
        C, y = draw(E, 20_000)
        beta = np.linalg.solve(C.T @ C, C.T @ y)
        C, y = draw(E, 8000)
        accuracy.append(np.mean(np.sign(C @ beta) == y))
    assert abs(np.mean(accuracy) - predicted) < 3 * np.std(accuracy, ddof=1) / 2 + 0.01  # a table of d = 60
