"""Content attention: the law of a query model against its closed cases and against sequences drawn token by token."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import brentq

import spikepool as sp
from spikepool.theory import spikes
from spikepool.theory.query_spectrum import top_alignment
from spikepool.world.query_fields import dilute_beta

D, N, T, L, NU = 100, 400, 12, 2, 1.5


def query(**changes):
    fields = {"d": D, "N": N, "T": T, "L": L, "mu": 1.6, "nu": NU, "kernel": "softmax", "beta": 0.5}
    return sp.QueryModel(**{**fields, **changes})


# -- an oracle that draws every token; it shares no code with the library --------------------------------------------


def oracle_weights(kernel, beta, normalize, m, h):
    if kernel == "softmax":
        w = np.exp(beta * h)
    elif kernel == "sigmoid":
        w = 1 / (1 + np.exp(-beta * (h - NU * m / 2)) * (T - L) / L)
    else:
        w = np.clip(1 + beta * h, 0, None)
    return w / w.sum(axis=1, keepdims=True) if normalize else w


def oracle_tokens(rng, *, mu, m, V, d=D, n=N):
    """Tokens (n, T, d) with u, k along the first axes, and q = m k + sqrt(1 − m²) e_3."""
    q = np.zeros(d)
    q[1], q[2] = m, np.sqrt(1 - m**2)
    xi = rng.choice([-1.0, 1.0], n)
    if V is None:
        X = rng.standard_normal((n, T, d))
        relevant = np.argsort(rng.random((n, T)), axis=1) < L
        X[..., 0] += mu * xi[:, None] * relevant
        X[..., 1] += NU * relevant
        return X, q
    each = round(V * L / T / 2)
    table = rng.standard_normal((V, d))
    table[:each, 0] += mu
    table[each : 2 * each, 0] -= mu
    table[: 2 * each, 1] += NU
    first = np.where(xi > 0, 0, each)[:, None]
    ids = np.hstack([first + rng.integers(0, each, (n, L)), rng.integers(2 * each, V, (n, T - L))])
    return table[ids], q


def pool(w, X):
    return np.einsum("nt,ntd->nd", w, X)


def top_pairs(C, q, project):
    C = C - C.mean(axis=0)
    C = C - np.outer(C @ q, q) if project else C
    values, vectors = np.linalg.eigh(C.T @ C / len(C))
    return values[::-1], vectors[:, ::-1]


def simulated(trials, seed, weigh, **setting):
    """Means and standard errors of (alignment, eigenvalue, eigenvalue along the query)."""
    rows = []
    for i in range(trials):
        X, q = oracle_tokens(np.random.default_rng([seed, i]), **setting)
        C = pool(weigh(X @ q), X)
        values, vectors = top_pairs(C, q, project=True)
        inside, raw = top_pairs(C, q, project=False)
        rows.append((vectors[0, 0] ** 2, values[0], inside[np.argmax((raw.T @ q) ** 2)]))
    table = np.array(rows)
    return table.mean(axis=0), table.std(axis=0, ddof=1) / np.sqrt(trials)


def alignment_bias(mu, threshold, d):
    """Finite-size bias around a transition: of order 1/(d e²) at relative distance e, d^(-1/3) at it."""
    return 1 / (d * ((mu / threshold - 1) ** 2 + d ** (-2 / 3)))


SETTINGS = [
    (kernel, beta, normalize, m, V)
    for V in (None, 2000)
    for m in (1.0, 0.6)
    for kernel, beta, normalize in (
        ("softmax", 0.25, True),
        ("softmax", 0.5, True),
        ("sigmoid", 0.6, True),
        ("sigmoid", 1.5, False),
        ("linear", 0.5, True),
        ("linear", 1.5, True),
    )
]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("kernel", "beta", "normalize", "m", "V"), SETTINGS)
def test_prediction_against_drawn_tokens(kernel, beta, normalize, m, V):
    """Alignment, top eigenvalue and the query's outlier: 3 standard errors and the stated biases.

    Biases: `alignment_bias`, and 6/d of an eigenvalue. A prediction for a finite vocabulary is for one draw of the
    tokens; the mean of four and its standard error enter.
    """
    model = query(kernel=kernel, beta=beta, normalize=normalize, overlap=m, V=V, mu=1.6 if V is None else 1.8)
    predictions = [model.predict(rng=seed) for seed in range(1 if V is None else 4)]
    predicted = np.array([(p.alignment, p.eigenvalue) for p in predictions])
    scatter = predicted.std(axis=0, ddof=1) / np.sqrt(4) if V else np.array([0.002, 0.0])
    mean, error = simulated(20, 5, mu=model.mu, m=m, V=V, weigh=lambda h: oracle_weights(kernel, beta, normalize, m, h))
    p = predictions[0]
    bias = np.array([alignment_bias(model.mu, max(p.mu_sample, 0.1), D), 6 / D * p.eigenvalue])
    gap = np.abs(predicted.mean(axis=0) - mean[:2])
    assert np.all(gap <= bias + 3 * np.hypot(error[:2], scatter)), (predicted.mean(axis=0), mean, error)
    assert p.detectable
    assert p.signal is not None
    along = [x.query.eigenvalue for x in predictions if x.query is not None]
    if len(along) == len(predictions):
        spread = np.std(along, ddof=1) / np.sqrt(len(along)) if V else 0.0
        assert abs(np.mean(along) - mean[2]) <= 6 / D * mean[2] + 3 * np.hypot(error[2], spread), (along, mean, error)
    else:  # no outlier to see: the pair closest to q lies in the bulk
        assert mean[2] <= p.edge * (1 + 3 * D ** (-2 / 3)) + 3 * error[2]


def test_the_query_outlier_is_seen_in_both_vocabularies_and_at_both_overlaps():
    """The comparison above is about an outlier in at least these settings."""
    for m in (1.0, 0.6):
        for V in (None, 2000):
            model = query(kernel="sigmoid", beta=1.5, normalize=False, overlap=m, V=V)
            assert model.predict().query is not None, (m, V)


def test_no_attention_is_mean_pooling():
    """beta = 0: A = L/T and kappa = 1/T, the closed form of an infinite vocabulary in dimension d − 1."""
    model = query(beta=0.0, mu=2.0)
    p = model.predict()
    alpha, kappa, gamma = (L / T) ** 2, 1 / T, (D - 1) / N
    assert (p.alpha, p.kappa) == pytest.approx((alpha, kappa), rel=1e-12)
    x = float(spikes.spike_excess(alpha * 4.0, 0.0, kappa))
    assert p.signal.eigenvalue == pytest.approx(float(spikes.sample_outlier(x, 0.0, gamma, kappa)), rel=1e-9)
    assert p.alignment == pytest.approx(float(spikes.total_alignment(x, 0.0, gamma)), rel=1e-8)
    assert p.edge == pytest.approx(kappa * (1 + np.sqrt(gamma)) ** 2, rel=1e-9)
    assert p.mu_sample == pytest.approx(np.sqrt(kappa * np.sqrt(gamma) / alpha), rel=1e-7)
    assert p.signal.population_eigenvalue == pytest.approx(kappa + 4.0 * alpha)


def test_two_values_of_kappa_against_the_equations():
    """Half of the sequences take the mean, the others one token: the equations with two atoms, solved by brentq."""

    def kernel(h):
        one = np.zeros_like(h)
        one[:, 1] = 1.0
        return np.where(h[:, :1] > 0, one, 1 / T)

    model = query(kernel=kernel, beta=None, nu=0.0, mu=5.0, overlap=0.0)
    p = model.predict()
    gamma, kappa, A2 = (D - 1) / N, np.array([1 / T, 1.0]), np.array([(L / T) ** 2, L / T])

    def z(m):
        return -1 / m + np.mean(kappa / (1 + gamma * kappa * m))

    def excess(m):
        return -25.0 * m * np.mean(A2 / (1 + gamma * kappa * m)) - 1

    def slope(function, m):
        step = 1e-6 * abs(m)
        return (function(m + step) - function(m - step)) / (2 * step)

    edge = brentq(lambda m: slope(z, m), -1 / gamma * 0.999, -1e-3)
    root = brentq(excess, edge, -1e-6)
    assert p.edge == pytest.approx(z(edge), rel=0.02)
    assert p.eigenvalue == pytest.approx(z(root), rel=0.02)  # 32 draws per sequence leave 0.8 % of alpha
    assert p.alignment == pytest.approx(root / (slope(excess, root) / slope(z, root)), abs=0.005)


def test_gain_of_exponential_weights_in_closed_form():
    """E[A²] and E[kappa] of weights exp(beta h) that are not normalised are moments of a lognormal variable."""
    beta, s = 0.4, NU * 0.8
    model = query(beta=beta, overlap=0.8, normalize=False, N=4000)
    square = L * np.exp(2 * beta * s + 2 * beta**2) + L * (L - 1) * np.exp(2 * beta * s + beta**2)
    kappa = np.exp(2 * beta**2) * (L * np.exp(2 * beta * s) + T - L)
    assert model.gain() == pytest.approx(square / kappa * T / L**2, rel=0.01)
    p = model.predict()
    assert (p.alpha, p.kappa) == pytest.approx((square, kappa), rel=0.01)


def test_usual_slope_maximises_the_ratio_of_means():
    """(E A)²/E kappa of exponential weights on a grid; for L << T the maximum is at nu m."""
    grid = np.linspace(0, 3, 3001)
    for L_, T_, s in ((3, 20, 1.5), (1, 50, 0.7), (1, 100_000, 1.0)):
        ratio = 2 * grid * s - grid**2 - np.log(L_ * np.exp(2 * grid * s) + T_ - L_)
        assert dilute_beta(s, L_, T_) == pytest.approx(grid[np.argmax(ratio)], abs=1e-3)
    assert dilute_beta(1.0, 1, 100_000) == pytest.approx(1.0, abs=1e-3)
    assert dilute_beta(0.0, 1, 10) == dilute_beta(2.0, 5, 5) == 0.0
    assert query(kernel="sigmoid", beta=None, overlap=0.5).slope == query(kernel="linear", beta=None, overlap=0.5).slope
    assert query(kernel="sigmoid", beta=None, overlap=0.5).slope == NU * 0.5


@pytest.mark.slow
@pytest.mark.statistical
def test_what_the_query_misses_is_an_outlier_of_its_own():
    """The part of k off the query, at sizes where it lies beyond the edge: 3 standard errors and 6/d."""
    m, beta = 0.3, 1.5
    model = query(kernel="sigmoid", beta=beta, normalize=False, overlap=m, mu=0.0, N=3 * N)
    model = model.replace(nu=3.0)
    key = [o for o in model.predict().outliers if o.kind == "key"]
    assert len(key) == 1
    assert model.predict().alignment == 0

    def weigh(h):
        return 1 / (1 + np.exp(-beta * (h - 3.0 * m / 2)) * (T - L) / L)

    pairs = []
    for i in range(6):
        rng = np.random.default_rng([9, i])
        q = np.eye(D)[1] * m + np.eye(D)[2] * np.sqrt(1 - m**2)
        X = rng.standard_normal((3 * N, T, D))
        X[:, :L, 1] += 3.0
        values, vectors = top_pairs(pool(weigh(X @ q), X), q, project=True)
        pairs.append((values[0], vectors[1, 0] ** 2))
    mean, error = np.mean(pairs, axis=0), np.std(pairs, axis=0, ddof=1) / np.sqrt(6)
    assert abs(key[0].eigenvalue - mean[0]) <= 6 / D * mean[0] + 3 * error[0]
    assert mean[1] > 0.3  # of at most 1 − m² = .91


def test_single_sequences_are_named():
    """A steep softmax over many tokens: some sequences look at one token only."""
    steep = query(T=200, L=4, nu=1.0, mu=4.0, beta=1.6, d=150, N=600).predict()
    assert any(o.kind == "sequence" for o in steep.outliers)
    gentle = query(T=200, L=4, nu=1.0, mu=4.0, beta=0.5, d=150, N=600).predict()
    assert [o.kind for o in gentle.outliers] == ["signal"]
    assert gentle.validity.ok


def test_cautions_have_a_size():
    """Below the threshold, at a small N of a finite vocabulary, and where few sequences carry the signal."""
    below = query(mu=0.6).predict()
    assert below.alignment == 0
    assert 0.01 < below.finite_size_alignment < 0.2
    assert below.validity.error == pytest.approx(below.finite_size_alignment)
    assert query(mu=2.5).predict().validity.ok
    few = query(V=600, N=52, mu=2.2, beta=0.8, d=65).predict()
    assert any("scatters" in reason for reason in few.validity.reasons)
    rare = query(relevance="chain", L=1, run=6.0, N=60, mu=2.6).predict()
    assert any("few sequences carry" in reason for reason in rare.validity.reasons)
    assert rare.validity.error > 0.0125


@pytest.mark.slow
def test_a_finite_vocabulary_is_averaged_over_draws():
    """At N = 52 single draws of the tokens scatter; the prediction is their mean, and another seed's is close."""
    model = query(V=600, N=52, mu=2.2, beta=0.8, d=65)
    single = [top_alignment(model, rng=seed)[0] for seed in range(8)]
    means = [model.predict(rng=seed).alignment for seed in range(3)]
    assert np.std(means, ddof=1) < 0.7 * np.std(single, ddof=1)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("d", "n", "V", "length", "mu", "beta", "m"),
    [
        (100, 400, 400, 12, 0.6, 0.3, 1.0),
        (200, 800, 800, 12, 0.6, 0.3, 1.0),
        (80, 300, 600, 6, 0.8, 0.5, 1.0),
        (120, 300, 500, 8, 0.9, 0.2, 0.7),
        (100, 600, 1000, 10, 0.5, 0.4, 0.9),
        (90, 200, 700, 4, 1.2, 0.6, 1.0),
    ],
)
def test_every_token_relevant_in_a_finite_vocabulary(d, n, V, length, mu, beta, m):
    """L = T: no neutral tokens. Against tables and tokens drawn here, 3 standard errors and the finite-size bias.

    The bias is the prediction's own: the mean of draws at this d against the limit, of order 1/d off the threshold,
    and 2/d for what that leaves out.
    """
    model = sp.QueryModel(d=d, N=n, T=length, L=length, V=V, mu=mu, nu=NU, beta=beta, overlap=m)
    p = model.predict()
    again = model.predict(rng=1).alignment
    found = []
    for i in range(24):
        rng = np.random.default_rng([11, i])
        q = np.zeros(d)
        q[1], q[2] = m, np.sqrt(1 - m**2)
        table = rng.standard_normal((V, d))
        table[:, 0] += mu * np.where(np.arange(V) < V // 2, 1, -1)
        table[:, 1] += NU
        ids = rng.integers(0, V // 2, (n, length)) + rng.choice([0, V // 2], n)[:, None]
        X = table[ids]
        w = np.exp(beta * (X @ q))
        found.append(top_pairs(pool(w / w.sum(axis=1, keepdims=True), X), q, project=True)[1][0, 0] ** 2)
    error = np.hypot(np.std(found, ddof=1) / np.sqrt(24), abs(again - p.alignment))
    bias = 2 / d + abs(p.finite_size_alignment - p.alignment)
    assert p.signal is not None
    assert abs(p.alignment - np.mean(found)) <= bias + 3 * error, (p.alignment, np.mean(found), error, bias)
    assert bias < 5 / d


@pytest.mark.slow
def test_outliers_of_frequent_tokens_are_not_called_query_or_key():
    """Settings in which usage outliers were once named after the query: the top one is a token's.

    And a query with half of its outlier: the eigenvalue that is closest to q in draws.
    """
    model = sp.QueryModel(d=100, N=126, T=8, L=6, mu=6.0, nu=0.0, overlap=0.0, beta=0.83, V=148)
    p = model.predict()
    assert not any(o.kind == "key" for o in p.outliers)
    drawn = model.simulate(12, rng=0)
    if p.query is not None:
        assert drawn.query_overlap.mean() > 0.3
    real = query(V=2000, kernel="sigmoid", beta=1.5, normalize=False, overlap=0.6).predict()
    drawn = query(V=2000, kernel="sigmoid", beta=1.5, normalize=False, overlap=0.6).simulate(12, rng=0)
    assert real.query.eigenvalue == pytest.approx(drawn.query_eigenvalue.mean(), rel=0.1)


@pytest.mark.slow
def test_best_beta_beyond_its_first_grid():
    """One relevant token: steeper slopes than three times nu m are tried, and none of them is worse by far."""
    model = query(L=1, mu=2.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        best = model.best_beta()
    assert best > 3 * NU
    at = top_alignment(model.replace(beta=best))[0]
    assert at >= max(top_alignment(model.replace(beta=b))[0] for b in (1.5, 4.5, 9.0)) - 1e-9


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("m", "mu"), [(1.0, 1.4), (0.7, 1.6)])
def test_best_beta_on_a_grid_of_simulations(m, mu):
    """Drawn token by token: nothing on the grid is better than best_beta, and small ones are clearly worse."""
    model = query(overlap=m, mu=mu, N=900)
    best = model.best_beta()
    assert 0.2 < best < NU * m
    grid = [0.0, 0.3 * best, 0.7 * best, best, 1.4 * best, 3 * best]
    draws = np.empty((16, len(grid)))
    for i in range(16):
        X, q = oracle_tokens(np.random.default_rng([3, i]), mu=mu, m=m, V=None, n=900)
        for j, beta in enumerate(grid):
            C = pool(oracle_weights("softmax", beta, True, m, X @ q), X)
            draws[i, j] = top_pairs(C, q, project=True)[1][0, 0] ** 2
    gaps = draws[:, 3, None] - draws
    error = gaps.std(axis=0, ddof=1) / np.sqrt(16)
    assert np.all(gaps.mean(axis=0) >= -3 * error)
    for far in (0, 1):
        assert gaps[:, far].mean() > 3 * error[far]


@pytest.mark.slow
@pytest.mark.parametrize(("m", "V"), [(1.0, None), (0.6, None), (0.6, 600)])
def test_the_gate_is_not_below_softmax_at_its_best(m, V):
    """The posterior gate against softmax at its best slope.

    With a finite vocabulary the gate of the best slope and the softmax tie, within .01 of one draw of the tokens.
    """
    model = query(overlap=m, V=V, mu=1.5 if V is None else 2.0, N=N if V is None else 240)
    softmax = model.replace(beta=model.best_beta()).predict().alignment
    gate = model.gate()
    assert gate.kernel == "sigmoid"
    assert (gate.slope == NU * m) == (V is None)
    assert gate.predict().alignment >= softmax - (0.0 if V is None else 0.01), (gate.predict().alignment, softmax)
    if V is not None:  # tokens that repeat want a gentler slope than the posterior's
        assert gate.slope < 0.7 * NU * m
        assert gate.predict().alignment > gate.replace(beta=None).predict().alignment + 0.02


@pytest.mark.slow
def test_required_samples_is_where_the_prediction_reaches_the_target():
    model = query(kernel="sigmoid", beta=None)
    n = model.required_samples(alignment=0.7)
    assert model.replace(N=n).predict().alignment >= 0.7 > model.replace(N=n - 1).predict().alignment - 0.002
    finite = query(kernel="sigmoid", beta=None, V=2000, mu=2.0)
    limit = finite.predict().signal.population_alignment
    assert 0.5 < limit < 1
    with pytest.raises(sp.UnreachableError, match="no number of sequences") as caught:
        finite.required_samples(alignment=limit + 0.01)
    assert caught.value.limit == pytest.approx(limit)
    few = finite.required_samples(alignment=0.5)
    assert finite.replace(N=few).predict().alignment >= 0.5
    with pytest.raises(sp.UnreachableError):
        query(mu=0.0).required_samples(0.5)


@pytest.mark.statistical
def test_infinitely_many_sequences_of_a_finite_vocabulary():
    """Population fields: the law of many sequences drawn one by one tends to them (limit 2 % and .03)."""
    model = query(V=300, d=60, N=6000, mu=1.8, beta=0.3)
    p = model.predict()
    assert p.signal.eigenvalue == pytest.approx(p.signal.population_eigenvalue, rel=0.05)
    assert p.signal.alignment == pytest.approx(p.signal.population_alignment, abs=0.03)
    nearer = model.replace(N=24_000).predict()
    gap = abs(nearer.signal.alignment - nearer.signal.population_alignment)
    assert gap < 0.02


def test_a_prediction_repeats_and_depends_on_its_seed_by_little():
    model = query(mu=1.4)
    values = np.array([model.predict(rng=seed).alignment for seed in range(6)])
    assert model.predict().alignment == values[0]
    assert 0 < values.std() < 0.004


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"L": 13}, sp.SizeError),
        ({"overlap": 1.2}, sp.DomainError),
        ({"overlap": -0.1}, sp.DomainError),
        ({"kernel": "relu"}, sp.InvalidInputError),
        ({"V": 4}, sp.SizeError),
        ({"nu": -1.0}, sp.DomainError),
        ({"beta": float("nan")}, sp.NonFiniteError),
        ({"normalize": "yes"}, sp.InvalidInputError),
        ({"mu": 1e9}, sp.DomainError),
        ({"N": 1}, sp.SizeError),
    ],
)
def test_bad_fields_are_refused(changes, error):
    with pytest.raises(error):
        query(**changes)


def test_bad_kernels_are_refused():
    with pytest.raises(sp.WeightsError, match="shape"):
        query(kernel=lambda h: h[:, :1], beta=None).predict()
    with pytest.raises(sp.WeightsError, match="sum to zero"):
        query(kernel=lambda h: h - h.mean(axis=1, keepdims=True), beta=None).predict()
    with pytest.raises(sp.InvalidInputError, match="no beta"):
        query(kernel=np.exp, beta=None).best_beta()
    with pytest.raises(sp.WeightsError, match="at most"):
        query(beta=200.0, normalize=False).predict()


def test_a_callable_is_the_kernel_it_spells_out():
    built_in = query(beta=0.6).predict()
    spelled = query(kernel=lambda h: np.exp(0.6 * h), beta=None).predict(rng=0)
    assert spelled.alignment == pytest.approx(built_in.alignment, abs=0.01)
    assert spelled.edge == pytest.approx(built_in.edge, rel=0.01)


def test_models_compare_and_replace():
    assert query() == query() != query(beta=0.6)
    assert query().replace(beta=1.0).beta == 1.0
    assert query().gamma == D / N
    assert query(L=T, kernel="sigmoid", beta=None).predict().kappa == pytest.approx(1 / T)
