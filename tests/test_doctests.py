"""Every example in a docstring prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import spikepool

MODULES = [module.name for module in pkgutil.walk_packages(spikepool.__path__, "spikepool.")]


def examples():
    """Modules with examples, by name; those whose extra is not installed are left out."""
    for name in MODULES:
        if name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(name)
        except (ImportError, spikepool.SpikepoolError):
            continue
        for found in doctest.DocTestFinder(exclude_empty=True).find(module, name):
            if found.examples:
                yield pytest.param(found, id=found.name)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("example", examples())
def test_an_example_prints_what_it_says(example, capsys):
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(example)
    assert result.failed == 0, capsys.readouterr().out
