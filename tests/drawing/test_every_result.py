"""Every class that the library gives back shows itself in a notebook and draws itself."""

import importlib
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the plot extra is not installed")

import matplotlib
from matplotlib import pyplot
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import spikepool as sp
from spikepool.kit.results import Result
from spikepool.theory.heads import predict_heads

matplotlib.use("Agg")
REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "api"
# What is not a result: what a user builds, what the engine is made of, and what is a line of a result.
INPUTS = {
    *("SequenceModel", "ClassModel", "QueryModel", "SignSampler", "SpectralLaw", "RidgeClassifier"),
    *("Sample", "TokenSampler", "GivenTokens", "GeneralSpikes", "Measure", "EncodedTexts", "SelfAttention"),
    *("Relevance", "Scattered", "Independent", "Span", "Chain"),
}
PARTS = {
    *("Outlier", "ClassOutlier", "GeneralOutlier", "DiagnosedOutlier", "Validity", "Caution", "Component"),
    *(
        "PriorGains",
        "OptimalRidge",
        "RankedWeights",
        "OutlierLike",
        "NoiseEdge",
        "NullTop",
        "Draws",
        "Shift",
        "Positions",
        "Sizes",
        "ProfileLoss",
        "PredictedArrays",
        "PublishedThresholds",
        "RequiredSamples",
        "RequiredSignal",
        "LearningSimulation",
    ),
    "Measures",
}
MODEL = sp.SequenceModel(d=30, V=48, N=60, R=sp.prefix_correlation(6, 2), mu=2.5)
W = sp.causal_weights(6)
QUERY = sp.QueryModel(d=30, N=80, T=6, L=2, mu=2.5, nu=1.0, kernel="sigmoid", normalize=False, overlap=0.5)
MEANS = 2.0 * np.eye(30)[:, :3]
CLASSES = sp.ClassModel(d=30, V=48, N=60, R=sp.prefix_correlation(5, 2), means=MEANS, shares=[1 / 3] * 3)


def digits(tokens=True):
    X, y = load_digits(return_X_y=True)
    return (X[:200].reshape(-1, 8, 8) if tokens else X[:200]), y[:200]


def table(seed=0):
    return np.random.default_rng(seed).standard_normal((120, 40))


def grid():
    from spikepool.simulation.simulate import simulate_grid

    return simulate_grid(MODEL, {"mean": sp.mean_weights(6), "own": W}, [1.0, 2.0], trials=2, k=1, rng=0)


QUICK = {"null_draws": 0, "repetitions": 0}


def letters(texts):
    """Token embeddings of texts: two numbers for each letter."""
    return [np.array([[ord(c) % 7, ord(c) % 3] for c in text], dtype=float) for text in texts]


def words():
    return [f"word{i}" for i in range(60)], np.arange(60) % 2


MAKERS = {
    "MarchenkoPastur": lambda: sp.MarchenkoPastur(2.0),
    "FreeProductLaw": lambda: sp.FreeProductLaw(delta=0.6, gamma=0.5),
    "AtomicLaw": lambda: sp.AtomicLaw([0.0, 1.0, 3.0]),
    "GeneralizedLaw": lambda: sp.GeneralizedLaw(noise=sp.AtomicLaw([1, 20]), usage=sp.AtomicLaw([1.0]), delta=0.05),
    "Prediction": lambda: MODEL.predict(W),
    "RidgePrediction": lambda: sp.ridge_prediction(MODEL, W, n_train=50),
    "Fluctuations": lambda: MODEL.fluctuations(W),
    "VocabularyRange": lambda: MODEL.required_vocabulary(W, 0.5),
    "SimulationResult": lambda: MODEL.simulate(W, trials=2, rng=0),
    "ClassPrediction": lambda: CLASSES.predict(sp.mean_weights(5)),
    "ClassSimulation": lambda: CLASSES.simulate(sp.mean_weights(5), trials=2, rng=0),
    "QueryPrediction": lambda: QUERY.predict(),
    "LearnedQuery": lambda: QUERY.replace(kernel="softmax", normalize=True).learned(200),
    "QueryLimits": lambda: QUERY.limits(),
    "QuerySimulation": lambda: QUERY.simulate(trials=2, rng=0),
    "GridResult": grid,
    "SpectrumDensity": lambda: MODEL.spectrum_density(W, probes=2, rng=0),
    "AttentionGains": lambda: sp.attention_gains(sp.prefix_correlation(4, 2), tau=1.0),
    "HeadMix": lambda: sp.optimal_heads(np.eye(4)[:2], sp.prefix_correlation(4, 2)),
    "LearnedAttention": lambda: MODEL.learned_weights(),
    "DetectionPower": lambda: MODEL.detection_power(W),
    "HeadPrediction": lambda: predict_heads(MODEL, [W, sp.mean_weights(6)]),
    "SpectralPooling": lambda: sp.SpectralPooling().fit(digits()[0]),
    "LearnedPoolingClassifier": lambda: sp.LearnedPoolingClassifier(pooling="last").fit(*digits()),
    "LearnedPoolingRegressor": lambda: sp.LearnedPoolingRegressor(pooling="last").fit(digits()[0], digits()[1] + 0.5),
    "TextClassifier": lambda: sp.TextClassifier(letters).fit(*words()),
    "TextRegressor": lambda: sp.TextRegressor(letters).fit(words()[0], np.arange(60) % 5 + 0.5),
    "Diagnosis": lambda: sp.diagnose(table()),
    "Forecast": lambda: sp.forecast(*digits(tokens=False)),
    "DataReport": lambda: sp.report(table(), np.arange(120) % 2),
    "Answer": lambda: sp.report(table()).trust,
    "TableSpectrum": lambda: sp.TableSpectrum(**QUICK).fit(table()),
}


