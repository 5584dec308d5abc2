"""What learning holds beside its input: small pieces of it, components, and folds that fit together."""

import tracemalloc

import numpy as np
import pytest

import spikepool as sp
from spikepool.data import tokens
from spikepool.data.description import numbered
from spikepool.data.tokens import TokenForm, TokenInput
from spikepool.kit.threads import task_threads
from spikepool.pooling.learning_rows import LearningRows, row_copies


def sequences(n, T, d, dtype, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, T, d), dtype=np.float32).astype(dtype)
    return X, np.arange(T) < rng.integers(1, T + 1, n)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_reading_holds_less_than_twice_the_input(dtype):
    X, mask = sequences(800, 32, 384, dtype)
    source = TokenInput(X, mask, TokenForm(32, 384, None))
    tracemalloc.start()
    assert LearningRows(source, np.ones(800) / 800, 32, None).z.shape[2] == 32
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * X.nbytes


@pytest.mark.parametrize("pooling", ["mean", "query", "positions"])
def test_the_size_of_pieces_changes_nothing(pooling, monkeypatch):
    X, mask = sequences(150, 6, 8, np.float16)
    y = (X[:, 0] @ np.ones(8) > 0).astype(int)

    def fitted():
        model = sp.LearnedPoolingClassifier(pooling=pooling).fit(X, y, mask=mask)
        return model.decision_function(X, mask=mask), model.transform(X, mask=mask)

    whole = fitted()
    monkeypatch.setattr(tokens, "PIECE_BYTES", 7 * 6 * 8 * 8)  # seven rows
    for one, other in zip(whole, fitted(), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-6)


def test_ids_are_looked_up_in_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    table, ids = rng.normal(size=(40, 5)), rng.integers(0, 40, (30, 4))
    monkeypatch.setattr(tokens, "PIECE_BYTES", 4 * 4 * 5 * 8)
    blocks = list(TokenInput(ids, None, TokenForm(4, 5, table)).blocks())
    assert [len(x) for x, _ in blocks] == [4] * 7 + [2]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in blocks]), table[ids])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fit_with_all_candidates_holds_less_than_three_times_its_input(dtype):
    X, mask = sequences(600, 24, 128, dtype)
    y = (X[:, 0, :4].sum(axis=1) > 0).astype(int)
    with task_threads(large=False):
        tracemalloc.start()
        sp.LearnedPoolingClassifier(max_steps=3).fit(X, y, mask=mask)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 3 * X.nbytes + 8 * 8 * 600**2  # and a few matrices of rows by rows


def test_threads_are_limited_where_memory_asks_for_it():
    with task_threads(large=True, most=1) as run:
        assert run.__name__ == "serial_map"
        assert run(lambda i: i * i, 4) == [0, 1, 4, 9]


def test_copies_are_found_whatever_the_lengths_of_their_neighbours(monkeypatch):
    """Rows are read in pieces, in order of length and without padding: their hashes do not depend on the piece."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 9, 3))
    mask = np.arange(9) < rng.integers(1, 10, 60)[:, None]
    X[50:], mask[50:] = X[:10], mask[:10]
    mask[3, 0] = mask[53, 0] = False  # a hole in front
    mask[54] = np.roll(mask[4], -1) if mask[4].sum() < 9 else mask[4]
    monkeypatch.setattr("spikepool.data.tokens.PIECE_BYTES", 7 * 9 * 3 * 8)
    found = row_copies(TokenInput(X, mask, TokenForm(9, 3, None)))
    dense = np.concatenate([np.where(mask[..., None], X, 0).reshape(60, -1), mask], axis=1)
    assert np.array_equal(found, numbered(np.unique(dense, axis=0, return_inverse=True)[1].ravel())[0])
