"""What a sweep returns, against the model's own predict and simulate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import xarray as xr
from sweep_problem import problem, small_model

import spikepool as sp
from spikepool.simulation.simulate import simulate_grid
from spikepool.sweeps import SweepSpec, open_sweep, run
from spikepool.sweeps.cells import Cell, cells, variables
from spikepool.sweeps.seeds import cell_key, prediction_seed, trial_seed
from spikepool.sweeps.spec_text import spec_from_dict, spec_from_json, spec_to_dict, spec_to_json

CORRELATION = sp.prefix_correlation(6, 3)


# -- seeds and cells ---------------------------------------------------------------------------------------


def test_cells_cover_the_grid_once():
    spec = SweepSpec(small_model(), ["mean"], {"V": [64, 66], "mu": [1, 2, 3], "N": [50, 60, 70]}, trials=4)
    found = list(cells(spec))
    places = itertools.product(range(2), range(3))
    assert set(found) == {Cell(place, trial) for place in places for trial in (-1, 0, 1, 2, 3)}
    assert len(found) == 6 * 5


def test_seeds_belong_to_model_and_trial_but_not_to_mu():
    model = small_model()
    key = cell_key(model)
    seed = trial_seed(3, key, 5)
    assert seed.entropy == 3
    assert seed.spawn_key == (key, 5)
    assert cell_key(model.replace(mu=7.0)) == key
    others = [
        {"d": 41},
        {"V": 66},
        {"N": 81},
        {"table": "class_centered"},
        {"centered": False},
        {"latent": "gaussian"},
        {"noise": "laplace"},
        {"R": np.eye(6)},
        {"R": np.eye(5)},
        {"frequencies": np.arange(1.0, 65)},
        {"covariance": np.ones(40)},
        {"direction": np.ones(40)},
    ]
    keys = {key} | {cell_key(model.replace(**other)) for other in others}
    assert len(keys) == len(others) + 1
    states = {tuple(trial_seed(3, key, t).generate_state(4)) for t in range(50)}
    states.add(tuple(prediction_seed(3, key).generate_state(4)))
    assert len(states) == 51


# -- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_predictions_are_the_models(reference):
    spec = problem()
    for name, (place, V), mu in itertools.product(spec.weights, enumerate((64, 96)), spec.mus):
        p = small_model(V=V, mu=mu).predict(spec.weight_vector(name, place))
        at = reference.sel(weights=name, V=V, mu=mu)
        expected = [p.alpha, p.kappa, p.edge, p.eigenvalue, p.alignment, p.mu_population, p.mu_sample]
        names = ["alpha", "kappa", "edge", "predicted_eigenvalue", "predicted_alignment", "mu_population", "mu_sample"]
        assert [float(at[variable]) for variable in names] == expected
        assert bool(at.detectable) == p.detectable
        signal = np.nan if p.signal is None else p.signal.eigenvalue
        np.testing.assert_equal(float(at.signal_eigenvalue), signal)
    assert set(reference.detectable.values.ravel()) == {0.0, 1.0}  # both sides of the threshold were seen


def test_the_vocabulary_outlier_is_reported_when_not_centred():
    model = small_model(centered=False, V=40)
    ds = sp.sweep(model, ["mean"], trials=0, workers=0)
    by_kind = {outlier.kind: outlier.eigenvalue for outlier in model.predict(sp.mean_weights(6)).outliers}
    assert float(ds.vocabulary_eigenvalue.item()) == by_kind["mean"]


@pytest.mark.slow
def test_simulations_are_the_models(reference):
    """Bit for bit those of simulate_grid on the cell's stream; up to rounding those of model.simulate."""
    spec = problem()
    for place, V in enumerate((64, 96)):
        model = small_model(V=V)
        stream = np.random.SeedSequence(spec.seed, spawn_key=(cell_key(model),))
        weights = {name: spec.weight_vector(name, place) for name in spec.weights}
        grid = simulate_grid(model, weights, spec.mus, trials=spec.trials, k=2, rng=stream)
        here = reference.sel(V=V).transpose("weights", "mu", "trial", "rank", ...)
        np.testing.assert_array_equal(here.eigenvalues, grid.eigenvalues)
        np.testing.assert_array_equal(here.alignments, grid.alignments)
        single = model.replace(mu=2.0).simulate(weights["causal"], trials=spec.trials, k=2, rng=stream)
        at = here.sel(weights="causal", mu=2.0)
        np.testing.assert_allclose(at.eigenvalues, single.eigenvalues, rtol=1e-7)
        np.testing.assert_allclose(at.alignment, single.alignment, rtol=1e-6)


