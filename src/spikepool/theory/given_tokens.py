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
from spikepool.laws.generalized import GeneralizedLaw
from spikepool.theory.finite_size import leads, top_draws
from spikepool.theory.mixing import neighbours
from spikepool.theory.noise import Noise
from spikepool.theory.population_matches import population_matches
from spikepool.theory.population_usage import population_usage
from spikepool.theory.prediction import Outlier, Prediction, Sizes
from spikepool.theory.token_usage import Usage, sample_usage
from spikepool.theory.usage_spectrum import UsageBulk, UsageSpectrum
from spikepool.theory.validity import mean_of_draws, no_signal, small_sizes, validity_of
from spikepool.world.frequencies import token_law
from spikepool.world.pooled_latents import pooled_latents, pooling_weights, with_token_weights
from spikepool.world.pooling_matrix import Projection, token_matrix
from spikepool.world.sequences import TABLES, SequenceWorld
from spikepool.world.tokens import draw_tokens


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

    def null_law(self) -> tuple[GeneralizedLaw, FloatArray]:
        """Law of the bulk given the tokens, and the outliers at mu = 0."""
        return self._sample.null_law()

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
                    kind="classes" if kind == "signal" and mu == 0 else kind,
                    eigenvalue=found.eigenvalue,
                    alignment=float(found.overlaps[0]),
                    population_eigenvalue=population.edge if match is None else match.eigenvalue,
                    population_alignment=0.0 if match is None else float(match.overlaps[0]),
                )
            )
        alignment = outliers[0].alignment if outliers else 0.0
        top, d = (outliers[0] if outliers else None), self._sample.noise.d
        places = [(found.parameter, float(found.overlaps[0])) for found in sample.outliers]
        finite = top_draws(
            top,
            sample.edge,
            mu,
            d,
            self._sample.crossing,
            lambda: self._sample.blur,
            lambda: self._sample.strength(sample.outliers[0].parameter),
        )
        return Prediction(
            alpha=self.alpha,
            kappa=self.kappa,
            bulk=sample.bulk,
            edge=sample.edge,
            outliers=tuple(outliers),
            alignment=alignment,
            detectable=sample.detectable and mu > 0,
            mu_population=population.threshold,
            mu_sample=sample.threshold,
            validity=validity_of(
                no_signal(mu, outliers),
                mean_of_draws(alignment, finite, d, self._sample.mixing(places, leads(top, sample.edge, d))),
                neighbours(outliers, d, None, sample.edge, top=False),
                small_sizes(d=d, V=self._sample.usage.V, **self._sequences()),
            ),
            sizes=self.sizes,
            finite_size_alignment=None if finite is None else finite.mean,
        )


