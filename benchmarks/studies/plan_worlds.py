"""Kinds of labelled rows for `forecast` whose learning curves can be measured: error and coverage, kind by kind.

    python benchmarks/studies/plan_worlds.py measure --half development  # about ten minutes on one core
    python benchmarks/studies/plan_worlds.py measure --half set-aside
    python benchmarks/studies/plan_worlds.py measure --half both --data corpora --features features  # texts as well
    python benchmarks/studies/plan_worlds.py table --only MiniLM  # the corpora of the README
    python benchmarks/studies/plan_worlds.py compare --before results/plan_worlds_before.jsonl  # the same pilots
    python benchmarks/studies/plan_worlds.py targets  # rows for a target: how often their range holds the truth

A kind belongs to the half that the hash of its name says. Constants are chosen on the development half; the other half
is for reporting. The truth at n rows is the accuracy (or R²) of ridge with a penalty by generalised cross-validation on
new rows, averaged over training sets; it is kept beside the records and used again.

Kinds of texts need a folder with banking77.csv.gz, trec.csv.gz and others (columns text and label), which are read and
not copied. Their truth is that of random training sets, tested on the other rows.
"""

from __future__ import annotations

import argparse
import json
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.neighbors import KNeighborsClassifier

import spikepool as sp
from coverage import summary, told
from forecast_tasks import load_corpus, load_features
from spikepool.ridge.gcv import fit_ridge

RESULTS = Path(__file__).parents[1] / "results" / "plan_worlds.jsonl"
Pair = tuple[np.ndarray, np.ndarray]
Sampler = Callable[[int, np.random.Generator], Pair]
MULTIPLES = (2, 4, 8)
TRUTH_DRAWS, TESTED = 5, 6000
FEWEST = 3  # pilots of a kind in a table
TESTED_NUMBERS = 200_000  # errors with heavy tails need many rows for their mean square


def half_of(name: str) -> str:
    return "set-aside" if zlib.crc32(name.encode()) & 1 else "development"


def ranks(d: int) -> np.ndarray:
    return np.arange(1.0, d + 1)


def two_gaussians(d: int, distance: float, power: float = 0.0, share: float = 0.5) -> Sampler:
    """Means ± distance/2 along the first axis (or all of them by the root of the variance), covariance rank^-power."""

    def draw(n: int, rng: np.random.Generator) -> Pair:
        y = (rng.random(n) < share).astype(int)
        x = rng.standard_normal((n, d)) * ranks(d) ** (-power / 2)
        x[:, 0] += distance * (y - 0.5)
        return x, y

    return draw


def gaussian_classes(classes: int, d: int, size: float, power: float = 0.0, parts: int = 1) -> Sampler:
    """Classes (of `parts` clusters each) with Gaussian centres, all of one shape."""
    scale = ranks(d) ** (-power / 2)
    centres = size * np.random.default_rng(classes + d).standard_normal((classes * parts, d)) * scale

    def draw(n: int, rng: np.random.Generator) -> Pair:
        cluster = rng.integers(0, classes * parts, n)
        return centres[cluster] + rng.standard_normal((n, d)) * scale, cluster % classes

    return draw


def noisy(sample: Sampler, share: float) -> Sampler:
    def draw(n: int, rng: np.random.Generator) -> Pair:
        x, y = sample(n, rng)
        return x, np.where(rng.random(n) < share, rng.permutation(y), y)

    return draw


def heavy(sample: Sampler, freedom: float) -> Sampler:
    def draw(n: int, rng: np.random.Generator) -> Pair:
        x, y = sample(n, rng)
        return x * (rng.chisquare(freedom, n) / freedom)[:, None] ** -0.5, y

    return draw


def logistic(d: int, power: float, slope: float) -> Sampler:
    coefficients = np.random.default_rng(d).standard_normal(d) * ranks(d) ** -0.25

    def draw(n: int, rng: np.random.Generator) -> Pair:
        x = rng.standard_normal((n, d)) * ranks(d) ** (-power / 2)
        score = x @ coefficients
        return x, (rng.random(n) < 1 / (1 + np.exp(-slope * score / np.sqrt(d**0.5)))).astype(int)

    return draw


