"""Coloured features: spans against a population that is known, what is corrected, flagged and refused."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.kit.progress import heard_by
from spikepool.trust.draws import Draw
from spikepool.trust.effort import FITTED, FULL, effort
from spikepool.trust.memory_rows import lone_variances
from spikepool.trust.population import population_spectrum
from spikepool.trust.sample import effective_rows, group_likeness, span_sizes
from spikepool.trust.spans import have_order, steady_spans

pytestmark = pytest.mark.filterwarnings("ignore::spikepool.trust.diagnosis.UncenteredWarning")

D = 60
TAU = 10 / np.arange(1.0, D + 1) ** 1.2
KS = (1, 2, 5, 10, 20)


def rows(n, seed=0, variance=0.4, d=D):
    """Heavy-tailed rows of a power-law spectrum; the population's components are the axes."""
    rng = np.random.default_rng(seed)
    s = rng.gamma(1 / variance, variance, size=n)
    return rng.standard_normal((n, d)) * np.sqrt(TAU[:d]) * np.sqrt(s)[:, None]


def true_overlaps(x):
    u = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2].T
    return np.array([np.sum(u[:k, :k] ** 2) / k for k in KS])


@pytest.fixture(scope="module")
def found():
    return sp.diagnose(rows(400), target=0.9, random_state=0)


def test_fields_are_those_of_the_contract(found):
    assert found.verdict == "coloured"
    assert tuple(span.k for span in found.spans) == KS
    for span in found.spans:
        low, high = span.interval
        assert 0 <= low <= span.overlap <= high <= 1
        if span.required_samples is not None:
            assert span.k >= 5
            assert 0 < span.required_samples[0] <= span.required_samples[1]
    assert found.spans[0].required_samples is None
    assert any(span.required_samples for span in found.spans)
    for component in found.components:
        assert component.interval[0] <= component.alignment <= component.interval[1]
        assert not component.resolved or component.interval[1] - component.interval[0] <= 0.5
    observed, simulated, ok = found.self_check
    assert ok
    assert abs(observed - simulated) < 0.05
    assert found.warnings == ()
    assert found.outliers == ()  # an isotropic reading is disowned
    assert found.noise_variance is None


@pytest.mark.slow
def test_overlaps_are_those_of_the_population():
    errors, inside, resampled = [], [], []
    for seed in range(8):
        x = rows(300, seed)
        found = sp.diagnose(x, random_state=seed)
        truth = true_overlaps(x)
        assert found.verdict == "coloured"
        errors.append([span.overlap for span in found.spans] - truth)
        inside.append([span.interval[0] <= t <= span.interval[1] for span, t in zip(found.spans, truth, strict=True)])
        u = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2].T
        rng = np.random.default_rng(seed)
        again = []
        for _ in range(5):
            y = x[rng.integers(0, len(x), len(x))]
            v = np.linalg.svd(y - y.mean(axis=0), full_matrices=False)[2].T
            again.append([np.sum((u[:, :k].T @ v[:, :k]) ** 2) / k for k in KS])
        resampled.append(np.mean(again, axis=0) - truth)
    errors, resampled = np.array(errors), np.array(resampled)
    steady = steady_spans(np.array(KS))
    # single errors are about .03; their mean over draws and spans is far below
    assert np.abs(errors[:, steady]).mean() < 0.035
    assert np.abs(errors[:, steady].mean()) < 0.02
    assert np.mean(inside) > 0.8
    assert np.abs(errors[:, steady]).mean() <= np.abs(resampled[:, steady]).mean()


def test_planning_is_what_more_rows_bring(found):
    ahead = found.expected_spans(1600)
    truth = np.mean([true_overlaps(rows(1600, 100 + seed)) for seed in range(6)], axis=0)
    assert np.abs([span.overlap for span in ahead] - truth)[2:].mean() < 0.04
    fewer = found.expected_spans(100)
    for less, now, more in zip(fewer, found.spans, ahead, strict=True):
        assert less.overlap <= now.overlap + 1e-12 <= more.overlap + 2e-12
    with pytest.raises(sp.DomainError, match="between"):
        found.expected_spans(10**6)


@pytest.mark.slow
def test_same_seed_same_numbers_and_any_orientation(found):
    again = sp.diagnose(rows(400), target=0.9, random_state=0)
    assert again.to_dict() == found.to_dict()
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((D, D)))[0]
    turned = sp.diagnose(3.0 * rows(400) @ rotation, target=0.9, random_state=0)
    for one, other in zip(turned.spans, found.spans, strict=True):
        assert one.overlap == pytest.approx(other.overlap, abs=1e-6)
        assert one.interval == pytest.approx(other.interval, abs=1e-6)


