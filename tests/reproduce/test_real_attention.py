"""Figure 12 is drawn from a recorded measurement: what is recorded is complete and what is drawn is recorded."""

import numpy as np
import pytest

pytest.importorskip("xarray")
pytest.importorskip("matplotlib")

from spikepool.reproduce import FIGURES, Settings
from spikepool.reproduce.fig12_real_attention import recorded


def test_the_record_is_complete_and_says_where_it_comes_from():
    record = recorded()
    assert "benchmarks/studies/attention_heads.py" in record["command"]
    assert record["measured"]
    for case in record["cases"].values():
        for block in case["blocks"]:
            for rows in block["rows"].values():
                assert len(rows["gain"]) == len(rows["ratio"]) == len(rows["kappa"]) == case["heads"]
                kappa = np.array(rows["kappa"])
                assert (kappa <= 1 + 1e-6).all()  # weights of unit sum
                assert (kappa >= 1 / 32).all()
                # a head chosen on other folds is no better than the best of all, up to rounding
                assert rows["chosen"][0] <= max(gain for gain, _ in rows["gain"]) + 1e-4


def test_every_head_is_drawn():
    spec = FIGURES[12]
    dataset = spec.compute(Settings())
    figure = spec.picture(dataset)
    drawn = sum(
        np.isfinite(line.get_ydata()).sum() for ax in figure.axes for line in ax.lines if line.get_marker() == "."
    )
    assert drawn == 2 * np.isfinite(dataset["gain"].values).sum()  # above by layer, below by alpha/kappa
