"""Sweeps of a query model: the numbers of predict and simulate, over its own fields."""

import json

import numpy as np
import pytest

xr = pytest.importorskip("xarray", reason="the sweep extra is not installed")

import spikepool as sp  # noqa: E402
from spikepool.sweeps import query  # noqa: E402

MODEL = sp.QueryModel(d=40, N=160, T=8, L=2, mu=2.0, nu=1.2)


def test_every_combination_has_its_own_prediction():
    ds = sp.sweep(MODEL, beta=[0.2, 0.8], L=[1, 2], nu=1.5, trials=0)
    assert ds.predicted_alignment.dims == ("beta", "L")
    for beta in (0.2, 0.8):
        for L in (1, 2):
            p = MODEL.replace(beta=beta, L=L, nu=1.5).predict()
            cell = ds.sel(beta=beta, L=L)
            assert float(cell.predicted_alignment) == p.alignment
            assert float(cell.mu_sample) == p.mu_sample
            assert bool(cell.detectable) is p.detectable
    assert "alignment_mean" not in ds
    assert ds.attrs["nu"] == "1.5"


def test_simulations_repeat_and_kernels_have_labels():
    options = {"kernel": {"soft": "softmax", "square": np.square}, "trials": 3, "seed": 4}
    first, second = sp.sweep(MODEL, **options), sp.sweep(MODEL, **options)
    np.testing.assert_array_equal(first.alignment_mean, second.alignment_mean)
    assert list(first.kernel.values) == ["soft", "square"]
    assert np.all(first.alignment_se > 0)
    assert np.all(np.isfinite(first.predicted_alignment))


def test_a_cell_that_fails_keeps_its_error():
    ds = sp.sweep(MODEL, beta=[0.5, 300.0], normalize=False, trials=0)
    assert float(ds.predicted_alignment[0]) > 0
    assert np.isnan(ds.predicted_alignment[1])
    assert "at most" in str(ds.error.values[1])


def test_bad_sweeps_are_refused():
    with pytest.raises(sp.InvalidInputError, match="not a field"):
        sp.sweep(MODEL, R=[1, 2])
    with pytest.raises(sp.InvalidInputError, match="does not take workers"):
        sp.sweep(MODEL, beta=[0.5], workers=2)
    with pytest.raises(sp.ShapeError, match="empty"):
        sp.sweep(MODEL, beta=[])
    with pytest.raises(sp.SizeError):
        sp.sweep(MODEL, L=[2, 9])


def test_a_stored_sweep_continues_where_it_was_interrupted(tmp_path, monkeypatch):
    """The same numbers, from finished combinations that are not computed again; a damaged one is."""
    fields = {"beta": [0.5, 1.0, 1.5], "nu": [1.0, 1.5]}
    whole = sp.sweep(MODEL, trials=3, seed=5, **fields)
    store, computed = tmp_path / "q", []
    simulated = query._simulated

    def until(last):
        def count(model, trials, seed):
            computed.append((model.beta, model.nu))
            if len(computed) == last:
                raise KeyboardInterrupt
            return simulated(model, trials, seed)

        return count

    monkeypatch.setattr(query, "_simulated", until(4))
    with pytest.raises(KeyboardInterrupt):
        sp.sweep(MODEL, trials=3, seed=5, store=store, **fields)
    assert len(list((store / "cells").iterdir())) == 3
    (store / "cells" / "1.json").write_bytes((store / "cells" / "1.json").read_bytes()[:40])
    wrong = json.loads((store / "cells" / "2.json").read_text()) | {"edge": "1.0"}
    (store / "cells" / "2.json").write_text(json.dumps(wrong))
    monkeypatch.setattr(query, "_simulated", until(0))
    computed.clear()
    xr.testing.assert_identical(sp.sweep(MODEL, trials=3, seed=5, store=store, **fields), whole)
    assert computed == [(0.5, 1.5), (1.0, 1.0), (1.0, 1.5), (1.5, 1.0), (1.5, 1.5)]
    with pytest.raises(sp.SpecMismatchError, match="other arguments"):
        sp.sweep(MODEL, trials=3, seed=6, store=store, **fields)
    with pytest.raises(sp.InvalidInputError, match="cannot be continued"):
        sp.sweep(MODEL.replace(kernel=np.exp), trials=0, store=tmp_path / "other", **fields)
    sp.sweep(MODEL, trials=0, store=tmp_path / "kernels", kernel={"a": "softmax", "b": "sigmoid"})
    with pytest.raises(sp.SpecMismatchError, match="other arguments"):
        sp.sweep(MODEL, trials=0, store=tmp_path / "kernels", kernel={"a": "softmax", "b": "linear"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(sp.SpecMismatchError, match="other files"):
        sp.sweep(MODEL, trials=0, store=tmp_path / "mine", **fields)
