"""Predictions given the token usage: right at any sequence length, token frequencies, noise covariance and centring.

The closed form of :meth:`SequenceModel.predict` is the limit of spread-out weights. Here the tokens are drawn (or read
from a corpus), and the separable equations are solved for the spectrum of that very usage: S = Y Y' with
``Y = A^{1/2} Z B/sqrt(V) + mu u b'`` (see :mod:`spikepool.theory.token_usage`). Only the noise Z is averaged over.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spikepool.errors import InvalidInputError, ShapeError, TokenError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.laws.atomic import AtomicLaw
from spikepool.laws.base import SpectralLaw
from spikepool.laws.discretise import discretise
from spikepool.laws.generalized import GeneralizedLaw
from spikepool.theory.general_spikes import GeneralOutlier, GeneralSpikes, Measure
from spikepool.theory.prediction import Outlier, Prediction
from spikepool.theory.token_usage import Projection, Usage, population_usage, sample_usage, token_matrix
from spikepool.world.sequences import TABLES, SequenceWorld

Kind = Literal["signal", "mean", "usage"]

# An eigenvalue of the usage that holds more than this share of the signal is the table's own class structure; where
# it leaves the bulk the signal has an outlier at any strength. A heavy token holds about its frequency.
_CLASS_SHARE = 0.1
# At most this many eigenvalues are taken out of the bulk as spikes of their own.
_MAX_SPIKES = 32
# Eigenvalues that stand apart from the rest but not from each other are spikes up to this many.
_GROUP = 4


def predict_exact(model: SequenceWorld, w: ArrayLike, *, rng: Any = None) -> Prediction:
    """Bulk, outliers and alignments of S for tokens drawn from `model`.

    Parameters
    ----------
    model : SequenceWorld
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
    from spikepool.world.sampling import draw_tokens, pooling_weights

    weights = pooling_weights(w, model)
    tokens, latent = draw_tokens(model, rng)
    pooled = np.einsum("nt,...t->n", latent, weights, dtype=np.float64)
    frequencies = np.full(model.V, 1 / model.V) if model.frequencies is None else model.frequencies
    if model.latent == "signs":  # within its class a token is drawn in proportion to its frequency
        frequencies = frequencies.copy()
        for first in (0, 1):
            frequencies[first::2] /= 2 * frequencies[first::2].sum()
    rows = np.atleast_2d(weights)
    alpha = float(np.einsum("nt,ts,ns->", rows, model.R, rows) / len(rows))
    kappa = float(np.einsum("nt,nt->", rows, rows) / len(rows))
    project = Projection(model.signs if model.table == "class_centered" else None)
    noise = _Noise(model.covariance, model.d, model.direction)
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
    return _predict(usage, limit, noise, model.V, model.mu, alpha, kappa, centered=model.centered)


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
    covariance = _Noise(noise, d, direction)
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
    return _predict(usage, limit, covariance, V, strength, usage.gain, kappa, centered=centered)


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
    if np.abs(w.sum(axis=1) - 1).max() > check.IDENTITY_TOLERANCE * max(1.0, float(np.abs(w).sum(axis=1).max())):
        raise WeightsError("weights must sum to one in each sequence", w.sum(axis=1), "Divide rows by their sums")
    return w


