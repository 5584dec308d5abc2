"""The attention forward pass against a loop written from the definition, and its score-free limit."""

import numpy as np
import pytest

import spikepool as sp


def attention_by_loops(X, tau, scale):
    T = len(X)
    A = np.zeros((T, T))
    A[0, 0] = 1
    for t in range(1, T):
        scores = np.array([tau / scale * X[t] @ X[s] for s in range(t)])
        e = np.exp(scores - scores.max())
        A[t, :t] = e / e.sum()
    return A


@pytest.mark.parametrize("scaling", ["d", "sqrt_d"])
@pytest.mark.parametrize("tau", [0.0, 0.7, 30.0])
def test_forward_pass_is_the_definition(scaling, tau):
    X = np.random.default_rng(0).standard_normal((5, 7, 11)) * 2
    scale = 11 if scaling == "d" else np.sqrt(11)
    A = sp.attention_matrix(X, tau=tau, scaling=scaling)
    expected = np.array([attention_by_loops(x, tau, scale) for x in X])
    np.testing.assert_allclose(A, expected, atol=1e-14)
    np.testing.assert_allclose(sp.attention_weights(X, tau=tau, scaling=scaling), expected.sum(axis=1) / 7, atol=1e-14)


def test_no_position_sees_itself_or_the_future():
    A = sp.attention_matrix(np.random.default_rng(1).standard_normal((3, 6, 4)))
    assert np.all(A[:, np.triu_indices(6)[0], np.triu_indices(6)[1]][:, 1:] == 0)
    assert np.all(A[:, 0, 0] == 1)
    np.testing.assert_allclose(A.sum(axis=2), 1)


def test_one_position_and_one_sequence():
    assert sp.attention_weights(np.ones((2, 1, 3))).tolist() == [[1.0], [1.0]]
    assert sp.attention_weights(np.ones((4, 3))).shape == (1, 4)


def test_scores_off_gives_harmonic_weights():
    X = np.random.default_rng(2).standard_normal((2, 9, 5))
    np.testing.assert_allclose(sp.attention_weights(X, tau=0.0), np.tile(sp.causal_weights(9), (2, 1)), atol=1e-15)


def test_deviation_from_harmonic_weights_falls_like_the_square_root_of_d():
    rng = np.random.default_rng(3)
    sizes = np.array([50, 200, 800, 3200])
    deviation = []
    for d in sizes:
        w = sp.attention_weights(rng.standard_normal((200, 6, d)), tau=1.0, scaling="d")
        deviation.append(np.sqrt(np.mean((w - sp.causal_weights(6)) ** 2)))
    slope = np.polyfit(np.log(sizes), np.log(deviation), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.05)


def test_single_precision_and_blocks_agree(monkeypatch):
    X = np.random.default_rng(4).standard_normal((20, 5, 8))
    whole = sp.attention_weights(X)
    monkeypatch.setattr("spikepool.world.attention._BLOCK_ELEMENTS", 3 * 5 * 8)
    np.testing.assert_allclose(sp.attention_weights(X), whole, rtol=1e-15)
    np.testing.assert_allclose(sp.attention_weights(X.astype(np.float32)), whole, atol=1e-6)


def test_large_single_precision_does_not_overflow():
    X = np.zeros((1, 3, 2), dtype=np.float32)
    X[0, 0] = X[0, 2] = 1e25  # squares overflow in single precision; position 3 attends to position 1 alone
    np.testing.assert_array_equal(sp.attention_weights(X), [[1.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: sp.attention_weights(np.ones(3)), sp.ShapeError),
        (lambda: sp.attention_weights(np.empty((0, 2, 3))), sp.ShapeError),
        (lambda: sp.attention_weights(np.full((1, 2, 3), np.nan)), sp.NonFiniteError),
        (lambda: sp.attention_weights(np.ones((1, 2, 3)), tau=np.inf), sp.NonFiniteError),
        (lambda: sp.attention_weights(np.ones((1, 2, 3)), scaling="cubic"), sp.InvalidInputError),
        (lambda: sp.attention_weights(np.array([["a"]])), sp.InvalidInputError),
        (lambda: sp.attention_weights([[[1.0], [1.0, 2.0]]]), sp.InvalidInputError),
        (lambda: sp.attention_weights(np.full((1, 3, 2), 1e200)), sp.DomainError),
        (lambda: sp.attention_weights(np.full((1, 3, 2), 10.0), tau=1e308), sp.DomainError),
    ],
)
def test_bad_input_is_named(call, error):
    with pytest.raises(error):
        call()
