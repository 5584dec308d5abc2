"""Sweeps: predictions and simulations over any model fields and weights, in a store that survives anything.

>>> ds = sweep(model, weights={"mean": w0, "causal": w}, mu=[0.5, 1.0, 1.5], trials=20, seed=0,
...            store="runs/a.zarr")                                                  # doctest: +SKIP
>>> ds.predicted_alignment.sel(weights="causal"), ds.alignment_mean, ds.alignment_se   # doctest: +SKIP

See :func:`sweep` for the variables, :func:`load_spec` for sweeps written in TOML.
"""

from spikepool.sweeps.dataset import open_results
from spikepool.sweeps.runner import run, sweep
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.specfile import load_spec

# the name on the package: `spikepool.open_sweep`
open_sweep = open_results

__all__ = ["SweepSpec", "load_spec", "open_results", "open_sweep", "run", "sweep"]