def ordinal(n: int, rng: np.random.Generator) -> Pair:
    x = rng.standard_normal((n, 100)) * ranks(100) ** -0.4
    latent = x[:, :20].sum(axis=1) + rng.standard_normal(n)
    return x, np.digitize(latent, [-2.5, -0.8, 0.8, 2.5])


def curved(n: int, rng: np.random.Generator) -> Pair:
    x = rng.standard_normal((n, 60)) * ranks(60) ** -0.3
    return x, (x[:, 0] + 0.8 * (x[:, 1] ** 2 - 0.7) + 0.4 * rng.standard_normal(n) > 0).astype(int)


def exclusive_or(n: int, rng: np.random.Generator) -> Pair:
    x = rng.standard_normal((n, 30))
    return x, (x[:, 0] * x[:, 1] > 0).astype(int)


def unlike_shapes(n: int, rng: np.random.Generator) -> Pair:
    y = rng.integers(0, 2, n)
    shape = np.where(y[:, None] == 1, ranks(80) ** -0.5, ranks(80)[::-1] ** -0.25)
    x = rng.standard_normal((n, 80)) * shape
    x[:, :5] += 0.5 * y[:, None]
    return x, y


def words(classes: int) -> Sampler:
    """Counts of 300 words, 15 per text, that the classes use differently."""
    rate = (
        np.random.default_rng(classes).dirichlet(np.full(300, 0.3), classes) * 0.4
        + 0.6 * (1 / ranks(300)) / (1 / ranks(300)).sum()
    )

    def draw(n: int, rng: np.random.Generator) -> Pair:
        y = rng.integers(0, classes, n)
        return rng.poisson(15 * rate[y]).astype(float), y

    return draw


def one_hot(n: int, rng: np.random.Generator) -> Pair:
    """Fifteen categorical columns of four levels; the odds of the class are a sum over levels."""
    level = rng.integers(0, 4, (n, 15))
    odds = np.random.default_rng(3).standard_normal((15, 4))
    score = odds[np.arange(15), level].sum(axis=1)
    x = (level[..., None] == np.arange(4)).reshape(n, 60).astype(float)
    return x, (rng.random(n) < 1 / (1 + np.exp(-0.8 * score))).astype(int)


def grouped(n: int, rng: np.random.Generator) -> Pair:
    """Shuffled groups of four rows, correlated by .94, with one random label each."""
    g = np.arange(n) // 4
    x = np.sqrt(0.94) * rng.standard_normal((n, 100))[g] + np.sqrt(0.06) * rng.standard_normal((n, 100))
    y, order = rng.integers(0, 2, n)[g], rng.permutation(n)
    return x[order], y[order]


def regression(d: int, power: float, noise: float, curve: float = 0.0, freedom: float | None = None) -> Sampler:
    coefficients = np.random.default_rng(d).standard_normal(d)
    scale = ranks(d) ** (-power / 2)
    norm = float(np.sqrt((coefficients**2 * scale**2).sum()))

    def draw(n: int, rng: np.random.Generator) -> Pair:
        x = rng.standard_normal((n, d)) * scale
        error = rng.standard_normal(n) if freedom is None else rng.standard_t(freedom, n)
        return x, x @ coefficients / norm + curve * (x[:, 0] ** 2 - 1) + noise * error

    return draw


def rectified(n: int, rng: np.random.Generator) -> Pair:
    """Twelve classes in 15 latents, seen through a random layer of 200 rectified units."""
    x, y = gaussian_classes(12, 15, 1.1)(n, rng)
    layer = np.random.default_rng(6).standard_normal((15, 200)) / np.sqrt(15)
    return np.maximum(x @ layer + 0.3 * rng.standard_normal((n, 200)), 0.0), y


def lognormal(n: int, rng: np.random.Generator) -> Pair:
    x, y = gaussian_classes(4, 60, 0.35)(n, rng)
    return np.exp(x), y


