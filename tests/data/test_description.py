"""One description of a data set: each fact against its definition, and reported once."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.description import Caution, Description, numbered, row_hashes, tie


def rows(n=300, d=12, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * np.sqrt(4 / np.arange(1.0, d + 1))


def test_equal_rows_are_found_by_their_values():
    x = rows(60)
    x[40:] = x[:20]
    x[3, 0], x[43, 0] = 0.0, -0.0  # one zero, not two
    facts = Description(x)
    assert np.array_equal(facts.copies, np.r_[np.arange(40), np.arange(20)])
    assert np.array_equal(facts.counts, np.r_[np.full(20, 2), np.ones(20)])
    assert "20 of 60 rows are exact copies" in facts.caution("duplicates")
    assert Description(rows(60)).caution("duplicates") is None
    round_numbers = np.random.default_rng(0).integers(0, 3, (4000, 6)).astype(float)
    found, _ = numbered(row_hashes(round_numbers))
    parts = row_hashes(x[:, :5], 0, 12) + row_hashes(x[:, 5:], 5, 12)
    assert np.array_equal(parts, row_hashes(x))
    assert np.array_equal(found, numbered(np.unique(round_numbers, axis=0, return_inverse=True)[1].ravel())[0])


def test_units_tie_copies_and_groups():
    x = rows(6)
    x[5] = x[0]
    units = Description(x, groups=np.array([0, 0, 1, 1, 2, 3])).units
    assert units[0] == units[1] == units[5]
    assert units[2] == units[3]
    assert len(np.unique(units)) == 3
    assert np.array_equal(tie(np.array([0, 1, 1]), None), [0, 1, 1])


def test_near_copies_and_order_are_looked_for_within_classes():
    """Sorted classes far apart are neither; a series is."""
    x = rows(400)
    labels = np.repeat(np.arange(4), 100)
    apart = x + 20 * np.eye(12)[labels]
    assert not Description(apart, labels).ordered
    assert Description(apart).ordered
    assert Description(apart, labels).near_share is None
    series = x.copy()
    for i in range(1, 400):
        series[i] = 0.8 * series[i - 1] + 0.6 * x[i]
    assert Description(series).lag == pytest.approx(0.8, abs=0.1)
    assert Description(series).caution("order").kind == "order"
    assert Description(series, groups=np.arange(400) // 20).caution("order") is None  # groups say what belongs together


def test_near_copies_are_joined():
    x = np.repeat(rows(80), 3, axis=0) + 0.02 * rows(240, seed=1)
    facts = Description(x[np.random.default_rng(2).permutation(240)])
    assert facts.near_share > 0.95
    assert len(np.unique(facts.near_groups())) == pytest.approx(80, abs=8)
    assert facts.independent_share() == pytest.approx(1 / 3, abs=0.05)


def test_outlying_rows_and_rank():
    x = rows(200)
    x[[7, 90]] *= 60
    facts = Description(x)
    assert set(facts.outlying) == {7, 90}
    assert "2 row(s)" in facts.caution("dominating rows")
    assert len(Description(rows(200)).outlying) == 0
    assert Description(np.hstack([x, x[:, :3]])).rank == 12


def test_facts_are_computed_when_they_are_asked_for(monkeypatch):
    facts = Description(rows())
    monkeypatch.setattr("spikepool.data.description.nearest_distances", lambda *_: pytest.fail("not asked for"))
    assert facts.caution("duplicates") is None
    assert not facts.ordered


@pytest.fixture(scope="module")
def suspicious():
    """Near copies in an order, and exact copies."""
    rng = np.random.default_rng(0)
    x = np.repeat(rows(100, 30), 4, axis=0) + 0.05 * rows(400, 30, seed=1)
    x[380:] = x[:20]
    y = (x[:, 0] + 0.5 * rng.standard_normal(400) > 0).astype(int)
    y[380:] = y[:20]
    return x, y


def test_a_report_names_each_fact_once_with_one_number(suspicious):
    report = sp.report(*suspicious)
    text = str(report)
    for words in ("exact copies", "near copy", "consecutive rows"):
        assert text.count(words) == 1, words
    assert "20 of 400 rows are exact copies" in text
    assert [note.kind for note in report.notes] == ["duplicates", "near-duplicates", "order"]
    # the answers' own results agree
    shares = {w.split()[0] for r in (report.trust.result, report.plan.result) for w in r.warnings if "near copy" in w}
    assert len(shares) == 1


def test_trust_and_plan_use_the_description_they_are_given(suspicious):
    x, y = suspicious
    facts = Description(x, y)
    found = sp.diagnose(x, description=facts)
    with (
        pytest.warns(UserWarning, match="exact copies"),
        pytest.warns(UserWarning, match="near copy"),
        pytest.warns(UserWarning, match="consecutive rows"),
    ):
        forecast = sp.forecast(x, y, description=facts)
    assert facts.caution("order") in found.warnings
    assert facts.caution("order") in forecast.warnings
    assert all(isinstance(w, Caution) for w in found.warnings)
