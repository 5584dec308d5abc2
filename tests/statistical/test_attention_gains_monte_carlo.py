"""Data-dependent attention and sequence-dependent correlations against real forward passes."""

import numpy as np
import pytest
from references import prefix_signs

import spikepool as sp
from spikepool.theory.attention_gains import attention_gains, predict_attention
from spikepool.world.correlation import average_correlation
from worlds import draw_table, draw_tokens, mean_and_error, pool, top_pair

pytestmark = pytest.mark.statistical

T, L, MU = 10, 3, 1.5
R = sp.prefix_correlation(T, L)


def forward_pass(rng, d, tau):
    """kappa, alpha, top eigenvalue, alignment and mean eigenvalue of one draw with real attention weights."""
    V, N = 8 * d // 5, 2 * d
    table = draw_table(rng, d, V, MU)
    xi = prefix_signs(T, L)(N, rng)
    tokens = draw_tokens(rng, xi, V)
    w = sp.attention_weights(table[tokens], tau=tau, scaling="sqrt_d")
    C = pool(table, tokens, w)
    value, alignment = top_pair(C)
    trace = np.mean((C - C.mean(axis=0)) ** 2)
    return (w**2).sum(axis=1).mean(), ((w * xi).sum(axis=1) ** 2).mean(), value[0], alignment[0], trace


