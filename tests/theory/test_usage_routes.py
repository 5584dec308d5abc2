"""The three routes of the exact engine (eigenvectors, eigenvalues with Lanczos, Lanczos alone) on the same tokens."""

from __future__ import annotations

import numpy as np
import pytest
from problems import PROBLEMS

import spikepool as sp
from spikepool.theory import token_usage, usage_pairs
from spikepool.theory.given_tokens import predict_exact
from spikepool.theory.usage_pairs import converged_pairs
from spikepool.world.frequencies import zipf_frequencies


def small(problem):
    """The problem at a size at which a block Krylov space of 40 steps is not all of it."""
    m = problem.model
    if max(m.V, m.N) > 4000:
        return m.replace(d=80, V=min(m.V, 600), N=min(m.N, 600))
    return problem.at(160).model


def routes(monkeypatch, model, w, rng=3):
    monkeypatch.setattr(usage_pairs, "_STEPS", 40)
    full = predict_exact(model, w, rng=rng)
    monkeypatch.setattr(token_usage, "_VECTORS_SIZE", 10)
    half = predict_exact(model, w, rng=rng)
    monkeypatch.setattr(token_usage, "EXACT_SIZE", 10)
    return full, half, predict_exact(model, w, rng=rng)


def kinds(p):
    return [o.kind for o in p.outliers]


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_routes_agree_over_the_problem_table(monkeypatch, problem):
    full, half, large = routes(monkeypatch, small(problem), problem.weights)
    assert kinds(half) == kinds(full)
    assert half.edge == pytest.approx(full.edge, rel=1e-9)
    assert half.mu_sample == pytest.approx(full.mu_sample, rel=1e-6, abs=1e-6)
    for one, other in zip(full.outliers, half.outliers, strict=True):
        assert other.eigenvalue == pytest.approx(one.eigenvalue, rel=1e-8)
        assert other.alignment == pytest.approx(one.alignment, abs=1e-6)
    # stochastic quadrature: a linear statistic of V = 256 eigenvalues from 12 probes is good to about 1 %
    assert large.edge == pytest.approx(full.edge, rel=0.025)
    assert large.mu_sample == pytest.approx(full.mu_sample, abs=0.04)
    if problem.place == "critical":  # on the threshold 1 % decides
        return
    assert kinds(large) == kinds(full)
    assert large.detectable == full.detectable
    for one, other in zip(full.outliers, large.outliers, strict=True):
        assert other.eigenvalue == pytest.approx(one.eigenvalue, rel=0.02)
        assert other.alignment == pytest.approx(one.alignment, abs=0.01)
        assert other.population_eigenvalue == pytest.approx(one.population_eigenvalue, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("centered", [True, False])
def test_heavy_tokens_are_found_on_every_route(monkeypatch, exponent, T, centered):
    model = sp.SequenceModel(
        150,
        300,
        360,
        sp.prefix_correlation(T, min(T, 2)),
        1.5,
        centered=centered,
        frequencies=zipf_frequencies(300, exponent),
    )
    full, half, large = routes(monkeypatch, model, sp.mean_weights(T))
    # equal counts beyond the width of a block end the list of single eigenvalues a little earlier on the large routes
    assert len(full.outliers) >= 1
    for other, tolerance in ((half, 1e-6), (large, 0.03)):
        count = min(len(full.outliers), len(other.outliers))
        assert count >= min(4, len(full.outliers))
        for one, two in zip(full.outliers[:count], other.outliers[:count], strict=True):
            if len(other.outliers) == len(full.outliers):
                assert two.eigenvalue == pytest.approx(one.eigenvalue, rel=tolerance)
            else:
                assert two.eigenvalue == pytest.approx(one.eigenvalue, rel=0.05)


def test_converged_pairs_are_eigenpairs_and_stop_before_what_is_dense():
    rng = np.random.default_rng(0)
    size = 600
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    spread = np.linspace(0.0, 1.0, size)
    spread[-7:] = [1.5, 1.5, 1.5, 2.0, 4.0, 4.0, 9.0]
    M = (basis * spread) @ basis.T
    values, vectors = converged_pairs(lambda x: M @ x, size, np.random.default_rng(1))
    np.testing.assert_allclose(values[:7], spread[::-1][:7], rtol=1e-12)
    np.testing.assert_allclose(M @ vectors, vectors * values, atol=2e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-10)
    # nine equal ones are a bulk: the list ends before them
    spread[-20:-11], spread[-11:] = 3.0, np.linspace(5.0, 9.0, 11)
    M = (basis * spread) @ basis.T
    values, _ = converged_pairs(lambda x: M @ x, size, np.random.default_rng(1))
    np.testing.assert_allclose(values, np.linspace(9.0, 5.0, 11), rtol=1e-10)


def test_converged_pairs_of_an_operator_of_small_rank():
    x = np.random.default_rng(0).standard_normal((200, 3))
    values, vectors = converged_pairs(lambda y: x @ (x.T @ y), 200, np.random.default_rng(1))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x.T @ x)[::-1], rtol=1e-10)
    assert vectors.shape == (200, 3)


def test_every_kind_of_seed_is_used_on_the_large_route(monkeypatch):
    used = []
    drawn = token_usage._found_pairs

    def spy(operator, b, rng):
        used.append(rng.bit_generator.state["state"]["state"])
        return drawn(operator, b, rng)

    monkeypatch.setattr(token_usage, "_found_pairs", spy)
    monkeypatch.setattr(token_usage, "_VECTORS_SIZE", 10)
    monkeypatch.setattr(token_usage, "EXACT_SIZE", 10)
    model = sp.SequenceModel(60, 90, 120, sp.prefix_correlation(6, 2), 2.5)
    seeds = [7, np.int64(7), np.random.SeedSequence(7), np.random.default_rng(7), np.random.default_rng(8), 0]
    for rng in seeds:
        model.predict(sp.mean_weights(6), exact=True, rng=rng)
    assert used[0] == used[1] == used[2]  # one seed in three spellings
    assert len(set(used)) == 4  # generators have drawn the tokens before, and go on from there
