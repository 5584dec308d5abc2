import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits():
    """Images of digits as sequences of 8 rows of 8 pixels: (tokens, labels)."""
    X, y = load_digits(return_X_y=True)
    return X[:400].reshape(-1, 8, 8).astype(np.float32), y[:400]