def test_means_and_standard_errors(reference):
    values = reference.alignment.values
    np.testing.assert_array_equal(values, reference.alignments.values[..., 0])
    np.testing.assert_allclose(reference.alignment_mean, values.mean(axis=-1), rtol=1e-14)
    np.testing.assert_allclose(
        reference.alignment_se, values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1]), rtol=1e-12
    )
    np.testing.assert_allclose(reference.eigenvalue_mean, reference.eigenvalues.values[..., 0].mean(axis=-1))
    assert (reference.trials_done == 40).all()


def test_dimensions_coordinates_and_attributes(reference):
    spec = problem()
    assert reference.alignments.dims == ("weights", "V", "mu", "trial", "rank")
    assert reference.error.dims == ("weights", "V", "mu", "trial")
    assert reference.edge.dims == ("weights", "V", "mu")
    assert list(reference.weights.values) == ["mean", "causal"]
    assert list(reference.mu.values) == [0.5, 1.0, 2.0]
    assert list(reference["rank"].values) == [1, 2]
    assert (reference.error == "").all()
    assert reference.attrs["version"] == sp.__version__
    assert reference.attrs["seed"] == 0
    assert spec_to_dict(spec_from_json(reference.attrs["spec"])) == spec_to_dict(spec)


@pytest.mark.slow
def test_another_seed_gives_other_draws_and_the_same_predictions(reference):
    other = run(problem(seed=1), workers=0)
    assert (other.alignments != reference.alignments).all()
    xr.testing.assert_identical(other.edge, reference.edge)


def test_part_of_a_sweep_has_the_draws_of_the_whole(reference):
    part = sp.sweep(
        small_model(V=96), {"causal": sp.causal_weights(6)}, mu=[2.0, 0.5], trials=3, seed=0, k=2, workers=0
    )
    whole = reference.sel(weights="causal", V=96).isel(trial=slice(3))
    for mu in (0.5, 2.0):
        np.testing.assert_allclose(part.alignments.sel(weights="causal", mu=mu), whole.alignments.sel(mu=mu), rtol=1e-7)


@pytest.mark.slow
def test_the_krylov_path_gives_the_same_numbers_in_another_process(tmp_path):
    model = small_model(d=120, N=150)
    one = sp.sweep(model, ["mean", "causal"], mu=[1.0, 2.0], trials=3, workers=0)
    two = sp.sweep(model, ["mean", "causal"], mu=[1.0, 2.0], trials=3, workers=2)
    xr.testing.assert_identical(one, two)


@pytest.mark.slow
def test_every_kind_of_field_can_vary():
    zipf = 1 / np.arange(1.0, 65)
    ds = sp.sweep(
        small_model(),
        {"mean": "mean", "causal": "causal"},
        R={"short": sp.prefix_correlation(4, 2), "long": sp.markov_correlation(8, 0.5)},
        frequencies={"flat": None, "zipf": zipf},
        token_weights={"equal": None, "rare": 1 / (zipf + 0.1)},
        centered=[True, False],
        table=["sampled", "class_centered"],
        trials=1,
        workers=0,
    )
    assert ds.sizes == {
        "weights": 2, "R": 2, "frequencies": 2, "token_weights": 2, "centered": 2, "table": 2, "trial": 1, "rank": 2,
    }  # fmt: skip
    assert (ds.error == "").all()
    assert ds.alignments.notnull().all()
    assert ds.alignment_se.isnull().all()  # one trial has no standard error
    assert (ds.prediction_error == "").all()
    kappa = ds.kappa.sel(weights="mean", frequencies="flat", token_weights="equal", centered=True, table="sampled")
    np.testing.assert_allclose(kappa, [1 / 4, 1 / 8])
    at = ds.sel(R="long", frequencies="zipf", token_weights="rare", centered=False, table="sampled", weights="causal")
    model = small_model(
        R=sp.markov_correlation(8, 0.5), frequencies=zipf, token_weights=1 / (zipf + 0.1), centered=False
    )
    stream = np.random.SeedSequence(0, spawn_key=(cell_key(model),))
    expected = model.simulate(sp.causal_weights(8), trials=1, rng=stream)
    np.testing.assert_allclose(at.eigenvalues.values, expected.eigenvalues, rtol=1e-7)