@pytest.mark.slow
@pytest.mark.parametrize("tau", [1.0, 2.0, 4.0])
def test_real_attention_has_the_predicted_gains_and_outlier(tau):
    """The bias is of order d^(-1/2): the signal's share mu² tau/sqrt(d) of a score, and the correlation of weights
    with the noise of their own tokens. Constants measured with d from 200 to 800: relative 0.4 for the gains, 1 for
    the eigenvalue, 0.6 for the alignment.
    """
    d = 320
    predicted = predict_attention(sp.SequenceModel(d, 8 * d // 5, 2 * d, R, MU), tau)
    gains = attention_gains(R, tau)
    mean, error = mean_and_error([forward_pass(np.random.default_rng([3, t]), d, tau) for t in range(10)])
    root = d**-0.5
    assert abs(mean[0] / gains.kappa - 1) < 3 * error[0] / gains.kappa + 0.4 * root
    assert abs(mean[1] / gains.alpha - 1) < 3 * error[1] / gains.alpha + 0.4 * root
    assert abs(mean[2] / predicted.eigenvalue - 1) < 3 * error[2] / predicted.eigenvalue + 1.0 * root
    assert abs(mean[3] - predicted.alignment) < 3 * error[3] + 0.6 * root


@pytest.mark.slow
def test_the_bias_vanishes_with_the_dimension():
    """Mean eigenvalue of S, whose scatter is small: kappa + theta/d in the limit."""
    bias = {}
    for d, trials in ((100, 40), (640, 5)):
        predicted = predict_attention(sp.SequenceModel(d, 8 * d // 5, 2 * d, R, MU), 1.0)
        # subtract the same draws without scores, which have no such bias, to remove most of the scatter
        difference = [
            forward_pass(np.random.default_rng([5, d, t]), d, 1.0)[4]
            - forward_pass(np.random.default_rng([5, d, t]), d, 0.0)[4]
            for t in range(trials)
        ]
        mean, error = mean_and_error(difference)
        free = attention_gains(R, 0.0)
        power = MU**2 + d / (8 * d // 5)
        expected = predicted.kappa - free.kappa + (predicted.alpha - free.alpha) * power / d
        bias[d] = (mean - expected, error)
    assert bias[100][0] > 4 * bias[100][1]  # visible at d = 100
    assert bias[640][0] < bias[100][0] / np.sqrt(6.4) * 1.5 + 3 * bias[640][1]


def test_only_the_average_of_varying_correlations_enters():
    """Each sequence has a random prefix length from 1 to 6: no sequence follows the average R."""
    d, V, N = 400, 640, 800
    stack = np.stack([sp.prefix_correlation(T, length) for length in range(1, 7)])
    w = sp.causal_weights(T)
    predicted = sp.SequenceModel(d, V, N, average_correlation(stack), 1.2).predict(w)
    runs = []
    for trial in range(10):
        rng = np.random.default_rng([6, trial])
        xi = rng.choice([-1, 1], size=(N, T))
        length = rng.integers(1, 7, size=N)
        xi = np.where(np.arange(T) < length[:, None], xi[:, :1], xi)
        value, alignment = top_pair(pool(draw_table(rng, d, V, 1.2), draw_tokens(rng, xi, V), w))
        runs.append((value[0], alignment[0]))
    mean, error = mean_and_error(runs)
    assert abs(mean[0] / predicted.eigenvalue - 1) < 3 * error[0] / predicted.eigenvalue + 6 / d
    assert abs(mean[1] - predicted.alignment) < 3 * error[1] + 6 / d


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tau", "mu", "L", "scaling"),
    [
        (1.0, 5.0, 3, "sqrt_d"),
        (1.0, 8.0, 3, "sqrt_d"),
        (-1.0, 4.0, 3, "sqrt_d"),
        (6.0, 3.0, 3, 0.75),
        (20.0, 3.0, 3, "d"),
    ],
)
def test_strong_signals_and_any_exponent_of_the_score(tau, mu, L, scaling):
    """A signal of mu² tau of the order of d^c changes the weights: at mu = 8 the limit is off by half."""
    model = sp.SequenceModel(d=300, V=480, N=600, R=sp.prefix_correlation(10, L), mu=mu)
    found = sp.predict_attention(model, tau, scaling=scaling)
    drawn = model.simulate(lambda s: s.attention_weights(tau=tau, scaling=scaling), trials=16, k=1, rng=0)
    error = drawn.eigenvalues.std(ddof=1) / 4
    assert found.eigenvalue == pytest.approx(drawn.eigenvalues.mean(), abs=3 * error + 0.01 * found.eigenvalue)
    assert found.alignment == pytest.approx(drawn.alignment.mean(), abs=4 * drawn.alignment.std(ddof=1) / 4 + 0.002)


@pytest.mark.slow
@pytest.mark.parametrize("tau", [1.5, 3.0])
def test_the_spread_of_kappa_over_sequences_belongs_to_the_law(tau):
    """One softmax row per sequence over twenty tokens: weights that vary by sequence, against draws of plain numpy."""
    d, V, N, length, mu = 300, 3000, 600, 20, 1.2
    rng = np.random.default_rng(11)
    correlation = sp.prefix_correlation(length, 8)
    scores = tau * rng.standard_normal((N, length))
    w = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    model = sp.SequenceModel(d, V, N, correlation, mu)
    predicted, exact = model.predict(w), model.predict(w, exact=True, rng=0)
    runs = []
    for trial in range(12):
        draws = np.random.default_rng([12, trial])
        xi = prefix_signs(length, 8)(N, draws)
        value, alignment = top_pair(pool(draw_table(draws, d, V, mu), draw_tokens(draws, xi, V), w))
        runs.append((value[0], alignment[0]))
    mean, error = mean_and_error(runs)
    kappa = (w**2).sum(axis=1)
    few = 0.1 * float(kappa.mean())  # the bias of few effective tokens; the law given the tokens has none
    assert abs(mean[0] / predicted.eigenvalue - 1) < 3 * error[0] / predicted.eigenvalue + 6 / d + few
    assert abs(mean[1] - predicted.alignment) < 3 * error[1] + 6 / d + few
    assert abs(mean[1] - exact.alignment) < 3 * error[1] + 20 / d  # of one draw of the tokens
    averaged = model.predict_gains(predicted.alpha, predicted.kappa)
    assert predicted.edge > averaged.edge * (1 + 0.1 * (kappa.std() / kappa.mean()) ** 2)
    assert abs(mean[0] / predicted.eigenvalue - 1) < abs(mean[0] / averaged.eigenvalue - 1) + 2 * error[0]
