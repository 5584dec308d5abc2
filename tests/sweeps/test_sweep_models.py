"""Sweeps of every model through one mechanism: numbers, stores, failures, schedulers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import xarray as xr
from sweep_problem import small_model

import spikepool as sp
from spikepool.sweeps import cells, kinds
from spikepool.sweeps.seeds import cell_key

SEQUENCE = small_model()
CLASSES = SEQUENCE.as_classes(0.4)
QUERY = sp.QueryModel(d=40, N=160, T=8, L=2, mu=2.0, nu=1.2)

# model, arguments of its sweep: two axes of two values each
SWEEPS = {
    "sequence": (SEQUENCE, {"weights": ["mean", "causal"], "N": [60, 80], "V": [64, 96], "trials": 2}),
    "classes": (CLASSES, {"weights": ["mean", "causal"], "N": [60, 80], "V": [64, 96], "trials": 2}),
    "query": (QUERY, {"beta": [0.2, 0.8], "L": [1, 2], "trials": 2}),
}
AXES = {"sequence": ("N", "V"), "classes": ("N", "V"), "query": ("beta", "L")}


@pytest.fixture(params=SWEEPS)
def case(request):
    model, arguments = SWEEPS[request.param]
    return model, {**arguments, "workers": 0, "seed": 4}, AXES[request.param]


def reordered(arguments, axes):
    """The same sweep with its axes in the other order."""
    rest = {name: value for name, value in arguments.items() if name not in axes}
    return {**rest, **{name: arguments[name] for name in reversed(axes)}}


# -- numbers -----------------------------------------------------------------------------------------------


def test_every_combination_has_the_model_s_own_prediction(case):
    model, arguments, axes = case
    ds = sp.sweep(model, **{**arguments, "trials": 0})
    assert (ds.prediction_error == "").all()
    assert "alignment" not in ds
    for first in arguments[axes[0]]:
        for second in arguments[axes[1]]:
            here = dataclasses.replace(model, **{axes[0]: first, axes[1]: second})
            at = ds.sel({axes[0]: first, axes[1]: second})
            for name in arguments.get("weights", [None]):
                p = here.predict() if name is None else here.predict(_weights(name, here))
                one = at if name is None else at.sel(weights=name)
                assert (float(one.alpha), float(one.kappa), float(one.edge)) == (p.alpha, p.kappa, p.edge)
                assert float(one.predicted_alignment) == (p.outliers[0].alignment if model is CLASSES else p.alignment)


def _weights(name, model):
    return {"mean": sp.mean_weights, "causal": sp.causal_weights}[name](model.T)


def test_simulations_of_classes_are_the_model_s_own():
    model, arguments = SWEEPS["classes"]
    ds = sp.sweep(model, **{**arguments, "N": [80], "V": [64]}, seed=4, workers=0)
    here = dataclasses.replace(model, N=80, V=64)
    stream = np.random.SeedSequence(4, spawn_key=(cell_key(here),))
    for name in ("mean", "causal"):
        drawn = here.simulate(_weights(name, here), trials=2, rng=stream)
        one = ds.sel(weights=name).isel(N=0, V=0)
        np.testing.assert_array_equal(one.eigenvalues, drawn.eigenvalues)
        np.testing.assert_array_equal(one.alignments, drawn.alignments)


def test_simulations_of_a_query_keep_their_seeds():
    """Trial j of combination i draws from the child (i, j) of the seed; the means were recorded with version 0.3."""
    ds = sp.sweep(QUERY, beta=[0.2, 0.8], L=[1, 2], trials=3, seed=4)
    drawn = QUERY.replace(beta=0.8, L=1).simulate(trials=3, rng=np.random.SeedSequence(4, spawn_key=(2,)))
    np.testing.assert_array_equal(ds.alignments.sel(beta=0.8, L=1), drawn.alignments)
    recorded = [[0.26937232746198697, 0.9131580425025606], [0.7431552155358002, 0.9283236105665694]]
    np.testing.assert_allclose(ds.alignment_mean, recorded, rtol=1e-9)


def test_kernels_have_labels_and_may_be_functions():
    options = {"kernel": {"soft": "softmax", "square": np.square}, "trials": 3, "seed": 4}
    first, second = sp.sweep(QUERY, **options), sp.sweep(QUERY, **options)
    xr.testing.assert_identical(first, second)
    assert list(first.kernel.values) == ["soft", "square"]
    assert np.all(first.alignment_se > 0)
    assert np.all(np.isfinite(first.predicted_alignment))
    assert "function square" in first.attrs["spec"]


@pytest.mark.slow
def test_workers_give_the_numbers_of_this_process(case):
    from distributed import Client

    model, arguments, _ = case
    here = sp.sweep(model, **arguments)
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0") as client:
        options = {**arguments, "workers": None}
        xr.testing.assert_identical(sp.sweep(model, scheduler=client, **options), here)


# -- stores ------------------------------------------------------------------------------------------------


def test_memory_store_and_reopened_store_agree(case, tmp_path):
    model, arguments, _ = case
    here = sp.sweep(model, **arguments)
    xr.testing.assert_identical(sp.sweep(model, store=tmp_path / "a.zarr", **arguments), here)
    xr.testing.assert_identical(sp.sweep(model, store=tmp_path / "a.zarr", **arguments), here)
    xr.testing.assert_identical(sp.open_sweep(tmp_path / "a.zarr"), here)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_axes_in_another_order_are_refused(case, tmp_path):
    """Cells are numbered by the order of the axes: another order would return numbers of other cells."""
    model, arguments, axes = case
    store = tmp_path / "a.zarr"
    ds = sp.sweep(model, store=store, **arguments)
    with pytest.raises(sp.SpecMismatchError, match="axes: order"):
        sp.sweep(model, store=store, **reordered(arguments, axes))
    swapped = sp.sweep(model, **{**reordered(arguments, axes), "trials": 0})
    xr.testing.assert_equal(swapped.predicted_alignment.transpose(*ds.edge.dims), ds.predicted_alignment)


def test_another_spec_is_refused(case, tmp_path):
    model, arguments, axes = case
    store = tmp_path / "a.zarr"
    sp.sweep(model, store=store, **{**arguments, "trials": 0})
    for change, named in (({"seed": 5}, "seed: 4"), ({axes[0]: arguments[axes[0]][:1]}, f"axes.{axes[0]}")):
        with pytest.raises(sp.SpecMismatchError, match=named):
            sp.sweep(model, store=store, **{**arguments, "trials": 0, **change})


@pytest.mark.parametrize("last", [1, 3, 6])
def test_an_interrupted_sweep_goes_on_where_it_stopped(case, tmp_path, monkeypatch, last):
    model, arguments, _ = case
    whole = sp.sweep(model, **arguments)
    store, compute, computed = tmp_path / "a.zarr", cells.compute, []

    def until(spec, cell):
        computed.append(cell)
        if len(computed) == last:
            raise KeyboardInterrupt
        return compute(spec, cell)

    monkeypatch.setattr(cells, "compute", until)
    with pytest.raises(KeyboardInterrupt):
        sp.sweep(model, store=store, **arguments)
    done, last, stopped = computed[:-1], 0, computed[-1]
    computed.clear()
    xr.testing.assert_identical(sp.sweep(model, store=store, **arguments), whole)
    assert computed[0] == stopped
    assert not set(computed) & set(done)


def test_a_failed_cell_keeps_its_error_until_it_is_tried_again(case, tmp_path, monkeypatch):
    model, arguments, _ = case
    whole = sp.sweep(model, **arguments)
    store, calls = tmp_path / "a.zarr", []

    def broken(self, spec, place, trial, values, errors):
        calls.append(place)
        if place == 1:
            errors[...] = "MemoryError: not this one"
        else:
            simulate(self, spec, place, trial, values, errors)

    kind = type(kinds.kind_of(model))
    simulate = kind.simulate
    monkeypatch.setattr(kind, "simulate", broken)
    with pytest.warns(UserWarning, match="MemoryError: not this one"):
        ds = sp.sweep(model, store=store, **arguments)
    bad = ds.error != ""
    assert int(bad.sum()) * 4 == bad.size
    assert ds.alignment.where(bad, drop=True).isnull().all()
    xr.testing.assert_equal(ds.alignment.where(~bad), whole.alignment.where(~bad))
    calls.clear()
    with pytest.warns(UserWarning, match="MemoryError"):
        xr.testing.assert_identical(sp.sweep(model, store=store, **arguments), ds)
    assert calls == []
    monkeypatch.setattr(kind, "simulate", simulate)
    xr.testing.assert_identical(sp.sweep(model, store=store, retry_failed=True, **arguments), whole)


def test_a_failed_prediction_keeps_its_error():
    with pytest.warns(UserWarning, match="at most"):
        ds = sp.sweep(QUERY, beta=[0.5, 300.0], normalize=False, trials=0)
    assert float(ds.predicted_alignment[0]) > 0
    assert np.isnan(ds.predicted_alignment[1])
    assert "at most" in str(ds.prediction_error.values[1])


def test_a_function_as_kernel_has_no_store(tmp_path):
    with pytest.raises(sp.InvalidInputError, match="cannot be continued"):
        sp.sweep(QUERY.replace(kernel=np.exp), trials=0, store=tmp_path / "a.zarr", nu=[1.0, 2.0])
    options = {"trials": 0, "store": tmp_path / "b.zarr", "workers": 0}
    sp.sweep(QUERY, kernel={"a": "softmax", "b": "sigmoid"}, **options)
    with pytest.raises(sp.SpecMismatchError, match=r"axes\.kernel\.b"):
        sp.sweep(QUERY, kernel={"a": "softmax", "b": "linear"}, **options)


# -- what is refused ---------------------------------------------------------------------------------------


def test_bad_sweeps_are_refused():
    with pytest.raises(sp.InvalidInputError, match="not a field"):
        sp.sweep(QUERY, R=[1, 2])
    with pytest.raises(sp.InvalidInputError, match="does not take weights"):
        sp.sweep(QUERY, ["mean"], beta=[0.5])
    with pytest.raises(sp.InvalidInputError, match="does not take exact"):
        sp.sweep(CLASSES, ["mean"], exact=True)
    with pytest.raises(sp.InvalidInputError, match="does not take table_drawn"):
        sp.sweep(QUERY, beta=[0.5], table_drawn=True)
    with pytest.raises(sp.ShapeError, match="empty"):
        sp.sweep(QUERY, beta=[])
    with pytest.raises(sp.SizeError):
        sp.sweep(QUERY, L=[2, 9])
    with pytest.raises(sp.SizeError, match="k must be at most 39"):
        sp.sweep(QUERY, beta=[0.5], k=40)
    with pytest.raises(sp.WeightsError, match="named"):
        sp.sweep(CLASSES, trials=0)


# -- functions and named correlations ----------------------------------------------------------------------


def test_weights_may_be_functions_of_R_of_T_or_of_the_model(tmp_path):
    functions = {
        "of R": lambda R: R.sum(axis=0) / R.sum(),
        "of T": sp.causal_weights,
        "of model": lambda model: np.eye(model.T)[0],
        "optimal": sp.optimal_weights,
    }
    correlations = {"short": sp.prefix_correlation(4, 2), "long": sp.prefix_correlation(6, 3)}
    arguments = {"R": correlations, "mu": [0.5, 1.0], "trials": 2, "workers": 0, "seed": 1}
    ds = sp.sweep(SEQUENCE, functions, store=tmp_path / "a.zarr", **arguments)
    for label, R in correlations.items():
        given = {
            "of R": R.sum(axis=0) / R.sum(),
            "of T": sp.causal_weights(len(R)),
            "of model": np.eye(len(R))[0],
            "optimal": sp.optimal_weights(R),
        }
        alone = sp.sweep(SEQUENCE, given, **{**arguments, "R": {label: R}})
        xr.testing.assert_equal(ds.sel(R=[label]).drop_attrs(), alone.drop_attrs())
    xr.testing.assert_identical(sp.sweep(SEQUENCE, functions, store=tmp_path / "a.zarr", **arguments), ds)
    with pytest.raises(sp.SpecMismatchError, match="of T"):
        sp.sweep(SEQUENCE, functions | {"of T": sp.mean_weights}, store=tmp_path / "a.zarr", **arguments)


def test_functions_that_give_no_weights_are_refused():
    with pytest.raises(sp.WeightsError, match="'mine'"):
        sp.sweep(SEQUENCE, {"mine": lambda R: R[0]}, trials=0)
    uncentred = small_model(centered=False, V=40)
    with pytest.raises(sp.WeightsError, match="change with mu"):
        sp.sweep(uncentred, {"best": sp.SequenceModel.optimal_weights}, mu=[0.5, 2.0], trials=0)
    one = sp.sweep(uncentred, {"best": sp.SequenceModel.optimal_weights}, mu=2.0, trials=0)
    best = uncentred.replace(mu=2.0)
    assert float(one.predicted_alignment.item()) == best.predict(best.optimal_weights()).alignment


def test_parameters_of_a_named_correlation_vary(tmp_path):
    arguments = {"R": sp.prefix_correlation, "T": [6, 8], "L": [2, 3], "mu": [1.0, 2.0], "trials": 1, "workers": 0}
    ds = sp.sweep(SEQUENCE, ["mean", "optimal"], store=tmp_path / "a.zarr", **arguments)
    assert ds.edge.dims == ("weights", "T", "L", "mu")
    for T in (6, 8):
        for L in (2, 3):
            model = small_model(R=sp.prefix_correlation(T, L), mu=2.0)
            p = model.predict(sp.optimal_weights(model.R))
            assert float(ds.predicted_alignment.sel(weights="optimal", T=T, L=L, mu=2.0)) == p.alignment
    xr.testing.assert_identical(sp.open_sweep(tmp_path / "a.zarr"), ds)
    swapped = {name: arguments[name] for name in ("R", "L", "T", "mu", "trials", "workers")}
    with pytest.raises(sp.SpecMismatchError, match="order"):
        sp.sweep(SEQUENCE, ["mean", "optimal"], store=tmp_path / "a.zarr", **swapped)
    markov = sp.sweep(CLASSES, ["mean"], R=sp.markov_correlation, T=5, rho=[0.1, 0.6], trials=0)
    assert list(markov.rho.values) == [0.1, 0.6]
    with pytest.raises(sp.InvalidInputError, match=r"R=sp\.prefix_correlation"):
        sp.sweep(SEQUENCE, ["mean"], T=[4, 6], trials=0)
    with pytest.raises(sp.InvalidInputError, match="missing a required argument: 'L'"):
        sp.sweep(SEQUENCE, ["mean"], R=sp.prefix_correlation, T=[4, 6], trials=0)
    with pytest.raises(sp.InvalidInputError, match="named correlation"):
        sp.sweep(SEQUENCE, ["mean"], R=lambda T: np.eye(T), T=[4, 6], trials=0)
