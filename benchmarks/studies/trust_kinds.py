"""The kinds of rows of trust_worlds.py: samplers, and the population covariance where it is known in closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import block_diag, toeplitz
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfTransformer

Sampler = Callable[[int, np.random.Generator], np.ndarray]


def ranks(d: int) -> np.ndarray:
    return np.arange(1.0, d + 1)


def gaussian(variances: np.ndarray) -> Sampler:
    return lambda n, rng: rng.standard_normal((n, len(variances))) * np.sqrt(variances)


def correlated(sigma: np.ndarray) -> Sampler:
    root = np.linalg.cholesky(sigma)
    return lambda n, rng: rng.standard_normal((n, len(sigma))) @ root.T


def planted(noise: np.ndarray, strengths: list[float]) -> np.ndarray:
    q = np.linalg.qr(np.random.default_rng(5).standard_normal((len(noise), len(strengths))))[0]
    return noise + (q * np.array(strengths)) @ q.T


def columns(variances: np.ndarray, draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]) -> Sampler:
    """Independent columns of a given law, centred and scaled to the variances; its moments by 10^6 draws."""
    sample = draw(np.random.default_rng(1), (1_000_000, 1))
    mean, sd = float(sample.mean()), float(sample.std())
    return lambda n, rng: (draw(rng, (n, len(variances))) - mean) / sd * np.sqrt(variances)


def rotated(sample: Sampler, d: int) -> Sampler:
    q = np.linalg.qr(np.random.default_rng(8).standard_normal((d, d)))[0]
    return lambda n, rng: sample(n, rng) @ q


def clusters(d: int, count: int, size: float, noise: np.ndarray) -> Sampler:
    centres = size * np.random.default_rng(3).standard_normal((count, d)) / np.sqrt(d)
    return lambda n, rng: centres[rng.integers(0, count, n)] + rng.standard_normal((n, d)) * np.sqrt(noise)


def rescaled(sample: Sampler, scale: Sampler) -> Sampler:
    return lambda n, rng: sample(n, rng) * scale(n, rng)[:, None]


def autoregressive(sample: Sampler, rho: float) -> Sampler:
    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        steps = sample(n, rng)
        for i in range(1, n):
            steps[i] = rho * steps[i - 1] + np.sqrt(1 - rho**2) * steps[i]
        return steps

    return draw


def grouped(sample: Sampler, size: int, rho: float) -> Sampler:
    """Shuffled rows in groups of `size` whose members are correlated by rho."""

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        centres = sample(-(-n // size), rng)[np.arange(n) // size]
        return (np.sqrt(rho) * centres + np.sqrt(1 - rho) * sample(n, rng))[rng.permutation(n)]

    return draw


def poisson_factors(n: int, rng: np.random.Generator) -> np.ndarray:
    loadings = np.random.default_rng(2).standard_normal((3, 60)) * 0.5
    return rng.poisson(2 * np.exp(rng.standard_normal((n, 3)) @ loadings - 0.5 * (loadings**2).sum(axis=0))).astype(
        float
    )


def topic_logs(n: int, rng: np.random.Generator) -> np.ndarray:
    fixed = np.random.default_rng(0)
    rate = 20 / ranks(150)
    topics = fixed.dirichlet(np.full(150, 0.1), 6) * rate.sum()
    return np.log1p(rng.poisson(0.5 * rng.dirichlet(np.full(6, 0.5), n) @ topics + 0.5 * rate))


def one_hot(n: int, rng: np.random.Generator) -> np.ndarray:
    """Twenty categorical columns of four levels, tied by one latent factor."""
    latent = rng.standard_normal((n, 1))
    level = np.digitize(norm.cdf(0.7 * latent + np.sqrt(0.51) * rng.standard_normal((n, 20))), [0.25, 0.5, 0.75])
    return (level[..., None] == np.arange(4)).reshape(n, 80).astype(float)


def sparse_binary(n: int, rng: np.random.Generator) -> np.ndarray:
    """Word presences, rates 1/rank, with two latent factors."""
    loadings = np.random.default_rng(4).standard_normal((2, 100))
    logit = -1 - np.log(ranks(100)) * 0.7 + rng.standard_normal((n, 2)) @ loadings * 0.8
    return (rng.random((n, 100)) < 1 / (1 + np.exp(-logit))).astype(float)


def mixture(n: int, rng: np.random.Generator) -> np.ndarray:
    plain, shifted = rng.standard_normal((n, 100)), rng.random(n) < 0.3
    first = plain * ranks(100) ** -0.5 + np.where(np.arange(100) < 10, 1.0, 0.0)
    return np.where(shifted[:, None], first, plain * np.sqrt(0.5 * (ranks(100) ** -0.5)[::-1]))


def unit_rows(n: int, rng: np.random.Generator) -> np.ndarray:
    x = gaussian(1 / ranks(120))(n, rng) + 0.3
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def hidden_units(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rectified outputs of a random layer over twenty latents of falling variance."""
    fixed = np.random.default_rng(6)
    layer = fixed.standard_normal((20, 100)) / np.sqrt(20)
    return np.maximum(gaussian(4 / ranks(20))(n, rng) @ layer + 0.2 * rng.standard_normal((n, 100)), 0.0)