def documented():
    """Classes of the public names and of the reference pages, by name; errors and enumerations of text left out."""
    found = {name: value for name in sp.__all__ if inspect.isclass(value := getattr(sp, name))}
    for page in REFERENCE.glob("*.md"):
        for path in re.findall(r"^::: (\S+)", page.read_text(), flags=re.MULTILINE):
            module, _, name = path.rpartition(".")
            try:
                owner = importlib.import_module(path)
            except ModuleNotFoundError:
                found[name] = getattr(importlib.import_module(module), name)
                continue
            public = {n: v for n, v in vars(owner).items() if inspect.isclass(v) and v.__module__ == path}
            found |= {n: v for n, v in public.items() if not n.startswith("_")}
    return {n: v for n, v in found.items() if inspect.isclass(v) and not issubclass(v, (Exception, Warning))}


def test_every_documented_class_is_a_result_that_is_tried_or_named_as_none():
    known = set(MAKERS) | INPUTS | PARTS
    assert set(documented()) - known == set()
    assert not set(MAKERS) & (INPUTS | PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_a_result_shows_and_draws_itself(name):
    result = MAKERS[name]()
    assert type(result).__name__ == name
    # scikit-learn's estimators answer a notebook with a bundle
    shown = result._repr_html_() if hasattr(result, "_repr_html_") else result._repr_mimebundle_()["text/html"]
    assert "<" in shown
    if isinstance(result, Result):
        assert str(result) == result.summary() != ""
        back = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert re.fullmatch(r"spikepool\.[a-z-]+/\d+", back["schema"])
        assert len(back) > 1
    drawn = result.plot()
    axes = drawn.axes if isinstance(drawn, Figure) else [drawn]
    assert axes
    for ax in axes:
        marks = [*ax.lines, *ax.patches, *ax.collections, *ax.containers, *ax.texts]
        assert marks, "an empty picture"
        assert ax.get_xlabel() or ax.get_ylabel() or ax.get_title(loc="left") or ax.get_title()
    pyplot.close("all")


def test_a_law_is_drawn_whole():
    """Both intervals of a split bulk, the atom at zero, and every point mass."""
    split = MAKERS["GeneralizedLaw"]()
    ax = split.plot()
    assert len(split.intervals()) == len(ax.lines) == 2
    for line, (left, right) in zip(ax.lines, split.intervals(), strict=True):
        x = line.get_xdata()
        assert left < x.min() < x.max() < right
        np.testing.assert_allclose(line.get_ydata(), split.pdf(x))
    heavy = sp.MarchenkoPastur(2.0)
    ax = heavy.plot()
    assert ax.lines[-1].get_label() == f"mass {heavy.atom:.3g} at zero"
    law = sp.AtomicLaw([0.5, 1.0, 3.0], weights=[0.5, 0.25, 0.25])
    ax = law.plot()
    assert ax.lines[0].get_xdata().tolist() == law.values.tolist()
    assert ax.lines[0].get_ydata().tolist() == law.weights.tolist()
    pyplot.close("all")