def binary(dependence: float, slope: float = 2.0) -> Sampler:
    """Eight binary columns, which may share a latent; the odds of the class are a sum over them."""

    def draw(n: int, rng: np.random.Generator) -> Pair:
        latent = np.sqrt(dependence) * rng.standard_normal((n, 1))
        x = (latent + np.sqrt(1 - dependence) * rng.standard_normal((n, 8)) > 0).astype(float)
        score = (x - 0.5) @ np.array([2.0, -1.5, 1.5, 1.0, -1.0, 1.0, 0.5, 0.0])
        return x, (rng.random(n) < 1 / (1 + np.exp(-slope * score))).astype(int)

    return draw


def topics(classes: int, words: int = 500, length: float = 12.0) -> Sampler:
    """Tf-idf of texts whose words come from 25 topics, which the classes mix differently."""
    fixed = np.random.default_rng(classes + words)
    background = 1 / ranks(words) / (1 / ranks(words)).sum()
    rate = 0.6 * fixed.dirichlet(np.full(25, 0.15), classes) @ fixed.dirichlet(np.full(words, 0.05), 25)
    rate += 0.4 * background

    def draw(n: int, rng: np.random.Generator) -> Pair:
        y = rng.integers(0, classes, n)
        return TfidfTransformer().fit_transform(rng.poisson(length * rate[y])).toarray(), y

    return draw


def unequal_classes(classes: int, d: int, size: float) -> Sampler:
    """Gaussian classes of one shape with frequencies 1/rank."""
    centres = size * np.random.default_rng(classes * d).standard_normal((classes, d))
    share = 1 / ranks(classes) / (1 / ranks(classes)).sum()

    def draw(n: int, rng: np.random.Generator) -> Pair:
        y = rng.choice(classes, n, p=share)
        return centres[y] + rng.standard_normal((n, d)), y

    return draw


def imputed(sample: Sampler, share: float) -> Sampler:
    """Entries that are missing at random, replaced by the mean of their column."""

    def draw(n: int, rng: np.random.Generator) -> Pair:
        x, y = sample(n, rng)
        x[rng.random(x.shape) < share] = np.nan
        return np.where(np.isnan(x), np.nanmean(x, axis=0), x), y

    return draw


def exponential_targets(sample: Sampler, scale: float) -> Sampler:
    def draw(n: int, rng: np.random.Generator) -> Pair:
        x, y = sample(n, rng)
        return x, np.exp(scale * y)

    return draw


def patients(n: int, rng: np.random.Generator) -> Pair:
    """Ten shuffled rows of each patient, with a patient's own level in 60 features and one label each."""
    g = np.arange(n) // 10
    count = int(g.max()) + 1
    y = rng.integers(0, 2, count)
    own = rng.standard_normal((count, 60))
    own[:, 0] += 2.0 * (y - 0.5)
    order = rng.permutation(n)
    return (own[g] + rng.standard_normal((n, 60)))[order], y[g][order]


def given(x: np.ndarray, y: np.ndarray) -> Sampler:
    """Draws without replacement from the rows of a data set."""

    def draw(n: int, rng: np.random.Generator) -> Pair:
        rows = rng.choice(len(y), n, replace=False)
        return x[rows], y[rows]

    draw.rows = len(y)
    return draw


def digits_standardised() -> Pair:
    x, y = load_digits(return_X_y=True)
    return (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12), y


def texts(corpus: str, data: Path, words: int = 500) -> Pair:
    """Tf-idf of the most frequent words."""
    rows, labels = load_corpus(corpus, data)
    x = TfidfVectorizer(max_features=words).fit_transform(rows).toarray()
    return x, np.unique(labels, return_inverse=True)[1]


def encoded(corpus: str, data: Path, features: Path) -> Pair:
    x, labels = load_features(corpus, "minilm", features, data)
    return x.astype(np.float64), np.unique(labels, return_inverse=True)[1]


