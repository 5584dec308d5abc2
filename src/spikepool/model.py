"""The models: the world's data with the verbs of theory and simulation. The only place where the two meet."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.simulation import classes as class_simulation
from spikepool.simulation import drawn, simulate
from spikepool.simulation import query as query_simulation
from spikepool.simulation.density import SpectrumDensity, spectrum_density
from spikepool.simulation.simulate import SimulationResult
from spikepool.theory import classes as class_theory
from spikepool.theory import (
    detection,
    fluctuations,
    given_tokens,
    learned_attention,
    learned_query,
    limits,
    planning,
    query_planning,
    query_ridge,
    query_spectrum,
    uncentred,
)
from spikepool.theory import query as query_theory
from spikepool.theory import ridge as ridge_theory
from spikepool.theory.closed_form import Positions, predict_gains
from spikepool.theory.prediction import Outlier, Prediction
from spikepool.theory.varying_gains import predict_varying
from spikepool.world.class_tables import ClassWorld
from spikepool.world.pooled_latents import pooling_weights
from spikepool.world.query import QueryWorld
from spikepool.world.query_fields import KERNELS
from spikepool.world.sampling import Sample, draw_sample
from spikepool.world.sequences import SequenceWorld
from spikepool.world.weights import named_weights


def _vector(model: SequenceWorld | ClassWorld, w: ArrayLike) -> ArrayLike:
    """Weights by their name, or as they are given."""
    return named_weights(w, model.R) if isinstance(w, str) else w


class SequenceModel(SequenceWorld):
    """Sequences of tokens from a fixed two-class embedding table.

    Column v of the table is ``s_v * mu * u + z_v`` with balanced signs s and noise z of unit variance; position t of
    a sequence draws a sign with positional correlation R, then a token of that class. Pooling with weights w
    gives ``c = sum_t w_t e_{x_t}`` and the covariance ``S = C C'/N``.

    Parameters
    ----------
    d, V, N : int
        Embedding dimension, vocabulary size (even), number of sequences.
    R : array_like of shape (T, T)
        Positional correlation; T is read from it. Unit diagonal unless ``latent="gaussian"``.
    mu : float
        Norm of the hidden signal.
    table : {"sampled", "class_centered"}
        ``"sampled"``: the model as the paper states it; the sample mean of the noise in each class then differs
        from zero. ``"class_centered"``: noise centred within each class, for which the paper's printed formulas hold.
    centered : bool
        Whether the sample mean of the columns of C is subtracted before S is formed.
    latent : {"signs", "gaussian"}
        ``"gaussian"``: the latent of a sequence is N(0, R) and real-valued, tokens are drawn from the whole
        vocabulary, and ``C = mu u a' + Z W``; R may then have any diagonal.
    noise : {"gaussian", "rademacher", "uniform", "laplace", "student-t"}
        Law of the entries of z in simulations, scaled to unit variance; limits do not depend on it.
    noise_df : float
        Degrees of freedom of ``noise="student-t"``; above 4.
    frequencies : array_like of shape (V,), optional
        Token frequencies; tokens of a class are drawn in proportion to them. Uniform when not given. Token
        v belongs to class ``+1`` when v is even, ``−1`` when it is odd.
    covariance : array_like of shape (d,) or (d, d), optional
        Covariance A of the noise, or the diagonal of it; identity when not given.
    direction : array_like of shape (d,), optional
        The direction u (normalised). When not given, simulations draw it uniformly.
    token_weights : array_like of shape (V,), optional
        Weight a_v of each token, at least 0: a sequence pools to ``c = sum_t w_t a(x_t) e_{x_t}``. Ones when not given.
    """

    def predict(self, w: ArrayLike, *, exact: bool = False, rng: Any = None) -> Prediction:
        """Bulk, outliers and alignments of S for pooling weights `w`.

        The closed form (:func:`spikepool.theory.closed_form.predict_gains`) is the limit d, V, N → ∞ of spread-out
        weights; unlike the paper's it accounts for the class means of a table that is drawn once.

        Parameters
        ----------
        w : array_like of shape (T,) or (N, T), or str
            Weights summing to one, or ``"mean"``, ``"causal"`` or ``"optimal"`` (for R), as in every method that takes
            weights; one row per sequence where they vary. The spread of ‖w_n‖² over sequences is part
            of the law (:func:`spikepool.theory.varying_gains.predict_varying`).
        exact : bool
            Condition on a drawn token usage instead: right at any T, for any token frequencies and noise
            covariance. See :func:`spikepool.theory.given_tokens.predict_exact`.
        rng : optional
            Seed of that draw.
        """
        w = _vector(self, w)
        if check.flag(exact, "exact"):
            return given_tokens.predict_exact(self, w, rng=rng)
        if np.ndim(w) == 2:
            rows = pooling_weights(w, self)
            return predict_varying(
                self, np.einsum("nt,ts,ns->n", rows, self.R, rows), np.einsum("nt,nt->n", rows, rows)
            )
        weights = check.weight_vector(w, self.T)
        alpha, kappa = max(float(weights @ self.R @ weights), 0.0), float(weights @ weights)
        prediction = predict_gains(self, alpha, kappa, Positions.of(weights, self.R))
        return dataclasses.replace(prediction, null=functools.partial(detection.null_top, self, weights))

    def predict_gains(self, alpha: float, kappa: float) -> Prediction:
        """The closed form of :meth:`predict` for any weighting with signal gain `alpha` and noise gain `kappa`.

        All sequences have the same gains; for weights that vary by sequence see :meth:`predict` with a row per
        sequence, and :func:`spikepool.predict_attention`.
        """
        return predict_gains(self, alpha, kappa)

    def optimal_weights(self) -> FloatArray:
        """Weights of the best alignment for this model; see :func:`spikepool.theory.uncentred.best_weights`.

        Where S is centred these are ``spikepool.optimal_weights(self.R)``, which needs no model. Where it is not, the
        vocabulary mean competes, and the weights also depend on mu and d/V.
        """
        return uncentred.best_weights(self)

    def as_classes(self, share: float = 0.5) -> ClassModel:
        """The same model with a share of the tokens, and of the positions, in the first class; see :class:`ClassModel`.

        Parameters
        ----------
        share : float
            Share of the class at +mu u, between 0 and 1. R must not be negative: it becomes the probability that two
            positions share their class.
        """
        first = check.fraction(share, "share", closed=False)
        means = np.zeros((1, 2)) + self.mu * np.array([[1.0, -1.0]])
        shares = [first, 1 - first]
        return ClassModel(self.d, self.V, self.N, self.R, means, shares, table=self.table, centered=self.centered)

    def required_samples(self, w: ArrayLike, alignment: float = 0.8) -> planning.RequiredSamples:
        """Smallest N that reaches `alignment`; see :func:`spikepool.theory.planning.required_samples`."""
        return planning.required_samples(self, _vector(self, w), alignment)

    def required_mu(self, w: ArrayLike, alignment: float = 0.8) -> planning.RequiredSignal:
        """Smallest mu that reaches `alignment`; see :func:`spikepool.theory.planning.required_mu`."""
        return planning.required_mu(self, _vector(self, w), alignment)

    def required_vocabulary(self, w: ArrayLike, alignment: float = 0.8) -> planning.VocabularyRange:
        """Even V that reach `alignment`; see :func:`spikepool.theory.planning.required_vocabulary`."""
        return planning.required_vocabulary(self, _vector(self, w), alignment)

    def sample(self, rng: Any = None, *, dtype: Any = np.float64) -> Sample:
        """Draw a table, tokens and signs; see :func:`spikepool.world.sampling.draw_sample`."""
        return draw_sample(self, rng=rng, dtype=dtype)

    def simulate(
        self,
        w: ArrayLike,
        trials: int = 20,
        k: int | None = None,
        *,
        rng: Any = None,
        table_drawn: bool | None = None,
        **options: Any,
    ) -> SimulationResult:
        """Top `k` eigenpairs of S over independent draws; see :func:`spikepool.simulation.simulate.simulate`."""
        return simulate.simulate(
            self, _vector(self, w), trials=trials, k=k, rng=rng, table_drawn=table_drawn, **options
        )

    def spectrum(self, w: ArrayLike, *, rng: Any = None, **options: Any) -> FloatArray:
        """All d eigenvalues of S for one draw, ascending; see :func:`spikepool.simulation.drawn.spectrum`."""
        return drawn.spectrum(self, _vector(self, w), rng=rng, **options)

    def spectrum_density(self, w: ArrayLike, *, rng: Any = None, probes: int = 4, steps: int = 60) -> SpectrumDensity:
        """The spectrum of S for one draw at any size; see :func:`spikepool.simulation.density.spectrum_density`."""
        return spectrum_density(self, _vector(self, w), rng=rng, probes=probes, steps=steps)

    def fluctuations(self, w: ArrayLike) -> fluctuations.Fluctuations:
        """Scatter of the outlier and of the alignment over draws; see :mod:`spikepool.theory.fluctuations`."""
        return fluctuations.fluctuations(self, _vector(self, w))

    def detection_power(self, w: ArrayLike, level: float = 0.05) -> detection.DetectionPower:
        """Power of tests for a signal; see :func:`spikepool.theory.detection.detection_power`."""
        return detection.detection_power(self, _vector(self, w), level)

    def ridge_accuracy(self, w: ArrayLike, ridge: float = 1.0, n_train: int | None = None, **options: Any) -> float:
        """Test accuracy of the ridge classifier; see :func:`spikepool.theory.ridge.ridge_accuracy`."""
        return ridge_theory.ridge_accuracy(self, _vector(self, w), ridge=ridge, n_train=n_train, **options)

    def learned_weights(
        self, ridge: float = 1.0, n_train: int | None = None, *, label: int | ArrayLike = 0, **options: Any
    ) -> learned_attention.LearnedAttention:
        """Limit of weights learned with ridge; see :func:`spikepool.theory.learned_attention.learned_weights`."""
        return learned_attention.learned_weights(self, ridge=ridge, n_train=n_train, label=label, **options)


class ClassModel(ClassWorld):
    """Sequences of tokens from an embedding table with K classes.

    Parameters
    ----------
    d, V, N : int
        Embedding dimension, vocabulary size, number of sequences.
    R : array_like of shape (T, T)
        Probability that two positions share their class draw: unit diagonal, entries in [0, 1], PSD.
    means : array_like of shape (p, K), p <= d
        Class means as columns, in any orthonormal coordinates of a p-dimensional subspace.
    shares : array_like of shape (K,), optional
        Share pi_k of the vocabulary, and of the positions, that belongs to class k; equal when not given.
    table : {"sampled", "class_centered"}
        As in :class:`spikepool.SequenceModel`.
    centered : bool
        Whether the sample mean of the columns of C is subtracted before S is formed.
    """

    def predict(self, w: ArrayLike, *, class_covariance: ArrayLike | None = None) -> class_theory.ClassPrediction:
        """Bulk and every spike's outlier; see :func:`spikepool.theory.classes.predict_classes`."""
        return class_theory.predict_classes(self, _vector(self, w), class_covariance=class_covariance)

    def simulate(
        self,
        w: ArrayLike,
        trials: int = 20,
        k: int | None = None,
        *,
        rng: Any = None,
        table_drawn: bool | None = None,
    ) -> class_simulation.ClassSimulation:
        """Top `k` eigenpairs of S over draws; see :func:`spikepool.simulation.classes.simulate_classes`."""
        return class_simulation.simulate_classes(
            self, _vector(self, w), trials=trials, k=k, rng=rng, table_drawn=table_drawn
        )