def test_exact_predictions():
    model = small_model(frequencies=1 / np.arange(1.0, 65))
    w = sp.causal_weights(6)
    ds = sp.sweep(model, {"causal": w}, mu=[1.0, 2.0], trials=0, seed=5, exact=True, workers=0)
    expected = model.replace(mu=2.0).predict(w, exact=True, rng=prediction_seed(5, cell_key(model)))
    at = ds.sel(weights="causal", mu=2.0)
    assert (float(at.predicted_alignment), float(at.edge)) == (expected.alignment, expected.edge)


def test_without_trials_there_are_predictions_alone():
    ds = sp.sweep(small_model(), ["optimal"], mu=np.linspace(0, 2, 5), trials=0, workers=0)
    assert "alignment" not in ds
    assert "trial" not in ds.dims
    assert (ds.predicted_alignment.diff("mu") >= 0).all()


def test_without_axes():
    ds = sp.sweep(small_model(), ["mean"], trials=2, workers=0)
    assert ds.alignment.dims == ("weights", "trial")
    assert ds.edge.shape == (1,)


# -- failures ----------------------------------------------------------------------------------------------

# Symmetric, PSD, of unit diagonal; but R_12 + R_13 + R_23 < -1, which no signs have.
UNREALIZABLE = np.array([[1.0, -0.4, -0.4], [-0.4, 1.0, -0.4], [-0.4, -0.4, 1.0]])


def test_a_failed_cell_keeps_its_message_and_the_rest_goes_on(tmp_path):
    arguments = {
        "weights": ["mean", "causal"],
        "R": {"good": np.eye(3), "bad": UNREALIZABLE},
        "trials": 3,
        "store": tmp_path / "a.zarr",
        "workers": 0,
    }
    with pytest.warns(UserWarning, match="NotRealizableError"):
        ds = sp.sweep(small_model(), **arguments)
    assert ds.error.sel(R="bad").str.startswith("NotRealizableError").all()
    assert ds.alignments.sel(R="bad").isnull().all()
    assert (ds.trials_done.sel(R="bad") == 0).all()
    assert (ds.error.sel(R="good") == "").all()
    alone = sp.sweep(small_model(R=np.eye(3)), ["mean", "causal"], trials=3, workers=0)
    np.testing.assert_array_equal(ds.alignments.sel(R="good"), alone.alignments)
    with pytest.warns(UserWarning, match="NotRealizableError"):
        xr.testing.assert_identical(sp.sweep(small_model(), **arguments), ds)


def test_weights_that_do_not_exist_fail_alone():
    # the optimal direction of R is (1, -1), which no weights of unit sum have
    R = np.array([[1.0, -0.5], [-0.5, 1.0]])
    with pytest.warns(UserWarning, match="NoOptimumError"):
        ds = sp.sweep(small_model(R=R), ["mean", "optimal"], mu=[1.0, 2.0], trials=2, workers=0)
    assert (ds.error.sel(weights="mean") == "").all()
    assert ds.alignments.sel(weights="mean").notnull().all()
    assert ds.prediction_error.sel(weights="optimal").str.startswith("NoOptimumError").all()
    assert ds.alignments.sel(weights="optimal").isnull().all()


