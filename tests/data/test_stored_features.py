"""Diagnosis, forecast, table spectra and learned pooling take stored rows through the same door as pooling."""

from __future__ import annotations

from collections import Counter

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from chunk_counting import counting_dask, counting_zarr, once_each, sequences

import spikepool as sp


def features(n=400, d=12, seed=0):
    rng = np.random.default_rng(seed)
    scales = np.linspace(3, 1, d)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, d)) * scales
    x[:, 1] += 2.0 * (2 * y - 1)
    return x, y


C, Y = features()


def stored_forms(tmp_path, array):
    """The same rows as a Dask array, a Zarr array, paths and a URL."""
    np.save(tmp_path / "c.npy", array)
    zarr.create_array(tmp_path / "c.zarr", shape=array.shape, chunks=(90, array.shape[1]), dtype=array.dtype)[:] = array
    url = f"memory://{tmp_path.name}/c.zarr"
    zarr.create_array(url, shape=array.shape, chunks=(90, array.shape[1]), dtype=array.dtype)[:] = array
    return {
        "dask": da.from_array(array, chunks=(70, 5)),
        "zarr": zarr.open_array(tmp_path / "c.zarr", mode="r"),
        "path": tmp_path / "c.zarr",
        "npy": str(tmp_path / "c.npy"),
        "url": url,
    }


@pytest.mark.slow
def test_a_diagnosis_of_stored_rows_is_that_of_the_array(tmp_path):
    expected = sp.diagnose(C)
    for name, form in stored_forms(tmp_path, C).items():
        found = sp.diagnose(form)
        assert found.verdict == expected.verdict, name
        np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-10)


@pytest.mark.slow
def test_a_forecast_from_stored_rows_is_that_of_the_array(tmp_path):
    expected = sp.forecast(C, Y, n=[800])
    for form in stored_forms(tmp_path, C).values():
        np.testing.assert_array_equal(sp.forecast(form, Y, n=[800]).accuracy, expected.accuracy)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_a_table_spectrum_of_stored_rows_is_that_of_the_array(tmp_path, scheduler):
    table = features(n=900, d=40, seed=1)[0]
    options = {"null_draws": 1, "repetitions": 19}
    expected = sp.TableSpectrum(**options).fit(table)
    with dask.config.set(scheduler=scheduler):
        for name, form in stored_forms(tmp_path, table).items():
            found = sp.TableSpectrum(**options).fit(form)
            assert found.counts_ == expected.counts_, name
            np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
            assert found.heldout_.p_value == expected.heldout_.p_value  # the same random halves, whatever the chunks
    from_file = sp.TableSpectrum.from_file(tmp_path / "c.zarr", **options)
    np.testing.assert_allclose(from_file.eigenvalues_, expected.eigenvalues_, rtol=1e-10)


def test_a_table_spectrum_reads_each_chunk_once_a_pass():
    table = features(n=900, d=40, seed=1)[0]
    for rows in (100, 170):
        loads = Counter()
        source = counting_dask(table, rows, loads)
        chunks = -(-900 // rows)
        sp.TableSpectrum(null_draws=0, repetitions=0, influential=0).fit(source)
        assert once_each(loads, chunks)  # the moments
        loads.clear()
        sp.TableSpectrum(null_draws=0, repetitions=0).fit(source)
        assert set(loads.values()) <= {1, 2}  # and the rows, where there is an outlying direction
        loads.clear()
        sp.TableSpectrum(null_draws=2, repetitions=0).fit(source)
        assert set(loads.values()) == {3}  # and the null of shuffled columns


def test_a_diagnosis_reads_each_chunk_once_a_pass(monkeypatch):
    from spikepool.trust import draws as effort

    loads = Counter()
    source = counting_zarr(C, 70, loads, monkeypatch)
    sp.diagnose(source)
    assert once_each(loads, 6)  # small enough to be held
    loads.clear()
    monkeypatch.setattr(effort, "STREAMED_BYTES", 0)
    sp.diagnose(counting_zarr(C, 70, loads, monkeypatch))
    assert set(loads.values()) == {2}


@pytest.mark.slow
def test_learned_pooling_reads_a_store_three_times(monkeypatch):
    """Three passes, whatever the number of chunks: one for the rows it learns on, two for the fit on all of them."""
    ids, _, X, mask = sequences(n=300)
    loads = Counter()
    source = counting_dask(X, 70, loads)
    y = ids[:, 0] % 2
    with dask.config.set(scheduler="synchronous"):
        found = sp.LearnedPoolingClassifier(max_samples=150).fit(source, y, mask=mask)
    assert set(loads.values()) == {3}
    expected = sp.LearnedPoolingClassifier(max_samples=150).fit(X, y, mask=mask)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-8)


def test_what_is_no_table_of_rows_is_refused(tmp_path):
    cube = da.zeros((20, 3, 4), chunks=10)
    for call in (sp.diagnose, sp.TableSpectrum().fit, lambda X: sp.forecast(X, np.arange(20) % 2)):
        with pytest.raises(sp.InvalidInputError):
            call(cube)
        with pytest.raises((sp.MissingSourceError, sp.TableFormatError)):
            call(tmp_path / "nothing.npy")
    text = da.from_array(np.array([["a", "b"]] * 20))
    for call in (sp.diagnose, sp.TableSpectrum().fit):
        with pytest.raises(sp.InvalidInputError):
            call(text)