# name: (sampler, pilot's rows, regression)
KINDS: dict[str, tuple[Sampler, int, bool]] = {
    "two Gaussians, 300 features, distance 3": (two_gaussians(300, 3.0), 600, False),
    "two Gaussians, 300 features, distance 4": (two_gaussians(300, 4.0), 600, False),
    "two Gaussians, 300 features, distance 4, 200 rows": (two_gaussians(300, 4.0), 200, False),
    "two Gaussians, 60 features": (two_gaussians(60, 2.0), 300, False),
    "two Gaussians, variances rank^-0.3": (two_gaussians(200, 2.0, 0.3), 400, False),
    "two Gaussians, variances 1/rank": (two_gaussians(200, 1.5, 1.0), 400, False),
    "two Gaussians, one in ten": (two_gaussians(100, 2.5, 0.3, 0.1), 400, False),
    "thirty Gaussians, 100 features, 200 rows": (gaussian_classes(30, 100, 0.4), 200, False),
    "thirty Gaussians, 100 features, 600 rows": (gaussian_classes(30, 100, 0.4), 600, False),
    "ten Gaussians, variances rank^-0.5": (gaussian_classes(10, 150, 0.3, 0.5), 400, False),
    "three Gaussians, 200 features": (gaussian_classes(3, 200, 0.15), 400, False),
    "fifty classes, 200 rows": (gaussian_classes(50, 80, 0.6, 0.5), 200, False),
    "eight classes of three clusters": (gaussian_classes(8, 60, 0.6, 0.5, 3), 400, False),
    "label noise of .3": (noisy(two_gaussians(100, 3.0), 0.6), 600, False),
    "ten classes, label noise of .2": (noisy(gaussian_classes(10, 100, 0.4), 0.22), 400, False),
    "t rows, two classes": (heavy(two_gaussians(120, 2.0, 0.5), 3), 400, False),
    "t rows, ten classes": (heavy(gaussian_classes(10, 100, 0.35), 4), 400, False),
    "logistic, variances 1/rank": (logistic(200, 1.0, 3.0), 400, False),
    "logistic, equal variances": (logistic(60, 0.0, 1.5), 300, False),
    "five ordered classes": (ordinal, 400, False),
    "curved boundary": (curved, 300, False),
    "exclusive or": (exclusive_or, 400, False),
    "classes of unlike shapes": (unlike_shapes, 400, False),
    "word counts, five classes": (words(5), 300, False),
    "word counts, twenty classes": (words(20), 500, False),
    "one-hot columns": (one_hot, 300, False),
    "rectified units": (rectified, 300, False),
    "lognormal columns": (lognormal, 400, False),
    "groups of four, random labels": (grouped, 400, False),
    "random labels": (noisy(two_gaussians(60, 1.0), 1.0), 300, False),
    "flat curve": (two_gaussians(10, 2.0), 600, False),
    "eight binary columns": (binary(0.0), 200, False),
    "eight binary columns of one latent": (binary(0.3), 200, False),
    "eight binary columns, labels nearly certain": (binary(0.0, 8.0), 200, False),
    "one positive in fourteen, macro F1": (two_gaussians(20, 2.5, 0.0, 0.07), 300, False),
    "50 features, 60 rows, discriminant analysis": (two_gaussians(50, 3.5), 60, False),
    "50 features, 400 rows, discriminant analysis": (two_gaussians(50, 2.0), 400, False),
    "50 features, 60 rows, weak penalty, log loss": (two_gaussians(50, 2.0), 60, False),
    "regression, variances 1/rank": (regression(150, 1.0, 0.7), 300, True),
    "regression, equal variances": (regression(80, 0.0, 0.5), 200, True),
    "regression, 60 rows": (regression(40, 1.0, 1.0), 60, True),
    "regression, curved": (regression(60, 0.5, 0.5, 0.5), 300, True),
    "regression, t noise": (regression(100, 0.7, 0.7, 0.0, 3), 300, True),
    "topics, tf-idf, twenty classes, 200 rows of 500": (topics(20), 200, False),
    "topics, tf-idf, six classes, 200 rows of 500": (topics(6), 200, False),
    "topics, tf-idf, seventy classes, 300 rows of 500": (topics(70), 300, False),
    "twenty unequal classes": (unequal_classes(20, 60, 0.5), 300, False),
    "ten unequal classes, 150 features": (unequal_classes(10, 150, 0.3), 300, False),
    "three Gaussians, a third of the entries imputed": (imputed(gaussian_classes(3, 60, 0.3), 0.33), 300, False),
    "150 rows of 1,000 features, five classes": (gaussian_classes(5, 1000, 0.12, 0.5), 150, False),
    "150 rows of 1,000 features, logistic": (logistic(1000, 0.5, 3.0), 150, False),
    "random labels, one in five": (noisy(two_gaussians(60, 1.0, 0.0, 0.2), 1.0), 300, False),
    "regression, lognormal targets": (exponential_targets(regression(60, 0.5, 0.5), 0.9), 300, True),
    "regression, 150 rows of 1,000 features": (regression(1000, 1.0, 0.7), 150, True),
    "regression, 100 rows of 300 features": (regression(300, 0.5, 0.5), 100, True),
    "regression, 120 rows of 600 features, weak": (regression(600, 0.7, 1.2), 120, True),
    "regression, t noise of 2.5 degrees": (regression(60, 0.5, 0.5, 0.0, 2.5), 300, True),
    "patients of ten rows, shuffled": (patients, 400, False),
    "topics, tf-idf, six classes, logistic regression": (topics(6), 200, False),
    "neighbours, three Gaussians": (gaussian_classes(3, 20, 0.5), 200, False),
    "random forest, curved boundary": (curved, 200, False),
}
# Kinds whose rows depend on each other, and that no forecast from rows alone can know.
DEPENDENT = ("groups of four, random labels", "patients of ten rows, shuffled")
# Kinds of given rows: name: (rows of a folder of corpora and a folder of encoded texts, pilot's rows).
GIVEN: dict[str, tuple[Callable[[Path, Path], Pair], int]] = {
    "digits, standardised": (lambda data, features: digits_standardised(), 120),
    "banking77, tf-idf, 200 rows of 500": (lambda data, features: texts("banking77", data), 200),
    "banking77, tf-idf, 500 rows of 500": (lambda data, features: texts("banking77", data), 500),
    "questions, tf-idf, 200 rows of 500": (lambda data, features: texts("trec", data), 200),
    "questions, tf-idf, 500 rows of 500": (lambda data, features: texts("trec", data), 500),
    "subjectivity, tf-idf, 200 rows of 500": (lambda data, features: texts("subj", data), 200),
    "clinc150, tf-idf, 400 rows of 500": (lambda data, features: texts("clinc150", data), 400),
    "counterfactuals, tf-idf, 300 rows of 500": (lambda data, features: texts("amcd", data), 300),
    "banking77, MiniLM, 300 rows of 384": (lambda data, features: encoded("banking77", data, features), 300),
    "questions, MiniLM, 200 rows of 384": (lambda data, features: encoded("trec", data, features), 200),
    "subjectivity, MiniLM, 200 rows of 384": (lambda data, features: encoded("subj", data, features), 200),
    "counterfactuals, MiniLM, 300 rows of 384": (lambda data, features: encoded("amcd", data, features), 300),
    "questions, tf-idf, logistic regression": (lambda data, features: texts("trec", data), 200),
    "banking77, tf-idf, logistic regression": (lambda data, features: texts("banking77", data), 300),
}


