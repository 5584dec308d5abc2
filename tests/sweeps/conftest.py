from __future__ import annotations

import pytest
from sweep_problem import problem

from spikepool.sweeps import run


@pytest.fixture(scope="session")
def reference():
    """The dataset of an uninterrupted run in this process."""
    return run(problem(), workers=0)
