import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import spikepool as sp

# for the helper module beside the tests
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


@pytest.fixture(scope="module")
def digits_forecast(digits):
    X, y = digits
    return sp.forecast(X[:200], y[:200], n=[100, 200, 400, 800], target=0.92)
