"""Results of public calls, kept: a reorganisation may not change them."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("recorded_cases", HERE / "cases.py")
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)
# Other processors and BLAS builds round differently in the last digits; products of a table that is never drawn follow
# one another, each drawn around the last, and carry that difference along.
TOLERANCE = {"simulations": 1e-9}
KEPT = json.loads((HERE / "numbers.json").read_text(encoding="utf-8"))


def leaves(value, path=""):
    """Every number or string of a nested value with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KEPT))
def test_result_is_the_kept_one(name):
    if name == "sweeps":
        pytest.importorskip("xarray", reason="sweeps need the extra spikepool[sweeps]")
    found = dict(leaves(json.loads(json.dumps(cases.CASES[name]()))))
    kept = dict(leaves(KEPT[name]))
    assert set(found) >= set(kept)
    for place, value in kept.items():
        if isinstance(value, (str, bool)) or value is None:
            assert found[place] == value, place
        else:
            assert found[place] == pytest.approx(value, rel=TOLERANCE.get(name, 1e-11), abs=1e-12), place
    assert np.isfinite([v for v in kept.values() if isinstance(v, (int, float)) and v < np.inf]).all()