# Kinds whose model is not ridge, or whose score is not accuracy or R².
MODELS = {
    "one positive in fourteen, macro F1": (LogisticRegression(), "f1_macro"),
    "50 features, 60 rows, discriminant analysis": (LinearDiscriminantAnalysis(), "accuracy"),
    "50 features, 400 rows, discriminant analysis": (LinearDiscriminantAnalysis(), "accuracy"),
    "50 features, 60 rows, weak penalty, log loss": (LogisticRegression(C=1000, max_iter=300), "neg_log_loss"),
    "topics, tf-idf, six classes, logistic regression": (LogisticRegression(C=10), "accuracy"),
    "questions, tf-idf, logistic regression": (LogisticRegression(C=10), "accuracy"),
    "banking77, tf-idf, logistic regression": (LogisticRegression(C=10), "accuracy"),
    "neighbours, three Gaussians": (KNeighborsClassifier(7), "accuracy"),
    "random forest, curved boundary": (RandomForestClassifier(30, random_state=0), "accuracy"),
}


def true_score(x: np.ndarray, y: np.ndarray, x_new: np.ndarray, y_new: np.ndarray, numbers: bool) -> float:
    if numbers:
        fit = fit_ridge(x, y[:, None]).predict(x_new)[:, 0]
        return float(1 - ((fit - y_new) ** 2).mean() / y_new.var())
    classes = int(max(y.max(), y_new.max())) + 1
    fit = fit_ridge(x, np.where(y[:, None] == np.arange(classes), 1.0, -1.0))
    return float((fit.predict(x_new).argmax(axis=1) == y_new).mean())


