"""The same seed in any accepted form gives the same numbers, in every public function and on every route."""

import inspect

import numpy as np
import pytest

import spikepool as sp
from spikepool.errors import InvalidInputError
from spikepool.laws.measures import as_law
from spikepool.theory import token_usage

W = sp.mean_weights(4)
MODEL = sp.SequenceModel(d=24, V=40, N=60, R=sp.prefix_correlation(4, 2), mu=1.5)
UNCENTRED = MODEL.replace(centered=False)
CLASSES = sp.ClassModel(d=24, V=42, N=60, R=np.eye(4), means=2 * np.eye(24)[:3])
SAMPLE = MODEL.sample(rng=0)
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(80, 12)) * np.linspace(2, 0.5, 12)
LABELS = (ROWS[:, 0] + RNG.normal(size=80) > 0).astype(int)
TOKENS = RNG.normal(size=(80, 4, 6)) + LABELS[:, None, None]
TABLE = RNG.normal(size=(300, 40))


def values(found):
    """Every number of a result, by name."""
    if hasattr(found, "to_dict"):
        found = found.to_dict()
    if isinstance(found, dict):
        return {key: values(part) for key, part in found.items() if key not in ("seconds", "validity")}
    if isinstance(found, (list, tuple)):
        return [values(part) for part in found]
    if isinstance(found, np.ndarray):
        return found.tolist()
    return found


# Functions of numbers that are drawn.
DRAWN = {
    "SequenceModel.sample": lambda s: MODEL.sample(rng=s).pooled(W),
    "SequenceModel.simulate, table not drawn": lambda s: (
        MODEL.simulate(W, trials=2, rng=s, table_drawn=False).eigenvalues
    ),
    "SequenceModel.simulate, table drawn": lambda s: MODEL.simulate(W, trials=2, rng=s, table_drawn=True).eigenvalues,
    "SequenceModel.simulate, uncentred": lambda s: UNCENTRED.simulate(W, trials=2, rng=s).alignment,
    "ClassModel.simulate, table not drawn": lambda s: CLASSES.simulate(W, trials=2, rng=s).eigenvalues,
    "ClassModel.simulate, table drawn": lambda s: CLASSES.simulate(W, trials=2, rng=s, table_drawn=True).eigenvalues,
    "SequenceModel.spectrum": lambda s: MODEL.spectrum(W, rng=s),
    "SequenceModel.spectrum_density": lambda s: MODEL.spectrum_density(W, rng=s, probes=2, steps=8).nodes,
    "simulate_ridge": lambda s: sp.simulate_ridge(MODEL, W, trials=2, rng=s),
    "attention_gains": lambda s: sp.attention_gains(MODEL.R, 0.5, method="monte_carlo", draws=200, rng=s).alpha,
    "predict_attention": lambda s: sp.predict_attention(MODEL, 0.5, draws=200, rng=s).alignment,
}
# Predictions given tokens, which are drawn; they have another route for large vocabularies.
EXACT = {
    "SequenceModel.predict": lambda s: MODEL.predict(W, exact=True, rng=s).alignment,
    "predict_tokens": lambda s: sp.predict_tokens(SAMPLE.tokens, 40, W, SAMPLE.signs, 1.5, 24, rng=s).alignment,
    "ridge_prediction": lambda s: sp.ridge_prediction(MODEL, W, exact=True, rng=s).accuracy,
    "SequenceModel.ridge_accuracy": lambda s: MODEL.ridge_accuracy(W, exact=True, rng=s),
    "SequenceModel.learned_weights": lambda s: MODEL.learned_weights(exact=True, rng=s).weights,
}
# Answers about data, of which random numbers decide little: folds, subsets, null draws.
ANSWERS = {
    "diagnose": lambda s: sp.diagnose(ROWS, random_state=s),
    "forecast": lambda s: sp.forecast(ROWS, LABELS, random_state=s),
    "report": lambda s: sp.report(ROWS, LABELS, random_state=s),
    "TableSpectrum": lambda s: sp.TableSpectrum(random_state=s, progress=False).fit(TABLE).edge_,
    "LearnedPoolingClassifier": lambda s: sp.LearnedPoolingClassifier(random_state=s).fit(TOKENS, LABELS).coef_,
    "LearnedPoolingRegressor": lambda s: sp.LearnedPoolingRegressor(random_state=s).fit(TOKENS, ROWS[:, 0]).coef_,
    "as_law": lambda s: as_law(np.diag(np.arange(1.0, 30.0)), rng=s).mean,
    "optimal_ridge": lambda s: sp.optimal_ridge(MODEL, W, rng=s),
}


def disagreements(function, *, drawn):
    """Forms without a state agree; generators in one state agree, and another state gives other numbers."""
    forms = {"numpy integer": np.int64(7), "SeedSequence": np.random.SeedSequence(7)}
    expected = answer(function, 7)
    found = [] if expected is not None else ["an int is refused"]
    found += [form for form, seed in forms.items() if answer(function, seed) not in (None, expected)]
    first, second, other = (answer(function, np.random.default_rng(seed)) for seed in (7, 7, 8))
    if first != second:
        found.append("two generators in one state")
    if drawn and (first is None or first in (other, answer(function, 0))):
        found.append("a generator is refused or replaced by a fixed seed")
    return found


def answer(function, seed):
    """What a function gives, as text, or None where it refuses this form of a seed by name."""
    try:
        return repr(values(function(seed)))
    except InvalidInputError as err:
        if "random_state" not in str(err):
            raise
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_draws(name):
    assert disagreements(DRAWN[name], drawn=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("route", ["small", "large"])
def test_predictions_given_tokens_on_both_routes(name, route, monkeypatch):
    if route == "large":
        monkeypatch.setattr(token_usage, "EXACT_SIZE", 10)
        monkeypatch.setattr(token_usage, "_VECTORS_SIZE", 10)
    assert disagreements(EXACT[name], drawn=name != "predict_tokens") == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name):
    assert disagreements(ANSWERS[name], drawn=False) == []


def test_nothing_public_that_takes_a_seed_is_left_out():
    walked = [name.partition(",")[0] for name in (*DRAWN, *EXACT, *ANSWERS)]
    things = {name: getattr(sp, name) for name in sp.__all__}
    for model in (sp.SequenceModel, sp.ClassModel):
        things |= {f"{model.__name__}.{name}": thing for name, thing in vars(model).items() if callable(thing)}
    for name, thing in things.items():
        if callable(thing) and {"rng", "random_state"} & set(parameters(thing)):
            assert name in walked, name


def parameters(thing):
    try:
        return inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return {}
