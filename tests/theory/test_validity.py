"""Results outside the range of their theory report it, in the object and in print; those inside do not."""

from __future__ import annotations

import numpy as np
import pytest

import spikepool as sp
from spikepool.theory.mixing import mixing_share
from spikepool.world.frequencies import zipf_frequencies

R = sp.prefix_correlation(T=10, L=3)
MEAN = sp.mean_weights(10)


def model(mu, **changes):
    return sp.SequenceModel(**{"d": 500, "V": 800, "N": 1000, "R": R, "mu": mu, **changes})


def test_closed_form_of_spread_out_weights_away_from_the_threshold_is_sound():
    for w, mu in ((MEAN, 1.6), (MEAN, 0.3), (sp.causal_weights(10), 1.5), (sp.optimal_weights(R), 2.5)):
        p = model(mu).predict(w)
        assert p.validity.ok
        assert p.validity
        assert str(p.validity) == "within its range"
        assert "caution" not in str(p)


def test_closed_form_of_one_token_is_an_approximation_except_far_above_the_threshold():
    single = model(1.0, V=900, N=400, R=np.eye(1))
    single = single.replace(mu=1.2 * single.predict([1.0]).mu_sample)
    p = single.predict([1.0])
    assert not p.validity
    assert "1 effective" in str(p.validity)
    assert "exact=True" in str(p)
    assert p.to_dict()["validity"] == {"ok": False, "reasons": list(p.validity.reasons), "error": p.validity.error}
    assert 0.0125 < p.validity.error < 0.1
    assert "Caution" in p._repr_html_()
    assert single.replace(mu=4.0).predict([1.0]).validity.ok
    assert not single.predict([1.0], exact=True, rng=0).validity.reasons or all(
        "closed form" not in reason for reason in single.predict([1.0], exact=True, rng=0).validity.reasons
    )


def test_closed_form_of_signed_weights_with_few_effective_tokens():
    w = np.array([2.0, -1.0] + [0.0] * 8)
    above = 1.2 * model(0.5).predict(w).mu_sample
    assert any("0.2 effective" in reason for reason in model(above).predict(w).validity.reasons)


@pytest.mark.parametrize("exact", [False, True])
def test_next_to_the_threshold(exact):
    threshold = model(1.0).predict(MEAN, exact=exact, rng=0).mu_sample
    at = model(1.02 * threshold).predict(MEAN, exact=exact, rng=0)
    assert any("threshold" in reason for reason in at.validity.reasons)
    # given the tokens, those that are frequent in this draw take their share as well
    crossover = abs(at.finite_size_alignment - at.alignment)
    assert at.validity.error == pytest.approx(crossover, rel=1e-12) or (
        exact and 0.7 < at.validity.error / crossover < 1
    )
    away = model(1.8 * threshold).predict(MEAN, exact=exact, rng=0)
    assert not any("threshold" in reason for reason in away.validity.reasons)


def test_outliers_that_mix_and_small_sizes():
    tied = model(1.0, d=300, V=200, N=600, centered=False)
    alpha, _ = tied.gains(MEAN)
    tied = tied.replace(mu=float(np.sqrt(1.15 * tied.delta / alpha - tied.delta)))  # the vocabulary mean is as strong
    reasons = tied.predict(MEAN, exact=True, rng=0).validity.reasons
    assert any("that they mix" in reason and reason.error > 0.0125 for reason in reasons)
    # frequent tokens that mix with each other do not concern the top eigenvector
    heavy = model(1.6, d=300, V=480, N=600, frequencies=zipf_frequencies(480, 1.0)).predict(MEAN, exact=True, rng=0)
    assert len(heavy.outliers) > 10
    assert heavy.validity.ok
    assert any("small for a limit" in reason for reason in model(1.5, d=20, V=40, N=50).predict(MEAN).validity.reasons)


def test_fluctuations_next_to_a_threshold_say_so():
    """At .85 with a threshold of .79 the deviation of the alignment is predicted more than twice too large."""
    near = model(0.85, d=300, V=480, N=600)
    assert 0.78 < near.predict(MEAN).mu_sample < 0.80
    found = near.fluctuations(MEAN)
    assert not found.validity
    simulated = near.simulate(MEAN, trials=40, k=1, rng=0).alignment.std(ddof=1)
    assert found.alignment_std > 1.5 * simulated
    assert found.to_dict()["validity"]["ok"] is False
    assert near.replace(mu=1.6).fluctuations(MEAN).validity.ok