def test_failed_cells_are_tried_again_when_asked(tmp_path, monkeypatch):
    from spikepool.sweeps import sequence_kind as cell

    store = tmp_path / "a.zarr"
    arguments = {"weights": ["mean"], "mu": [1.0, 2.0], "trials": 3, "store": store, "workers": 0}
    draw, calls = cell.simulate_draw, []

    def sometimes(*arguments, rng, **options):
        calls.append(rng.spawn_key[1])
        if rng.spawn_key[1] == 1:
            raise MemoryError("not this one")
        return draw(*arguments, rng=rng, **options)

    monkeypatch.setattr(cell, "simulate_draw", sometimes)
    with pytest.warns(UserWarning, match="MemoryError: not this one"):
        ds = sp.sweep(small_model(), **arguments)
    assert list(ds.trials_done.values.ravel()) == [2, 2]
    np.testing.assert_allclose(ds.alignment_mean, ds.alignment.values[..., [0, 2]].mean(axis=-1))
    monkeypatch.setattr(cell, "simulate_draw", lambda *arguments, **options: calls.append(-1))
    with pytest.warns(UserWarning, match="MemoryError"):
        sp.sweep(small_model(), **arguments)
    assert calls == [0, 1, 2]  # nothing was tried again
    monkeypatch.setattr(cell, "simulate_draw", draw)
    again = sp.sweep(small_model(), retry_failed=True, **arguments)
    xr.testing.assert_identical(again, sp.sweep(small_model(), **(arguments | {"store": None})))


@pytest.mark.slow
def test_the_route_is_part_of_the_spec_and_stores_do_not_mix_routes(tmp_path):
    """A store begun with drawn tables is not continued without, nor the other way round."""
    arguments = {"weights": ["mean"], "mu": [1.0, 2.0], "trials": 2, "workers": 0}
    without = sp.sweep(small_model(), store=tmp_path / "a.zarr", **arguments)
    drawn = sp.sweep(small_model(), store=tmp_path / "b.zarr", table_drawn=True, **arguments)
    assert (without.attrs["route"], drawn.attrs["route"]) == ("tables not drawn, their products are", "tables drawn")
    assert not np.array_equal(without.alignments, drawn.alignments)
    with pytest.raises(sp.SpecMismatchError, match="table_drawn: false in the store, true asked for"):
        sp.sweep(small_model(), store=tmp_path / "a.zarr", table_drawn=True, **arguments)
    with pytest.raises(sp.SpecMismatchError, match="table_drawn: true in the store, false asked for"):
        sp.sweep(small_model(), store=tmp_path / "b.zarr", **arguments)
    mixed = sp.sweep(small_model(), noise=["gaussian", "laplace"], **arguments)
    assert mixed.attrs["route"] == "tables drawn where their noise is not Gaussian"
    np.testing.assert_array_equal(mixed.alignments.sel(noise="gaussian"), without.alignments)
    with pytest.raises(sp.InvalidInputError, match="laplace"):
        sp.sweep(small_model(), noise=["gaussian", "laplace"], table_drawn=False, **arguments)
    # a spec that does not say is from before there was a choice
    text = spec_to_dict(SweepSpec.from_fields(small_model(), ["mean"], {}))
    del text["table_drawn"]
    assert spec_from_dict(text).table_drawn is True


# -- the store ---------------------------------------------------------------------------------------------


def test_the_store_follows_its_schema_and_plain_xarray_reads_it(tmp_path):
    spec = problem(trials=2)
    ds = run(spec, store=tmp_path / "a.zarr", workers=0)
    plain = xr.open_zarr(tmp_path / "a.zarr", consolidated=False)
    for name, variable in variables(spec).items():
        assert plain[name].dims == variable.dims
        assert plain[name].shape == variable.shape(spec)
        assert plain[name].attrs["description"]
    for name in ("eigenvalues", "alignments", "edge"):
        np.testing.assert_array_equal(plain[name].values, ds[name].values)
    assert plain.attrs["spec"] == spec_to_json(spec)
    assert (plain.attrs["seed"], plain.attrs["version"]) == (0, sp.__version__)
    assert (plain.status == 1).all()
    xr.testing.assert_identical(open_sweep(tmp_path / "a.zarr"), ds)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]  # no lock, nothing temporary left