def predict_exact(model: SequenceWorld, w: ArrayLike, *, rng: Any = None) -> Prediction:
    """Bulk, outliers and alignments of S for tokens drawn from `model`.

    Parameters
    ----------
    model : SequenceModel
        All its fields are honoured.
    w : array_like of shape (T,) or (N, T)
        Pooling weights with unit sum, one row per sequence where they vary; the spread of ‖w_n‖² is part of the law.
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
    signs, a = model.latent == "signs", model.token_weights
    rows = np.atleast_2d(weights)
    alpha = float(np.einsum("nt,ts,ns->", rows, model.R, rows) / len(rows))
    kappa = float(np.einsum("nt,nt->", rows, rows) / len(rows))
    p, by_token = token_law(model)
    mean, square = float(p @ by_token), float(p @ by_token**2)
    # tokens differ in weight: the diagonal of R counts with the mean of a², the rest with the square of the mean
    repeats = kappa if signs else float(np.einsum("nt,t,nt->", rows, np.diag(model.R), rows) / len(rows))
    gain = alpha * mean**2 + repeats * (square - mean**2)
    usage = sample_usage(
        token_matrix(tokens, weights, model.V, a),
        None if signs else pooled_latents(latent, with_token_weights(weights, model, tokens)),
        model.signs,
        centered=model.centered,
        project=Projection(model.signs if model.table == "class_centered" else None),
        rng=rng,
    )
    limit = population_usage(
        p,
        model.signs,
        alpha - kappa,
        kappa,
        token_weights=a,
        latent_gain=None if signs else gain,
        centered=model.centered,
        class_centered=model.table == "class_centered",
    )
    sizes = Sizes(model.d, model.V, model.N, model.centered)
    return GivenTokens(usage, limit, Noise(model.covariance, model.d, model.direction), gain, kappa * square, sizes)


def predict_tokens(
    tokens: ArrayLike,
    V: int,
    weights: ArrayLike,
    signs: ArrayLike,
    mu: float,
    d: int,
    noise: Any = None,
    *,
    token_weights: ArrayLike | None = None,
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
        Pooling weights of the positions; of unit sum where S is not centred.
    signs : array_like of shape (V,)
        Class of each token: ±1, 0 for a neutral one, or any real number; the classes need not be balanced.
    mu : float
        Norm of the hidden signal: token v is embedded as ``signs[v] mu u + noise``.
    d : int
        Embedding dimension.
    token_weights : array_like of shape (V,), optional
        Weight a_v of each token, at least 0: a sequence pools to ``sum_t w_t a(x_t) e(x_t)``. Ones when not given.
    noise : array_like of shape (d,) or (d, d), or SpectralLaw, optional
        Covariance of the noise (or its diagonal), or the law of its eigenvalues; identity when not given.
    direction : array_like of shape (d,), optional
        u, where `noise` is a covariance; a uniformly random direction when not given.
    centered : bool
        Whether the mean over sequences is subtracted.
    table : {"sampled", "class_centered"}
        Whether the noise of the table has been centred within each class, the tokens of equal sign.
    rng : int
        Of the quadrature's probes, used only when both V and N are large.

    Returns
    -------
    Prediction
        `alpha` is the mean square of the pooled signs (their variance when centred), `kappa` the mean of the squared
        weights ``sum_t (w_t a(x_t))²``. The population quantities are those of infinitely many sequences whose tokens
        are independent given their classes, with the frequencies, alpha and kappa of the corpus.
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
    a = None if token_weights is None else check.token_weights(token_weights, V)
    w = _position_weights(weights, *ids.shape, unit_sum=not centered)
    covariance = Noise(noise, d, direction)
    W_t = token_matrix(ids, w, V)
    # frequencies as the pooling sees them; plain counts where weights of both signs make that meaningless
    frequencies = np.asarray(W_t.sum(axis=0)).ravel()
    if frequencies.min() < 0 or frequencies.sum() <= 0:
        frequencies = np.bincount(ids.ravel(), minlength=V)
    frequencies = frequencies / frequencies.sum()
    weighted = W_t if a is None else token_matrix(ids, w, V, a)
    project = Projection(classes if table == "class_centered" else None)
    usage = sample_usage(weighted, None, classes, centered=centered, project=project, rng=rng)
    rows = np.atleast_2d(w)
    kappa = float(np.einsum("nt,nt->", rows, rows) / len(rows))
    sums = rows.sum(axis=1)
    limit = population_usage(
        frequencies,
        classes,
        _tilt(frequencies, classes, a, usage.gain, kappa, (float(sums.mean()), float(sums.var())), centered),
        kappa,
        token_weights=a,
        row_sums=(float(sums.mean()), float(sums.var())),
        centered=centered,
        class_centered=table == "class_centered",
    )
    if a is not None:
        kappa = float(np.sum((rows * a[ids]) ** 2)) / len(ids)
    sizes = Sizes(d, V, len(np.unique(ids, axis=0)), bool(centered))  # copies of a sequence say nothing new
    return GivenTokens(usage, limit, covariance, usage.gain, kappa, sizes).predict(strength)


def _tilt(
    p: FloatArray,
    s: FloatArray,
    token_weights: FloatArray | None,
    gain: float,
    kappa: float,
    row_sums: tuple[float, float],
    centered: bool,
) -> float:
    """Coefficient of the correlation of positions that gives the pooled signs of the population the observed gain."""
    f = p if token_weights is None else p * token_weights
    mean, square = float(f @ s), float((f**2 / np.where(p > 0, p, 1.0)) @ s**2)
    lean = float(f @ (s * (s - float(p @ s))))
    if lean**2 <= 1e-12 * square**2:
        return 0.0
    sigma = row_sums[1] + (0.0 if centered else row_sums[0] ** 2)
    if not centered:
        gain = max(gain, row_sums[0] ** 2 * mean**2)
    return (gain - kappa * square - (sigma - kappa) * mean**2) / lean**2


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


def _position_weights(weights: ArrayLike, N: int, T: int, *, unit_sum: bool) -> FloatArray:
    w = check.finite_array(weights, "weights")
    if w.shape not in ((T,), (N, T)):
        raise WeightsError(f"weights must be ({T},) or ({N}, {T})", w, "Pass one weight per position")
    if unit_sum and w.ndim == 1:
        return check.weight_vector(w, T)
    check.moderate_weights(w)
    if not w.any():
        raise WeightsError("weights must not all be zero", w, "Pass one weight per position")
    sums = np.atleast_2d(w).sum(axis=1)
    if unit_sum and np.abs(sums - 1).max() > check.IDENTITY_TOLERANCE * max(1.0, float(np.abs(w).sum(axis=1).max())):
        raise WeightsError(
            "weights must sum to one in each sequence where S is not centred", sums, "Divide by the sums, or centre S"
        )
    return w
