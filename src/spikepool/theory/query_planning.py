"""What a query gains, its best slope, its gate, and how many sequences it needs."""

from __future__ import annotations

import warnings
from typing import TypeVar

import numpy as np

from spikepool.errors import InvalidInputError, UnreachableError
from spikepool.kit import validation as check
from spikepool.theory.query_noise import QueryNoise
from spikepool.theory.query_population import QueryPopulation
from spikepool.theory.query_spectrum import token_spectra, top_alignment
from spikepool.theory.query_usage import query_usage
from spikepool.world.query import QueryWorld
from spikepool.world.query_fields import KERNELS

World = TypeVar("World", bound=QueryWorld)


def gain(world: QueryWorld, *, rng: int = 0) -> float:
    """alpha/kappa = E[A²]/E[kappa] over that of mean pooling, L²/T, for tokens that never repeat."""
    usages = query_usage(world.replace(V=None), rng)
    return usages.alpha / usages.kappa / world.mean_gain


def best_beta(world: QueryWorld, *, rng: int = 0, doublings: int = 4) -> float:
    """The slope beta >= 0 with the largest predicted alignment.

    Where no slope makes the signal detectable it is the one with the lowest threshold. The maximum is looked for on a
    grid up to three times the usual slope (nu m, with a window nu m times its size), then around its best point, to one
    hundredth of that slope: it is flat. A grid whose last point is best is doubled, up to `doublings` times. A maximum
    beyond is hard attention, the limit beta → ∞, and a :class:`UserWarning` says that the largest slope tried is
    returned.
    """
    if callable(world.kernel) or world.kernel not in KERNELS:
        raise InvalidInputError(
            f"kernel {world.kernel!r} has no beta", world.kernel, "Compare predictions of several kernels"
        )

    def value(beta: float) -> float:
        alignment, threshold = top_alignment(world.replace(beta=float(beta)), rng=rng)
        return alignment if alignment > 0 else -threshold / max(world.mu, 1e-12)

    usual = world.strength * (world.window or 1)
    top = 3 * max(usual, 0.5)
    grid = np.linspace(0.0, top, 16)
    values = [value(beta) for beta in grid]
    for _ in range(doublings):
        # a plateau that ends the grid has its maximum inside
        if int(np.argmax(values)) < len(grid) - 1 or values[-1] <= values[-2]:
            break
        more = np.linspace(grid[-1], 2 * grid[-1], 9)[1:]
        grid, values = np.append(grid, more), [*values, *(value(beta) for beta in more)]
    i = int(np.argmax(values))
    if i == len(grid) - 1 and values[-1] > values[-2]:
        warnings.warn(
            f"the alignment still grows at beta = {grid[-1]:.4g}, the largest slope tried: hard attention is best",
            UserWarning,
            stacklevel=3,
        )
        return float(grid[-1])
    low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    ratio = (np.sqrt(5) - 1) / 2  # golden section
    inner = [high - ratio * (high - low), low + ratio * (high - low)]
    heights = [value(x) for x in inner]
    while high - low > 0.01 * max(top / 3, 0.1):
        if heights[0] < heights[1]:
            low, inner[0], heights[0] = inner[0], inner[1], heights[1]
            inner[1] = low + ratio * (high - low)
            heights[1] = value(inner[1])
        else:
            high, inner[1], heights[1] = inner[1], inner[0], heights[0]
            inner[0] = high - ratio * (high - low)
            heights[0] = value(inner[0])
    best = inner[int(np.argmax(heights))]
    return float(grid[i] if values[i] > max(heights) else best)


def gate(world: World, *, rng: int = 0) -> World:
    """`world` with the gate sigma(beta (h − nu m/2) + log(L/(T − L))).

    For tokens that never repeat, beta = nu m: the weights are the posterior probabilities of being relevant given a
    token's own score, which maximise E[A]²/E[kappa] among all functions of it. That is the criterion where signs are
    known, as for labels. The alignment of PCA follows E[A²] instead, and its best weights are the kernel "optimal"; for
    one relevant token that is hard attention, which can be far better than the gate. The gate's weights are divided by
    their sum or not, whichever has the larger predicted alignment. Tokens of a finite vocabulary keep their weights in
    all sequences, so that a gentler slope is best: that of :func:`best_beta`, for normalised weights.
    """
    normalised = world.replace(kernel="sigmoid", beta=None, normalize=True, window=None)
    if world.V is not None:
        return normalised.replace(beta=best_beta(normalised, rng=rng))
    either = (normalised, normalised.replace(normalize=False))
    return max(either, key=lambda one: top_alignment(one, rng=rng)[0])


def required_samples(world: QueryWorld, alignment: float = 0.8, *, rng: int = 0) -> int:
    """Smallest N at which the top eigenvector's predicted alignment reaches `alignment`.

    Raises
    ------
    UnreachableError
        When no number of sequences that can be computed reaches it; its ``limit`` is the alignment of infinitely many
        for a finite vocabulary, and that of the largest N tried otherwise.
    """
    target = check.fraction(alignment, "alignment", closed=False)
    largest = 1 << 40 if world.V is None else max(world.N, 20_000_000 // world.T)
    ceiling = 1.0 if world.V is None else QueryPopulation(world, query_usage(world, rng), QueryNoise(world)).signal[1]

    def reached(N: int) -> bool:
        at = world.replace(N=N)
        return float(np.mean([one.top for one in token_spectra(at, rng)])) >= target

    low, high = 1, 2
    if world.mu > 0 and ceiling > target:
        high = max(2, world.d // 8)
        while high < largest and not reached(high):
            low, high = high, min(4 * high, largest)
    if world.mu == 0 or ceiling <= target or (high >= largest and not reached(high)):
        limit = ceiling if world.V is not None and world.mu > 0 else 0.0
        raise UnreachableError(
            f"no number of sequences reaches this alignment; the limit is {limit:.6g}",
            target,
            "Raise mu or nu, improve the query, lower beta, or lower the target",
            limit=limit,
        )
    # a finite vocabulary is drawn anew for every N, which a search for the last sequence would only follow
    while high - low > (1 if world.V is None else max(1, low // 100)):
        middle = (low + high) // 2 if high < 4 * low else round((low * high) ** 0.5)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
