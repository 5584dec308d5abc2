"""SpectralPooling on 1,000,000 sequences of 64 token ids with a 128,000 x 512 table: time and peak memory.

    python benchmarks/pooling_scale.py            # the full size
    python benchmarks/pooling_scale.py --rows 20000 --check   # small, and compared with the dense array

Memory is the peak resident size of this process, which holds the ids (32-bit) and the table (32-bit) as well.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

import spikepool as sp

RESULTS = Path(__file__).parent / "results" / "pooling_scale.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--check", action="store_true", help="compare with the dense array (small sizes)")
    arguments = parser.parse_args()
    n, T, V, d, mu = arguments.rows, 64, 128_000, 512, 1.0
    rng = np.random.default_rng(0)
    table = rng.standard_normal((V, d), dtype=np.float32)
    table[0::2, 0] += mu
    table[1::2, 0] -= mu
    signs = rng.integers(0, 2, size=(n, T), dtype=np.int32)
    signs[:, :8] = signs[:, :1]  # eight positions share a class
    ids = 2 * rng.integers(0, V // 2, size=(n, T), dtype=np.int32) + signs
    del signs
    start = time.perf_counter()
    pooling = sp.SpectralPooling(table=table, progress=True).fit(ids)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    alpha, kappa = sp.alpha_kappa(pooling.weights_, sp.prefix_correlation(T, 8))
    print(pooling.summary())
    print(f"fit {seconds:.0f} s, peak memory {peak:.2f} GB, alpha/kappa {alpha / kappa:.3f} of {8.0} at best")
    if arguments.check:
        dense = sp.SpectralPooling().fit(table[ids])
        np.testing.assert_allclose(dense.weights_, pooling.weights_, atol=1e-10)
        np.testing.assert_allclose(dense.correlation_, pooling.correlation_, atol=1e-10)
        print("equal to the dense array to 1e-10")
    if n == 1_000_000:
        assert peak < 4.0, f"peak memory {peak:.2f} GB"
        RESULTS.parent.mkdir(exist_ok=True)
        record = {"rows": n, "T": T, "V": V, "d": d, "seconds": seconds, "peak_gb": peak, "ratio": alpha / kappa}
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
