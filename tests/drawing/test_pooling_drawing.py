"""Pictures of learned poolings: what is drawn is what was fitted."""

import numpy as np
import pytest

import spikepool as sp
from spikepool.drawing.poolings import draw_candidates, draw_position_weights, draw_token_weights

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6, 5))
    y = (X[:, 2] @ np.ones(5)) > 0
    return sp.LearnedPoolingClassifier().fit(X, y), X


def test_candidates_are_drawn_at_their_gains(fitted):
    pooling, _ = fitted
    ax = pooling.plot()
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    own = [c for c in pooling.candidates_ if c.name == pooling.decision_ and c.weight > 0]
    best = min(own, key=lambda c: c.loss).label  # one head of it; another without a weight is not marked
    assert labels[::-1] == [f"{c.label} (transform)" if c.label == best else c.label for c in pooling.candidates_]
    assert pooling.summary().count(" <\n") == 1
    points = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(points[::-1], [c.gain for c in pooling.candidates_])
    written = {text.get_text() for text in ax.texts}
    for c in pooling.candidates_:
        assert f"{c.score:.3f}" + (f"   {c.weight:.2f}" if c.weight else "") in written
    assert draw_candidates(ax, pooling.candidates_, best, "accuracy") is ax


def test_weights_of_every_head_are_drawn(fitted):
    pooling, _ = fitted
    ax = pooling.plot(what="weights")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), pooling.weights_)
    _, X = fitted
    several = sp.LearnedPoolingClassifier(pooling="queries").fit(X, np.arange(300) % 2)
    ax = several.plot(what="weights")
    for h in range(5):
        np.testing.assert_allclose(ax.lines[h].get_ydata(), several.head_weights_[h])
    assert draw_position_weights(ax, several.head_weights_, list("abcde")) is ax


def test_layers_are_drawn_with_their_scores(fitted):
    _, X = fitted
    y = X[:, 2, 0] > 0
    rng = np.random.default_rng(1)
    layers = {name: X + scale * rng.normal(size=X.shape) for name, scale in (("a", 3.0), ("b", 0.1), ("c", 1.0))}
    model = sp.LearnedPoolingClassifier().fit(layers, y)
    ax = model.plot(what="layers")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    scores = {c.layer: c.score for c in model.candidates_ if c.name == "mean"}
    drawn = dict(zip(ax.lines[0].get_xdata(), ax.lines[0].get_ydata(), strict=True))
    assert drawn == {"abc".index(layer): score for layer, score in scores.items()}
    with pytest.raises(sp.InvalidInputError, match="no layers"):
        fitted[0].plot(what="layers")


def test_tokens_are_drawn_as_dark_as_their_weight(fitted):
    pooling, X = fitted
    words = [["what", "is", "my", "balance", "now", "?"], ["hello", "there"]]
    ax = pooling.plot(what="tokens", X=X[:2], tokens=words)
    assert [text.get_text() for text in ax.texts] == [word for row in words for word in row]
    weights = pooling.token_weights(X[:2]).mean(axis=1)
    shades = [patch.get_facecolor()[0] for patch in ax.patches]  # red falls as the ground darkens
    # small weights share a shade: a colour map has 256 of them
    assert (np.diff(np.array(shades[:6])[np.argsort(-weights[0])]) >= 0).all()
    assert np.argmin(shades[:6]) == np.argmax(weights[0])
    assert min(shades[:6]) < max(shades[:6])
    with pytest.raises(sp.ShapeError, match="2 rows"):
        draw_token_weights(None, weights, words[:1])
    with pytest.raises(sp.InvalidInputError, match="need sequences"):
        pooling.plot(what="tokens")


def test_nothing_compared_is_said(fitted):
    _, X = fitted
    fixed = sp.LearnedPoolingClassifier(pooling="mean").fit(X, np.arange(300) % 2)
    with pytest.raises(sp.InvalidInputError, match="asked for"):
        fixed.plot(what="candidates")
    with pytest.raises(sp.InvalidInputError, match="what"):
        fixed.plot(what="everything")