class _Noise:
    """Law of the noise covariance A, its measure at u, and its eigenvalues one by one where they are known."""

    def __init__(self, covariance: Any, d: int, direction: ArrayLike | None) -> None:
        self.d = d
        self.values: FloatArray | None = None
        u = None if direction is None else check.finite_array(direction, "direction", ndim=1)
        if u is not None and (len(u) != d or not u.any()):
            raise ShapeError(f"direction must be a non-zero vector of length d = {d}", u, "Match d")
        if covariance is None:
            self.law: SpectralLaw = AtomicLaw([1.0])
            self.left = Measure(np.ones(1), np.ones((1, 1)))
            return
        if isinstance(covariance, SpectralLaw):
            if u is not None:
                raise InvalidInputError(
                    "a direction needs a noise covariance, not the law of its eigenvalues",
                    remedy="Pass the covariance matrix, or leave the direction out",
                )
            self.law = covariance
            atoms = discretise(covariance)
            self.left = Measure(atoms.values, np.sqrt(atoms.weights)[:, None])
            return
        A = check.finite_array(covariance, "noise")
        if A.ndim not in (1, 2) or len(A) != d:
            raise ShapeError(f"noise must be ({d},) or ({d}, {d})", A, "Match d")
        if A.ndim == 1:
            values, coordinates = A, u
            if A.min() < 0:
                raise InvalidInputError("noise has a negative variance", float(A.min()), "Pass variances >= 0")
        else:
            values, basis = np.linalg.eigh(check.symmetric_psd(A, "noise"))
            values = np.maximum(values, 0.0)
            coordinates = None if u is None else basis.T @ u
        if coordinates is None:
            coordinates = np.full(d, 1 / np.sqrt(d))
        self.values = np.asarray(values, dtype=np.float64)
        self.law = AtomicLaw(self.values)
        self.left = Measure(self.values, (coordinates / np.linalg.norm(coordinates))[:, None])


def _predict(
    usage: Usage,
    limit: Usage,
    noise: _Noise,
    V: int,
    mu: float,
    alpha: float,
    kappa: float,
    *,
    centered: bool,
) -> Prediction:
    if not usage.values.any():
        raise TokenError(
            "the tokens leave nothing to analyse: every sequence pools to the same usage",
            remedy="Pass more sequences, or centered=False",
        )
    sample, population = _Spectrum(usage, noise, V, mu), _Spectrum(limit, noise, V, mu)
    kinds = sample.kinds(centered)
    reference: dict[str, list[GeneralOutlier]] = {}
    for kind, found in zip(population.kinds(centered), population.outliers, strict=True):
        reference.setdefault(kind, []).append(found)
    outliers = []
    for kind, found in zip(kinds, sample.outliers, strict=True):
        twin = reference[kind].pop(0) if reference.get(kind) else None
        outliers.append(
            Outlier(
                kind=kind,
                eigenvalue=found.eigenvalue,
                alignment=float(found.overlaps[0]),
                population_eigenvalue=population.edge if twin is None else twin.eigenvalue,
                population_alignment=0.0 if twin is None else float(twin.overlaps[0]),
            )
        )
    return Prediction(
        alpha=alpha,
        kappa=kappa,
        bulk=sample.bulk,
        edge=sample.edge,
        outliers=tuple(outliers),
        alignment=outliers[0].alignment if outliers else 0.0,
        detectable=sample.detectable,
        mu_population=population.threshold,
        mu_sample=sample.threshold,
    )


