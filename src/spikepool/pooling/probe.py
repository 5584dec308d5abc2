r"""A few whole sequences kept aside, and what they say that positional sums over all rows cannot.

**Symmetry** (:func:`antisymmetry`). For two independent centred sequences n ≠ n' let K_ts = <x_nt, x_n's>. With
C_ts = Cov(x_t, x_s), a d x d matrix, averages over pairs of sequences are unbiased for

    E[(tr K)² − sum_t K_tt²] = sum_{t≠s} ‖C_ts‖²             (energy)
    E[tr K² − sum_t K_tt²]   = sum_{t≠s} <C_ts, C_ts'>       (symmetric energy)

The antisymmetric parts (C_ts − C_ts')/2 have half of their difference. In the model a pair of positions shares a
class, C_ts = R_ts·(mu+zeta)(mu+zeta)', which is symmetric: the two energies agree. Where order is grammar ("I" before
"am") C_ts is far from symmetric: on real text a quarter to nearly a half of the energy is antisymmetric, and a half
is what matrices without any symmetry have. Cross-position structure is then not a latent shared by positions, its
strength does not say which positions carry the meaning, and re-weighting by it does harm.

**Leading directions** (:func:`directional_gram`). G sums the products of all d directions, of which the signal
occupies few: the noise of an entry is sqrt(d) times that of the same entry within the signal's direction. Leading
directions are found on some folds and G is measured within them on another, so that the two share no noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from spikepool.data.tokens import TokenBlock
from spikepool.kit.arrays import FloatArray
from spikepool.kit.threads import Map, serial_map
from spikepool.pooling.places import places
from spikepool.pooling.positional import N_FOLDS, PositionalGram
from spikepool.pooling.positional_weights import best_nonnegative, shrink
from spikepool.pooling.token_space import SINK_RATIO, is_sink, sink_signs

PROBE_BYTES = 48 * 2**20  # of float32 rows
PROBE_MIN, PROBE_MAX = 64, 1024
MAX_PAIRS = 60_000
PAIR_FLOPS = 2e10  # about a second of one core
MAX_DIRECTIONS = 16
MAX_FEATURES = 2048
ENERGY_DIRECTIONS = 48


class ProbeRows:
    """Between m and 2m rows, evenly spread over a stream of unknown length, chosen by row number alone.

    Every `stride`-th row is kept; when 2m rows are held, every second one is dropped and the stride doubles. So
    shards of a stream give the rows that one pass gives, and sorted data are sampled throughout.
    """

    def __init__(self, T: int, d: int, seen: int = 0, stride: int = 1) -> None:
        self.limit = int(np.clip(PROBE_BYTES // (4 * T * d), PROBE_MIN, PROBE_MAX))
        self.stride = stride
        self.seen = seen  # number of the next row
        self.x: list[NDArray[Any]] = []  # float32, or half floats where the rows are
        self.observed: list[NDArray[np.bool_]] = []

    def add(self, block: TokenBlock) -> None:
        """Offer a block of rows."""
        row = -self.seen % self.stride
        while row < len(block):
            self.x.append(block.dense(slice(row, row + 1))[0].astype(self._stored(block)))
            self.observed.append(block.observed[row].copy())
            if len(self.x) == 2 * self.limit:
                self.x, self.observed = self.x[::2], self.observed[::2]
                self.stride *= 2
            # the next multiple of the stride, which may just have doubled
            row += self.stride - (self.seen + row) % self.stride
        self.seen += len(block)

    @staticmethod
    def _stored(block: TokenBlock) -> Any:
        stored = (block.values if block.table is None else block.table).dtype
        return np.float16 if stored == np.float16 else np.float32

    def __getstate__(self) -> dict[str, Any]:
        # one array travels faster than a thousand
        kept = {"x": np.stack(self.x), "observed": np.stack(self.observed)} if self.x else {}
        return {**self.__dict__, **kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, x=list(state["x"]), observed=list(state["observed"]))

    def stride_after(self, rows: int) -> int:
        """The stride once `rows` more rows have been offered."""
        stride = self.stride
        while -(-(self.seen + rows) // stride) >= 2 * self.limit:
            stride *= 2
        return stride

    def merge(self, other: ProbeRows) -> None:
        """Add what another kept of the rows that follow, with a stride that is no smaller."""
        keep = slice(None, None, other.stride // self.stride)
        self.x, self.observed = self.x[keep] + other.x, self.observed[keep] + other.observed
        self.stride, self.seen = other.stride, other.seen

    def sink(self) -> tuple[float, bool, bool]:
        """Norm ratio of first tokens, whether they are a sink, and whether position 0 is all that is to be left out."""
        x, observed = np.stack(self.x).astype(np.float64), np.stack(self.observed)
        start, _ = places(observed)
        length = observed.sum(axis=1, keepdims=True)
        leading = observed & (start == 0) & (length > 1)
        others = observed & ~leading
        if not leading.any() or not others.any():
            return float("nan"), False, False
        norms = np.sqrt(np.einsum("ntd,ntd->nt", x, x))
        ratio, constant = sink_signs(norms[leading], norms[others], x[leading].mean(axis=0))
        elsewhere = (norms[others] > SINK_RATIO * np.median(norms[others])).any()
        return ratio, is_sink(ratio, constant), not (elsewhere or leading[:, 1:].any() or (length == 1).any())

    def centred(self, means: FloatArray, labels: NDArray[np.intp]) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The rows minus the mean of each token's label, zero where nothing is observed; and what is observed."""
        observed = np.stack(self.observed)
        x = np.stack(self.x).astype(np.float64)
        x -= means[labels]
        x[~observed] = 0.0
        return x, observed


