"""Specs: what they accept, how they read back, what they refuse before any work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sweep_problem import problem, small_model

import spikepool as sp
from spikepool.sweeps import SweepSpec, load_spec
from spikepool.sweeps.spec_differences import differences
from spikepool.sweeps.spec_text import spec_from_json, spec_to_dict, spec_to_json

EXAMPLE = Path(__file__).parents[2] / "examples" / "sweep.toml"


def test_json_round_trip_is_exact():
    rng = np.random.default_rng(0)
    model = small_model(
        mu=1 / 3,
        frequencies=rng.uniform(size=64),
        covariance=rng.uniform(0.5, 2, 40),
        direction=rng.standard_normal(40),
    )
    w = rng.uniform(size=6)
    axes = {
        "R": {"a": sp.markov_correlation(6, 1 / 7), "b": np.eye(6)},
        "mu": np.linspace(0.1, 0.7, 5),
        "centered": [True, False],
        "noise_df": [5.0, 7],
    }
    spec = SweepSpec(model, {"w": w / w.sum(), "optimal": "optimal"}, axes, trials=3, seed=2**40, k=1)
    back = spec_from_json(spec_to_json(spec))
    assert spec_to_dict(back) == spec_to_dict(spec)
    assert back.model.replace(mu=2.0).direction.tobytes() == model.direction.tobytes()
    assert back.mus == tuple(np.linspace(0.1, 0.7, 5))
    np.testing.assert_array_equal(back.weights["w"], w / w.sum())
    np.testing.assert_array_equal(back.axes["R"]["a"], sp.markov_correlation(6, 1 / 7))
    assert back.seed == 2**40
    assert list(back.axes) == list(axes)


def test_a_swept_field_of_the_base_model_does_not_matter():
    one = SweepSpec(small_model(mu=1.0), ["mean"], {"mu": [0.1, 0.2]})
    other = SweepSpec(small_model(mu=9.0), ["mean"], {"mu": [0.1, 0.2]})
    assert spec_to_dict(one) == spec_to_dict(other)


def test_sequences_make_axes_and_single_values_replace():
    spec = SweepSpec.from_fields(small_model(), ["mean"], {"N": (50, 60), "d": 20, "mu": np.array([1, 2])})
    assert spec.axes == {"N": (50, 60), "mu": (1.0, 2.0)}
    assert spec.model.d == 20
    # d and covariance only fit together
    spec = SweepSpec.from_fields(small_model(), ["mean"], {"d": 20, "covariance": {"a": np.ones(20), "b": np.eye(20)}})
    assert list(spec.axes["covariance"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"colour": [1, 2]}, sp.InvalidInputError),
        ({"mu": []}, sp.ShapeError),
        ({"mu": [[1.0, 2.0]]}, sp.InvalidInputError),
        ({"mu": np.ones((2, 2))}, sp.InvalidInputError),
        ({"mu": [1.0, 1.0]}, sp.InvalidInputError),
        ({"mu": [1.0, float("nan")]}, sp.NonFiniteError),
        ({"mu": [1.0, -1.0]}, sp.DomainError),
        ({"V": [64, 65]}, sp.SizeError),
        ({"N": [80, 0]}, sp.SizeError),
        ({"N": [80, 80.5]}, sp.SizeError),
        ({"table": ["sampled", "carved"]}, sp.InvalidInputError),
        ({"R": {}}, sp.ShapeError),
        ({"R": {"wrong T": np.eye(5)}}, sp.WeightsError),
        ({"R": {"not PSD": np.ones((6, 6)) * 2 - np.eye(6)}}, sp.CorrelationError),
        ({"covariance": {"a": np.ones(7)}}, sp.ShapeError),
        ({"d": [30, 40], "direction": np.ones(40)}, sp.ShapeError),
        ({"weights": {}}, sp.WeightsError),
        ({"weights": np.full(6, 1 / 6)}, sp.WeightsError),
        ({"weights": {"w": "median"}}, sp.InvalidInputError),
        ({"weights": {"w": np.full(6, 0.5)}}, sp.WeightsError),
        ({"weights": {"": "mean"}}, sp.WeightsError),
        ({"trials": -1}, sp.SizeError),
        ({"trials": 1.5}, sp.SizeError),
        ({"seed": -1}, sp.SizeError),
        ({"seed": None}, sp.SizeError),
        ({"k": 41}, sp.SizeError),
        ({"k": 0}, sp.SizeError),
        ({"exact": "yes"}, sp.InvalidInputError),
        ({"workers": -1}, sp.SizeError),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, sp.InvalidInputError),
        ({"scheduler": 8786}, sp.InvalidInputError),
        ({"store": "s3://bucket/a.zarr"}, sp.InvalidInputError),
    ],
)
def test_bad_input_is_refused(tmp_path, fields, error):
    arguments = {"weights": {"w": np.full(6, 1 / 6)}, "trials": 2} | fields
    with pytest.raises(error):
        sp.sweep(small_model(), **({"store": tmp_path / "a.zarr"} | arguments))
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_needed():
    with pytest.raises(sp.InvalidInputError, match="SequenceModel"):
        sp.sweep({"d": 3}, weights=["mean"])
    with pytest.raises(sp.InvalidInputError, match="SweepSpec"):
        sp.sweeps.run("spec.toml")


@pytest.mark.parametrize("module", ["zarr", "xarray"])
def test_a_missing_dependency_is_named_before_any_work(tmp_path, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(sp.MissingDependencyError, match=rf"'{module}'.*\.\[sweeps\]"):
        sp.sweep(small_model(), ["mean"], store=tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_differences_are_named():
    old = spec_to_dict(problem())
    assert differences(old, spec_to_dict(problem())) == []
    assert differences(old, spec_to_dict(problem(trials=7))) == ["trials: 40 in the store, 7 asked for"]
    other = json.loads(json.dumps(old))
    other["axes"]["mu"][1] = 1.5
    other["model"]["noise"] = "laplace"
    del other["weights"]["causal"]
    other["weights"]["best"] = "optimal"
    text = "\n".join(differences(old, other))
    assert 'model.noise: "gaussian" in the store, "laplace" asked for' in text
    assert "axes.mu: [0.5, 1.0, 2.0] in the store, [0.5, 1.5, 2.0] asked for" in text
    assert "weights.causal: [" in text
    assert 'weights.best: absent from the store, "optimal" asked for' in text
    swapped = old | {"axes": dict(reversed(old["axes"].items()))}
    assert "axes: order" in differences(old, swapped)[0]


def test_the_example_file_says_what_it_says():
    spec = load_spec(EXAMPLE)
    model = sp.SequenceModel(d=200, V=320, N=200, R=sp.prefix_correlation(10, 3), mu=0.2)
    weights = {"mean": "mean", "causal": "causal", "optimal": "optimal"}
    same = SweepSpec(model, weights, {"N": [200, 400], "mu": np.linspace(0.2, 2.4, 12)}, trials=20, seed=0)
    assert spec_to_dict(spec) == spec_to_dict(same)


def test_toml_with_everything(tmp_path):
    path = tmp_path / "all.toml"
    path.write_text("""
        trials = 3
        seed = 7
        k = 1
        exact = true
        [model]
        d = 20
        V = 30
        N = 40
        table = "class_centered"
        centered = false
        [weights]
        "my own" = [0.25, 0.25, 0.5]
        [sweep]
        latent = ["signs", "gaussian"]
        mu = [1, 2.5]
        [sweep.R]
        free = { kind = "identity", T = 3 }
        chain = { kind = "markov", T = 3, rho = 0.5 }
        equal = { kind = "equicorrelation", T = 3, rho = 0.25 }
        spiked = { kind = "spiked", T = 3, strength = 2.0, support = [0, 2], normalize = true }
        given = [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """)
    spec = load_spec(path)
    assert (spec.trials, spec.seed, spec.k, spec.exact) == (3, 7, 1, True)
    assert (spec.model.table, spec.model.centered) == ("class_centered", False)
    np.testing.assert_array_equal(spec.weights["my own"], [0.25, 0.25, 0.5])
    assert list(spec.axes) == ["latent", "mu", "R"]
    np.testing.assert_array_equal(spec.axes["R"]["chain"], sp.markov_correlation(3, 0.5))
    np.testing.assert_array_equal(spec.axes["R"]["given"][0], [1.0, 0.5, 0.0])
    expected = sp.spiked_correlation(3, 2.0, [0, 2], normalize=True)
    np.testing.assert_array_equal(spec.axes["R"]["spiked"], expected)


BODY = """
[model]
d = 20
V = 30
N = 40
mu = 1.0
R = { kind = "prefix", T = 4, L = 2 }
[weights]
mean = "mean"
"""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("trials = ", "not valid TOML"),
        ("[model]\nd = 3", "weights"),
        ("color = 3" + BODY, "color"),
        (BODY.replace("N = 40", "M = 40"), "'M'"),
        (BODY.replace("mu = 1.0", ""), "'mu'"),
        (BODY.replace("prefix", "suffix"), "suffix"),
        (BODY.replace("L = 2", "rho = 2"), "rho"),
        (BODY.replace("L = 2", "L = 9"), "L must be at most"),
        (BODY.replace('mean = "mean"', 'mean = "median"'), "median"),
        (BODY + "[sweep]\nmu = [1.0]", "both"),
        (BODY + "[sweep]\nnoise_df = { start = 5, stop = 6 }", "count"),
        (BODY + "[sweep]\nnoise_df = { start = 5, stop = 6, num = 3 }", "num"),
        (BODY + "[sweep]\nnoise_df = []", "noise_df"),
        (BODY.replace("R =", "# R =") + "[sweep]\nR = [[1.0]]", "table"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, named):
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with pytest.raises(sp.InvalidInputError, match=named):
        load_spec(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(sp.InvalidInputError, match=r"none\.toml"):
        load_spec(tmp_path / "none.toml")


@pytest.mark.parametrize("store", [3, b"x", [1]])
def test_a_store_that_is_not_a_path_is_named(store):
    model = sp.SequenceModel(5, 10, 10, np.eye(2), 1.0)
    with pytest.raises(sp.InvalidInputError, match="path"):
        sp.sweep(model, weights={"mean": [0.5, 0.5]}, mu=[1.0], trials=1, store=store)


def test_a_file_is_of_moderate_size(tmp_path):
    with pytest.raises(sp.InvalidInputError, match="regular file"):
        load_spec("/dev/zero")
    path = tmp_path / "s.toml"
    path.write_text(BODY.replace("mu = 1.0", "") + "[sweep]\nmu = { start = 0, stop = 1, count = 100000000 }")
    with pytest.raises(sp.InvalidInputError, match="more than a million points"):
        load_spec(path)
