"""Write the baselines of the figures anew, from the data sets of a report: look at its pictures first.

Run: spikepool reproduce --out reports && python tests/recorded/write_drawn.py reports
"""

import sys
from pathlib import Path

import xarray as xr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from drawn import signature, store
from spikepool.reproduce import FIGURES

if __name__ == "__main__":
    found = {}
    for spec in FIGURES.values():
        file = Path(sys.argv[1]) / "data" / f"figure-{spec.number:02d}-{spec.name}.nc"
        with xr.open_dataset(file, engine="scipy") as ds:
            found[spec.name] = signature(spec.picture(ds.load()))
    store(found)
