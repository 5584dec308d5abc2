"""Pooling of token sequences with weights that are used only when the data support them.

Some whole sequences, evenly spread over all rows, kept for the estimate of positional weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from spikepool.data.estimator_input import EMPTY, feature_names, read_tokens, refuse_empty_rows
from spikepool.data.tokens import Block, TokenForm, TokenInput, relative_labels, row_weights
from spikepool.errors import InvalidInputError, ShapeError, WeightsError
from spikepool.kit import validation as check
from spikepool.kit.arrays import BoolArray, FloatArray, IntArray
from spikepool.kit.pages import html_text
from spikepool.kit.progress import Progress
from spikepool.kit.threads import single_threaded_blas
from spikepool.pooling.places import places
from spikepool.pooling.positional import leading_gram
from spikepool.pooling.positional_gain import Evidence, antisymmetry, weigh
from spikepool.pooling.token_space import is_sink, sink_signs
from spikepool.world.weights import causal_weights, mean_weights

# Bytes of rows in single precision, and the limits of their number.
PROBE_BYTES = 96 * 2**20
FEWEST_PROBES, MOST_PROBES = 128, 2048


def probe_stride(n: int, form: TokenForm) -> int:
    """Every so many of `n` rows one is kept: the fewest that fit 96 MB, at least 128 and at most 2,048 rows."""
    return -(-n // int(np.clip(PROBE_BYTES // (4 * form.T * form.d), FEWEST_PROBES, MOST_PROBES)))


class ProbeRows:
    """Rows whose number is a multiple of `stride`, in a pass that checks all.

    Parameters
    ----------
    empty : {"error", "zero"}
        What to do with rows in which nothing is observed.
    stride : int
        0 when rows are only checked.
    """

    def __init__(self, empty: str, stride: int) -> None:
        self._empty, self._stride = empty, stride
        self.x: list[NDArray[Any]] = []  # in single precision
        self.observed: list[BoolArray] = []

    def read(self, source: TokenInput, show: bool | None) -> None:
        """Check all rows, and keep some of them."""
        with Progress(-(-source.n // source.form.rows_per_block()), "tokens", show=show) as bar:
            for first, block in source.token_blocks():
                refuse_empty_rows(block.observed, first + np.arange(len(block)), self._empty)
                if self._stride:
                    kept = slice(-first % self._stride, None, self._stride)
                    self.x.append(block.dense(kept).astype(np.float32))
                    self.observed.append(block.observed[kept].copy())
                bar.advance()

    def rows(self) -> tuple[FloatArray, BoolArray]:
        """The rows as one array (m, T, d), zero where nothing is observed, and what is."""
        return np.concatenate(self.x).astype(np.float64), np.concatenate(self.observed)


def first_token_sink(x: FloatArray, observed: BoolArray) -> tuple[float, bool]:
    """Median norm of first tokens over that of the others, and whether they are an attention sink."""
    first = observed & (places(observed)[0] == 0) & (observed.sum(axis=1, keepdims=True) > 1)
    if not first.any():
        return float("nan"), False
    norms = np.sqrt(np.einsum("ntd,ntd->nt", x, x))
    ratio, constant = sink_signs(norms[first], norms[observed & ~first], x[first].mean(axis=0))
    return ratio, is_sink(ratio, constant)


POSITIONS = ("absolute", "relative")
RULES = ("spectral", "mean", "causal")
# Gains in alpha/kappa below this are not taken: of the weights found in contextual embeddings with gains up to 1.10
# none changed the accuracy of a ridge by more than its standard error (benchmarks/studies/real_data.py).
MIN_GAIN = 0.1
# Sequences below which ten folds are not independent evidence: of pure noise weights were accepted in 38 of 40 draws of
# two sequences, 12 % of three and up to 12 % of ten, and in 1 % of thirty and more.
FEWEST_SEQUENCES = 30
# Features of a token beyond which its covariances would dominate the cost of a fit.
MOST_FEATURES = 2048


@dataclass(frozen=True, eq=False)
class PooledRows:
    """C_n = Σ_t w_t x_nt, weights (P,) renormalised over the observed positions (or bins of them) of a row."""

    weights: FloatArray
    bins: int | None
    empty: str

    def __call__(self, block: Block, rows: IntArray) -> FloatArray:
        """Pooled features (b, d) of a block with these numbers of rows."""
        x, observed = block
        refuse_empty_rows(observed, rows, self.empty)
        if not observed.all() and self.weights.min() < 0:
            raise WeightsError(
                "weights of both signs cannot be renormalised over the observed positions",
                self.weights,
                "Use non-negative weights with masks",
            )
        return np.asarray(np.matmul(row_weights(self.weights, observed, self.bins)[:, None, :], x)[:, 0])


class SpectralPooling(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Pool (n, T, d) token embeddings to (n, d) with positional weights learned without labels.

    In the model of the paper the best weights are the top eigenvector of the positional correlation R (Theorem 5).
    R is estimated from products of DIFFERENT tokens of a sequence within their leading directions, on up to 2,048
    sequences, shrunk towards the exchangeable structure (whose optimum is the mean), and turned into non-negative
    weights of unit sum. They replace the mean only when a cross-fitted lower confidence bound says that alpha/kappa
    improves AND the cross-position structure is symmetric, as a latent shared by positions makes it. On ordinary text
    the mean is nearly always the answer; ``reason_`` says why.

    Accepted X: an array (n, T, d); an array (n, T*d) with `n_positions`; integer token ids (n, T) with `table`. Each
    may be in memory or a memory map. A 2-D array without `n_positions` and `table` is one position of d features, and
    pooling returns it unchanged.

    Parameters
    ----------
    weights : {"spectral", "mean", "causal"} or array of shape (T,), default="spectral"
        ``"spectral"`` estimates them; the others are fixed. An array must sum to one.
    n_positions : int, optional
        T, for X of shape (n, T*d).
    table, padding : array of shape (V, d) and int, optional
        Embedding table, rows = tokens, for X of token ids; and the id that stands for no token.
    positions, n_bins : {"absolute", "relative"}, default="absolute", and int, default=8
        ``"relative"``: the weight of a token depends on its relative place among the observed tokens of its row, in
        `n_bins` bins; for sequences of variable length. X may then have another T in transform.
    confidence, min_gain : float, default=0.95 and 0.1
        Weights are used when the lower confidence bound of their gain exceeds ``1 + min_gain``. On contextual
        embeddings gains of a few percent are significant and worth nothing to a classifier.
    empty : {"error", "zero"}, default="error"
        Rows in which nothing is observed: an error that names them, or zeros.
    progress : bool, optional
        Show a progress bar; by default only for long work on a terminal.

    Attributes
    ----------
    weights_ : array of shape (T,) or (n_bins,)
        Weights in use, of unit sum. In a row with padding they are renormalised over the observed positions.
    correlation_ : array of shape (T, T), or None
        Estimated positional correlation R, of unit diagonal; None when nothing was estimated.
    gain_, gain_interval_ : float and tuple of float
        Estimated gain in alpha/kappa over the mean and its confidence interval, conditional on the weights having been
        accepted; 1.0 when the mean is used, NaN for other fixed weights.
    decision_, reason_ : str
        Which weights are in use ("spectral", "mean", "causal" or "given"), and why.
    evidence_ : Evidence, or None
        Everything behind the decision, including the candidate that was turned down.
    sink_, sink_ratio_ : bool and float
        Whether the first token is an attention sink, and its median norm over that of the others.
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
        """Estimate the weights, in one pass over X, chunk by chunk on the scheduler that is active for Dask.

        `mask` (n, T) is True where a token is observed; stored like X, with chunks of the same rows. `y` is ignored.
        """
        source = read_tokens(self, X, mask, reset=True)
        check.choice(self.positions, "positions", POSITIONS)
        check.choice(self.empty, "empty", EMPTY)
        check.fraction(self.confidence, "confidence", closed=False)
        check.non_negative(self.min_gain, "min_gain")
        bins = check.size(self.n_bins, "n_bins")
        self._bins = bins if self.positions == "relative" else None
        P = self._bins or source.T
        fixed = self._fixed_weights(P)
        stride = probe_stride(source.n, source.form) if fixed is None and P > 1 else 0
        probe = ProbeRows(self.empty, stride)
        if stride or self.empty != "zero":
            probe.read(source, self.progress)
        self.n_positions_, self.n_features_out_, self.n_samples_seen_ = source.T, source.d, source.n
        self.evidence_: Evidence | None = None
        self.correlation_: FloatArray | None = None
        self.sink_, self.sink_ratio_ = False, float("nan")
        self.weights_, self.decision_, self.gain_, self.gain_interval_ = mean_weights(P), "mean", 1.0, (1.0, 1.0)
        if fixed is not None:
            self.weights_, self.reason_ = fixed, "fixed weights"
            self.decision_ = self.weights if isinstance(self.weights, str) else "given"
            self.gain_ = 1.0 if self.decision_ == "mean" else float("nan")
            self.gain_interval_ = (self.gain_, self.gain_)
        elif P == 1:
            self.reason_ = "a single position leaves nothing to weigh"
        else:
            self.reason_ = self._weigh(probe, P)
        return self

    def _fixed_weights(self, P: int) -> FloatArray | None:
        if isinstance(self.weights, str):
            rule = check.choice(self.weights, "weights", RULES)
            return None if rule == "spectral" else mean_weights(P) if rule == "mean" else causal_weights(P)
        if self.weights is None:
            raise InvalidInputError("weights must be a rule or an array", None, f"Choose one of {RULES}")
        return check.weight_vector(self.weights, P).copy()

    def _weigh(self, probe: ProbeRows, P: int) -> str:
        """Decide between the mean and spectral weights from the rows that were kept; returns the reason."""
        x, observed = probe.rows()
        if not observed.any():
            raise InvalidInputError("no token is observed in any row", remedy="Pass a mask that shows some tokens")
        if self.n_samples_seen_ < FEWEST_SEQUENCES:
            return f"{self.n_samples_seen_} sequences are too few to tell positions apart"
        if self.n_features_out_ > MOST_FEATURES:
            return f"positions of more than {MOST_FEATURES:,} features are not compared"
        self.sink_ratio_, self.sink_ = first_token_sink(x, observed)
        if self.sink_:
            return f"the first token is an attention sink (norm ratio {self.sink_ratio_:.3g}): mask it"
        labels = np.tile(np.arange(x.shape[1]), (len(x), 1))
        if self._bins is not None:
            labels = relative_labels(observed, self._bins)
        for label in range(P):
            of_label = observed & (labels == label)
            x[of_label] -= x[of_label].mean(axis=0) if of_label.any() else 0.0
        with single_threaded_blas():  # the same digits whatever the number of threads
            gram = leading_gram(x, observed, labels, P)
            options = {"confidence": float(self.confidence), "min_gain": float(self.min_gain)}
            self.evidence_ = evidence = weigh(gram, antisymmetry(x), **options)
        self.correlation_ = evidence.correlation
        if evidence.accepted:
            self.weights_, self.decision_ = evidence.weights, "spectral"
            self.gain_, self.gain_interval_ = evidence.gain, evidence.interval
        return evidence.reason

    def transform(self, X: Any, mask: Any = None) -> Any:
        """Pooled features (n, d)."""
        return self._source(X, mask).map_rows(self._pool_block, self.n_features_out_, "pooling", self.progress)

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
        """Names of the pooled features: those given, for a single position, else ``pooled0``, ``pooled1``, ..."""
        check_is_fitted(self, "weights_")
        given = _check_feature_names_in(self, input_features, generate_names=False)
        return feature_names("pooled", self.n_features_out_, given)

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
        text = f"{self.decision_} pooling: {self.reason_}"
        if self.evidence_ is not None:
            low, high = self.evidence_.interval
            level = f"{100 * float(self.confidence):g}%"
            text += f"; candidate gain {self.evidence_.gain:.3f} ({level} CI {low:.3f} to {high:.3f})"
        return f"{text}; {self.n_samples_seen_} sequences, T={self.n_positions_}, d={self.n_features_out_}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_out_)
