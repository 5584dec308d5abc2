"""The package as installed: lazy, typed, consistent."""

import copy
import importlib.metadata
import inspect
import pickle
import subprocess
import sys

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
    with pytest.raises(sp.MissingDependencyError, match=r"spikepool\[plot\]"):
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


@pytest.mark.parametrize(("old", "new"), sp._RENAMED.items())
def test_former_names_work_and_say_the_new_one(old, new):
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(sp, old) is getattr(sp, new)
