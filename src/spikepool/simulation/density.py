"""The whole spectrum of S as a density, at sizes where no dense S exists.

For a random unit vector x the measure ``x' f(S) x`` has the law of the eigenvalues as its mean, and scatters about it
by O(d^{-1/2}). Its Gauss quadrature, nodes and weights, comes from a Krylov space of S at x (Lanczos quadrature):
exact for polynomials of degree 2·steps − 1, so that it resolves the density to about the width of the spectrum over
`steps`. The space needs the table through products only, and the table is not drawn
(:mod:`spikepool.simulation.undrawn`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.memory import require_memory
from spikepool.kit.results import Result, Table
from spikepool.kit.threads import task_threads
from spikepool.laws.base import SpectralLaw
from spikepool.simulation.krylov import krylov_space
from spikepool.simulation.simulate import takes_drawn_table
from spikepool.simulation.undrawn import UndrawnNoise, UndrawnSource
from spikepool.world.pooled_latents import pooling_weights
from spikepool.world.seeds import child_seed, seed_sequence
from spikepool.world.sequences import SequenceWorld
from spikepool.world.tokens import token_bytes

# Nodes below this share of the largest stand for zeros: S is singular, and they are its atom. With 40 steps such a node
# was found at 7e-8; a spectrum that merely reaches down to zero has its lowest node at about 1/steps² of the largest.
_ZERO = 1e-6

# Token positions, or entries of the probes, from which threads are worth their overhead.
_THREADED_SIZE = 1 << 21


@dataclass(frozen=True)
class SpectrumDensity(Result, schema="density"):
    """Gauss quadratures of the spectrum of one draw, one for each probe.

    Attributes
    ----------
    nodes, weights : tuple of numpy.ndarray
        Of each probe, ascending; the weights sum to one.
    d : int
        Number of eigenvalues.
    """

    nodes: tuple[FloatArray, ...]
    weights: tuple[FloatArray, ...]
    d: int

    @property
    def atom(self) -> float:
        """Share of the eigenvalues that are zero."""
        return float(np.mean([_atom(*probe) for probe in self._probes()]))

    def _probes(self) -> list[tuple[FloatArray, FloatArray]]:
        return list(zip(self.nodes, self.weights, strict=True))

    def cdf(self, x: ArrayLike) -> FloatArray:
        """Share of the eigenvalues up to `x`: the mean over the probes."""
        at = check.finite_array(x, "x")
        return np.asarray(np.mean([_smooth_cdf(*probe, at) for probe in self._probes()], axis=0))

    def standard_error(self, x: ArrayLike) -> FloatArray:
        """Standard error of :meth:`cdf` over the probes; NaN for a single one."""
        at = check.finite_array(x, "x")
        values = np.array([_smooth_cdf(*probe, at) for probe in self._probes()])
        if len(values) == 1:
            return np.full(at.shape, np.nan)
        return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))

    def histogram(self, edges: ArrayLike) -> FloatArray:
        """Mean density between neighbouring `edges`, which are above 0 for an atom at 0 to be left out."""
        bounds = check.finite_array(edges, "edges", ndim=1)
        return np.asarray(np.diff(self.cdf(bounds)) / np.diff(bounds))

    def _tables(self) -> list[Table]:
        top = max(float(nodes[-1]) for nodes in self.nodes)
        rows: list[tuple[str, int | float]] = [
            ("eigenvalues", self.d),
            ("probes", len(self.nodes)),
            ("share that is zero", self.atom),
            ("largest node", top),
        ]
        return [("Density of a spectrum", (), rows)]

    def plot(self, ax: Any = None, *, law: SpectralLaw | None = None) -> Any:
        """The density as steps, over that of `law` if given; returns the axes."""
        from spikepool.drawing.predictions import draw_spectrum_density

        top = max(float(nodes[-1]) for nodes in self.nodes)
        steps = int(np.median([len(nodes) for nodes in self.nodes]))
        # bins no finer than the quadrature resolves
        edges = np.linspace(_ZERO * top, 1.02 * top, max(8, steps // 2))
        return draw_spectrum_density(edges, self.histogram(edges), law, ax)


def _atom(nodes: FloatArray, weights: FloatArray) -> float:
    return float(weights[nodes <= _ZERO * nodes[-1]].sum())


def _smooth_cdf(nodes: FloatArray, weights: FloatArray, x: FloatArray) -> FloatArray:
    """Distribution function through the middle of each step of the quadrature's, which the true one crosses there.

    (Chebyshev, Markov and Stieltjes: up to a node the true mass lies between the weights before it with and without its
    own.) Zeros are a step of their own.
    """
    zero = nodes <= _ZERO * nodes[-1]
    atom = float(weights[zero].sum())
    places, masses = nodes[~zero], weights[~zero]
    if len(places) == 0:
        return np.where(x >= 0, 1.0, 0.0)
    middles = atom + np.cumsum(masses) - masses / 2
    # half a step outwards at both ends
    steps = np.diff(places) if len(places) > 1 else np.array([places[0]])
    first, last = max(0.0, places[0] - steps[0] / 2), places[-1] + steps[-1] / 2
    rise = np.interp(x, np.concatenate([[first], places, [last]]), np.concatenate([[atom], middles, [1.0]]))
    return np.where(x < 0, 0.0, np.where(x < first, atom, rise))


def spectrum_density(
    model: SequenceWorld, w: ArrayLike, *, rng: Any = None, probes: int = 4, steps: int = 60
) -> SpectrumDensity:
    """The spectrum of S for one draw, as Gauss quadratures at `probes` random directions.

    Parameters
    ----------
    model : SequenceWorld
        With Gaussian noise, whose table is not drawn.
    w : array_like of shape (T,) or (N, T)
        Pooling weights.
    rng : optional
        Seed. The tokens are those of trial 0 of ``simulate`` with it.
    probes : int
        Random directions; the error of a share of the eigenvalues is of order 1/sqrt(d·probes).
    steps : int
        Nodes for each; what is narrower than about the spectrum's width over `steps` is not resolved. An outlier is
        one node, of weight 1/d.
    """
    weights = pooling_weights(w, model)
    probes, steps = check.size(probes, "probes"), check.size(steps, "steps")
    takes_drawn_table(model, (), False)
    length = model.V if model.covariance is None else 2 * (model.V + model.d)
    rows = 2 * probes * min(steps, model.d)
    require_memory(
        token_bytes(model) + 8 * length * rows + 8 * 6 * (model.N + model.V),
        f"{probes} x {steps} products at V={model.V}, N={model.N}, T={model.T}",
        "Lower probes or steps, N or T (the tokens), or V",
    )
    source, seed = UndrawnSource(model), child_seed(seed_sequence(rng), 0)
    measures = []
    with task_threads(large=max(model.N * model.T, model.V * rows) > _THREADED_SIZE) as run:
        draw = source.draw(seed, run=run)
        noise = UndrawnNoise(draw, weights)
        for _ in range(probes):
            space = krylov_space(
                lambda x: noise.apply(x, model.mu),
                draw.table.random_direction()[None],
                lambda space: float(steps - space.steps),
                max_dimension=min(steps, model.d),
                first_look=steps,
            )
            theta, Y = np.linalg.eigh(space.projected)
            measures.append((np.maximum(theta, 0.0), Y[0] ** 2))
    return SpectrumDensity(tuple(nodes for nodes, _ in measures), tuple(mass for _, mass in measures), model.d)