class QueryModel(QueryWorld):
    """Sequences whose few relevant tokens are found by a query (content attention).

    Some of the T tokens of a sequence are relevant: ``e = xi mu u + nu k + z``, where xi = ±1 is the sign of the
    sequence; the others are noise, ``e = z``. A query of overlap m with k scores tokens by ``h = q·e`` and pools with
    weights that are a function of the scores of the sequence. The query direction is then projected out of the pooled
    vectors, their mean is subtracted, and S is their covariance.

    Parameters
    ----------
    d, N, T, L : int
        Embedding dimension, number of sequences, tokens per sequence, relevant tokens per sequence.
    mu, nu : float
        Norm of the signal, and of the mark that makes a token relevant.
    overlap : float or sequence of float
        m = q·k, between 0 and 1. Several numbers m_1, ..., m_p with sum of squares at most 1 stand for p orthonormal
        directions; a callable kernel then takes scores (n, T, p).
    kernel : {"softmax", "sigmoid", "linear", "posterior", "optimal"} or callable
        Weights as a function of the scores. Of a token by its own score: exp(beta h);
        sigma(beta (h − nu m/2) + log(L/(T − L))), which for beta = nu m is the posterior probability that
        the token is relevant given its own score; max(0, 1 + beta h). Of all scores of the sequence, with the law of
        the relevance known: ``"posterior"``, p_t/sqrt(1 + mu² sum_s p_s²) with p_t = P(relevant | scores), the best
        weights where signs are known; ``"optimal"``, the top eigenvector of R_n = E[r r' | scores] with squared norm
        lambda/(1 + mu² lambda), lambda its eigenvalue: the best weights for PCA. Or any function of scores (n, T) that
        returns weights (n, T), such as :func:`spikepool.self_attention`.
    beta : float, optional
        Slope of the weights in the score, the inverse temperature. When not given, the slope that maximises
        E[A]²/E[kappa] of weights that are not normalised: nu m, and for the softmax nu m (1 − pi), pi the share of the
        relevant tokens in E[kappa]. With a window it is nu m times the window.
    normalize : bool
        Whether weights are divided by their sum over the sequence. A sequence whose weights are all zero gets equal
        ones. The kernels ``"posterior"`` and ``"optimal"`` have a scale of their own instead.
    V : int, optional
        Size of the vocabulary. V·L/T of its tokens are relevant, half of them of each sign; tokens of a kind are
        equally frequent, and the scores are frozen with the table. When not given, tokens never repeat.
    relevance : {"scattered", "span", "chain"}
        Where relevant tokens are: L anywhere; L neighbours at a uniform place; a two-state Markov chain with share L/T
        and runs of mean length `run`.
    run : float, optional
        Mean length of a run of relevant tokens of a chain, at least 1 and at least (L/T)/(1 − L/T).
    prior : array_like of shape (T,), optional
        Probabilities with which the tokens of each position are relevant, independently, for ``"scattered"``. L then
        plays no part, and the sigmoid has the logit of each position's own probability in place of log(L/(T − L)).
    window : int, optional
        Two layers: the first takes means of this many neighbouring tokens, and the kernel ("softmax" or a callable)
        weighs these means by their scores. With a window of L and the default slope the weights are the posterior
        probabilities of a span of L over L.
    noise : array_like of shape (d,) or (d, d), optional
        Covariance S_0 of the tokens' noise, or its diagonal; identity when not given. The directions u and k are
        generic, so that only its eigenvalues matter. The pooled vectors are then regressed on their scores, since
        projecting out q would leave the noise that is correlated with it.
    matched : bool
        With `noise`, whether the query is the matched filter S_0^{-1} q instead of q: the largest strength of the marks
        in the scores.
    """

    def predict(self, *, rng: int = 0) -> query_theory.QueryPrediction:
        """Bulk, outliers and alignments; see :func:`spikepool.theory.query.predict_query`."""
        return query_theory.predict_query(self, rng=rng)

    @overload
    def simulate(
        self, trials: int = 20, k: int = 1, *, rng: Any = None, pairs: Literal[False] = False
    ) -> query_simulation.QuerySimulation: ...

    @overload
    def simulate(self, trials: int = 20, k: int = 1, *, rng: Any = None, pairs: bool) -> SimulationResult: ...

    def simulate(self, trials: int = 20, k: int = 1, *, rng: Any = None, pairs: bool = False) -> SimulationResult:
        """Top `k` eigenpairs of S over draws; see :func:`spikepool.simulation.query.simulate_query`.

        With `pairs`, those of the best weighting of token pairs instead, which pools no vectors; see
        :func:`spikepool.simulation.query.simulate_pairs`.
        """
        if check.flag(pairs, "pairs"):
            return query_simulation.simulate_pairs(self, trials=trials, k=k, rng=rng)
        return query_simulation.simulate_query(self, trials=trials, k=k, rng=rng)

    def limits(self, *, rng: int = 0) -> limits.QueryLimits:
        """What the best pooling, token pairs and any method reach; see :func:`spikepool.theory.limits.query_limits`."""
        return limits.query_limits(self, rng=rng)

    def ridge_accuracy(self, ridge: float = 1.0, n_train: int | None = None) -> float:
        """Accuracy of ridge on pooled vectors; see :func:`spikepool.theory.query_ridge.ridge_accuracy`."""
        return query_ridge.ridge_accuracy(self, ridge, n_train)

    def gain(self) -> float:
        """alpha/kappa over that of mean pooling; see :func:`spikepool.theory.query_planning.gain`."""
        return query_planning.gain(self)

    def best_beta(self) -> float:
        """The slope with the largest alignment; see :func:`spikepool.theory.query_planning.best_beta`."""
        return query_planning.best_beta(self)

    def gate(self) -> Self:
        """The model with the gate P(relevant | own score); see :func:`spikepool.theory.query_planning.gate`."""
        return query_planning.gate(self)

    def required_samples(self, alignment: float = 0.8) -> int:
        """Smallest N that reaches `alignment`; see :func:`spikepool.theory.query_planning.required_samples`."""
        return query_planning.required_samples(self, alignment)

    def learned(self, n_train: int | None = None, **options: Any) -> learned_query.LearnedQuery:
        """Overlap of a query learned from labels; see :func:`spikepool.theory.learned_query.learned_query`."""
        return learned_query.learned_query(self, n_train, **options)

    def simulate_learning(self, n_train: int | None = None, **options: Any) -> query_simulation.LearningSimulation:
        """Gradient steps on drawn tokens; see :func:`spikepool.simulation.query.simulate_learning`."""
        return query_simulation.simulate_learning(self, n_train, **options)

    def required_training(self, overlap: float = 0.5, *, rounds: int = 3) -> int:
        """Sequences that teach a query; see :func:`spikepool.theory.learned_query.required_training`."""
        return learned_query.required_training(self, overlap, rounds=rounds)

    def plot(self, ax: Any = None, *, betas: ArrayLike | None = None) -> Any:
        """Predicted alignment against beta for the three kernels, with this model marked; returns the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw.
        betas : array_like, optional
            Slopes to try; 13 of them from 0 to twice nu·overlap by default.
        """
        from spikepool.drawing.predictions import draw_temperatures

        slopes = np.linspace(0, 2 * max(self.strength, 0.5), 13)
        slopes = slopes if betas is None else check.finite_array(betas, "betas", ndim=1)
        curves = {
            kernel: np.array([query_spectrum.top_alignment(self.replace(kernel=kernel, beta=b))[0] for b in slopes])
            for kernel in KERNELS
        }
        mark = None if self.kernel not in KERNELS else (self.slope, query_spectrum.top_alignment(self)[0])
        return draw_temperatures(slopes, curves, ax, mark=mark)


# Python reports a wrong argument by this name; the world classes are not public.
for _model in (SequenceModel, ClassModel, QueryModel):
    _model.__init__.__qualname__ = f"{_model.__name__}.__init__"

__all__ = ["ClassModel", "Outlier", "Prediction", "QueryModel", "SequenceModel"]