@pytest.mark.slow
def test_exact_copies_count_once():
    x = rows(250)
    plain = sp.diagnose(x, random_state=0)
    tripled = sp.diagnose(np.tile(x, (3, 1))[np.random.default_rng(0).permutation(750)], random_state=0)
    assert tripled.n_effective == 250
    assert [w.kind for w in tripled.warnings] == ["duplicates"]
    for one, other in zip(tripled.spans, plain.spans, strict=True):
        # other random numbers: agreement within the noise of the draws
        assert one.overlap == pytest.approx(other.overlap, abs=0.05)


@pytest.mark.slow
def test_near_copies_order_and_dominating_rows_are_flagged():
    rng = np.random.default_rng(0)
    x = rows(600)
    near = np.tile(x[:200], (3, 1)) + 0.02 * rng.standard_normal((600, D)) * np.sqrt(TAU)
    assert "near-duplicates" in [w.kind for w in sp.diagnose(near[rng.permutation(600)]).warnings]
    series = x.copy()
    for i in range(1, len(series)):
        series[i] = 0.8 * series[i - 1] + 0.6 * x[i]
    warned = sp.diagnose(series)
    assert "order" in [w.kind for w in warned.warnings]
    assert "groups=" in " ".join(warned.warnings)
    large = x.copy()
    large[[5, 50, 500]] *= 30
    report = sp.diagnose(large)
    (caution,) = [w for w in report.warnings if w.kind == "dominating rows"]
    assert all(str(i) in caution for i in (5, 50, 500))
    assert sp.diagnose(x).warnings == ()


@pytest.mark.slow
def test_groups_count_for_fewer_rows():
    rng = np.random.default_rng(3)
    centres, group = rows(150, 7), np.repeat(np.arange(150), 4)
    x = np.sqrt(0.9) * centres[group] + np.sqrt(0.1) * rows(600, 8)
    order = rng.permutation(600)
    found = sp.diagnose(x[order], groups=group[order], random_state=0)
    assert 150 <= found.n_effective < 220
    naive = sp.diagnose(x[order], random_state=0)
    truth = true_overlaps(x)
    steady = slice(2, None)
    error = np.abs([s.overlap for s in found.spans] - truth)[steady].mean()
    assert error < 0.06
    assert error < np.abs([s.overlap for s in naive.spans] - truth)[steady].mean()


def test_effective_rows_between_groups_and_rows():
    sizes = np.full(50, 4)
    assert effective_rows(sizes, 0.0) == 200
    assert effective_rows(sizes, 1.0) == 50
    y = np.random.default_rng(0).standard_normal((50, 30))
    # four equal rows a group: sums are 4 y
    assert group_likeness(4 * y, 4 * float((y**2).sum()), sizes) == pytest.approx(1.0)
    assert group_likeness(y, float((y**2).sum()), np.ones(50, dtype=int)) == 0.0


@pytest.mark.slow
def test_what_the_halves_do_not_bear_out_is_refused():
    # a flat top: the first fifty components have no order, whatever the sample says
    tau = np.where(np.arange(200) < 100, 8.0, 0.05)
    report = sp.diagnose(np.random.default_rng(0).standard_normal((800, 200)) * np.sqrt(tau))
    assert report.verdict == "poor fit"
    assert report.spans is None
    assert report.components == ()
    assert report.outliers == ()
    assert not report.self_check.ok
    assert "alignment" not in str(report)
    with pytest.raises(sp.InvalidInputError, match="coloured"):
        report.expected_spans(1000)


def test_printed_in_a_few_lines(found):
    lines = str(found).splitlines()
    assert 6 <= len(lines) <= 12
    assert lines[0].startswith("coloured: 400 rows of dimension 60")
    assert "population" in lines[1]
    assert any("self-check" in line for line in lines)
    table = found._repr_html_()
    assert "<table" in table
    assert "top 20" in table
    values = found.to_dict()
    assert values["verdict"] == "coloured"
    assert len(values["spans"]) == len(KS)
    assert set(values["self_check"]) == {"observed", "simulated", "ok"}


def test_components_without_a_gap_are_unresolved():
    rng = np.random.default_rng(0)
    tau = np.concatenate([[9.0, 9.0, 2.0], TAU[3:] / 3])
    report = sp.diagnose(rng.standard_normal((400, D)) * np.sqrt(tau) * rng.gamma(3.0, size=(400, 1)))
    assert [c.resolved for c in report.components[:2]] == [False, False]
    assert "1 to 2 unresolved" in str(report)
    assert report.spans[1].k == 2
    assert report.spans[1].interval[0] > 0.8  # the two together are known


def test_span_sizes_stay_within_rows_and_dimensions():
    assert list(span_sizes(1000, 384)) == [1, 2, 5, 10, 20, 50]
    assert list(span_sizes(1000, 40)) == [1, 2, 5, 10, 20]
    assert list(span_sizes(24, 384)) == [1, 2, 5]
    assert list(span_sizes(5, 5)) == [1]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"groups": [1, 2]}, sp.ShapeError),
        ({"groups": np.zeros(400)}, sp.InvalidInputError),
        ({"groups": np.full(400, np.nan)}, sp.InvalidInputError),
        ({"random_state": "seed"}, sp.InvalidInputError),
        ({"target": 0}, sp.DomainError),
    ],
)
def test_bad_options_are_named(options, error):
    with pytest.raises(error):
        sp.diagnose(rows(400), **options)


