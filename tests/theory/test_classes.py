"""K classes: reduction to two classes, symmetries, a Gaussian oracle for the strengths, samplers, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spikepool as sp
from spikepool.model import ClassModel
from spikepool.world.class_tables import class_sampler

R = sp.prefix_correlation(10, 4)
MEANS = np.array([[2.0, -1.0, -1.0, 0.5], [0.0, 1.5, -1.5, 0.0], [0.3, 0.0, 0.0, 1.5]])
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize("table", ["sampled", "class_centered"])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_two_balanced_classes_are_the_sequence_model(table, centered, mu):
    w = sp.causal_weights(10)
    two = ClassModel(500, 800, 1000, R, [[mu, -mu]], table=table, centered=centered).predict(w)
    one = sp.SequenceModel(500, 800, 1000, R, mu, table=table, centered=centered).predict(w)
    assert (two.alpha, two.kappa, two.edge) == pytest.approx((one.alpha, one.kappa, one.edge), rel=1e-12)
    assert len(two.outliers) == len(one.outliers)
    for a, b in zip(two.outliers, one.outliers, strict=True):
        assert a.eigenvalue == pytest.approx(b.eigenvalue, rel=1e-10)
        assert a.alignment == pytest.approx(b.alignment, rel=1e-10, abs=1e-12)
        assert a.population_eigenvalue == pytest.approx(b.population_eigenvalue, rel=1e-10)
        assert a.population_alignment == pytest.approx(b.population_alignment, rel=1e-10, abs=1e-12)
    assert two.alignment == pytest.approx(one.alignment, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("centered", [True, False])
def test_strengths_are_the_eigenvalues_of_the_low_rank_part(centered):
    """A table of huge d, drawn: (M + Z̄) Gamma (M + Z̄)' has the predicted non-zero eigenvalues."""
    d, V = 40_000, 64_000
    model = ClassModel(d, V, 2 * d, R, MEANS, SHARES, centered=centered)
    w = sp.mean_weights(10)
    rng = np.random.default_rng(0)
    B = rng.standard_normal((d, 4)) / np.sqrt(V * SHARES)
    B[:3] += MEANS
    gamma = model.class_covariance(w) + (0 if centered else np.outer(SHARES, SHARES))
    values = np.sort(np.linalg.eigvals(gamma @ B.T @ B).real)[::-1]
    predicted = model.predict(w).strengths
    assert predicted == pytest.approx(values[: len(predicted)], rel=0.03)


def test_class_covariance_is_that_of_drawn_classes():
    model = ClassModel(50, 80, 100, sp.markov_correlation(6, 0.5), MEANS, SHARES)
    w = sp.causal_weights(6)
    classes = class_sampler(model.R, SHARES)(200_000, rng=0)
    weight = np.stack([(classes == k) @ w for k in range(4)])
    assert np.cov(weight) == pytest.approx(model.class_covariance(w), abs=0.002)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_symmetries(seed):
    """Rotating, translating (when centred) and relabelling classes changes nothing; overlaps add up."""
    rng = np.random.default_rng(seed)
    w = rng.dirichlet(np.ones(10))
    base = ClassModel(300, 480, 600, R, MEANS, SHARES).predict(w)
    rotation, _ = np.linalg.qr(rng.standard_normal((5, 3)))
    order = rng.permutation(4)
    moved = rotation @ MEANS[:, order] + rng.standard_normal((5, 1))
    other = ClassModel(300, 480, 600, R, moved, SHARES[order]).predict(w)
    assert other.strengths == pytest.approx(base.strengths, rel=1e-8)
    assert [o.eigenvalue for o in other.outliers] == pytest.approx([o.eigenvalue for o in base.outliers], rel=1e-8)
    assert [o.alignment for o in other.outliers] == pytest.approx([o.alignment for o in base.outliers], rel=1e-8)
    for outlier in base.outliers:
        assert sum(outlier.overlaps) == pytest.approx(outlier.alignment, rel=1e-10)
        assert 0 <= outlier.alignment <= outlier.population_alignment <= 1
        assert outlier.eigenvalue > max(base.edge, outlier.population_eigenvalue)


def test_classes_of_equal_mean_merge_when_the_table_is_class_centred():
    w = sp.causal_weights(10)
    three = ClassModel(300, 480, 600, R, [[2.0, -1.0, -1.0]], [0.4, 0.35, 0.25], table="class_centered").predict(w)
    two = ClassModel(300, 480, 600, R, [[2.0, -1.0]], [0.4, 0.6], table="class_centered").predict(w)
    assert three.strengths[0] == pytest.approx(two.strengths[0], rel=1e-12)
    assert three.strengths[1] == pytest.approx(0, abs=1e-12)
    assert three.outliers[0].alignment == pytest.approx(two.outliers[0].alignment, rel=1e-12)


def test_no_class_difference_is_not_detectable_in_a_class_centred_table():
    found = ClassModel(300, 480, 600, R, np.zeros((2, 3)), table="class_centered").predict(sp.mean_weights(10))
    assert not found.detectable
    assert found.alignment == 0
    assert found.outliers == ()