def heavy_factors(n: int, rng: np.random.Generator) -> np.ndarray:
    loadings = np.random.default_rng(7).standard_normal((8, 80)) * (1 / np.sqrt(ranks(8)))[:, None]
    return rng.standard_t(4, (n, 8)) @ loadings + rng.standard_normal((n, 80))


def blocks(d: int, size: int, rho: float) -> np.ndarray:
    return np.kron(np.eye(d // size), np.full((size, size), rho)) + (1 - rho) * np.eye(d)


def factors(d: int, strengths: list[float], noise: np.ndarray, seed: int) -> np.ndarray:
    """Covariance of independent factors with random loadings over noise of given variances."""
    loadings = np.random.default_rng(seed).standard_normal((len(strengths), d)) / np.sqrt(d)
    return (loadings.T * np.array(strengths)) @ loadings + np.diag(noise)


def uneven_blocks(sizes: list[int], rho: float) -> np.ndarray:
    return block_diag(*(np.full((m, m), rho) + (1 - rho) * np.eye(m) for m in sizes))


def negative_binomial(n: int, rng: np.random.Generator) -> np.ndarray:
    """Overdispersed counts (dispersion 2) whose rates follow two factors."""
    loadings = np.random.default_rng(11).standard_normal((2, 50)) * 0.4
    rate = 3 * np.exp(rng.standard_normal((n, 2)) @ loadings - 0.5 * (loadings**2).sum(axis=0))
    return rng.poisson(rate * rng.gamma(2.0, 0.5, (n, 50))).astype(float)


def small_counts(n: int, rng: np.random.Generator) -> np.ndarray:
    """Poisson counts whose rates are sums of four non-negative parts, as in topic models without logarithms."""
    parts = np.random.default_rng(12).gamma(0.3, 1.0, (4, 80))
    return rng.poisson(rng.gamma(1.0, 1.0, (n, 4)) @ parts).astype(float)


def skewed_factors(n: int, rng: np.random.Generator) -> np.ndarray:
    loadings = np.random.default_rng(13).standard_normal((6, 70)) * np.sqrt(2 / ranks(6))[:, None]
    return rng.exponential(1.0, (n, 6)) @ loadings + rng.standard_normal((n, 70))


def cosines(n: int, rng: np.random.Generator) -> np.ndarray:
    """Random Fourier features of five latents."""
    fixed = np.random.default_rng(14)
    return np.cos(rng.standard_normal((n, 5)) @ fixed.standard_normal((5, 120)) * 0.6 + fixed.uniform(0, 6.28, 120))


def products(n: int, rng: np.random.Generator) -> np.ndarray:
    """Ten latents of falling variance, and all products of two of them."""
    z = gaussian(1 / ranks(10) ** 0.5)(n, rng)
    i, j = np.triu_indices(10)
    return np.hstack([z, z[:, i] * z[:, j]])


def answers(n: int, rng: np.random.Generator) -> np.ndarray:
    """Answers from 1 to 5 to forty questions about four attitudes."""
    loadings = np.random.default_rng(15).standard_normal((4, 40)) * 0.5
    return (
        np.digitize(rng.standard_normal((n, 4)) @ loadings + rng.standard_normal((n, 40)), [-1.5, -0.5, 0.5, 1.5]) + 1.0
    )


def shares(n: int, rng: np.random.Generator) -> np.ndarray:
    """Centred logarithms of shares of 60 parts, a Dirichlet mixture of three recipes."""
    recipes = np.random.default_rng(16).gamma(2.0, 1.0, (3, 60))
    logs = np.log(rng.gamma(recipes[rng.integers(0, 3, n)] + 0.5) + 1e-9)
    return logs - logs.mean(axis=1, keepdims=True)


def cluster_sizes(n: int, rng: np.random.Generator) -> np.ndarray:
    """Twenty clusters of unequal size and spread."""
    fixed = np.random.default_rng(17)
    centres, spread = fixed.standard_normal((20, 60)) * 0.9, fixed.uniform(0.5, 1.5, 20)
    share = 1 / ranks(20)
    which = rng.choice(20, n, p=share / share.sum())
    return centres[which] + rng.standard_normal((n, 60)) * spread[which, None]


def gamma_scales(shape: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    return lambda n, rng: np.sqrt(rng.gamma(shape, 1 / shape, n))


def lognormal(sd: float) -> Callable[[np.random.Generator, tuple[int, int]], np.ndarray]:
    return lambda rng, shape: rng.lognormal(0, sd, shape)


def pareto(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.pareto(4.5, shape)


GEOMETRIC = np.geomspace(1.0, 0.2, 60)
NEAR = np.linspace(1.1, 0.9, 60)


def tfidf(n: int, rng: np.random.Generator) -> np.ndarray:
    """Tf-idf of texts of twelve words from 15 topics, two to a text."""
    fixed = np.random.default_rng(21)
    topics = fixed.dirichlet(np.full(200, 0.1), 15)
    mixed = (topics[rng.integers(0, 15, n)] + topics[rng.integers(0, 15, n)]) / 2
    return np.asarray(TfidfTransformer().fit_transform(rng.poisson(12 * mixed)).toarray())


def seven_factors(n: int, rng: np.random.Generator) -> np.ndarray:
    loadings = np.random.default_rng(22).standard_normal((7, 50)) * ranks(7)[:, None] ** -0.5
    return rng.standard_normal((n, 7)) @ loadings + rng.standard_normal((n, 50)) * np.linspace(1.2, 0.4, 50)


def imputed(n: int, rng: np.random.Generator) -> np.ndarray:
    x = seven_factors(n, rng)
    x[rng.random(x.shape) < 0.33] = np.nan
    return np.where(np.isnan(x), np.nanmean(x, axis=0), x)


def standardised(n: int, rng: np.random.Generator) -> np.ndarray:
    x = seven_factors(n, rng) * np.random.default_rng(23).lognormal(0, 2, 50)
    return (x - x.mean(axis=0)) / x.std(axis=0)


def digits(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of scikit-learn's digits, drawn with replacement where all of them are asked for several times."""
    x = load_digits().data
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    return x[rng.choice(len(x), n, replace=n > len(x))]


def pooled_tokens(gain: float, words: int = 480, length: int = 10, shared: int = 3) -> Sampler:
    """Means of tokens of one table (300 features) whose halves differ along a direction; the first tokens agree."""
    fixed = np.random.default_rng(24)
    table = fixed.standard_normal((words, 300))
    direction = fixed.standard_normal(300)
    table += gain * np.where(np.arange(words) < words // 2, 1, -1)[:, None] * direction / np.linalg.norm(direction)

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        sides = rng.integers(0, 2, (n, length))
        sides[:, :shared] = sides[:, :1]
        tokens = rng.integers(0, words // 2, (n, length)) + sides * (words // 2)
        usage = np.zeros((n, words))
        np.add.at(usage, (np.repeat(np.arange(n), length), tokens.ravel()), 1 / length)
        return np.asarray(usage @ table)

    return draw


# name: (sampler, rows, population covariance or None for that of 100,000 rows)
KINDS: dict[str, tuple[Sampler, int, np.ndarray | None]] = {
    "variances 1/rank": (gaussian(1 / ranks(120)), 400, np.diag(1 / ranks(120))),
    "variances 1/rank, 100 rows of 300": (gaussian(1 / ranks(300)), 100, np.diag(1 / ranks(300))),
    "variances rank^-0.5": (gaussian(ranks(120) ** -0.5), 600, np.diag(ranks(120) ** -0.5)),
    "variances rank^-2": (gaussian(ranks(80) ** -2), 400, np.diag(ranks(80) ** -2)),
    "variances geometric to 1/5, 30 features": (
        gaussian(np.geomspace(1, 0.2, 30)),
        1000,
        np.diag(np.geomspace(1, 0.2, 30)),
    ),
    "variances geometric to 1/5, 60 features": (gaussian(GEOMETRIC), 1000, np.diag(GEOMETRIC)),
    "five clusters, isotropic noise": (clusters(60, 5, 6.0, np.ones(60)), 400, None),
    "five clusters, unequal noise": (clusters(60, 5, 6.0, np.linspace(2, 0.5, 60)), 400, None),
    "ten clusters, 200 rows": (clusters(40, 10, 8.0, np.ones(40)), 200, None),
    "3 factors over Toeplitz noise": (
        correlated(planted(toeplitz(0.6 ** np.arange(120)), [12, 8, 4])),
        400,
        planted(toeplitz(0.6 ** np.arange(120)), [12, 8, 4]),
    ),
    "12 factors over isotropic noise": (
        correlated(planted(np.eye(100), list(np.linspace(6, 1, 12)))),
        400,
        planted(np.eye(100), list(np.linspace(6, 1, 12))),
    ),
    "three levels": (
        gaussian(np.repeat([10.0, 3.0, 1.0], [10, 30, 80])),
        400,
        np.diag(np.repeat([10.0, 3.0, 1.0], [10, 30, 80])),
    ),
    "two levels, 12 of 60 at 4 to 1": (
        gaussian(np.repeat([4.0, 1.0], [12, 48])),
        300,
        np.diag(np.repeat([4.0, 1.0], [12, 48]) - 1e-6 * ranks(60)),
    ),
    "standard deviations 3 to 1, 60 features": (
        gaussian(np.linspace(3, 1, 60) ** 2),
        300,
        np.diag(np.linspace(3, 1, 60) ** 2),
    ),
    "variances geometric to 1/5, 400 rows": (gaussian(GEOMETRIC), 400, np.diag(GEOMETRIC)),
    "two close spikes": (correlated(planted(np.eye(100), [5.2, 4.8])), 500, planted(np.eye(100), [5.2, 4.8])),
    "one spike": (correlated(planted(np.eye(100), [4.0])), 500, planted(np.eye(100), [4.0])),
    "isotropic noise": (gaussian(np.ones(80)), 500, None),
    "t rows, 3 degrees, 1/rank": (
        rescaled(gaussian(1 / ranks(120)), lambda n, rng: (rng.chisquare(3, n) / 3) ** -0.5),
        400,
        np.diag(1 / ranks(120)),
    ),
    "one row in ten five times as large": (
        rescaled(gaussian(1 / ranks(120)), lambda n, rng: np.where(rng.random(n) < 0.1, 5.0, 1.0)),
        400,
        np.diag(1 / ranks(120)),
    ),
    "lognormal columns, 1/rank": (columns(1 / ranks(100), lognormal(1.0)), 600, np.diag(1 / ranks(100))),
    "lognormal columns, nearly equal": (columns(NEAR, lognormal(1.0)), 2000, np.diag(NEAR)),
    "Pareto columns, nearly equal": (columns(NEAR, pareto), 2000, np.diag(NEAR)),
    "Pareto columns, 1/rank, rotated": (rotated(columns(1 / ranks(80), pareto), 80), 600, None),
    "Laplace columns, 1/rank": (
        columns(1 / ranks(100), lambda rng, shape: rng.laplace(size=shape)),
        500,
        np.diag(1 / ranks(100)),
    ),
    "uniform columns, 1/rank": (
        columns(1 / ranks(100), lambda rng, shape: rng.random(shape)),
        500,
        np.diag(1 / ranks(100)),
    ),
    "chi-squared columns, rank^-0.7": (
        columns(ranks(80) ** -0.7, lambda rng, shape: rng.chisquare(2, shape)),
        800,
        np.diag(ranks(80) ** -0.7),
    ),
    "Poisson counts of three factors": (poisson_factors, 600, None),
    "logarithms of topic counts": (topic_logs, 400, None),
    "one-hot columns with a factor": (one_hot, 500, None),
    "word presences with two factors": (sparse_binary, 600, None),
    "blocks of correlated columns": (
        correlated(blocks(60, 6, 0.5)),
        500,
        blocks(60, 6, 0.5) + np.diag(1e-3 * ranks(60)),
    ),
    "autoregressive rows": (autoregressive(gaussian(1 / ranks(100)), 0.6), 500, np.diag(1 / ranks(100))),
    "groups of four, correlation .94": (grouped(gaussian(1 / ranks(100)), 4, 0.94), 400, np.diag(1 / ranks(100))),
    "mixture of two populations": (mixture, 500, None),
    "rows of unit length": (unit_rows, 400, None),
    "rounded to eight bits": (lambda n, rng: np.round(30 * gaussian(1 / ranks(120))(n, rng)), 400, None),
    "rectified units": (hidden_units, 500, None),
    "heavy-tailed factors": (heavy_factors, 500, None),
    "eight equal blocks, correlation .7": (
        correlated(blocks(40, 5, 0.7)),
        300,
        blocks(40, 5, 0.7) + np.diag(1e-3 * ranks(40)),
    ),
    "blocks of 3 to 15 columns": (
        correlated(uneven_blocks([15, 12, 10, 8, 6, 5, 4, 3], 0.6)),
        400,
        uneven_blocks([15, 12, 10, 8, 6, 5, 4, 3], 0.6) + np.diag(1e-6 * ranks(63)),
    ),
    "overdispersed counts of two factors": (negative_binomial, 500, None),
    "counts of four parts": (small_counts, 400, None),
    "one row in twenty four times as large, rank^-0.7": (
        rescaled(gaussian(ranks(90) ** -0.7), lambda n, rng: np.where(rng.random(n) < 0.05, 4.0, 1.0)),
        500,
        np.diag(ranks(90) ** -0.7),
    ),
    "gamma scales of rows, rank^-0.8": (
        rescaled(gaussian(ranks(100) ** -0.8), gamma_scales(1.0)),
        400,
        np.diag(ranks(100) ** -0.8),
    ),
    "five strong variances over equal ones": (
        gaussian(np.repeat([4.0, 1.0], [5, 95])),
        300,
        np.diag(np.repeat([4.0, 1.0], [5, 95]) - 1e-6 * ranks(100)),
    ),
    "a plateau of ten, then 1/rank": (
        gaussian(np.minimum(1.0, 10 / ranks(150))),
        500,
        np.diag(np.minimum(1.0, 10 / ranks(150)) - 1e-6 * ranks(150)),
    ),
    "six factors, unequal noise": (
        correlated(factors(80, [40.0, 30, 20, 15, 10, 8], np.linspace(0.5, 2, 80), 20)),
        300,
        factors(80, [40.0, 30, 20, 15, 10, 8], np.linspace(0.5, 2, 80), 20),
    ),
    "variances exp(-rank/10)": (gaussian(np.exp(-ranks(60) / 10)), 300, np.diag(np.exp(-ranks(60) / 10))),
    "Toeplitz columns, correlation .9": (
        correlated(toeplitz(0.9 ** np.arange(80))),
        300,
        toeplitz(0.9 ** np.arange(80)),
    ),
    "skewed factors": (skewed_factors, 400, None),
    "random Fourier features": (cosines, 500, None),
    "products of latents": (products, 500, None),
    "ordinal answers of four attitudes": (answers, 300, None),
    "logarithms of shares": (shares, 300, None),
    "twenty clusters of unequal size": (cluster_sizes, 500, None),
    "variances rank^-0.7, 200 rows of 500": (gaussian(ranks(500) ** -0.7), 200, np.diag(ranks(500) ** -0.7)),
    "variances 1/rank, 100 rows of 6": (gaussian(1 / ranks(6)), 100, np.diag(1 / ranks(6))),
    "variances 1/rank, 60 rows of 4": (gaussian(1 / ranks(4)), 60, np.diag(1 / ranks(4))),
    "variances 1/rank, 60 rows of 8": (gaussian(1 / ranks(8)), 60, np.diag(1 / ranks(8))),
    "variances 1/rank, 60 rows of 400": (gaussian(1 / ranks(400)), 60, np.diag(1 / ranks(400))),
    "variances rank^-0.5, 60 rows of 400": (gaussian(ranks(400) ** -0.5), 60, np.diag(ranks(400) ** -0.5)),
    "variances 1/rank, 150 rows of 1,000": (gaussian(1 / ranks(1000)), 150, np.diag(1 / ranks(1000))),
    "tf-idf of topics": (tfidf, 400, None),
    "factors, a third of the entries imputed": (imputed, 300, None),
    "factors, standardised columns": (standardised, 300, None),
    "digits, standardised": (digits, 200, None),
    "pooled tokens with a signal, 150 rows of 300": (pooled_tokens(3.0), 150, None),
    "pooled tokens without a signal, 150 rows of 300": (pooled_tokens(0.0), 150, None),
}