def truth_of(name: str, kind: tuple[Sampler, int, bool], known: dict) -> list[float]:
    """Scores at 1, 2, 4 and 8 times the pilot."""
    if name not in known:
        sample, pilot, numbers = kind
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        tested = None if name in GIVEN else sample(TESTED_NUMBERS if numbers else TESTED, rng)

        def score(n: int) -> float:
            if tested is None:  # draws are in random order
                x, y = sample(min(n + TESTED, sample.rows), rng)
                new, rows = (x[n:], y[n:]), (x[:n], y[:n])
            else:
                new, rows = tested, sample(n, rng)
            if name in MODELS:
                model, scoring = MODELS[name]
                return float(get_scorer(scoring)(clone(model).fit(*rows), *new))
            return true_score(*rows, *new, numbers)

        known[name] = [float(np.mean([score(pilot * m) for _ in range(TRUTH_DRAWS)])) for m in (1, *MULTIPLES)]
    return known[name]


def load_kind(name: str, data: Path | None, features: Path) -> tuple[Sampler, int, bool]:
    """Sampler, pilot's rows, and whether it is a regression."""
    if name in KINDS:
        return KINDS[name]
    load, pilot = GIVEN[name]
    return given(*load(data or Path("data"), features)), pilot, False


def measure(draws: int, half: str, out: Path, only: str, seeds: int, data: Path | None, features: Path) -> None:
    done = {(c["kind"], c["seed"]) for c in map(json.loads, out.read_text().splitlines())} if out.exists() else set()
    truths = out.with_suffix(".truth.json")
    known = json.loads(truths.read_text()) if truths.exists() else {}
    for name in (*KINDS, *(GIVEN if data is not None else ("digits, standardised",))):
        missing = [seed for seed in range(seeds, seeds + draws) if (name, seed) not in done]
        if half not in (half_of(name), "both") or only not in name or not missing:
            continue
        kind = load_kind(name, data, features)
        sample, pilot, numbers = kind
        truth = truth_of(name, kind, known)
        truths.write_text(json.dumps(known))
        for seed in missing:
            x, y = sample(pilot, np.random.default_rng([zlib.crc32(name.encode()), seed]))
            model, scoring = MODELS.get(name, (None, None))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    f = sp.forecast(
                        x,
                        y,
                        n=[pilot * m for m in (1, *MULTIPLES)],
                        target=truth[2] if truth[2] > 0 else None,
                        task="regression" if numbers else "classification",
                        estimator=model,
                        scoring=scoring,
                        random_state=seed,
                    )
                except sp.SizeError:
                    record = {"kind": name, "seed": seed, "truth": truth, "refused": True}
                    with out.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                    continue
            record = {
                "kind": name,
                "seed": seed,
                "truth": truth,
                "score": np.round(f.score, 4).tolist(),
                "interval": np.round(f.interval, 4).tolist(),
                # earlier versions lack some of these
                "known": getattr(f, "known", np.full(len(f.n), True)).tolist(),
                "rows": getattr(f, "required_samples", None),
                "probability": [round(p, 3) for _, p in getattr(f, "target_probability", None) or ()],
                "flagged": bool(
                    f.verdict != "learning" or not f.self_check.ok or getattr(f, "warnings", getattr(f, "notes", ()))
                ),
            }
            with out.open("a") as file:
                file.write(json.dumps(record) + "\n")
        print(name, len(missing), flush=True)


