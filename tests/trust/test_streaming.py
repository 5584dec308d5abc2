"""Rows read in blocks: the statistics of rows in memory, from any store, whatever its chunks."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.blocks import ArrayBlocks
from spikepool.trust import draws as effort
from spikepool.trust.draws import overlaps
from spikepool.trust.memory_rows import MemoryRows, components
from spikepool.trust.reading import StreamedRows

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.trust.diagnosis.UncenteredWarning")


def rows(n=700, d=30, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * np.sqrt(5 / np.arange(1.0, d + 1)) * rng.gamma(2.0, size=(n, 1))
    return x + 3.0


def streamed(x, borders, group=None):
    return StreamedRows(ArrayBlocks(x, "C", borders), group, np.random.default_rng(0))


@pytest.mark.parametrize("borders", [[0, 700], [0, 1, 350, 351, 700], list(range(0, 701, 100))])
def test_statistics_are_those_of_rows_in_memory(borders):
    x = rows()
    x[600:650] = x[:50]  # copies
    memory, stream = MemoryRows(x), streamed(x, borders)
    assert stream.mean == pytest.approx(memory.mean, rel=1e-10)
    assert stream.values == pytest.approx(memory.values, rel=1e-9)
    assert np.abs(np.sum(stream.vectors[:5] * memory.vectors[:5], axis=1)) == pytest.approx(np.ones(5), rel=1e-9)
    assert stream.norms == pytest.approx(memory.norms, rel=1e-9)
    here, there = stream.description, memory.description
    assert here.lag == pytest.approx(there.lag, abs=1e-12)
    assert here.scatter == pytest.approx(there.scatter, rel=1e-9)
    assert np.array_equal(here.copies, there.copies)
    assert np.array_equal(here.counts, there.counts)
    np.testing.assert_allclose(here.nearest, there.nearest, atol=1e-9)
    assert here.caution("duplicates") == there.caution("duplicates")
    assert np.array_equal(here.outlying, there.outlying)
    assert stream.scores(3) ** 2 == pytest.approx(memory.scores(3) ** 2, rel=1e-6, abs=1e-8)
    rng = np.random.default_rng(0)
    one, other = stream.sample(here.units, False, rng), memory.sample(there.units, False, rng)
    assert one.fourth == pytest.approx(other.fourth, rel=1e-9)
    assert one.n_effective == other.n_effective == 650
    assert one.whitened == pytest.approx(other.whitened, rel=1e-9)
    assert one.contiguous == pytest.approx(other.contiguous, rel=1e-9)
    # one split beside four: the same law
    assert one.halves[0] == pytest.approx(other.halves.mean(axis=0), abs=0.2)


@pytest.mark.parametrize("grouped", [False, True])
def test_parts_merged_in_a_tree_are_the_whole(grouped, monkeypatch):
    """Chunks with different means on Dask, against one block after the other."""
    dask = pytest.importorskip("dask")
    from spikepool.data import map_merge
    from spikepool.data.blocks import DaskBlocks

    monkeypatch.setattr(map_merge, "TASK_BYTES", 1)  # one task per chunk
    x = rows() + 100.0 * np.arange(700)[:, None] / 700  # chunks whose means are far apart
    group = np.arange(700) // 7 if grouped else None
    whole = streamed(x, [0, 700], group)
    with dask.config.set(scheduler="threads"):
        lazy = __import__("dask.array").array.from_array(x, chunks=(90, -1))
        found = StreamedRows(DaskBlocks(lazy, "C"), group, np.random.default_rng(0))
    for name in ("mean", "values", "norms", "_whitened", "_halves", "_contiguous"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-8, atol=1e-10, err_msg=name)
    for name in ("lag", "nearest", "copies"):
        here, there = (getattr(stream.description, name) for stream in (found, whole))
        np.testing.assert_allclose(here, there, rtol=1e-8, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(found._group_sums**2, whole._group_sums**2, rtol=1e-6, atol=1e-8)


def test_halves_are_those_of_the_groups():
    x = rows()
    group = np.arange(700) // 7
    stream = streamed(x, [0, 200, 700], group)
    side = stream._side[group]
    expected = overlaps(components(x[~side], stream.ks[-1]), components(x[side], stream.ks[-1]), stream.ks)[0]
    rng = np.random.default_rng(0)
    sample = stream.sample(group, True, rng)
    assert sample.halves[0] == pytest.approx(expected, rel=1e-9)
    memory = MemoryRows(x).sample(group, True, rng)
    assert sample.n_effective == memory.n_effective


@pytest.mark.slow
def test_diagnosis_of_a_store_is_that_of_the_array(tmp_path, monkeypatch):
    x = rows(900, 24)
    np.save(tmp_path / "rows.npy", x)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    whole = sp.diagnose(x, target=0.9)
    assert sp.diagnose(mapped, target=0.9).to_dict() == whole.to_dict()
    monkeypatch.setattr(effort, "STREAMED_BYTES", 1000)
    found = sp.diagnose(mapped, target=0.9)
    assert found.verdict == whole.verdict == "coloured"
    for one, other in zip(found.spans, whole.spans, strict=True):
        assert one.k == other.k
        assert one.overlap == pytest.approx(other.overlap, abs=0.06)
    zarr = pytest.importorskip("zarr")
    store = zarr.create_array(store=str(tmp_path / "rows.zarr"), shape=x.shape, chunks=(128, 24), dtype="f8")
    store[:] = x
    assert sp.diagnose(store, target=0.9).to_dict() == sp.diagnose(str(tmp_path / "rows.zarr"), target=0.9).to_dict()
    da = pytest.importorskip("dask.array")
    lazily = sp.diagnose(da.from_array(x, chunks=(128, 24)), target=0.9)
    for one, other in zip(lazily.spans, sp.diagnose(store, target=0.9).spans, strict=True):
        assert one.overlap == pytest.approx(other.overlap, abs=1e-9)  # merged in a tree, not one after the other


def test_bad_rows_are_named_in_a_stream(monkeypatch):
    monkeypatch.setattr(effort, "STREAMED_BYTES", 1000)
    x = rows()
    x[333, 4] = np.nan
    with pytest.raises(sp.NonFiniteError, match="row 333"):
        streamed(x, [0, 100, 700])
    with pytest.raises(sp.DomainError, match="overflow"):
        streamed(rows() * 1e80, [0, 700])
    with pytest.raises(sp.InvalidInputError, match="equal"):
        sp.diagnose(np.ones((700, 30)))


def test_three_dimensions_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((10, 5, 4)))
    with pytest.raises(sp.ShapeError, match="Pool"):
        sp.diagnose(np.load(tmp_path / "x.npy", mmap_mode="r"))