def test_closed_ridge_of_one_token_or_signed_weights_says_so():
    from spikepool.theory.ridge import ridge_prediction

    one = model(1.0, R=np.eye(1), d=150, V=300, N=300)
    assert not ridge_prediction(one, [1.0]).validity
    signed = np.full(10, 0.15)
    signed[9] = -0.35
    assert not ridge_prediction(model(1.0), signed).validity
    assert ridge_prediction(model(1.0), MEAN).validity
    assert ridge_prediction(one, [1.0], exact=True).validity


@pytest.mark.parametrize("command", [["predict"], ["simulate", "--trials", "2"]])
def test_command_line_prints_it(command, capsys):
    pytest.importorskip("typer")
    from spikepool.cli import main

    size = ["--d", "100", "--V", "180", "--N", "80", "--T", "1", "--mu", "1.7", "--weights", "mean"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, *size])
    assert stopped.value.code in (0, None)
    assert "caution: the closed form" in " ".join(capsys.readouterr().out.split())


def test_mixing_with_the_mean_is_predicted():
    """Uncentred, 15 % above the tie of signal and vocabulary mean: a tenth of the alignment is lost to the mean."""
    base = model(1.0, d=300, V=200, N=600, centered=False)
    alpha, _ = base.gains(MEAN)
    near = base.replace(mu=float(np.sqrt(1.15 * base.delta / alpha - base.delta)))
    found = near.predict(MEAN)
    drawn = near.simulate(MEAN, trials=60, k=2, rng=0).alignments
    gap = found.outliers[0].eigenvalue - found.outliers[1].eigenvalue
    share = mixing_share(gap, found.eigenvalue, near.d, near.N)
    seen = drawn[:, 1] / drawn.sum(axis=1)
    assert share == pytest.approx(seen.mean(), abs=4 * seen.std() / np.sqrt(60))
    assert any("mix" in reason for reason in found.validity.reasons)
    assert any("mix" in reason for reason in near.fluctuations(MEAN).validity.reasons)
    assert near.replace(mu=2 * near.mu).predict(MEAN).validity.ok


def test_classes_that_are_hardly_seen_and_small_tables_say_so():
    shares, means = [0.899, 0.1, 0.001], np.array([[0.0, 1.5, 0.0], [0.0, 0.0, 2.0]])
    rare = sp.ClassModel(d=60, V=100, N=200, R=sp.markov_correlation(10, 0.5), means=means, shares=shares)
    found = rare.predict(MEAN)
    assert any("class 2 occurs in" in reason for reason in found.validity.reasons)
    drawn = rare.simulate(MEAN, trials=10, rng=0).eigenvalues
    assert len(found.outliers) < 2  # the class of one token makes no second outlier
    assert drawn[:, 1].mean() < found.edge
    small = sp.ClassModel(d=12, V=100, N=200, R=sp.markov_correlation(10, 0.5), means=np.eye(5))
    assert any("d = 12" in reason for reason in small.predict(MEAN).validity.reasons)
    assert small.predict(MEAN).to_dict()["validity"]["ok"] is False


@pytest.mark.parametrize(("tie", "kind"), [(0.7, "mean"), (1.4, "signal")])
def test_mixing_given_the_tokens_has_the_sign_and_size_of_draws(tie, kind):
    """The signal loses to the vocabulary mean where it leads, and the mean gains of it where that leads."""
    w = np.full(20, 0.05)
    base = sp.SequenceModel(
        d=100, V=200, N=600, R=sp.prefix_correlation(T=20, L=10), mu=1.0, table="sampled", centered=False
    )
    near = base.replace(mu=float(np.sqrt(tie * base.delta / base.gains(w)[0] - base.delta)))
    found = [near.predict(w, exact=True, rng=i) for i in range(6)]
    assert all(p.outliers[0].kind == kind for p in found)
    limit = np.mean([p.alignment for p in found])
    expected = limit + (1 if kind == "mean" else -1) * np.mean([p.validity.error for p in found])
    seen = near.simulate(w, trials=200, k=1, rng=1).alignment
    off = seen.mean() - limit
    assert abs(seen.mean() - expected) < 3 * seen.std() / np.sqrt(200) + 0.35 * abs(off)
    assert abs(off) > 0.02
