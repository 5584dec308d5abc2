"""What the explorer says of a state: every verdict names what is there, and nothing that is not."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.explorer.theory import solve_query
from spikepool.explorer.verdict import at_threshold, captions, verdict

BASE = "d=500&V=8000&N=1000&T=20&corr=prefix&L=4"
SMALL = "d=500&V=800&N=1000&T=10&corr=prefix&L=3&w=mean"


@pytest.mark.parametrize("w", ["mean", "causal", "optimal"])
def test_at_the_threshold_is_a_verdict_of_its_own(w):
    threshold = solve_query(f"{BASE}&mu=1&w={w}").prediction.mu_sample
    for factor, near in ((0.8, False), (0.97, True), (1.0, True), (1.03, True), (1.25, False)):
        panels = solve_query(f"{BASE}&mu={factor * threshold}&w={w}")
        assert (at_threshold(panels) is not None) is near
        said = verdict(panels)
        assert said.headline.startswith("At the threshold") is near
        if not near:
            assert said.headline.startswith("Detectable" if factor > 1 else "Not detectable")
    # the page that is opened with mean pooling: its alignment of .01 is not a detection
    assert "At the threshold" in verdict(solve_query("w=mean")).headline


@pytest.mark.slow
def test_draws_at_the_threshold_scatter_and_draws_beyond_it_do_not():
    """Where the page says 'at the threshold', single draws scatter by a third of their mean or more."""
    panels = solve_query("d=120&V=600&N=240&T=8&corr=prefix&L=3&mu=1&w=mean&table=class_centered")
    model, w, threshold = panels.model, panels.weights["mean"], panels.prediction.mu_sample
    at = {
        factor: model.replace(mu=threshold * factor).simulate(w, trials=40, rng=3).alignment for factor in (1.05, 1.6)
    }
    assert at[1.05].std() > at[1.05].mean() / 3
    assert at[1.05].min() < 0.1 < at[1.05].max()
    assert at[1.6].std() < at[1.6].mean() / 5


@pytest.mark.parametrize(
    ("query", "flagged"),
    [("T=1&L=1&mu=1.1", True), ("T=2&L=2&mu=1.1", True), ("T=6&L=3&w=mean&mu=1.2", False), ("", False)],
)
def test_few_effective_tokens_are_flagged(query, flagged):
    panels = solve_query(query)
    caution = verdict(panels).caution
    assert bool(caution) is flagged
    if flagged:
        assert "exact=True" in caution
        assert f"{1 / panels.prediction.kappa:.3g} effective" in caution
        assert any(reason in caution[0].lower() + caution[1:] for reason in panels.prediction.validity.reasons)


@pytest.mark.parametrize(
    "query", ["d=30&V=400&N=400", "w=mean", "T=1&L=1", "d=300&V=600&N=600&T=10&L=3&mu=1.5&centered=0"]
)
def test_every_reason_of_the_prediction_is_on_the_page_once(query):
    panels = solve_query(query)
    said = verdict(panels)
    text = " ".join((said.headline, *said.details, said.caution)).lower()
    for reason in panels.prediction.validity.reasons:
        assert text.count(reason.lower()) == 1


def test_the_flag_is_deserved_and_not_given_for_nothing():
    """The closed form against the prediction given the tokens, at 1.3 times the threshold."""
    off = {}
    for T in (1, 8):
        R = sp.prefix_correlation(T, min(T, 4))
        w = sp.mean_weights(T)
        model = sp.SequenceModel(d=400, V=900, N=400, R=R, mu=1.0)
        model = model.replace(mu=max(1.3 * model.predict(w).mu_sample, 0.4))
        given = [model.predict(w, exact=True, rng=seed).alignment for seed in range(6)]
        off[T] = abs(model.predict(w).alignment - np.mean(given))
    assert off[1] > 0.05 > 0.02 > off[8]


@pytest.mark.parametrize(
    ("query", "kinds", "words"),
    [
        (f"{BASE}&mu=1&w=mean", {"signal"}, "the line to the right of its edge is the signal"),
        (f"{BASE}&mu=0.1&w=mean", set(), "Nothing stands out"),
        (f"{SMALL}&mu=0.2&centered=0", {"mean"}, "the signal itself does not stand out"),
        (f"{SMALL}&mu=1.6&centered=0", {"mean", "signal"}, "grey line: the vocabulary's average"),
    ],
)  # fmt: skip
def test_the_spectrum_s_caption_names_the_lines_that_are_drawn(query, kinds, words):
    panels = solve_query(query)
    assert {outlier.kind for outlier in panels.prediction.outliers} == kinds
    said = captions(panels, None)[0]
    assert words in said
    assert ("Nothing stands out" in said) is (not kinds)
