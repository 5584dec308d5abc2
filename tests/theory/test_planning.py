"""Planning answers are the exact boundary: they reach the target, and one step less does not."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spikepool as sp
from spikepool.theory.planning import top_alignment

R = sp.prefix_correlation(T=10, L=3)
MEAN, CAUSAL, OPTIMAL = sp.mean_weights(10), sp.causal_weights(10), sp.optimal_weights(R)


def model(**changes):
    return sp.SequenceModel(**{"d": 500, "V": 800, "N": 1000, "R": R, "mu": 2.5, **changes})


@settings(max_examples=60)
@given(
    target=st.floats(0.01, 0.8),
    mu=st.floats(1.5, 10),
    table=st.sampled_from(["sampled", "class_centered"]),
    weights=st.sampled_from(["mean", "causal", "optimal"]),
)
def test_required_samples_is_the_smallest(target, mu, table, weights):
    w = {"mean": MEAN, "causal": CAUSAL, "optimal": OPTIMAL}[weights]
    m = model(mu=mu, table=table)
    if m.replace(N=10**15).predict(w).alignment <= target:
        with pytest.raises(sp.UnreachableError) as caught:
            m.required_samples(w, alignment=target)
        assert caught.value.limit <= target
        return
    N = m.required_samples(w, alignment=target)
    assert isinstance(N, int)
    assert m.replace(N=N).predict(w).alignment >= target
    if N > 2:  # one centred sequence is zero
        assert m.replace(N=N - 1).predict(w).alignment < target


@pytest.mark.parametrize("target", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("centered", [True, False])
def test_required_mu_is_the_smallest(target, centered):
    m = model(centered=centered)
    mu = m.required_mu(MEAN, alignment=target)
    assert m.replace(mu=mu).predict(MEAN).alignment >= target
    assert m.replace(mu=mu * (1 - 1e-9)).predict(MEAN).alignment < target


def test_required_vocabulary_may_be_two_sided():
    m = model(mu=0.4)
    found = m.required_vocabulary(OPTIMAL, alignment=0.05)
    assert math.isfinite(found.maximum)
    inside = [found.minimum, int(found.maximum), 500]
    outside = [found.minimum - 2, int(found.maximum) + 2]
    assert all(m.replace(V=V).predict(OPTIMAL).alignment >= 0.05 for V in inside)
    assert all(m.replace(V=V).predict(OPTIMAL).alignment < 0.05 for V in outside)


def test_required_vocabulary_is_one_sided_for_class_centred_tables():
    m = model(table="class_centered")
    found = m.required_vocabulary(MEAN, alignment=0.7)
    assert found.maximum == math.inf
    assert m.replace(V=found.minimum).predict(MEAN).alignment >= 0.7
    assert m.replace(V=found.minimum - 2).predict(MEAN).alignment < 0.7


def test_unreachable_targets_say_how_far_one_can_get():
    with pytest.raises(sp.UnreachableError) as caught:
        model(mu=0.5).required_samples(MEAN, alignment=0.9)
    assert caught.value.limit < 0.9
    with pytest.raises(sp.UnreachableError):
        model(mu=0.1).required_vocabulary(MEAN, alignment=0.9)
    with pytest.raises(sp.UnreachableError, match="centered=True"):
        model(mu=1.0, centered=False).required_samples(MEAN, alignment=0.2)


@pytest.mark.parametrize("target", [0.0, 1.0, -1.0, 1.5, np.nan, "high"])
def test_bad_targets_are_named(target):
    for ask in (model().required_samples, model().required_mu, model().required_vocabulary):
        with pytest.raises(sp.InvalidInputError):
            ask(MEAN, alignment=target)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize(
    ("table", "latent"), [("sampled", "signs"), ("class_centered", "signs"), ("sampled", "gaussian")]
)
def test_alignments_over_many_vocabularies_are_the_predictions(table, latent, centered):
    m = model(mu=0.9, table=table, latent=latent, centered=centered)
    sizes = np.array([2, 10, 60, 200, 800, 5000, 10**6, 2**53])
    p = m.predict(OPTIMAL)
    together = top_alignment(m, p.alpha, p.kappa, delta=m.d / sizes)
    one_by_one = [m.replace(V=int(V)).predict(OPTIMAL).alignment for V in sizes]
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12, atol=0)
    assert 0 < max(one_by_one) < 1


@pytest.mark.parametrize("ask", ["required_samples", "required_mu", "required_vocabulary"])
def test_a_plan_proves_nothing_again(monkeypatch, ask):
    m = model(mu=2.0)
    proofs = []
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda *a, **k: proofs.append(a))
    getattr(m, ask)(OPTIMAL, alignment=0.05)
    assert proofs == []


def test_required_vocabulary_needs_the_closed_form():
    m = model(frequencies=np.arange(1, 801))
    with pytest.raises(sp.InvalidInputError, match="exact=True"):
        m.required_vocabulary(MEAN, alignment=0.5)


def test_requirements_carry_the_validity_of_their_prediction():
    strong = model(mu=10.0)
    few = strong.required_samples(MEAN, alignment=0.5)
    assert few >= 2
    assert any("N = " in reason for reason in few.validity.reasons)
    # the limit promises .5 from so few sequences; a draw does not reach it
    assert strong.replace(N=int(few)).simulate(MEAN, trials=40, k=1, rng=0).alignment.mean() < 0.48
    assert model(mu=1.6).required_samples(MEAN, alignment=0.6).validity.ok
    assert model().required_mu(MEAN, alignment=0.6).validity.ok
    assert not strong.required_vocabulary(MEAN, alignment=0.5).validity.ok
