"""Sweeps: predictions and simulations over any model fields and weights, in memory or in a store that can be resumed.

>>> ds = sweep(model, weights={"mean": w0, "causal": w}, mu=[0.5, 1.0, 1.5], trials=20, seed=0,
...            store="runs/a.zarr")                                                  # doctest: +SKIP
>>> ds.predicted_alignment.sel(weights="causal"), ds.alignment_mean, ds.alignment_se   # doctest: +SKIP

See :func:`sweep` for the variables, :func:`load_spec` for sweeps written in TOML.
"""

from spikepool.sweeps.runner import open_sweep, run, sweep
from spikepool.sweeps.spec import SweepSpec
from spikepool.sweeps.specfile import load_spec

__all__ = ["SweepSpec", "load_spec", "open_sweep", "run", "sweep"]
