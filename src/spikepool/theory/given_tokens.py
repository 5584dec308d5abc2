"""Predictions given the token usage: right at any sequence length, token frequencies, noise covariance and centring.

The closed form of :meth:`SequenceModel.predict` is the limit of spread-out weights. Here the tokens are drawn (or read
from a corpus), and the separable equations are solved for the spectrum of that very usage: S = Y Y' with
``Y = A^{1/2} Z B/sqrt(V) + mu u b'`` (see :mod:`spikepool.theory.token_usage`). Only the noise Z is averaged over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import InvalidInputError, ShapeError, TokenError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.theory.population_usage import population_usage
from spikepool.theory.prediction import Outlier, Prediction, Sizes
from spikepool.theory.token_usage import Usage, sample_usage
from spikepool.theory.usage_spectrum import Noise, UsageBulk, UsageSpectrum, population_matches
from spikepool.theory.validity import near_threshold, neighbours, small_sizes, unresolved, validity_of
from spikepool.world.pooling_matrix import Projection, token_matrix
from spikepool.world.sequences import TABLES, SequenceWorld
from spikepool.world.tokens import draw_tokens, pooling_weights


class GivenTokens:
    """One weighting of given tokens, prepared: the usage is decomposed once and asked at any strength of the signal.

    Parameters
    ----------
    usage, limit : Usage
        That of the tokens, and its limit for infinitely many sequences.
    noise : Noise
        Law of the table's noise.
    alpha, kappa : float
        Signal and noise gain.
    sizes : Sizes, optional
        What p-values need.
    """

    def __init__(
        self, usage: Usage, limit: Usage, noise: Noise, alpha: float, kappa: float, sizes: Sizes | None = None
    ) -> None:
        if not (len(usage.top) or usage.values.any()):
            raise TokenError(
                "the tokens leave nothing to analyse: every sequence pools to the same usage",
                remedy="Pass more sequences, or centered=False",
            )
        self.alpha, self.kappa, self.sizes = alpha, kappa, sizes
        self._sample, self._population = UsageBulk(usage, noise), UsageBulk(limit, noise)

    def _sequences(self) -> dict[str, int]:
        return {} if self.sizes is None else {"N": self.sizes.N}

    def predict(self, mu: float) -> Prediction:
        """Bulk, outliers and alignments at signal strength `mu`."""
        sample, population = UsageSpectrum(self._sample, mu), UsageSpectrum(self._population, mu)
        outliers = []
        for kind, found, j in zip(sample.kinds(), sample.outliers, population_matches(sample, population), strict=True):
            match = None if j is None else population.outliers[j]
            outliers.append(
                Outlier(
                    kind=kind,
                    eigenvalue=found.eigenvalue,
                    alignment=float(found.overlaps[0]),
                    population_eigenvalue=population.edge if match is None else match.eigenvalue,
                    population_alignment=0.0 if match is None else float(match.overlaps[0]),
                )
            )
        return Prediction(
            alpha=self.alpha,
            kappa=self.kappa,
            bulk=sample.bulk,
            edge=sample.edge,
            outliers=tuple(outliers),
            alignment=outliers[0].alignment if outliers else 0.0,
            detectable=sample.detectable,
            mu_population=population.threshold,
            mu_sample=sample.threshold,
            validity=validity_of(
                # mu² is what the excess is linear in
                near_threshold(mu**2, sample.threshold**2, self._sample.noise.d),
                neighbours(outliers, self._sample.noise.d, None if self.sizes is None else self.sizes.N),
                unresolved(self._sample.unresolved),
                small_sizes(d=self._sample.noise.d, V=self._sample.usage.V, **self._sequences()),
            ),
            sizes=self.sizes,
        )


def predict_exact(model: SequenceWorld, w: ArrayLike, *, rng: Any = None) -> Prediction:
    """Bulk, outliers and alignments of S for tokens drawn from `model`.

    Parameters
    ----------
    model : SequenceModel
        All its fields are honoured.
    w : array_like of shape (T,) or (N, T)
        Pooling weights with unit sum.
    rng : int, SeedSequence or Generator, optional
        Of the tokens; the same seed gives the tokens of ``model.sample(rng)``.

    Returns
    -------
    Prediction
        `bulk` is a :class:`GeneralizedLaw`. `alpha`, `kappa` are those of the model. The population quantities are
        the limit of infinitely many sequences of the same token frequencies.

    Notes
    -----
    Outliers closer to each other than their fluctuations, of order ``d**-0.5``, mix in any one draw. Their alignments
    then hold together, as a sum, but not one by one. It happens with one or two effective tokens, whose most frequent
    ones make outliers (of kind "usage") near that of the signal.
    """
    return prepare_tokens(model, draw_tokens(model, rng), w, rng=rng).predict(model.mu)


def prepare_tokens(
    model: SequenceWorld, drawn: tuple[NDArray[Any], NDArray[Any]], w: ArrayLike, *, rng: Any = None
) -> GivenTokens:
    """The usage of `drawn` tokens and latents (of :func:`spikepool.world.tokens.draw_tokens`) under weights `w`.

    What is prepared does not depend on the model's mu; `rng` is that of :func:`predict_exact`.
    """
    weights = pooling_weights(w, model)
    tokens, latent = drawn
    pooled = np.einsum("nt,...t->n", latent, weights, dtype=np.float64)
    frequencies = np.full(model.V, 1 / model.V) if model.frequencies is None else model.frequencies
    if model.latent == "signs":  # tokens of a class are drawn in proportion to their frequencies
        frequencies = frequencies.copy()
        for first in (0, 1):
            frequencies[first::2] /= 2 * frequencies[first::2].sum()
    rows = np.atleast_2d(weights)
    alpha = float(np.einsum("nt,ts,ns->", rows, model.R, rows) / len(rows))
    kappa = float(np.einsum("nt,nt->", rows, rows) / len(rows))
    project = Projection(model.signs if model.table == "class_centered" else None)
    noise = Noise(model.covariance, model.d, model.direction)
    usage = sample_usage(
        token_matrix(tokens, weights, model.V),
        None if model.latent == "signs" else pooled,
        model.signs,
        centered=model.centered,
        project=project,
        rng=rng,
    )
    limit = population_usage(
        frequencies,
        model.signs,
        alpha,
        kappa,
        centered=model.centered,
        class_centered=model.table == "class_centered",
        gaussian=model.latent == "gaussian",
    )
    return GivenTokens(usage, limit, noise, alpha, kappa, Sizes(model.d, model.V, model.N, model.centered))


def predict_tokens(
    tokens: ArrayLike,
    V: int,
    weights: ArrayLike,
    signs: ArrayLike,
    mu: float,
    d: int,
    noise: Any = None,
    *,
    direction: ArrayLike | None = None,
    centered: bool = True,
    table: str = "sampled",
    rng: Any = 0,
) -> Prediction:
    """Bulk, outliers and alignments of the pooled covariance for the token ids of a real corpus.

    Parameters
    ----------
    tokens : array_like of int, shape (N, T)
        Token ids in [0, V).
    V : int
        Size of the vocabulary, odd or even.
    weights : array_like of shape (T,) or (N, T)
        Pooling weights with unit sum.
    signs : array_like of shape (V,)
        Class ±1 of each token; the classes need not be balanced.
    mu : float
        Norm of the hidden signal: token v is embedded as ``signs[v] mu u + noise``.
    d : int
        Embedding dimension.
    noise : array_like of shape (d,) or (d, d), or SpectralLaw, optional
        Covariance of the noise (or its diagonal), or the law of its eigenvalues; identity when not given.
    direction : array_like of shape (d,), optional
        u, where `noise` is a covariance; a uniformly random direction when not given.
    centered : bool
        Whether the mean over sequences is subtracted.
    table : {"sampled", "class_centered"}
        Whether the noise of the table has been centred within each class.
    rng : int
        Of the quadrature's probes, used only when both V and N are large.

    Returns
    -------
    Prediction
        `alpha` is the mean square of the pooled signs (their variance when centred), `kappa` the mean of ‖w‖². The
        population quantities are those of infinitely many sequences whose tokens are independent given their
        classes, with the frequencies, alpha and kappa of the corpus.
    """
    V, d = check.size(V, "V"), check.size(d, "d")
    strength = check.non_negative(mu, "mu")
    check.choice(table, "table", TABLES)
    if not isinstance(centered, (bool, np.bool_)):
        raise InvalidInputError("centered must be True or False", centered, "Pass a bool")
    ids = _token_ids(tokens, V)
    classes = check.finite_array(signs, "signs", ndim=1)
    if len(classes) != V:
        raise ShapeError(f"signs must have V = {V} entries", classes, "Pass the class of every token")
    if not np.all(np.abs(classes) == 1):
        raise TokenError("signs must be −1 or +1", float(classes[np.abs(classes) != 1][0]), "Recode the classes")
    w = _token_weights(weights, *ids.shape)
    covariance = Noise(noise, d, direction)
    W_t = token_matrix(ids, w, V)
    project = Projection(classes if table == "class_centered" else None)
    usage = sample_usage(W_t, None, classes, centered=centered, project=project, rng=rng)
    rows = np.atleast_2d(w)
    kappa = float(np.einsum("nt,nt->", rows, rows) / len(rows))
    # frequencies as the pooling sees them; plain counts where weights of both signs make that meaningless
    frequencies = np.asarray(W_t.sum(axis=0)).ravel() / len(ids)
    if frequencies.min() < 0:
        frequencies = np.bincount(ids.ravel(), minlength=V) / ids.size
    limit = population_usage(
        frequencies,
        classes,
        usage.gain,
        kappa,
        centered=centered,
        class_centered=table == "class_centered",
        gaussian=False,
    )
    sizes = Sizes(d, V, len(np.unique(ids, axis=0)), bool(centered))  # copies of a sequence say nothing new
    return GivenTokens(usage, limit, covariance, usage.gain, kappa, sizes).predict(strength)


def _token_ids(tokens: ArrayLike, V: int) -> NDArray[np.int64]:
    try:
        ids = np.asarray(tokens)
    except ValueError as err:
        raise ShapeError("tokens must have equally many ids in each row", tokens, "Pad the shorter rows") from err
    if ids.ndim != 2 or ids.size == 0:
        raise ShapeError("tokens must be a non-empty (N, T) array", ids, "Pass one row of token ids per sequence")
    if not np.issubdtype(ids.dtype, np.integer):
        raise TokenError("tokens must be integers", ids.dtype, "Pass token ids")
    if ids.min() < 0 or ids.max() >= V:
        bad = int(ids.min()) if ids.min() < 0 else int(ids.max())
        raise TokenError(f"tokens must lie in [0, V) with V = {V}", bad, "Check the ids against the vocabulary")
    return ids.astype(np.int64)


def _token_weights(weights: ArrayLike, N: int, T: int) -> FloatArray:
    w = check.finite_array(weights, "weights")
    if w.ndim == 1:
        return check.weight_vector(w, T)
    if w.shape != (N, T):
        raise WeightsError(f"weights must be ({T},) or ({N}, {T})", w, "Pass one weight per position")
    check.moderate_weights(w)
    if np.abs(w.sum(axis=1) - 1).max() > check.IDENTITY_TOLERANCE * max(1.0, float(np.abs(w).sum(axis=1).max())):
        raise WeightsError("weights must sum to one in each sequence", w.sum(axis=1), "Divide rows by their sums")
    return w