def table(out: Path, only: str = "") -> list[str]:
    """Kinds with the worst coverage first, at 2, 4 and 8 times the pilot."""
    cells = [cell for cell in map(json.loads, out.read_text().splitlines()) if only in cell["kind"]]
    rows, errors, held = [], [], []
    for name in (*KINDS, *GIVEN):
        mine = [c for c in cells if c["kind"] == name]
        refused = sum(c.get("refused", False) for c in mine)
        mine = [c for c in mine if not c.get("refused", False)]
        if refused:
            print(f"{name}: {refused} of {refused + len(mine)} refused")
        if len(mine) < FEWEST:
            continue
        truth, score = (np.array([c[field] for c in mine])[:, 1:] for field in ("truth", "score"))
        interval = np.array([c["interval"] for c in mine])[:, 1:]
        inside = (interval[..., 0] <= truth) & (truth <= interval[..., 1])
        known = np.array([c["known"] for c in mine])[:, 1:] if "known" in mine[0] else np.full(inside.shape, True)
        printed = inside[known].mean() if known.any() else np.nan
        answered = told(float(printed), int(known.any(axis=1).sum()))
        width = float(np.median(interval[..., 1] - interval[..., 0]))
        missed = miss(truth, score, interval)
        if name not in DEPENDENT:
            errors.append(np.abs(score - truth))
            held.append(inside)
        rows.append((float(inside.mean()), name, truth[0], score, 1 - known.mean(), answered, width, missed))
    rows.sort(key=lambda r: r[0])
    titles = "error | coverage | miss | width | not known | coverage where known"
    lines = [f"| kind | half | pilots | truth at 2x, 4x, 8x | {titles} |", "| --- " * 10 + "|"]
    for cover, name, truth, score, unknown, answered, width, missed in rows:
        true = " ".join(f"{t:.3f}" for t in truth)
        error = np.abs(score - truth).mean()
        lines.append(
            f"| {name} | {half_of(name)} | {len(score)} | {true} | {error:.3f} | {told(cover, len(score))} "
            f"| {missed:.2f} | {width:.2f} | {unknown:.2f} | {answered if unknown else '–'} |"
        )
    independent = [r for r in rows if r[1] not in DEPENDENT]
    for half in ("development", "set-aside"):
        mine = [r for r in independent if half_of(r[1]) == half]
        if mine:
            error, covered = np.mean([np.abs(r[3] - r[2]).mean() for r in mine]), [r[0] for r in mine]
            lines.append(
                f"\n{half}: {len(mine)} kinds, mean error {error:.4f}, coverage {np.mean(covered):.3f} "
                f"± {np.std(covered, ddof=1) / np.sqrt(len(mine)):.3f}"
            )
    lines.append("\n" + summary([(r[0], len(r[3])) for r in independent]))
    middle, far = np.quantile(np.concatenate(errors), (0.5, 0.9), axis=0)
    found = ", ".join(f"{100 * m:.1f} ({100 * f:.1f})" for m, f in zip(middle, far, strict=True))
    shares = ", ".join(f"{share:.2f}" for share in np.concatenate(held).mean(axis=0))
    lines.append(f"median (90th percentile) error in points: {found}; coverage {shares}")
    return lines


def miss(truth: np.ndarray, score: np.ndarray, interval: np.ndarray) -> float:
    """Root mean square of the error in standard deviations, from the end of the 90 % interval on the truth's side.

    One where intervals are right. Coverage cannot tell intervals that are too wide by a third from right ones in fewer
    than a hundred pilots; this can.
    """
    half = np.abs(np.where(truth > score, interval[..., 1], interval[..., 0]) - score)
    return float(np.sqrt(np.mean((1.645 * (truth - score) / np.maximum(half, 1e-9)) ** 2)))


def read_pilots(out: Path) -> dict[str, dict[int, dict]]:
    """Records by kind and seed; refused pilots are left out."""
    found: dict[str, dict[int, dict]] = {}
    for cell in map(json.loads, out.read_text().splitlines()):
        if not cell.get("refused", False):
            found.setdefault(cell["kind"], {})[cell["seed"]] = cell
    return found