def test_a_rerun_computes_nothing(tmp_path, monkeypatch):
    from spikepool.sweeps import cells as worker

    spec = problem(trials=2)
    ds = run(spec, store=tmp_path / "a.zarr", workers=0)
    monkeypatch.setattr(worker, "compute", None)
    xr.testing.assert_identical(run(spec, store=tmp_path / "a.zarr", workers=0), ds)


def test_progress_counts_what_is_left(tmp_path, monkeypatch):
    from spikepool.sweeps import runner

    bars = []

    class Recorder(runner.Progress):
        def __init__(self, total, description, *, show):
            super().__init__(total, description, show=show)
            self.shown = show
            bars.append(self)

    monkeypatch.setattr(runner, "Progress", Recorder)
    store = tmp_path / "a.zarr"
    run(problem(trials=2), store=store, workers=0, progress=False)
    (store / "status" / "c" / "1" / "0").unlink()
    run(problem(trials=2), store=store, workers=0, progress=True)
    assert [(bar.total, bar._done, bar.shown) for bar in bars] == [(6, 6, False), (1, 1, True)]


def test_an_exact_sweep_prepares_once(monkeypatch):
    """2 weights x 10 mu: one draw of tokens, a usage for each weights, a law for each of sample and population."""
    from spikepool.sweeps import sequence_kind
    from spikepool.sweeps.cells import compute
    from spikepool.theory import given_tokens, usage_spectrum

    counts = dict.fromkeys(("draws", "usages", "laws"), 0)

    def counted(module, name, key):
        plain = getattr(module, name)

        def call(*args, **kwargs):
            counts[key] += 1
            return plain(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    counted(sequence_kind, "draw_tokens", "draws")
    counted(given_tokens, "draw_tokens", "draws")
    counted(given_tokens, "sample_usage", "usages")
    counted(usage_spectrum, "GeneralizedLaw", "laws")
    model = sp.SequenceModel(40, 60, 90, sp.prefix_correlation(5, 2), 1.0)
    mus = np.linspace(0.2, 3.0, 10)
    spec = SweepSpec(model, ["mean", "causal"], {"mu": mus}, trials=0, exact=True)
    values = compute(spec, Cell((), -1))
    assert (values["prediction_error"] == "").all()
    assert counts == {"draws": 1, "usages": 2, "laws": 4}
    single = model.replace(mu=mus[7]).predict(sp.causal_weights(5), exact=True, rng=prediction_seed(0, cell_key(model)))
    assert values["predicted_alignment"][1, 7] == single.alignment
    assert values["mu_sample"][1, 7] == single.mu_sample


def test_fields_that_vary_together_and_a_store_opened_again(tmp_path):
    sizes = {str(d): {"d": d, "V": 2 * d, "N": 4 * d} for d in (10, 20)}
    ds = sp.sweep(
        small_model(), ["mean"], together=sizes, mu=[0.5, 2.0], trials=2, workers=0, store=tmp_path / "a.zarr"
    )
    assert ds.sizes["together"] == 2
    assert list(ds["together"].values) == ["10", "20"]
    np.testing.assert_allclose(ds.mu_sample.sel(together="10"), ds.mu_sample.sel(together="20"))
    expected = small_model(d=20, V=40, N=80, mu=2.0).predict(sp.mean_weights(6))
    assert float(ds.predicted_alignment.sel(together="20", mu=2.0, weights="mean")) == expected.alignment
    again = sp.open_sweep(tmp_path / "a.zarr")
    assert {"alignment_mean", "alignment_se", "eigenvalue_mean"} <= set(again)
    np.testing.assert_array_equal(again.alignment_mean, ds.alignment_mean)
    for bad in ({"a": {"d": 5}, "b": {"V": 6}}, {"a": {"mu": 1.0}}, [1], {"a": {"nothing": 1}}):
        with pytest.raises(sp.InvalidInputError):
            sp.sweep(small_model(), ["mean"], together=bad, trials=0, workers=0)
    with pytest.raises(sp.InvalidInputError):
        sp.sweep(small_model(), ["mean"], together=sizes, d=[10, 20], trials=0, workers=0)
