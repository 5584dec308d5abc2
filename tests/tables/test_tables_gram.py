import tracemalloc

import mpmath
import numpy as np
import pytest

from spikepool.data.formats.safetensors import bfloat16_to_float32
from spikepool.data.table_input import BLOCK_BYTES, Table
from spikepool.errors import NonFiniteError
from spikepool.tables.gram import Moments, half_moments


def stream_moments(E, rows=100):
    """Moments of all rows, added in blocks."""
    moments = Moments.zero(E.shape[1])
    for start in range(0, len(E), rows):
        moments.add(np.array(E[start : start + rows], dtype=np.float64))
    return moments


def full(moments):
    return np.tril(moments.lower) + np.tril(moments.lower, -1).T


def test_against_forty_digits():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((50, 4)) * [1, 10, 100, 1e-3] + [1e6, -3, 0.1, 7]
    got = stream_moments(E, rows=7)
    with mpmath.workdps(40):
        X = [[mpmath.mpf(float(x)) for x in row] for row in E]
        means = [mpmath.fsum(row[j] for row in X) / len(X) for j in range(4)]
        for i in range(4):
            assert abs(got.mean[i] - means[i]) <= 1e-15 * abs(means[i])
            for j in range(4):
                exact = mpmath.fsum((row[i] - means[i]) * (row[j] - means[j]) for row in X)
                unit = mpmath.sqrt(
                    mpmath.fsum((row[i] - means[i]) ** 2 for row in X)
                    * mpmath.fsum((row[j] - means[j]) ** 2 for row in X)
                )
                # a mean of 1e6 standard deviations costs the digits of the input's own rounding, not twice that
                assert abs(full(got)[i, j] - exact) <= 1e-9 * unit


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7])
def test_one_pass_is_stable_where_the_textbook_formula_is_not(offset):
    rng = np.random.default_rng(1)
    E = rng.standard_normal((4000, 6)) + offset
    centred = E - E.mean(axis=0)
    exact = centred.T @ centred
    error = np.abs(full(stream_moments(E, rows=64)) - exact).max() / exact.max()
    textbook = E.T @ E - len(E) * np.outer(E.mean(axis=0), E.mean(axis=0))
    assert error < 1e-13 * max(1, offset)
    if offset == 1e7:
        assert np.abs(textbook - exact).max() / exact.max() > 1e3 * error


@pytest.mark.parametrize("rows", [1, 3, 64, 1000, 5000])
def test_blocks_do_not_matter(rows):
    E = np.random.default_rng(2).standard_normal((1000, 9)).cumsum(axis=0)  # a drifting mean
    whole = E - E.mean(axis=0)
    got = stream_moments(E, rows=rows)
    assert got.n == 1000
    np.testing.assert_allclose(full(got), whole.T @ whole, rtol=1e-12, atol=1e-9)


def test_merging_halves_is_the_whole():
    E = np.random.default_rng(3).standard_normal((301, 8)) + 5
    first, second = stream_moments(E[:100]), stream_moments(E[100:])
    first.merge(second)
    whole = stream_moments(E)
    np.testing.assert_allclose(first.lower, whole.lower, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(first.mean, whole.mean, rtol=1e-14)
    empty = Moments.zero(8)
    empty.merge(Moments.zero(8))
    assert empty.n == 0


def test_uncentered_is_the_raw_second_moment():
    E = np.random.default_rng(4).standard_normal((200, 5)) + 3
    got = stream_moments(E).uncentered()
    np.testing.assert_allclose(full(got), E.T @ E, rtol=1e-12)


def test_eigenvalues_and_vectors():
    E = np.random.default_rng(5).standard_normal((400, 30)) * np.geomspace(1, 100, 30)
    moments = stream_moments(E)
    exact = np.linalg.svd(E - E.mean(axis=0), compute_uv=False) ** 2 / len(E)
    np.testing.assert_allclose(moments.eigenvalues(), exact, atol=1e-14 * exact[0])
    values, vectors = moments.eigenpairs()
    np.testing.assert_allclose(values, exact, atol=1e-14 * exact[0])
    np.testing.assert_allclose(vectors.T @ (full(moments) / 400) @ vectors, np.diag(values), atol=1e-12 * exact[0])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i4"])
def test_any_dtype_is_accumulated_in_double(dtype):
    E = (np.random.default_rng(6).standard_normal((500, 7)) * 50).astype(dtype)
    exact = E.astype(np.float64) - E.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(full(stream_moments(E)), exact.T @ exact, rtol=1e-12, atol=1e-8)


def test_bfloat16_is_exact():
    values = np.array([1.0, -2.5, 3.140625, 1e30, -1e-30, 0.0], dtype=np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    truncated = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
    np.testing.assert_array_equal(bfloat16_to_float32(bits), truncated)
    assert bfloat16_to_float32(np.array([0x3FC0], np.uint16))[0] == 1.5  # by hand: sign 0, exponent 127, fraction .5


def test_memory_stays_small(tmp_path):
    E = np.lib.format.open_memmap(tmp_path / "a.npy", mode="w+", dtype=np.float32, shape=(200_000, 64))
    E[:] = np.random.default_rng(7).standard_normal((1000, 64)).repeat(200, axis=0)
    E.flush()
    table = np.load(tmp_path / "a.npy", mmap_mode="r")
    tracemalloc.start()
    moments = half_moments(Table(table), np.random.default_rng(0), split=False)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert moments.n == 200_000
    # a block and the one before it, the Gram matrix and its copies; the whole table is three blocks
    assert peak < 2 * BLOCK_BYTES + 4 * 8 * 64**2 + 2**20 < table.nbytes


def test_position_of_the_first_bad_entry():
    E = np.ones((100, 5))
    E[63, 2] = np.nan
    with pytest.raises(NonFiniteError, match="row 63, column 2"):
        list(Table(E).blocks())


def test_overflow_is_named():
    E = np.random.default_rng(9).standard_normal((50, 5)) * 1e200
    with pytest.raises(NonFiniteError, match="overflow"):
        stream_moments(E).eigenvalues()
