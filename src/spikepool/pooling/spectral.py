"""Pooling of token sequences with weights that are used only when the data support them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spikepool.data.estimator_input import EMPTY, feature_names, read_tokens
from spikepool.data.map_merge import map_merge, uses_dask
from spikepool.data.row_map import map_any
from spikepool.data.tokens import TokenInput, relative_labels
from spikepool.errors import InvalidInputError, ShapeError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.showing import html_text
from spikepool.kit.threads import task_threads
from spikepool.pooling.pooled_rows import PooledRows
from spikepool.pooling.positional import PositionalMoments
from spikepool.pooling.positional_evidence import FEWEST_SEQUENCES, Evidence, weigh
from spikepool.pooling.probe import ProbeRows, antisymmetry, directional_gram
from spikepool.pooling.token_sums import TokenSums
from spikepool.world.weights import causal_weights, mean_weights

POSITIONS = ("absolute", "relative")
RULES = ("spectral", "mean", "causal")
# Gains in alpha/kappa below this are not taken: of the weights found in contextual embeddings with gains up to 1.10
# none changed the accuracy of a ridge by more than its standard error (benchmarks/studies/real_data.py).
MIN_GAIN = 0.1
# What is worked out of the sums when it is asked for.
CONCLUSIONS = (
    "weights_",
    "correlation_",
    "correlation_error_",
    "gain_",
    "gain_interval_",
    "decision_",
    "evidence_",
    "sink_",
    "sink_ratio_",
)
# What is said where leaving out position 0 would not leave out all attention sinks.
UNREMOVABLE_SINK = "tokens of enormous norm (attention sinks) are not all at one position: mask them"
# Sums over fewer numbers take milliseconds, and threads would not pay.
THREADED_SIZE = 1 << 22


class SpectralPooling(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Pool (n, T, d) token embeddings to (n, d) with positional weights learned without labels.

    In the model of the paper the best weights are the top eigenvector of the positional correlation R (Theorem 5).
    R is estimated from products of DIFFERENT tokens of a sequence, shrunk towards the exchangeable structure (whose
    optimum is the mean), and turned into non-negative weights of unit sum. They replace the mean only when a
    cross-fitted lower confidence bound says that alpha/kappa improves AND the cross-position structure is symmetric,
    as a latent shared by positions makes it. Otherwise the mean is used, and ``decision_`` reports it. On ordinary text
    the mean is nearly always the answer.

    Accepted X: an array (n, T, d); an array (n, T*d) with `n_positions`; integer token ids (n, T) with `table`. Each
    may be in memory, a memory map, a Zarr or Dask array, or the path or URL of an npy, Zarr, Parquet or Arrow file. A
    2-D array without `n_positions` and `table` is one position of d features, and pooling returns it unchanged.

    Parameters
    ----------
    weights : {"spectral", "mean", "causal"} or array of shape (T,), default="spectral"
        ``"spectral"`` estimates them; the others are fixed and need no estimate. An array must sum to one.
    n_positions : int, optional
        T, for X of shape (n, T*d).
    table : array of shape (V, d), optional
        Embedding table, rows = tokens; X then holds token ids.
    padding : int, optional
        Token id that stands for no token (only with `table`).
    positions : {"absolute", "relative"}, default="absolute"
        ``"relative"``: the weight of a token depends on its relative place among the observed tokens of its row, in
        `n_bins` bins; for sequences of variable length. X may then have another T in transform.
    n_bins : int, default=8
        Number of bins of relative positions.
    confidence : float, default=0.95
        Level of the confidence interval of the gain.
    min_gain : float, default=0.1
        The lower bound of the gain must exceed ``1 + min_gain``. On contextual embeddings gains of a few percent are
        significant and worth nothing to a classifier.
    empty : {"error", "zero"}, default="error"
        Rows in which nothing is observed: an error that names them, or zeros.
    progress : bool, optional
        Show a progress bar; by default only for long work on a terminal.

    Attributes
    ----------
    weights_ : array of shape (T,) or (n_bins,)
        Weights in use, of unit sum. In a row with padding they are renormalised over the observed positions.
    correlation_ : array of shape (T, T), or None
        Estimated positional correlation R, of unit diagonal; None for fixed weights.
    correlation_error_ : array of shape (T, T), or None
        Sampling error of its entries.
    gain_ : float
        Estimated gain in alpha/kappa of ``weights_`` over the mean; 1.0 when the mean is used, NaN for fixed weights
        other than the mean.
    gain_interval_ : tuple of float
        Its confidence interval. The lower bound decides. Noise counts as signal in the scale of the gain, so that both
        rather under- than overstate it.
    decision_ : {"spectral", "mean", "causal", "given"}
        Which weights are in use.
    evidence_ : Evidence, or None
        Everything behind the decision, including the candidate that was turned down.
    sink_, sink_ratio_ : bool and float
        Whether the first token is an attention sink, which spectral weights pass over, and its median norm over that of
        the others (NaN when not looked at).
    n_features_in_, n_positions_, n_features_out_, n_samples_seen_ : int
        Sizes seen in fit.

    Examples
    --------
    >>> import numpy as np, spikepool as sp
    >>> rng = np.random.default_rng(0)
    >>> latent = rng.choice([-1.0, 1.0], size=(2000, 1)) * np.ones(3)  # three positions share a sign, seven do not
    >>> latent = np.hstack([latent, rng.choice([-1.0, 1.0], size=(2000, 7))])
    >>> X = latent[:, :, None] * np.r_[2.0, np.zeros(19)] + rng.normal(size=(2000, 10, 20))
    >>> pooling = sp.SpectralPooling().fit(X)
    >>> pooling.decision_, pooling.weights_.round(1)[:4]
    ('spectral', array([0.3, 0.3, 0.3, 0. ]))
    """

    # masks travel through pipelines and searches without being asked for (where metadata routing is enabled)
    __metadata_request__fit = {"mask": True}  # noqa: RUF012  read by scikit-learn
    __metadata_request__partial_fit = {"mask": True}  # noqa: RUF012
    __metadata_request__transform = {"mask": True}  # noqa: RUF012

    def __init__(
        self,
        weights: Any = "spectral",
        *,
        n_positions: int | None = None,
        table: Any = None,
        padding: int | None = None,
        positions: str = "absolute",
        n_bins: int = 8,
        confidence: float = 0.95,
        min_gain: float = MIN_GAIN,
        empty: str = "error",
        progress: bool | None = None,
    ) -> None:
        self.weights = weights
        self.n_positions = n_positions
        self.table = table
        self.padding = padding
        self.positions = positions
        self.n_bins = n_bins
        self.confidence = confidence
        self.min_gain = min_gain
        self.empty = empty
        self.progress = progress

    def fit(self, X: Any, y: Any = None, mask: Any = None) -> SpectralPooling:
        """Estimate the weights, in one pass over the data.

        Parameters
        ----------
        X : array, Dask or Zarr array, path or URL
            Tokens, in any of the accepted forms. The pass runs on the scheduler that is active for Dask, chunk by
            chunk; see :func:`spikepool.data.open_blocks`.
        y : ignored
        mask : array of shape (n, T), optional
            True where a token is observed; stored like X, with chunks of the same rows.
        """
        source = read_tokens(self, X, mask, reset=True)
        self._start(source)
        try:
            return self._absorb(source)._conclude()
        finally:
            # the sums behind the estimate can be large, and would travel with every copy and pickle
            del self._moments, self._probe

    def partial_fit(self, X: Any, y: Any = None, mask: Any = None) -> SpectralPooling:
        """Add a shard of a stream; after the last one everything equals `fit` on the shards in order.

        Only sums are kept here: the decision and all that follows from it (``weights_``, ``transform``, ...) are
        worked out when they are asked for, however many shards came before. Only `partial_fit` keeps the sums that
        a stream needs: after `fit` it starts a new stream.
        """
        first = not hasattr(self, "_moments")
        any_length = not first and self.positions == "relative"
        source = read_tokens(self, X, mask, reset=first, any_length=any_length, fitting=True)
        if first:
            self._start(source)
        elif source.d != self.n_features_out_:
            raise ShapeError(f"shards before had {self.n_features_out_} features a token", source.d, "Match them")
        try:
            self._absorb(source)
        except BaseException:
            if first:  # nothing has been seen yet; later shards leave the sums as they were
                del self._moments, self._probe
            raise
        for name in CONCLUSIONS:  # those of the stream so far
            self.__dict__.pop(name, None)
        return self

    def __getattr__(self, name: str) -> Any:
        # only reached for missing attributes: results that were not computed since the last shard
        if name in CONCLUSIONS and "_moments" in self.__dict__:
            return getattr(self._conclude(), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _start(self, source: TokenInput) -> None:
        check.choice(self.positions, "positions", POSITIONS)
        check.choice(self.empty, "empty", EMPTY)
        check.fraction(self.confidence, "confidence", closed=False)
        check.non_negative(self.min_gain, "min_gain")
        bins = check.size(self.n_bins, "n_bins")
        self._bins = bins if self.positions == "relative" else None
        P = self._bins if self._bins is not None else source.T
        self._fixed = self._fixed_weights(P)
        self.n_positions_, self.n_features_out_, self.n_samples_seen_ = source.T, source.d, 0
        self._moments = PositionalMoments(P, source.d)
        self._probe = ProbeRows(source.T, source.d)

    def _fixed_weights(self, P: int) -> FloatArray | None:
        if isinstance(self.weights, str):
            rule = check.choice(self.weights, "weights", RULES)
            if rule == "spectral":
                return None
            return mean_weights(P) if rule == "mean" else causal_weights(P)
        if self.weights is None:
            raise InvalidInputError("weights must be a rule or an array", None, f"Choose one of {RULES}")
        return check.weight_vector(self.weights, P)

    def _absorb(self, source: TokenInput) -> SpectralPooling:
        if self.n_positions_ != source.T and self._bins is None:
            raise ShapeError(f"X has {source.T} positions; fit saw", self.n_positions_, "Pad to one length")
        estimate = self._fixed is None and (self._bins or source.T) > 1
        if not estimate and self.empty == "zero" and source.in_memory:
            self.n_samples_seen_ += source.n
            return self
        large = source.n * source.T * source.d > THREADED_SIZE
        with task_threads(large=large) as over_folds:
            # threads of this process cannot travel; on Dask the scheduler's are used
            threads = {} if uses_dask(source.sources) else {"over_folds": over_folds}
            new = partial(
                TokenSums,
                source.form,
                self._bins,
                self.empty,
                estimate=estimate,
                seen=self.n_samples_seen_,
                probed=self._probe.seen,
                stride=self._probe.stride_after(source.n),
                **threads,
            )
            sums = map_merge(new, source.sources, label="positional moments", show=self.progress)
        if sums.moments is not None and sums.probe is not None:
            self._moments.merge(sums.moments)
            if self.n_positions_ == source.T:
                self._probe.merge(sums.probe)
        self.n_samples_seen_ += source.n
        return self

    def _conclude(self) -> SpectralPooling:
        P = self._moments.P
        self.evidence_: Evidence | None = None
        self.correlation_: FloatArray | None = None
        self.correlation_error_: FloatArray | None = None
        self.sink_, self.sink_ratio_ = False, float("nan")
        if self._fixed is not None:
            self.weights_ = self._fixed.copy()
            self.decision_ = self.weights if isinstance(self.weights, str) else "given"
            self.gain_ = 1.0 if self.decision_ == "mean" else float("nan")
            self.gain_interval_ = (self.gain_, self.gain_)
            return self
        if P == 1:
            self.weights_, self.decision_ = np.ones(1), "mean"
            self.correlation_, self.correlation_error_ = np.ones((1, 1)), np.zeros((1, 1))
            self.gain_, self.gain_interval_ = 1.0, (1.0, 1.0)
            return self
        if not any(np.any(row) for row in self._probe.observed):
            raise InvalidInputError("no token is observed in any row", remedy="Pass a mask that shows some tokens")
        gram = self._moments.finish()
        labels = np.stack([self._labels(o) for o in self._probe.observed])
        x, observed = self._probe.centred(gram.means, labels)
        self.sink_ratio_, self.sink_, alone = self._probe.sink()
        removable = self.sink_ and self._bins is None and alone and P > 2
        if removable:
            gram, x, observed, labels = gram.without_first(), x[:, 1:], observed[:, 1:], labels[:, 1:] - 1
        with task_threads(large=x.size > THREADED_SIZE) as over_folds:
            evidence = weigh(
                gram,
                directional_gram(x, observed, labels, P - removable, over_folds),
                antisymmetry(x),
                confidence=float(self.confidence),
                min_gain=float(self.min_gain),
            )
        if removable:
            evidence = evidence.with_sink()
        elif self.sink_:
            evidence = replace(evidence, accepted=False, reason=UNREMOVABLE_SINK)
        if self.n_samples_seen_ < FEWEST_SEQUENCES:
            reason = f"{self.n_samples_seen_} sequences are too few to tell positions apart"
            evidence = replace(evidence, accepted=False, reason=reason)
        self.evidence_ = evidence
        self.correlation_ = self.evidence_.correlation
        self.correlation_error_ = self.evidence_.correlation_error
        if self.evidence_.accepted:
            self.weights_, self.decision_ = self.evidence_.weights, "spectral"
            self.gain_, self.gain_interval_ = self.evidence_.gain, self.evidence_.interval
        else:
            self.weights_, self.decision_ = mean_weights(P), "mean"
            self.gain_, self.gain_interval_ = 1.0, (1.0, 1.0)
        return self

    def _labels(self, observed: NDArray[np.bool_]) -> NDArray[np.intp]:
        if self._bins is None:
            return np.arange(len(observed))
        return np.asarray(relative_labels(observed[None], self._bins)[0])

    def transform(self, X: Any, mask: Any = None) -> Any:
        """Pooled features (n, d); a lazy Dask array when X is one.

        Stored data (paths, URLs, Zarr arrays) are read chunk by chunk; the result is in memory. To write it to a
        store instead: :func:`spikepool.write_pooled`, or ``spikepool pool X --out P.zarr``.
        """
        return map_any(self._source(X, mask), self._pool_block, self.n_features_out_, "pooling", self.progress)

    def _source(self, X: Any, mask: Any) -> TokenInput:
        """Sequences to pool, which must be like those seen in fit."""
        check_is_fitted(self, "weights_")
        source = read_tokens(self, X, mask, reset=False, any_length=self._bins is not None)
        if source.d != self.n_features_out_ or (self._bins is None and self.n_positions_ != source.T):
            raise ShapeError(
                f"fit saw {self.n_positions_} positions of {self.n_features_out_} features",
                (source.T, source.d),
                "Pass sequences of the same length and dimension",
            )
        return source

    @property
    def _pool_block(self) -> PooledRows:
        return PooledRows(self.weights_, self._bins, self.empty)

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None) -> Any:
        """Fit, then pool the same sequences; the mask serves both."""
        return self.fit(X, y, mask=mask).transform(X, mask=mask)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the pooled features."""
        check_is_fitted(self, "weights_")
        names = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = np.asarray(input_features, dtype=object)
            if names is not None and not np.array_equal(given, names):
                raise InvalidInputError("input_features is not equal to feature_names_in_", given, "Pass None")
            if len(given) != self.n_features_in_:
                raise InvalidInputError(
                    "input_features should have length equal to number of features", len(given), "Pass None"
                )
            names = given
        return feature_names("pooled", self.n_features_out_, names)

    def plot(self, ax: Any = None) -> Any:
        """Weights by position beside those of the mean; returns the axes."""
        check_is_fitted(self, "weights_")
        from spikepool.drawing.predictions import draw_weights

        return draw_weights(self.weights_, ax)

    def _html_repr(self) -> str:
        """In a notebook: scikit-learn's card, and the decision once fitted."""
        card = str(super()._html_repr())
        return card + html_text(self.summary()) if hasattr(self, "weights_") else card

    def summary(self) -> str:
        """One line: which weights are in use, the gain, and why."""
        check_is_fitted(self, "weights_")
        sizes = f"{self.n_samples_seen_} sequences, T={self.n_positions_}, d={self.n_features_out_}"
        if self._fixed is not None:
            return f"{self.decision_} pooling (fixed weights); {sizes}"
        if self.evidence_ is None:
            return f"mean pooling: a single position leaves nothing to weigh; {sizes}"
        e = self.evidence_
        level = f"{100 * float(self.confidence):g}%"
        gain = f"candidate gain {e.gain:.3f} ({level} CI {e.interval[0]:.3f} to {e.interval[1]:.3f})"
        if e.reason == UNREMOVABLE_SINK:
            return f"{self.decision_} pooling: {e.reason} (norm ratio {self.sink_ratio_:.3g}); {sizes}"
        sink = f"; position 0 masked as a sink (norm ratio {self.sink_ratio_:.3g})" if self.sink_ else ""
        return f"{self.decision_} pooling: {e.reason}; {gain}{sink}; {sizes}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_out_)
