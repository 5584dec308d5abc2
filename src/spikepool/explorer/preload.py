"""Slow imports, done once in the process that worker processes are copied from."""

import contextlib
import importlib

for _name in (
    "numpy",
    "scipy.sparse.linalg",
    "scipy.optimize",
    "threadpoolctl",
    "spikepool.model",
    "spikepool.simulation.simulate",
    "spikepool.explorer.simulate",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
):
    # a worker that needs what cannot be imported will report it itself
    with contextlib.suppress(Exception):
        importlib.import_module(_name)
