"""Outliers of isotropic noise: eigenvalues that were selected, and the errors of alignments with known gains."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.trust.bulk_fit import fit_bulk
from spikepool.trust.isotropic import explain, unselected


def test_far_from_the_cut_nothing_was_selected():
    assert unselected(20.0, 1.0, 1.0) == pytest.approx(20.0, abs=1e-6)
    assert unselected(20.0, 1.0, 1.0, 0.05) == pytest.approx(20.0 - 1.6449, abs=1e-3)
    assert unselected(20.0, 1.0, 1.0, 0.95) == pytest.approx(20.0 + 1.6449, abs=1e-3)


def test_next_to_the_cut_an_eigenvalue_is_mostly_luck():
    assert unselected(1.01, 1.0, 1.0) < 0
    values = [unselected(v, 1.0, 1.0) for v in (1.2, 1.5, 2.0, 3.0, 5.0)]
    assert np.all(np.diff(values) > 0)
    assert all(m < v for m, v in zip(values, (1.2, 1.5, 2.0, 3.0, 5.0), strict=True))


@pytest.mark.parametrize("mean", [0.0, 1.0, 2.5])
def test_among_the_selected_half_of_the_estimates_are_too_high(mean):
    rng = np.random.default_rng(0)
    draws = mean + rng.standard_normal(6000)
    chosen = draws[draws > 1.0][:400]
    estimates = np.array([unselected(float(v), 1.0, 1.0) for v in chosen])
    low = np.array([unselected(float(v), 1.0, 1.0, 0.05) for v in chosen])
    high = np.array([unselected(float(v), 1.0, 1.0, 0.95) for v in chosen])
    # 400 draws: a share of one half scatters by .025, one of .9 by .015
    assert abs(np.mean(estimates > mean) - 0.5) < 0.1
    assert abs(np.mean((low < mean) & (mean < high)) - 0.9) < 0.06


def outlier(value, alpha=None):
    law = sp.FreeProductLaw(0.625, 0.5, 0.1)
    bulk = np.asarray(law.ppf((np.arange(299) + 0.5) / 299))[::-1]
    fit = fit_bulk(np.concatenate([[value], bulk]), 0.5, 0.625)
    assert fit.n_outliers == 1
    return explain(value, fit, 300, 0.8, None if alpha is None else alpha * fit.law.scale / 0.1)


def test_known_gains_lower_the_alignment_and_widen_its_error():
    alone, known = outlier(1.2), outlier(1.2, alpha=0.25)
    assert known.alignment < alone.alignment
    assert known.alignment_standard_error > alone.alignment_standard_error
    assert known.interval[0] < known.alignment < known.interval[1]
    assert known.strength == alone.strength


def test_an_interval_begins_at_zero_next_to_the_edge():
    law = sp.FreeProductLaw(0.625, 0.5, 0.1)
    bulk = fit_bulk(np.asarray(law.ppf((np.arange(300) + 0.5) / 300))[::-1], 0.5, 0.625)
    near, far = outlier(bulk.edge + 1.4 * bulk.margin), outlier(1.5)
    assert near.interval[0] == 0.0
    assert near.alignment < near.interval[1] < 0.8
    assert far.interval[0] > 0.5
