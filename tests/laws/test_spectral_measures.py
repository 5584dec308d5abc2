"""Lanczos quadrature against diagonalisation."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.laws.measures import as_law, lanczos_law, lanczos_measure


def symmetric(values, seed=0):
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    return (basis * values) @ basis.T


def test_gauss_quadrature_is_exact_for_polynomials_of_degree_2n_minus_1():
    A, b = symmetric(np.linspace(-1, 3, 50)), np.random.default_rng(1).standard_normal(50)
    nodes, weights = lanczos_measure(lambda x: A @ x, b, 6)
    power = b.copy()
    for k in range(12):
        assert weights @ nodes**k == pytest.approx(b @ power, rel=1e-11)
        power = A @ power


def test_resolvent_converges_geometrically_and_the_space_may_end_early():
    A, b = symmetric(np.linspace(0.5, 2, 80)), np.ones(80)
    exact = b @ np.linalg.solve(A + 0.5 * np.eye(80), b)
    errors = []
    for n in (4, 8, 16):
        nodes, weights = lanczos_measure(lambda x: A @ x, b, n)
        errors.append(abs(weights @ (1 / (nodes + 0.5)) - exact) / exact)
    assert errors[1] < 1e-3 * errors[0]
    assert errors[2] < 1e-12
    nodes, weights = lanczos_measure(lambda x: 2 * x, b, 10)
    np.testing.assert_allclose([nodes[0], weights.sum(), len(nodes)], [2, 80, 1])
    assert lanczos_measure(lambda x: x, np.zeros(5), 3)[1].sum() == 0


def test_law_by_random_probes():
    values = np.random.default_rng(2).gamma(2.0, 1.0, 2000)
    law = lanczos_law(lambda x: values * x, 2000, probes=8, steps=60, rng=0)
    for k in (1, 2):
        error = np.std(values**k) / np.sqrt(2000 * 8)
        # for a diagonal operator sign probes are exact; rotation would give one of about this size
        assert abs(law.moment(k) - np.mean(values**k)) < 4 * error


def test_errors():
    with pytest.raises(sp.CorrelationError):
        lanczos_law(lambda x: -x, 10, probes=1, steps=3)
    with pytest.raises(sp.NonFiniteError):
        lanczos_law(lambda x: x * np.nan, 10, probes=1, steps=3)
    with pytest.raises(sp.SpikepoolError):
        as_law(object())
    law = sp.AtomicLaw([1.0])
    assert as_law(law) is law