def test_given_class_covariance_replaces_the_default():
    model = ClassModel(300, 480, 600, R, MEANS, SHARES)
    w = sp.mean_weights(10)
    same = model.predict(w, class_covariance=model.class_covariance(w))
    assert same.strengths == pytest.approx(model.predict(w).strengths)
    more = model.predict(w, class_covariance=2 * model.class_covariance(w))
    assert more.strengths == pytest.approx(2 * np.array(same.strengths))


@pytest.mark.parametrize("V", [4, 5, 10, 97, 1000])
def test_class_sizes_add_up(V):
    sizes = ClassModel(3, V, 5, np.eye(2), np.zeros((1, 4)), SHARES).class_sizes()
    assert sizes.sum() == V
    assert sizes.min() >= 1
    assert np.abs(sizes - V * SHARES).max() <= (1 if V >= 20 else 2)


@pytest.mark.parametrize(
    "matrix",
    [
        sp.prefix_correlation(5, 3),
        sp.markov_correlation(5, 0.7),
        sp.equicorrelation(5, 0.4),
        np.eye(5),
        np.ones((5, 5)),
    ],
    ids=["prefix", "chain", "common", "independent", "equal"],
)
def test_sampled_classes_have_the_stated_pair_probabilities(matrix):
    n = 100_000
    classes = class_sampler(matrix, SHARES)(n, rng=3)
    indicator = classes[:, :, None] == np.arange(4)
    for t in range(5):
        for s in range(t):
            joint = np.einsum("nk,nl->kl", indicator[:, t].astype(float), indicator[:, s].astype(float)) / n
            expected = matrix[t, s] * np.diag(SHARES) + (1 - matrix[t, s]) * np.outer(SHARES, SHARES)
            assert np.abs(joint - expected).max() < 5 * 0.5 / np.sqrt(n)


def test_unknown_class_dependence_is_refused():
    matrix = np.array([[1, 0.5, 0.1], [0.5, 1, 0.4], [0.1, 0.4, 1.0]])
    with pytest.raises(sp.NotRealizableError):
        class_sampler(matrix, SHARES)


@pytest.mark.parametrize("shares", [[-1.0, 2.0], [0.0, 0.0]])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(sp.DomainError):
        class_sampler(np.eye(2), shares)


def test_simulation_is_reproducible_and_shaped():
    model = ClassModel(30, 48, 60, R, MEANS, SHARES)
    w = sp.mean_weights(10)
    first, second = model.simulate(w, trials=2, rng=5), model.simulate(w, trials=2, rng=5)
    assert np.array_equal(first.eigenvalues, second.eigenvalues)
    assert first.eigenvalues.shape == first.alignments.shape == (2, 4)
    assert first.overlaps.shape == (2, 4, 3)
    assert np.all(np.diff(first.eigenvalues, axis=1) <= 0)


BAD = {
    "one class": {"means": [[1.0]]},
    "too many rows": {"means": np.ones((11, 2))},
    "nan mean": {"means": [[np.nan, 1.0]]},
    "shares sum": {"shares": [0.4, 0.4]},
    "negative share": {"shares": [1.4, -0.4]},
    "share count": {"shares": [0.2, 0.3, 0.5]},
    "negative R": {"R": sp.markov_correlation(3, -0.5)},
    "no unit diagonal": {"R": 2 * np.eye(3)},
    "tiny vocabulary": {"V": 1},
    "table": {"table": "other"},
    "centered": {"centered": 1},
    "d": {"d": 0},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
def test_bad_models_are_refused(changes):
    arguments = {"d": 10, "V": 16, "N": 20, "R": np.eye(3), "means": [[1.0, -1.0]], **changes}
    with pytest.raises(sp.InvalidInputError):
        ClassModel(**arguments)


def test_bad_requests_are_refused():
    model = ClassModel(10, 16, 20, np.eye(3), [[1.0, -1.0]])
    with pytest.raises(sp.MemoryBudgetError, match="GiB"):
        sp.ClassModel(10**6, 10**7, 10, np.eye(2), np.eye(3)).simulate([0.5, 0.5], trials=1, table_drawn=True)
    with pytest.raises(sp.WeightsError):
        model.predict([0.5, 0.5])
    with pytest.raises(sp.WeightsError):
        model.simulate([0.5, 0.5, 0.5])
    with pytest.raises(sp.ShapeError):
        model.predict([1.0, 0, 0], class_covariance=np.eye(3))
    with pytest.raises(sp.DomainError):
        model.simulate([1.0, 0, 0], k=11)


def test_equal_spikes_are_named():
    means = 2.0 * np.eye(3)
    model = sp.ClassModel(120, 600, 300, np.eye(10) * 0.6 + 0.4, means, np.full(3, 1 / 3))
    prediction = model.predict(sp.mean_weights(10))
    first, second = prediction.outliers[:2]
    assert first.eigenvalue == pytest.approx(second.eigenvalue, rel=1e-6)
    assert any("repel" in reason for reason in prediction.validity.reasons)
    drawn = model.simulate(sp.mean_weights(10), trials=8, k=2, rng=0).eigenvalues.mean(axis=0)
    assert drawn[0] > 1.02 * first.eigenvalue
    assert drawn[1] < 0.98 * first.eigenvalue
