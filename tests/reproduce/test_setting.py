"""Vectorised theory of the figures is the model's own prediction."""

import numpy as np
import pytest

pytest.importorskip("xarray")

import spikepool as sp
from spikepool.reproduce.base import Sizes, prefix_model, spiked_model, weights_for
from spikepool.theory.closed_form import centred_alignment, signal_threshold


@pytest.mark.parametrize("make", [prefix_model, spiked_model])
@pytest.mark.parametrize("table", ["sampled", "class_centered"])
def test_curves_equal_predictions(make, table):
    model = make(Sizes.scaled(2), table=table)
    mu = np.linspace(0, 3, 13)
    for w in weights_for(model.R).values():
        alpha, kappa = sp.gains(w, model.R)
        means = model.class_mean_power > 0
        curve = centred_alignment(mu, alpha / kappa, model.delta, model.gamma, class_means=means)
        predicted = [model.replace(mu=float(m)).predict(w) for m in mu]
        assert curve == pytest.approx([p.alignment for p in predicted], abs=1e-12)
        threshold = signal_threshold(alpha / kappa, model.delta, model.gamma, class_means=means)
        assert threshold == pytest.approx(predicted[0].mu_sample, abs=1e-12)


def test_the_sign_pattern_gives_what_the_caption_of_the_paper_says():
    """Optimal weights reach 1 + strength = 11; mean and causal are nearly equal."""
    R = spiked_model(Sizes.scaled(2)).R
    ratio = {name: np.divide(*sp.gains(w, R)) for name, w in weights_for(R).items()}
    assert ratio["optimal"] == pytest.approx(11)
    assert ratio["mean"] == pytest.approx(1.1)
    assert abs(ratio["causal"] / ratio["mean"] - 1) < 0.1


def test_sizes_keep_the_aspect_ratios():
    assert Sizes.scaled() == Sizes(500, 800, 1000)
    assert Sizes.scaled(2) == Sizes(250, 400, 500)
