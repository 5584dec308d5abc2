"""Curves against the number of rows: crossing, interpolation, the end of a finite collection, beyond what is drawn."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.trust import effort
from spikepool.trust.draws import Draw, share_of_loss
from spikepool.trust.planning import Curve, required_rows, with_collection

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.trust.diagnosis.UncenteredWarning")

D = 40
TAU = 10 / np.arange(1.0, D + 1) ** 1.2
KS = (1, 2, 5, 10, 20)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, D)) * np.sqrt(TAU) * np.sqrt(rng.gamma(2.5, 0.4, size=n))[:, None]


def components(x):
    return np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2].T


def overlaps(u, v):
    return np.array([np.linalg.norm(u[:, :k].T @ v[:, :k]) ** 2 / k for k in KS])


@pytest.fixture(scope="module")
def pair():
    """The same rows as a sample of a population, and as a part of a collection of 1,000."""
    x = rows(400)
    return sp.diagnose(x, target=0.9), sp.diagnose(x, target=0.9, population_size=1000)


def test_required_rows_cross_the_band():
    n = np.array([100, 200, 400, 800])
    o = np.array([[0.6], [0.75], [0.86], [0.93]])
    made = Curve(n, o, o - 0.05, np.minimum(o + 0.05, 1))
    (low, high) = required_rows(made, np.array([10]), 0.8)[0]
    assert made.at(low)[2][0] == pytest.approx(0.8, abs=0.01)
    assert made.at(high)[1][0] == pytest.approx(0.8, abs=0.01)
    assert required_rows(made, np.array([2]), 0.8) == [None]  # hangs on single gaps
    assert required_rows(made, np.array([10]), 0.99) == [None]  # beyond the curve


def test_a_loss_of_one_over_n_is_interpolated_exactly():
    n = np.array([100, 800])
    o = 1 - 30 / n[:, None]
    made = Curve(n, o, o, o)
    assert made.at(283)[0][0] == pytest.approx(1 - 30 / 283, rel=1e-12)
    assert required_rows(made, np.array([10]), 0.9)[0] == (300, 300)


def test_a_part_agrees_with_its_collection_more_than_with_the_population():
    """Loss of first order in 1/n − 1/M, drawn: rows of a collection against all of it, and against the axes."""
    with_all, with_axes = [], []
    for seed in range(40):
        collection = rows(1000, seed)
        u = components(collection[:400])
        with_all.append(1 - overlaps(u, components(collection)))
        with_axes.append(1 - overlaps(u, np.eye(D)))
    ratio = np.mean(with_all, axis=0) / np.mean(with_axes, axis=0)
    # .6 to first order; the mean loss of 40 draws is known to about a tenth at k >= 5
    assert ratio[2:] == pytest.approx(np.full(3, 0.6), abs=0.13)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "M"), [(300, 60, 800), (150, 200, 500)])
def test_share_of_the_loss_is_that_of_rows_of_a_collection(n, d, M):
    """Where losses are large more of them is kept than 1 − n/M; by rows, with more and fewer rows than dimensions."""
    root, ks = np.arange(1.0, d + 1) ** -0.3, np.array([5, 20])
    losses = []
    for seed in range(60):
        x = np.random.default_rng(seed).standard_normal((M, d)) * root
        u, v = components(x[:n]), components(x)
        losses.append([[1 - np.linalg.norm(u[:, :k].T @ w[:, :k]) ** 2 / k for k in ks] for w in (v, np.eye(d))])
    true = np.divide(*np.mean(losses, axis=0))
    rng = np.random.default_rng(0)
    parts = [Draw(np.ones(M), n, d, rng) for _ in range(60)]
    share, scatter = share_of_loss(np.ones(M), root**2, n, M, ks, parts, rng)
    assert share == pytest.approx(true, abs=0.04)  # a ratio of means of 60 draws each, known to .01 or .02
    assert (true > 1 - n / M + 0.05).all()
    # standard deviations of 60 draws each are known to a tenth; where they are equal their difference is noise
    spread = np.log(losses).std(axis=0, ddof=1)
    assert np.hypot(scatter, spread[1]) == pytest.approx(np.maximum(*spread), rel=0.4)


@pytest.mark.slow
def test_intervals_of_a_large_part_of_a_collection_hold():
    """Nine rows in ten of 1,000: the loss that is left hangs on one gap; coverage at k = 20 was below one half."""
    inside = []
    for seed in range(6):
        rng = np.random.default_rng([3, seed])
        collection = rng.standard_normal((1000, 80)) * np.arange(1.0, 81) ** -0.35
        x = collection[rng.permutation(1000)[:900]]
        u, v = components(x), components(collection)
        for span in sp.diagnose(x, population_size=1000).spans:
            if span.k in (10, 20):
                overlap = np.linalg.norm(u[:, : span.k].T @ v[:, : span.k]) ** 2 / span.k
                inside.append(span.interval[0] <= overlap <= span.interval[1])
    assert np.mean(inside) >= 0.8


@pytest.mark.slow
def test_population_size_moves_every_number_of_a_span_by_one_factor(pair):
    population, collection = pair
    for one, other in zip(population.spans, collection.spans, strict=True):
        kept = (1 - other.overlap) / (1 - one.overlap)
        assert 0.6 - 1e-9 <= kept < 0.85
        # the loss scatters more than that against the population, never less
        low, high = (1 - kept * (1 - end) for end in one.interval)
        assert other.interval[0] <= low + 1e-9
        assert other.interval[1] >= high - 1e-9
    assert "collection of 1,000 rows" in str(collection)
    assert collection.to_dict()["population_size"] == 1000


def test_the_curve_of_a_collection_ends_at_the_whole(pair):
    population, collection = pair
    curve = collection.curve
    assert curve.rows[-1] == 1000
    assert curve.overlap[-1] == pytest.approx(np.ones(len(KS)))
    assert np.all(np.diff(curve.overlap, axis=0) >= -1e-12)
    here = {span.k: span.overlap for span in collection.expected_spans(400)}
    assert here == pytest.approx({span.k: span.overlap for span in collection.spans}, abs=1e-9)
    half = np.array([span.overlap for span in collection.expected_spans(500)])
    without = np.array([span.overlap for span in population.expected_spans(500)])
    assert np.all(half > without)
    assert np.all(half <= with_collection(without, 0.5) + 0.02)
    with pytest.raises(sp.DomainError, match="between"):
        collection.expected_spans(1001)
    for one, other in zip(population.spans, collection.spans, strict=True):
        if one.required_samples is not None and other.required_samples is not None:
            assert other.required_samples[1] <= one.required_samples[1]


def test_the_whole_collection_agrees_with_itself():
    report = sp.diagnose(rows(300), population_size=300)
    assert [span.overlap for span in report.spans] == pytest.approx([1.0] * len(KS))
    assert report.spans[-1].required_samples is not None


@pytest.mark.parametrize("size", [399, 0, 2.5, "many"])
def test_bad_population_sizes_are_named(size):
    with pytest.raises(sp.SpikepoolError, match="population_size"):
        sp.diagnose(rows(400), population_size=size)


def test_the_least_effort_plans_as_far(monkeypatch):
    """Beyond four times the rows nothing is drawn, and the loss falls as 1/n."""
    monkeypatch.setattr(effort, "LARGE_SIDE", 20)
    least = sp.diagnose(rows(400), target=0.9)
    assert least.curve.rows[-1] == 32 * 400
    four, thirty_two = (np.array([1 - s.overlap for s in least.expected_spans(m)]) for m in (1600, 12_800))
    assert thirty_two == pytest.approx(four / 8, rel=1e-6)


@pytest.mark.slow
def test_fewer_rows_than_dimensions():
    """200 rows of 450 dimensions, held against the axes."""
    rng = np.random.default_rng(3)
    root = np.sqrt(20 / np.arange(1.0, 451) ** 1.1)
    x = rng.standard_normal((200, 450)) * root * np.sqrt(rng.gamma(2.5, 0.4, size=(200, 1)))
    report = sp.diagnose(x, target=0.9)
    assert report.verdict == "coloured"
    assert [span.k for span in report.spans] == [1, 2, 5, 10, 20, 50]
    u = components(x)
    for span in report.spans[2:]:
        true = float(np.sum(u[: span.k, : span.k] ** 2) / span.k)
        assert span.overlap == pytest.approx(true, abs=0.12)
    assert len(report.eigenvalues) == 450
    assert np.count_nonzero(report.eigenvalues) == 199