def test_halves_of_a_flat_spectrum_have_no_order():
    ks = np.array([1, 2, 5, 10, 20, 50])
    assert not have_order(ks / 100, ks, 100)  # the halves of one hundred equal eigenvalues agree as k/100
    assert have_order(np.array([0.1, 0.15, 0.2, 0.25, 0.32, 0.4]), ks, 100)
    assert not have_order(np.full(6, 0.1), ks, 100)
    assert have_order(np.array([0.9, 0.5]), np.array([1, 2]), 8)


def test_progress_is_told_and_refused_by_name():
    heard = []
    with heard_by(lambda text, share: heard.append((text, share))):
        sp.diagnose(rows(200), random_state=0)
    shares = [share for text, share in heard if text == "simulating"]
    assert len(shares) >= 2
    assert shares == sorted(shares)
    assert 0.9 <= shares[-1] <= 1
    with pytest.raises(sp.InvalidInputError, match="progress"):
        sp.diagnose(rows(200), progress="yes")


def test_a_flat_part_of_a_spectrum_is_fitted_as_flat():
    """Sample eigenvalues of equal variances spread by a factor of seven; what is fitted to them hardly does."""
    rng = np.random.default_rng(0)
    n, d = 400, 100
    assert effort(n, d).fitted
    assert not effort(n - 201, d).fitted
    # more repetitions where one is quick, and no more than before where it is not
    assert effort(400, 50).draws == 6 * FITTED.draws
    assert effort(1400, 600).draws == FITTED.draws
    values = np.linalg.eigvalsh(np.cov(rng.standard_normal((n, d)).T))[::-1]

    def spread(work):
        draws = [Draw(np.ones(n), n, d, rng) for _ in range(work.round_draws)]
        return float(np.log(population_spectrum(values, n, draws, work.rounds, work.fitted)).std())

    sample = float(np.log(values).std())
    assert sample > 0.5
    assert spread(FITTED) < 0.2 * sample
    assert spread(FITTED) < 0.6 * spread(FULL)


@pytest.mark.slow
def test_spans_that_end_in_a_flat_part_are_not_flattered():
    """Twelve directions over counts that are otherwise alike: of the top fifty most are any fifty of the rest."""
    rng = np.random.default_rng(1)
    d, found, true = 100, [], []
    sigma = np.diag(np.concatenate([np.linspace(7, 2, 12), np.ones(d - 12)]))
    for _ in range(4):
        x = rng.standard_normal((400, d)) @ np.sqrt(sigma) * np.sqrt(rng.chisquare(30, 400) / 30)[:, None]
        report = sp.diagnose(x)
        if report.spans is None or report.spans[-1].k != 50:
            continue
        u = np.linalg.eigh(np.cov(x.T))[1][:, ::-1][:, :50]
        found.append(report.spans[-1].overlap)
        true.append((u[:50] ** 2).sum() / 50)
    assert len(found) >= 2
    assert np.mean(found) - np.mean(true) < 0.1


def test_columns_that_one_row_determines():
    x = np.zeros((9, 5))
    x[:, 0] = np.arange(9)  # every row
    x[2, 1], x[3, 1] = 4.0, 1.0  # mostly the third row
    x[2, 2] = 2.0
    x[5, 3] = 1.0
    x[:, 4] = np.r_[100.0, np.arange(8)]  # an outlier, but not a rarely set column
    centred = x - x.mean(axis=0)
    squares = (centred**2).sum(axis=0)
    assert lone_variances(centred, np.arange(9)) == pytest.approx([squares[1] + squares[2], squares[3]])
    twice = np.repeat(centred, 2, axis=0)
    assert lone_variances(twice, np.repeat(np.arange(9), 2)) == pytest.approx(
        [2 * (squares[1] + squares[2]), 2 * squares[3]]
    )


@pytest.mark.slow
def test_columns_that_are_rarely_set_may_be_unseen():
    """Thirty columns that one row in 200 sets: those that no row sets belong to the leading components as well."""
    values = np.concatenate([1 / np.arange(1.0, 41), np.linspace(0.31, 0.29, 30)])
    order, inside = np.argsort(values)[::-1], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rare = (rng.random((200, 30)) < 0.005) * np.sqrt(values[40:] / (0.005 * 0.995))
        x = np.hstack([rng.standard_normal((200, 40)) * np.sqrt(values[:40]), rare])
        spans = sp.diagnose(x, random_state=seed).spans or ()
        u = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2]
        for span in spans[2:]:
            reached = (u[: span.k, order[: span.k]] ** 2).sum() / span.k
            inside.append(span.interval[0] <= reached <= span.interval[1])
    assert len(inside) >= 12
    assert np.mean(inside) >= 0.9