@dataclass(frozen=True)
class Antisymmetry:
    """Energy of the antisymmetric parts, sum_{t≠s} ‖(C_ts − C_ts')/2‖², an average over pairs of sequences.

    Attributes
    ----------
    energy : float
        The antisymmetric energy; 0 in the model.
    error : float
        Its standard error.
    share : float
        Its share of the whole energy sum ‖C_ts‖²: 0 for symmetric matrices, 1 for antisymmetric ones, 1/2 where C_ts
        and its transpose have nothing to do with each other; NaN when the whole is not found to be positive.
    """

    energy: float
    error: float
    share: float


def antisymmetry(x: FloatArray) -> Antisymmetry:
    """The antisymmetric energy from pairs of the centred rows `x` (m, T, d).

    Measured within the directions of largest token variance, where text has its structure: the energy found is a
    lower bound, and the noise is that of few directions instead of d.
    """
    m, T, d = x.shape
    if m < 3 or T < 2:
        return Antisymmetry(0.0, np.inf, float("nan"))
    if d > ENERGY_DIRECTIONS:
        flat = x.reshape(-1, d)
        x = x @ eigh(flat.T @ flat, subset_by_index=[d - ENERGY_DIRECTIONS, d - 1])[1]
    budget = min(MAX_PAIRS, PAIR_FLOPS / (2.0 * T * T * x.shape[2]))
    offsets = int(np.clip(budget / m, 1, (m - 1) // 2))
    total, squares = np.zeros((m, 2)), 0.0
    for shift in range(1, offsets + 1):
        K = np.matmul(x, np.roll(x, -shift, axis=0).transpose(0, 2, 1))
        own = np.einsum("ntt->nt", K)
        own_squares = np.einsum("nt,nt->n", own, own)
        energy = own.sum(axis=1) ** 2 - own_squares
        # ‖(C − C')/2‖² = (‖C‖² − <C, C'>)/2
        odd = (energy - (np.einsum("nts,nst->n", K, K) - own_squares)) / 2
        squares += float(odd @ odd)
        part = np.column_stack([energy, odd])
        total += part + np.roll(part, shift, axis=0)  # a pair informs on both of its rows
    rows = total / (2 * offsets)
    whole, mean = rows.mean(axis=0)
    # variance of a U-statistic (Hoeffding): four times that of a row's expectation, plus that of single pairs
    pair_variance = max(squares / (m * offsets) - mean**2, 0.0)
    row_variance = max(float(rows[:, 1].var(ddof=1)) - pair_variance / (2 * offsets), 0.0)
    error = np.sqrt(4 * row_variance / m + pair_variance / (m * offsets))
    return Antisymmetry(float(mean), float(error), float(mean / whole) if whole > 0 else float("nan"))


@dataclass(frozen=True)
class DirectionalGram:
    """Positional Gram matrix within leading directions.

    Attributes
    ----------
    gram : PositionalGram
        Sums of products within the directions; not divided by the number of directions.
    signal : float
        Signal variance of one token within the same directions: its variance there minus that of as many average
        directions. Divides the Gram matrix to a correlation.
    energy : float
        Sum over pairs t ≠ s of the squared entries, weighted by how often a pair is observed and corrected for
        sampling: the energy of the structure that weights could exploit.
    """

    gram: PositionalGram
    signal: float
    energy: float


def directional_gram(
    x: FloatArray, observed: NDArray[np.bool_], labels: NDArray[np.intp], P: int, over_folds: Map = serial_map
) -> DirectionalGram | None:
    """Positional Gram matrix within the leading directions of the cross-position covariance.

    Directions are the top eigenvectors of M_w = sum_{t≠s} w_t w_s C_ts over the other folds, first for the mean and
    then for the weights that the first round suggests; as many as exceed the most negative eigenvalue, which is
    noise, by a fifth. Folds are independent tasks of the map `over_folds`.

    Returns None when the rows are too few, or d so large that its eigenvectors would dominate the cost of a fit.
    """
    m, T, d = x.shape
    if m < 2 * N_FOLDS or T < 2 or d > MAX_FEATURES:
        return None
    member = np.zeros((m, T, P))
    np.put_along_axis(member, labels[..., None], observed[..., None].astype(np.float64), axis=2)
    w = np.full(P, 1.0 / P)
    for _ in range(2):
        gram, signal = _within_leading(x, member, np.where(observed, w[labels], 0.0), over_folds)
        shrunk = shrink(gram)
        w = best_nonnegative(shrunk.gram)
    G, count = gram.average()
    seen = count > 0
    squares = np.where(seen, G**2 - np.where(seen, shrunk.standard_error, 0.0) ** 2, 0.0)
    # the same weighting as in the antisymmetric energy, where unobserved tokens are zeros
    energy = float(((count / m) ** 2 * squares).sum())
    return DirectionalGram(gram, signal, max(energy, 0.0))


def _within_leading(
    x: FloatArray, member: FloatArray, omega: FloatArray, over_folds: Map
) -> tuple[PositionalGram, float]:
    """One round: G within the leading directions of M for token weights `omega` (m, T), and the signal variance."""
    d, P = x.shape[2], member.shape[2]
    rows = [slice(k, None, N_FOLDS) for k in range(N_FOLDS)]
    covariances = over_folds(lambda k: _cross_covariance(x[rows[k]], omega[rows[k]]), N_FOLDS)
    everything = np.sum(covariances, axis=0)

    def measure(k: int) -> tuple[FloatArray, FloatArray, float, float]:
        return _products_within(_leading(everything - covariances[k]), x[rows[k]], member[rows[k]])

    sums, pairs, along, signal = zip(*over_folds(measure, N_FOLDS), strict=True)
    tokens = member.sum()
    count = np.stack(pairs)
    gram = PositionalGram(np.where(count > 0, np.stack(sums), 0.0), count, np.zeros((P, d)), sum(along) / tokens)
    return gram, float(sum(signal) / tokens)


def _products_within(U: FloatArray, x: FloatArray, member: FloatArray) -> tuple[FloatArray, FloatArray, float, float]:
    """Sums of products of different tokens within directions U, their number, token variance and its signal part."""
    projected = x @ U
    Y = np.matmul(member.transpose(0, 2, 1), projected)
    norms = np.einsum("ntq,ntq->nt", projected, projected)
    sums = np.einsum("npq,nrq->pr", Y, Y, optimize=True) - np.diag(np.einsum("ntp,nt->p", member, norms))
    c = member.sum(axis=1)
    # along = s + q·noise and total = s + d·noise, for signal variance s and noise in each direction
    d, q = U.shape
    along, total = float(norms.sum()), float(np.einsum("ntd,ntd->", x, x))
    signal = (along - total * q / d) / (1 - q / d) if q < d else along
    return sums, c.T @ c - np.diag(c.sum(axis=0)), along, signal


def _cross_covariance(x: FloatArray, omega: FloatArray) -> FloatArray:
    """Sum over rows of (sum_t w_t x_t)(...)' minus the terms of a token with itself."""
    weighted = omega[..., None] * x
    pooled = weighted.sum(axis=1)
    flat = weighted.reshape(-1, x.shape[2])
    return np.asarray(pooled.T @ pooled - flat.T @ flat)


def _leading(M: FloatArray) -> FloatArray:
    """Eigenvectors of M whose eigenvalues stand out on the positive side, at least one."""
    values, vectors = np.linalg.eigh(M)
    outside = values > 1.2 * max(-float(values[0]), 0.0)
    outside[: max(0, len(M) - MAX_DIRECTIONS)] = False
    outside[-1] = True
    return np.asarray(vectors[:, outside])