class _Spectrum:
    """Bulk, outliers and threshold for one usage."""

    def __init__(self, usage: Usage, noise: _Noise, V: int, mu: float) -> None:
        delta = noise.d / V
        t, weights = usage.values, usage.weights
        values, coordinates = usage.measure
        held = {float(x): float((coordinates[values == x] ** 2).sum()) for x in t[:_MAX_SPIKES]}
        share = np.array([held[float(x)] for x in t[:_MAX_SPIKES]]) / max(usage.gain, 1e-300)
        # one direction that holds the signal is no part of a bulk, also where it makes no outlier of its own
        single = np.zeros(len(t), dtype=bool)
        top = t[:_MAX_SPIKES]
        # (one: equal eigenvalues, as tokens of equal counts make them, hold it together and are bulk)
        alone = np.array([np.sum(np.abs(t - x) <= 1e-9 * x) == 1 for x in top], dtype=bool)
        single[:_MAX_SPIKES] = (share > _CLASS_SHARE) & (top > 0) & alone
        single &= weights <= 1.5 / V
        if not (t[~single] > 0).any():  # a handful of sequences: all there is must be the bulk
            single[:] = False
        k = _isolated(t[~single], weights[~single], delta * (1 - noise.law.atom))
        spiked = single.copy()
        spiked[np.flatnonzero(~single)[:k]] = True
        usage_spikes = t[spiked]
        # their masses, of order 1/V, go to zero
        bulk_usage = AtomicLaw(np.where(spiked, 0.0, t), weights)
        noise_spikes, law = np.empty(0), noise.law
        if noise.values is not None:
            a = np.sort(noise.values)[::-1]
            j = _isolated(a, np.full(len(a), delta / len(a)), 1 - bulk_usage.atom)
            noise_spikes, law = a[:j], AtomicLaw(a[j:])
            delta *= len(a[j:]) / len(a)
        self.bulk = GeneralizedLaw(law, bulk_usage, delta)
        self.edge = self.bulk.support()[1]
        spikes = {"noise_spikes": noise_spikes, "usage_spikes": usage_spikes}
        found = GeneralSpikes(self.bulk, noise.left, Measure(values, mu * coordinates), **spikes)
        self.outliers: tuple[GeneralOutlier, ...] = found.outliers()
        # the outliers that usage spikes make by themselves, and the share of the signal on each
        self._places = self.bulk.usage_outliers(usage_spikes)
        self._shares = np.array([share[t[:_MAX_SPIKES] == x].max() for x in usage_spikes[: len(self._places)]])
        self.threshold = 0.0
        if not (self._shares > _CLASS_SHARE).any():
            self.threshold = GeneralSpikes(self.bulk, noise.left, usage.measure, **spikes).threshold()
        self.detectable = bool(self.threshold == 0 or mu > self.threshold)

    def kinds(self, centered: bool) -> list[Kind]:
        """What each outlier is made of, in the order of `outliers`."""
        kinds: list[Kind] = ["usage"] * len(self.outliers)
        places = np.array([o.eigenvalue for o in self.outliers])
        if self.detectable and len(places):
            overlap = np.array([float(o.overlaps[0]) for o in self.outliers])
            if overlap.max() > 0:
                signal = int(np.argmax(overlap))
            else:
                signal = int(np.argmin(np.abs(places - self._places[np.argmax(self._shares)])))
            kinds[signal] = "signal"
        if not centered and len(self._places):
            # of the isolated usage eigenvalues that the signal does not share, the largest is the mean's
            alone = self._places[self._shares <= _CLASS_SHARE]
            rest = [i for i, kind in enumerate(kinds) if kind == "usage"]
            if len(alone) and rest:
                kinds[min(rest, key=lambda i: abs(places[i] - alone.max()))] = "mean"
        return kinds


def _isolated(values: FloatArray, weights: FloatArray, bound: float) -> int:
    """How many of the largest eigenvalues lie outside the bulk of the others.

    The top k are spikes of their own if the smallest of them, t_k, is beyond the edge that the rest would have,
    which for isotropic noise reads sum over the rest of weight·t²/(t_k − t)² < bound (see ``laws/_gaps.py``). Groups
    are taken from the top; one of more than a few members is a small bulk of its own and ends the search, as does an
    atom heavier than the lightest.
    """
    if len(values) < 2:
        return 0
    light = weights <= 1.5 * weights.min()
    alone = len(values) if light.all() else int(np.argmin(light))
    top = min(_MAX_SPIKES, alone, len(values) - 1)
    most = 0.75 * float(weights[values > 0].sum())
    count = 0
    for k in range(1, top + 1):
        rest, mass = values[k:], weights[k:]
        if float(mass[rest > 0].sum()) < most:  # a bulk must remain
            break
        gap = values[k - 1] - rest[0]
        if k - count > _GROUP:
            break
        if gap > 1e-9 * values[k - 1] and float(mass @ (rest / (values[k - 1] - rest)) ** 2) < bound:
            count = k
    return count


__all__ = ["predict_exact", "predict_tokens"]
