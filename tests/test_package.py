"""The package as installed: lazy, typed, consistent."""

import copy
import importlib.metadata
import inspect
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import spikepool as sp
from spikepool import errors


def test_import_loads_nothing_heavy():
    code = "import sys, spikepool; print(' '.join(sorted(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"scipy", "sklearn", "matplotlib", "xarray", "dask", "zarr", "dash", "pandas", "typer", "numpy"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize("name", sp.__all__)
def test_every_public_name_resolves(name):
    value = getattr(sp, name)
    assert value is not None
    assert name == "__version__" or value.__doc__


def test_version_is_the_packages():
    assert sp.__version__ == importlib.metadata.version("spikepool")


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = sp.nonsense
    assert "SequenceModel" in dir(sp)
    assert {"rank_weights", "VocabularyRange", "WeightsError", "recovery_token_weights"} <= set(dir(sp))
    assert all(hasattr(sp, name) for name in dir(sp))


def test_missing_extra_is_named(monkeypatch):
    from spikepool.errors import require

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(sp.MissingDependencyError, match=r"'\.\[plot\]'"):
        require("matplotlib", "plot")


def test_error_messages_have_problem_value_and_remedy():
    error = sp.DomainError("ratio must be at least 0", -1.0, "Pass a non-negative number")
    assert str(error) == "ratio must be at least 0 (got -1.0). Pass a non-negative number."


def test_the_public_names_are_few_and_the_others_stay_reachable():
    assert len(sp.__all__) <= 62
    assert sp.TableFormatError is errors.TableFormatError
    assert sp.HeadMix.__name__ == "HeadMix"


def test_details_of_an_error_are_declared():
    error = sp.UnreachableError("the problem", limit=0.5)
    assert error.limit == 0.5
    assert sp.ConvergenceError("the problem").point is None
    with pytest.raises(TypeError, match="UnreachableError has no limits"):
        sp.UnreachableError("the problem", limits=0.5)


@pytest.mark.parametrize("name", [name for name in vars(errors) if name.endswith("Error")])
def test_errors_cross_processes_unchanged(name):
    kind = getattr(sp, name)
    named = list(inspect.get_annotations(kind))
    error = kind("the problem", 3, "Do this", **dict.fromkeys(named, 0.5))
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert str(other) == str(error) == "the problem (got 3). Do this."
        assert vars(other) == vars(error) == dict.fromkeys(named, 0.5)


def test_a_clause_that_ends_with_is_takes_the_value_and_arrays_show_their_shape():
    assert str(errors.SpikepoolError("the sum is", 2.0, "Divide by it")) == "the sum is 2.0. Divide by it."
    assert str(errors.SpikepoolError("one class", np.int64(3))) == "one class (got 3)."
    assert str(errors.SpikepoolError("which column?", remedy="Name it")) == "which column? Name it."
    assert str(errors.SpikepoolError("tokens", np.zeros((2, 3, 4)))) == "tokens (got an array of shape (2, 3, 4))."


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sp.SequenceModel(d=5, V=8, N=10, R=10, mu=1.0), "prefix_correlation"),
        (lambda: sp.optimal_weights(10), "prefix_correlation"),
        (lambda: sp.optimal_weights("prefix"), "prefix_correlation"),
        (lambda: sp.optimal_weights([np.eye(3)]), "sweep(R=spikepool.prefix_correlation"),
        (lambda: sp.SequenceModel(d=5, V=8, N=10, R=np.eye(2), Mu=1.0), "SequenceModel.__init__()"),
        (lambda: sp.ClassModel(D=5), "ClassModel.__init__()"),
        (lambda: sp.QueryModel(d=5, Mu=1.0), "QueryModel.__init__()"),
        (lambda: sp.SequenceModel(d=5, V=8, N=10, R=np.eye(2), mu=1.0).replace(Mu=1), "Write mu"),
        (lambda: sp.QueryModel(d=5, N=8, T=4, L=1, mu=1.0, nu=1.0).replace(size=1), "Choose among d, "),
        (lambda: sp.pool, "SpectralPooling"),
        (lambda: sp.Diagnose, "Did you mean diagnose?"),
    ],
)
def test_likely_mistakes_are_answered_with_what_to_write(call, words):
    with pytest.raises((ValueError, AttributeError, TypeError), match=re.escape(words)):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X: sp.diagnose(X), "pool them first"),
        (lambda X: sp.forecast(X, np.arange(12) % 2), "pool them first"),
        (lambda X: sp.LearnedPoolingClassifier().fit(X.transpose(1, 0, 2), np.arange(12) % 2), "12 labels for 4 rows"),
        (lambda X: sp.LearnedPoolingClassifier().fit(X, np.linspace(0, 1, 12)), "LearnedPoolingRegressor"),
        (lambda X: sp.load("no such folder"), "no saved model"),
    ],
)
def test_likely_mistakes_with_data_are_answered_with_what_to_do(call, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        call(np.random.default_rng(0).standard_normal((12, 4, 3)))
