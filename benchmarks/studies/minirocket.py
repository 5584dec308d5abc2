"""MiniRocket with ridge on the sets of time series of `choose.py`, on the same splits.

    pip install aeon                                  # MiniRocket and the series; not a dependency of spikepool
    python benchmarks/studies/minirocket.py           # a few minutes on one core

The kernels (Dempster, Schmidt and Webb 2021) see the series itself, every value once, and not the tokens that it is cut
into. Series of unequal length end with zeros. Ridge takes its penalty from leave-one-out on standardised features.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from choose import splits
from corpora import DELAY, SERIES, WINDOWS, Sequences, series

RESULTS = Path(__file__).parents[1] / "results" / "minirocket.json"


def values(data: Sequences) -> np.ndarray:
    """The series (cases, channels, steps) behind the tokens."""
    X = np.asarray(data.X)
    n, T, d = X.shape
    if data.name == "ElectricDevices":  # tokens are DELAY successive values, one step apart
        return np.concatenate([X[:, :, 0], X[:, -1, 1:DELAY]], axis=1)[:, None, :]
    width = WINDOWS.get(data.name.split()[0], 1)
    return X.reshape(n, T * width, d // width).transpose(0, 2, 1)


def measure(name: str) -> dict:
    """Accuracy over the test rows of both splits of three quarters of the rows."""
    from aeon.transformations.collection.convolution_based import MiniRocket

    data = series(name)
    X, y, hits = values(data).astype(np.float32), data.labels, []
    start = time.process_time()
    for train, test in splits(data, 0, 0):
        kernels = MiniRocket(random_state=0)
        features = kernels.fit_transform(X[train])
        ridge = make_pipeline(StandardScaler(with_mean=False), RidgeClassifierCV(np.logspace(-3, 3, 10)))
        ridge.fit(features, y[train])
        hits.append(ridge.predict(kernels.transform(X[test])) == y[test])
    seconds = (time.process_time() - start) / len(hits)
    return {"set": name, "accuracy": round(float(np.concatenate(hits).mean()), 4), "seconds": round(seconds, 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="sets whose name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    try:
        import aeon  # noqa: F401
    except ImportError:
        raise SystemExit("needs aeon: pip install aeon") from None
    records = []
    for name in SERIES:
        if options.only in name:
            records.append(measure(name))
            print(records[-1], flush=True)
    if not options.only:
        options.out.write_text(json.dumps(records, indent=1) + "\n")
