import numpy as np
import pytest

import spikepool as sp


def test_prefix():
    R = sp.prefix_correlation(T=5, L=3)
    assert R.tolist() == [[1, 1, 1, 0, 0]] * 3 + [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(sp.prefix_correlation(4, 1), np.eye(4))
    np.testing.assert_array_equal(sp.prefix_correlation(1, 1), [[1.0]])


@pytest.mark.parametrize("rho", [-1.0, -0.5, 0.0, 0.7, 1.0])
def test_markov(rho):
    R = sp.markov_correlation(6, rho)
    for t in range(6):
        for s in range(6):
            assert R[t, s] == pytest.approx(float(rho) ** abs(t - s))
    assert np.linalg.eigvalsh(R)[0] >= -1e-12


def test_equicorrelation_is_psd_down_to_its_bound():
    assert np.linalg.eigvalsh(sp.equicorrelation(5, -0.25))[0] == pytest.approx(0, abs=1e-12)
    with pytest.raises(sp.DomainError):
        sp.equicorrelation(5, -0.26)


def test_spiked_has_its_eigenvalue_and_support():
    R = sp.spiked_correlation(20, 10.0, 5, signs=[1, -1, 1, 1, -1])
    values, vectors = np.linalg.eigh(R)
    assert values[-1] == pytest.approx(11)
    np.testing.assert_allclose(values[:-1], 1)
    top = vectors[:, -1] * np.sign(vectors[0, -1])
    np.testing.assert_allclose(top[:5], np.array([1, -1, 1, 1, -1]) / np.sqrt(5), atol=1e-12)
    np.testing.assert_allclose(top[5:], 0, atol=1e-12)
    np.testing.assert_allclose(sp.spiked_correlation(6, 2.0, [1, 4])[1, 4], 1.0)


def test_spiked_normalised_is_a_correlation():
    R = sp.spiked_correlation(8, 4.0, 3, normalize=True)
    np.testing.assert_array_equal(np.diag(R), 1)
    assert R[0, 1] == pytest.approx((4 / 3) / (1 + 4 / 3))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sp.prefix_correlation(3, 4), sp.SizeError),
        (lambda: sp.prefix_correlation(0, 0), sp.SizeError),
        (lambda: sp.markov_correlation(3, 1.1), sp.DomainError),
        (lambda: sp.markov_correlation(3, np.nan), sp.NonFiniteError),
        (lambda: sp.spiked_correlation(4, -1.0, 2), sp.DomainError),
        (lambda: sp.spiked_correlation(4, 1.0, 5), sp.SizeError),
        (lambda: sp.spiked_correlation(4, 1.0, [0, 0]), sp.ShapeError),
        (lambda: sp.spiked_correlation(4, 1.0, [0, 4]), sp.SizeError),
        (lambda: sp.spiked_correlation(4, 1.0, 2, signs=[1]), sp.ShapeError),
        (lambda: sp.spiked_correlation(4, 1.0, 2, signs=[1, 0.5]), sp.InvalidInputError),
        (lambda: sp.spiked_correlation(4, 1.0, [0, 1.5]), sp.ShapeError),
        (lambda: sp.spiked_correlation(4, 1.0, [True, False]), sp.ShapeError),
        (lambda: sp.spiked_correlation(4, 1.0, [[0], [1, 2]]), sp.InvalidInputError),
        (lambda: sp.spiked_correlation(4, 1.0, 2, normalize=np.ones(2)), sp.InvalidInputError),
        (lambda: sp.prefix_correlation(10**9, 2), sp.MemoryBudgetError),
    ],
)
def test_bad_input_is_named(call, error):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, ValueError)
