from __future__ import annotations

import sys
from pathlib import Path

import pytest

# for the helper module beside the tests, which is also run as a separate driver process
sys.path.insert(0, str(Path(__file__).parent))

from sweep_problem import problem

from spikepool.sweeps import run


@pytest.fixture(scope="session")
def reference():
    """The dataset of an uninterrupted run in this process."""
    return run(problem(), workers=0)