def compare(out: Path, before: Path) -> list[str]:
    """Two versions on the same pilots, kinds with the worst coverage of the second first."""
    versions = read_pilots(before), read_pilots(out)
    rows = []
    for name in (*KINDS, *GIVEN):
        old, new = (version.get(name, {}) for version in versions)
        seeds = sorted(old.keys() & new.keys()) or sorted(new)
        if len(seeds) < FEWEST:
            continue
        truth, found = np.array([new[i]["truth"] for i in seeds])[:, 1:], []
        for cells in (old, new):
            if not cells:
                found.append(("–", "–", "–"))
                continue
            score, ends = (np.array([cells[i][field] for i in seeds])[:, 1:] for field in ("score", "interval"))
            inside = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
            width = float(np.median(ends[..., 1] - ends[..., 0]))
            cover = float(inside.mean())
            found.append((f"{np.abs(score - truth).mean():.3f}", told(cover, len(inside)), f"{width:.2f}"))
        pairs = " | ".join(f"{a} | {b}" for a, b in zip(*found, strict=True))
        true = " ".join(f"{t:.3f}" for t in truth.mean(axis=0))
        rows.append((cover, f"| {name} | {half_of(name)} | {len(seeds)} | {true} | {pairs} |"))
    rows.sort(key=lambda row: row[0])
    titles = "error before | error | coverage before | coverage | width before | width"
    head = f"| kind | half | pilots | truth at 2x, 4x, 8x | {titles} |"
    return [head, "| --- " * head.count(" | ") + "| --- |", *(line for _, line in rows)]


def targets(out: Path, least_rise: float = 0.01) -> list[str]:
    """How often the range of rows for the true score at four times the pilot holds that number of rows.

    Kinds whose score rises by `least_rise` and more up to there are counted. An end that is open holds everything.
    """
    cells = [json.loads(line) for line in out.read_text().splitlines()]
    cells = [
        c for c in cells if c.get("rows") and c["kind"] not in DEPENDENT and c["truth"][2] - c["truth"][0] >= least_rise
    ]
    lines = ["| ranges | cases | hold the true number | best within a factor of two |", "| --- | --- | --- | --- |"]
    parts = {
        "all": cells,
        "with two ends": [c for c in cells if c["rows"][0] is not None and c["rows"][2] is not None],
        "open above": [c for c in cells if c["rows"][0] is not None and c["rows"][2] is None],
        "not reached": [c for c in cells if c["rows"][0] is None],
    }
    for name, mine in parts.items():
        true = [4 * load_rows(c["kind"]) for c in mine]
        held = [(c["rows"][0] or np.inf) <= t <= (c["rows"][2] or np.inf) for c, t in zip(mine, true, strict=True)]
        near = [0.5 <= c["rows"][1] / t <= 2 for c, t in zip(mine, true, strict=True) if c["rows"][1] is not None]
        shares = [f"{np.mean(found):.2f}" if found else "–" for found in (held, near)]
        lines.append(f"| {name} | {len(mine)} | {shares[0]} | {shares[1]} |")
    return lines


def load_rows(name: str) -> int:
    """Rows of the pilots of a kind."""
    return KINDS[name][1] if name in KINDS else GIVEN[name][1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="table", choices=("measure", "table", "compare", "targets"))
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--half", choices=("development", "set-aside", "both"), default="development")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--before", type=Path, help="records of another version")
    parser.add_argument("--data", type=Path, help="folder of the corpora; kinds of texts are left out without it")
    parser.add_argument("--features", type=Path, default=Path("features"), help="folder of encoded texts")
    options = parser.parse_args()
    if options.what == "measure":
        measure(
            options.draws,
            options.half,
            options.out,
            options.only,
            options.first_seed,
            options.data,
            options.features,
        )
    elif options.what == "compare":
        print("\n".join(compare(options.out, options.before)))
    else:
        print("\n".join(table(options.out, options.only) if options.what == "table" else targets(options.out)))
