"""Simulated spectra of the pooled covariance S: draws of the model, and the top of the spectrum of each.

Only the top eigenpairs are wanted most of the time, and they come from a Krylov space of S
(:mod:`spikepool.simulation.top_pairs`), which needs the table only through a few dozen products. Where its noise is
Gaussian these are drawn instead of the table (:mod:`spikepool.simulation.undrawn`), exactly in law: the cost is
O((N·T + V·k) k) for k products, whatever d. Other noise laws, and weights that are a function of the table, take a
drawn table (:mod:`spikepool.simulation.drawn`).

:class:`SimulationResult` has the top eigenpairs of every draw and the route by which they were found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.progress import Progress
from spikepool.kit.results import Result, Table
from spikepool.kit.statistics import standard_error
from spikepool.kit.threads import Map, task_threads
from spikepool.simulation import drawn
from spikepool.simulation.drawn import Weights, check_grid, named_weights
from spikepool.simulation.mean_table import mean_table
from spikepool.simulation.top_pairs import top_pairs_together
from spikepool.simulation.undrawn import UndrawnNoise, UndrawnSource, apply_together
from spikepool.world.pooled_latents import pooling_weights
from spikepool.world.sampling import draw_sample, table_dtype
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld
from spikepool.world.tokens import token_bytes


@dataclass(frozen=True)
class SimulationResult(Result, schema="simulation"):
    """Top eigenpairs over independent draws.

    Attributes
    ----------
    eigenvalues : numpy.ndarray of shape (trials, k)
        Largest eigenvalues of S, descending.
    alignments : numpy.ndarray of shape (trials, k)
        Squared cosine of each of their eigenvectors with u.
    table_drawn : bool
        The route: whether tables were drawn, or only their products.
    """

    eigenvalues: FloatArray
    alignments: FloatArray
    table_drawn: bool

    @property
    def alignment(self) -> FloatArray:
        """Alignment of the top eigenvector with u in each trial, (trials,)."""
        return self.alignments[:, 0]

    @property
    def eigenvalue(self) -> FloatArray:
        """Largest eigenvalue in each trial, (trials,)."""
        return self.eigenvalues[:, 0]

    def _tables(self) -> list[Table]:
        return [mean_table(self.eigenvalues, self.alignments)]

    def plot(self, ax: Any = None, *, predicted: float | None = None) -> Any:
        """Alignment of the top eigenvector in each draw, with their mean, beside a prediction; returns the axes."""
        from spikepool.drawing.predictions import draw_trials

        return draw_trials(self.alignments[:, :1], ax, predicted=None if predicted is None else [predicted])


@dataclass(frozen=True)
class GridResult(Result, schema="grid"):
    """Top eigenpairs for several weights and signal strengths that share their draws.

    Attributes
    ----------
    names : tuple of str
        Names of the weights.
    mus : numpy.ndarray of shape (m,)
        Signal strengths.
    eigenvalues, alignments : numpy.ndarray of shape (weights, m, trials, k)
        As in :class:`SimulationResult`.
    table_drawn : bool
        As there.
    """

    names: tuple[str, ...]
    mus: FloatArray
    eigenvalues: FloatArray
    alignments: FloatArray
    table_drawn: bool

    def _tables(self) -> list[Table]:
        rows = []
        for name, by_mu in zip(self.names, self.alignments[..., 0], strict=True):
            cells = [f"{draws.mean():.4g} ± {standard_error(draws):.1g}" for draws in by_mu]
            rows.append((name, *cells))
        title = f"Alignment of the top eigenvector, {self.alignments.shape[2]} draws"
        return [(title, ("weights", *(f"mu = {mu:.4g}" for mu in self.mus)), rows)]

    def plot(self, ax: Any = None) -> Any:
        """Alignment of the top eigenvector against mu, for each of the weights; returns the axes."""
        from spikepool.drawing.predictions import draw_grid

        return draw_grid(self.mus, self.alignments[..., 0], self.names, ax)


# Token positions from which threads are worth their overhead.
_THREADED_SIZE = 1 << 21

# Products with an undrawn table that memory is asked for beforehand; a signal above its threshold takes ten, the edge
# of the bulk fifty. Further ones are asked for as they come.
_USUAL_PRODUCTS = 64


def simulate(
    model: SequenceWorld,
    w: Weights,
    trials: int = 20,
    k: int | None = None,
    *,
    rng: Any = None,
    table_drawn: bool | None = None,
    dtype: Any = np.float64,
    progress: bool | None = None,
) -> SimulationResult:
    """Top `k` eigenvalues of S and the alignments of their eigenvectors with u, over independent draws.

    Parameters
    ----------
    model : SequenceWorld
        What is drawn, anew in each trial.
    w : array_like or callable
        Weights (T,), or (N, T) with a row for each sequence; or a function of the drawn
        :class:`~spikepool.world.sampling.Sample` that returns either, such as
        ``lambda s: s.attention_weights(tau=1.0)``.
    trials : int
        Number of draws.
    k : int, optional
        Number of eigenpairs, at most the rank of S; by default as many as there can be outliers of the signal and of
        the mean, one where S is centred and two where it is not. Pairs inside the bulk take many more steps.
    rng : int, SeedSequence or Generator, optional
        Trial i draws from ``SeedSequence(entropy, spawn_key=(..., i))``: its numbers do not depend on `trials`, nor on
        the number of threads.
    table_drawn : bool, optional
        Whether the table is drawn. By default it is not where its noise is Gaussian and no weights are a function of
        the draw: the law of the results is the same, their numbers are others. The tokens of a seed are the same on
        both routes.
    dtype : {float64, float32}
        Precision of a drawn table; in float32 results carry about 5 digits.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after a couple of seconds.
    """
    result = simulate_grid(
        model, {"w": w}, [model.mu], trials, k, rng=rng, table_drawn=table_drawn, dtype=dtype, progress=progress
    )
    return SimulationResult(result.eigenvalues[0, 0], result.alignments[0, 0], result.table_drawn)


def simulate_grid(
    model: SequenceWorld,
    weights: Mapping[str, Weights] | Sequence[Weights],
    mus: ArrayLike,
    trials: int = 20,
    k: int | None = None,
    *,
    rng: Any = None,
    table_drawn: bool | None = None,
    dtype: Any = np.float64,
    progress: bool | None = None,
) -> GridResult:
    """Simulate several weights and several signal strengths on the same draws.

    Parameters as in :func:`simulate`; `mus` replaces the model's mu. With a drawn table each number equals that of
    ``simulate`` with that mu, the same weights and the same `rng`, to about 1e-8, at a small fraction of the cost:
    table and tokens are drawn once a trial, and one Krylov space for each weights serves every mu. Without one all
    weights and all mu of a trial still see one and the same table, the one whose products were drawn.
    """
    named = named_weights(weights)
    strengths, k = check_grid(model, named, mus, k)
    trials = check.size(trials, "trials")
    route = takes_drawn_table(model, named.values(), table_drawn)
    root = seed_sequence(rng)
    one = _one_draw(model, named, strengths, k, table_drawn=route, dtype=dtype)
    require_memory(16 * len(named) * len(strengths) * trials * k, f"{trials:,} trials", "Ask for fewer trials")
    values = np.empty((len(named), len(strengths), trials, k))
    alignments = np.empty_like(values)
    with Progress(trials, "simulating", show=progress) as bar:
        for i in range(trials):
            values[:, :, i], alignments[:, :, i] = one(child_seed(root, i))
            bar.advance()
    return GridResult(tuple(named), strengths, values, alignments, route)


def simulate_draw(
    model: SequenceWorld,
    weights: Mapping[str, Weights] | Sequence[Weights],
    mus: ArrayLike,
    k: int | None = None,
    *,
    rng: Any = None,
    table_drawn: bool | None = None,
    dtype: Any = np.float64,
) -> tuple[FloatArray, FloatArray]:
    """Top `k` eigenvalues and alignments, each (weights, mus, k), of the one draw of seed `rng`."""
    named = named_weights(weights)
    strengths, k = check_grid(model, named, mus, k)
    route = takes_drawn_table(model, named.values(), table_drawn)
    return _one_draw(model, named, strengths, k, table_drawn=route, dtype=dtype)(seed_sequence(rng))


def takes_drawn_table(model: SequenceWorld, weights: Any, table_drawn: bool | None = None) -> bool:
    """Whether a simulation draws its tables: `table_drawn` where it is given, else only where it must."""
    if table_drawn is not None and check.flag(table_drawn, "table_drawn"):
        return True
    functions = any(callable(w) for w in weights)
    if model.noise == "gaussian" and not functions:
        return False
    if table_drawn is None:
        return True
    reason = "weights that are a function of the draw need it" if functions else f"its noise is {model.noise}"
    raise InvalidInputError(
        f"the table can only stay undrawn for Gaussian noise and fixed weights; {reason}",
        table_drawn,
        "Leave table_drawn out",
    )


Draw = Callable[[np.random.SeedSequence], tuple[FloatArray, FloatArray]]


def _one_draw(
    model: SequenceWorld, named: Mapping[str, Weights], mus: FloatArray, k: int, *, table_drawn: bool, dtype: Any
) -> Draw:
    """What one seed gives, eigenvalues and alignments (weights, mus, k); refused here if it would not fit."""
    kind = table_dtype(dtype)
    if table_drawn:
        drawn.require(model, kind, named.values())

        def from_drawn(seed: np.random.SeedSequence) -> tuple[FloatArray, FloatArray]:
            return drawn.sample_grid(draw_sample(model, rng=seed, dtype=kind), named, mus, k)

        return from_drawn
    vectors = [pooling_weights(w, model) for w in named.values() if not callable(w)]
    _require_undrawn(model, vectors)
    source = UndrawnSource(model)

    def from_products(seed: np.random.SeedSequence) -> tuple[FloatArray, FloatArray]:
        with _threads(model) as run:
            draw = source.draw(seed, run=run)
            pairs = top_pairs_together([UndrawnNoise(draw, w) for w in vectors], mus, k, apply_together)
        return np.stack([values for values, _ in pairs]), np.stack([alignments for _, alignments in pairs])

    return from_products


def _threads(model: SequenceWorld) -> AbstractContextManager[Map]:
    """Threads over the pieces of one product, where it is large: small ones are bound by the interpreter."""
    return task_threads(large=max(model.N * model.T, model.V * _USUAL_PRODUCTS) > _THREADED_SIZE)


def _require_undrawn(model: SequenceWorld, weights: Sequence[FloatArray]) -> None:
    """Refuse a draw that would not fit, before anything is drawn."""
    length = model.V if model.covariance is None else 2 * (model.V + model.d)
    per_sequence = max((w.ndim for w in weights), default=1) == 2
    needed = (
        token_bytes(model)
        + 2 * 8 * length * min(_USUAL_PRODUCTS, model.d)
        + 8 * 6 * (model.N + model.V)
        + (16 * model.N * model.T if per_sequence else 0)
    )
    require_memory(
        needed,
        f"simulating d={model.d}, V={model.V}, N={model.N}, T={model.T} with an undrawn table",
        "Lower N or T (the tokens), or V",
    )
