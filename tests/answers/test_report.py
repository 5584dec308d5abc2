"""Choose, trust, plan: the report carries what its parts found, survives what they refuse, and is one page."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spikepool as sp
from spikepool.answers import sentences
from spikepool.answers.result import Answer
from spikepool.kit.results import to_json
from spikepool.pooling.learned_report import pooling_record
from spikepool.pooling.refitted import leading_candidate, leading_words
from spikepool.trust.result import Span

pytest.importorskip("matplotlib", reason="the plot extra is not installed")


@pytest.fixture(scope="module")
def found(digits):
    return sp.report(*digits, target=0.95)


@pytest.mark.slow
def test_the_parts_are_those_of_the_library(digits, found):
    X, y = digits
    fitted = sp.LearnedPoolingClassifier().fit(X, y)
    assert found.choose.result.decision_ == fitted.decision_
    assert f"{100 * fitted.improvement_:+.1f} ± {100 * fitted.improvement_error_:.1f} points" in found.choose.verdict
    assert found.trust.result.verdict == sp.diagnose(X.mean(axis=1), target=0.9).verdict
    curve = sp.forecast(X, y, estimator=leading_candidate(fitted), target=0.95)
    assert found.plan.result.estimator == leading_words(fitted)
    np.testing.assert_allclose(found.plan.result.accuracy, curve.accuracy)
    assert f"{curve.accuracy[0]:.3f} with {curve.n[0]:,} rows" in found.plan.verdict


@pytest.mark.slow
def test_a_learned_pooling_does_not_flatter_the_forecast():
    """Features whose weights have seen the labels of the pilot look better than they will be."""
    rng = np.random.default_rng(0)
    n, T, d = 240, 6, 12
    y, where = rng.integers(0, 3, n), rng.integers(0, T, n)
    X = rng.normal(size=(n, T, d))
    X[np.arange(n), where, 0] += 6.0
    X[np.arange(n), where, 1 + y] += 1.5
    found = sp.report(X, y)
    assert found.choose.result.decision_ in ("query", "queries")
    C = found.choose.result.transform(X)
    ridge = found.choose.result._leading_head
    assert ridge.name == "ridge"
    # the same head, on features whose weights have seen all labels
    head = make_pipeline(StandardScaler(), RidgeClassifier(alpha=ridge.penalty * n))
    flattered = sp.forecast(C, y, estimator=head)
    assert found.plan.result.accuracy[0] < flattered.accuracy[0]


@pytest.mark.slow
def test_text_json_and_notebook_say_the_same(found):
    text, page, shown = str(found), found.to_html(), found._repr_html_()
    back = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(back) == ["schema", "spikepool", "source", "notes", "choose", "trust", "plan"]
    assert "400 rows of 8 tokens x 8, 10 classes" in text
    import html

    for name, answer in found.answers.items():
        assert back[name]["answered"] is True
        assert back[name]["verdict"] == answer.verdict
        for form in (page, shown):
            assert html.escape(answer.verdict) in form
            assert html.escape(answer.advice) in form
        assert answer.verdict in text
    assert back["choose"]["result"]["decision"] == found.choose.result.decision_


@pytest.mark.slow
def test_the_page_is_self_contained(found, tmp_path):
    path = found.save(tmp_path / "page.html")
    page = path.read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == sum(len(answer.pictures) for answer in found.answers.values()) >= 3
    assert not re.search(r'(?:src|href)="(?!#)', page.replace("xlink:href", ""))
    assert not re.search(r"<script|@import|url\(http", page)
    assert json.loads(found.save(tmp_path / "page.json").read_text())["plan"]["answered"]
    with pytest.raises(sp.InvalidInputError, match=r"\.html or \.json"):
        found.save(tmp_path / "page.pdf")
    with pytest.raises(sp.SpikepoolError, match="cannot write"):
        found.save(tmp_path / "absent" / "page.html")
    assert len(found.plot().axes) >= 3


@pytest.mark.slow
def test_features_leave_nothing_to_choose(digits):
    X, y = digits
    found = sp.report(X.reshape(len(X), -1), y)
    assert found.choose.result is None
    assert "pooled already" in found.choose.verdict
    assert found.trust.result is not None
    assert found.plan.result.target is None


@pytest.mark.slow
def test_without_labels_nothing_is_planned(digits):
    X, _ = digits
    found = sp.report(X, mask=np.ones(X.shape[:2], dtype=bool))
    assert type(found.choose.result).__name__ == "SpectralPooling"
    assert "no labels" in found.plan.verdict
    assert "no labels" in found.source
    assert found.to_html().count("<svg") >= 2


@pytest.mark.slow
def test_a_real_target_is_a_regression(digits):
    X, y = digits
    noise = np.random.default_rng(0).normal(size=len(y))
    found = sp.report(X, X.mean(axis=(1, 2)) + 0.1 * noise)
    assert "a real target" in found.source
    assert type(found.choose.result).__name__ == "LearnedPoolingRegressor"
    assert found.plan.result.task == "regression"
    assert "R²" in found.plan.verdict


def test_a_part_that_is_refused_leaves_the_others(digits):
    X, y = digits
    found = sp.report(X[:15].reshape(15, -1), y[:15])
    assert found.plan.result is None
    assert found.plan.verdict == "Not answered."
    assert len(found.plan.advice) > 20
    assert found.trust.result is not None
    assert "Not answered" in found.to_html()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((np.zeros((5, 4, 3, 2, 2)),), sp.ShapeError),
        ((np.ones((50, 6)),), sp.InvalidInputError),
        ((np.random.default_rng(0).normal(size=(40, 6)), [0, 1]), sp.ShapeError),
        (("absent.npy",), sp.MissingSourceError),
    ],
)
def test_what_cannot_be_reported_on_is_named(arguments, error):
    with pytest.raises(error):
        sp.report(*arguments)
    with pytest.raises(sp.InvalidInputError, match="mask"):
        sp.report(np.zeros((40, 6)), mask=np.ones((40, 6), dtype=bool))
    with pytest.raises(sp.InvalidInputError, match="target"):
        sp.report(np.zeros((40, 6)), target=2.0)


def test_noise_is_called_noise():
    rng = np.random.default_rng(1)
    found = sp.report(rng.standard_normal((400, 60)), rng.integers(0, 2, 400))
    assert "No component stands out" in found.trust.verdict
    assert "at chance" in found.plan.verdict
    verdict, advice = sentences.trust(sp.diagnose(_planted(rng)))
    assert "1 component stands out" in verdict
    assert "Keep" in advice


def _planted(rng):
    signal = np.outer(rng.choice([-1.0, 1.0], 800), 2.0 * np.eye(60)[0])
    return rng.standard_normal((800, 60)) + signal


def test_an_interval_that_says_nothing_is_not_stated():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((100, 20))
    curve = sp.forecast(X, X[:, 0] + X[:, 1] + rng.standard_t(2, 100), n=[100, 400], random_state=0)
    low, high = curve.interval.T
    assert (low < 0).all()
    assert (high > 0.5).all()
    assert sentences.plan(curve) == (
        "Ridge: R² not known with 100 rows; not known with 400 rows.",
        "Label as many rows again and repeat the forecast.",
    )


def test_an_answer_without_a_result_has_no_numbers():
    answer = Answer("why?", "Not answered.", "Try again.")
    assert answer.details() == ""
    assert answer.to_dict()["answered"] is False


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_a_screen(found, browser, tmp_path, width, scheme):
    path = found.save(tmp_path / "page.html")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        fetched = []
        page.on("request", lambda request: fetched.append(request.url))
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        sizes = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert sizes[0] <= sizes[1]
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 23, 26)"}[scheme]
        papers = page.evaluate(
            "[...document.querySelectorAll('.picture #patch_1 path')].map(p => getComputedStyle(p).fill)"
        )
        assert set(papers) == {"rgb(255, 255, 255)"}
        assert fetched == [path.as_uri()]
    finally:
        page.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "labelled", "stages"),
    [(True, True, ["choose", "trust", "plan"]), (False, True, ["trust", "plan"]), (True, False, ["choose", "trust"])],
)
def test_progress_is_told_and_never_falls(digits, capsys, tokens, labelled, stages):
    X, y = digits
    told = []
    sp.report(
        X[:150] if tokens else X[:150].reshape(150, -1),
        y[:150] if labelled else None,
        progress=lambda share, text: told.append((share, text)),
    )
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, pytest.approx(1.0))
    assert list(dict.fromkeys(text.split(":")[0] for _, text in told)) == stages
    if labelled:
        assert len(told) > 10, "the bars of the parts are heard"
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("ignore::spikepool.trust.diagnosis.UncenteredWarning")
def test_advice_names_single_components_only_where_all_are_resolved(digits):
    X, _ = digits
    found = sp.diagnose(X.sum(axis=1), random_state=0)  # eight features for many rows: every span is known
    for resolved in (True, False):
        components = tuple(replace(c, resolved=resolved or i > 0) for i, c in enumerate(found.components))
        _, advice = sentences.trust(replace(found, components=components))
        assert ("stands for itself" in advice) == resolved
        assert ("do not interpret" in advice) != resolved


@pytest.mark.slow
def test_one_bar_is_shown_for_the_whole(digits, monkeypatch):
    from spikepool.kit import progress

    opened = []
    monkeypatch.setattr(progress, "_bar", lambda total, description, delay: opened.append(description))
    X, y = digits
    sp.report(X[:150].reshape(150, -1), y[:150], progress=True)
    assert opened == ["report"]
    sp.report(X[:150].reshape(150, -1), y[:150], progress=False)
    assert len(opened) == 1
    with pytest.raises(sp.InvalidInputError, match="progress"):
        sp.report(X[:150], progress="yes")


@pytest.mark.parametrize("seed", range(3))
def test_few_rows_of_noise_are_called_noise(seed):
    """The advice for 24 rows of 5 features had been to rescale them."""
    found = sp.report(np.random.default_rng(seed).standard_normal((24, 5)))
    assert "No component stands out" in found.trust.verdict
    assert "scale" not in found.trust.advice


def spans_of(n, *spans):
    """A diagnosis of n rows as the sentences see it: spans of (k, overlap, interval, rows for the target)."""
    return SimpleNamespace(
        verdict="coloured", spans=[Span(*span) for span in spans], components=(), target=0.9, n_effective=n
    )


def test_one_component_is_not_a_span():
    verdict, advice = sentences.trust(spans_of(400, (1, 0.98, (0.95, 1.0), None)))
    assert verdict.startswith("The first component is reliable: overlap 0.98")
    assert "top 1" not in verdict + advice


def test_rows_at_hand_are_not_planned_for():
    """1,500 rows with an overlap of .91: as many rows are not advised to reach .9."""
    span = (50, 0.91, (0.89, 0.93), (1300, 1540))
    assert "rows" not in sentences.trust(spans_of(1500, span))[1]
    advice = sentences.trust(spans_of(1500, (50, 0.91, (0.85, 0.93), (1300, 2600))))[1]
    assert "the top 50 may be at 0.9 already, and 2,600 rows make sure of it" in advice


def test_a_good_result_is_not_headed_by_a_poor_fit():
    x = np.random.default_rng(0).standard_normal((300, 60)) / np.arange(1.0, 61)
    diagnosis = sp.diagnose(x)
    assert diagnosis.verdict == "coloured"
    assert "poor fit" not in diagnosis.summary() + diagnosis._repr_html_()


@pytest.mark.slow
def test_json_names_the_layer_and_has_the_keys_of_the_command(digits):
    X, y = digits
    answer = sp.report({"first": X[:200], "second": X[:200] ** 2}, y[:200]).to_dict()["choose"]["result"]
    fitted = sp.LearnedPoolingClassifier().fit({"first": X[:200], "second": X[:200] ** 2}, y[:200])
    assert answer["layer"] == fitted.layer_
    assert {c["layer"] for c in answer["candidates"]} == {"first", "second"}
    assert answer == json.loads(to_json(pooling_record(fitted)))
