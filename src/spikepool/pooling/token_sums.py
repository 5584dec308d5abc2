"""Everything :class:`SpectralPooling` needs of its data, gathered in one pass that may be split over many machines."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

from numpy.typing import NDArray

from spikepool.data.estimator_input import refuse_empty_rows
from spikepool.data.tokens import TokenForm, label_block
from spikepool.kit.threads import Map, serial_map
from spikepool.pooling.positional import PositionalMoments
from spikepool.pooling.probe import ProbeRows


class TokenSums:
    """Positional moments and probe rows of a range of rows; see :func:`spikepool.data.map_merge.map_merge`.

    Rows are numbered through the whole stream: fold and probe membership follow from the number alone, so that the
    result does not depend on how the rows were split.

    Parameters
    ----------
    form : TokenForm
        How stored rows become tokens.
    bins : int or None
        Number of bins of relative positions; None for absolute ones.
    empty : {"error", "zero"}
        What to do with rows in which nothing is observed.
    estimate : bool
        False when the weights are fixed and rows are only checked.
    seen, probed : int
        Rows of the stream before this shard, for folds and for probes (which skip shards of another length).
    stride : int
        Every so many rows one is kept as a probe; see :meth:`ProbeRows.stride_after`.
    over_folds : callable
        Map over folds.
    """

    def __init__(
        self,
        form: TokenForm,
        bins: int | None,
        empty: str,
        *,
        estimate: bool = True,
        seen: int = 0,
        probed: int = 0,
        stride: int = 1,
        over_folds: Map = serial_map,
    ) -> None:
        self._form, self._bins, self._empty, self._estimate = form, bins, empty, estimate
        self._seen, self._probed, self._stride, self._over_folds = seen, probed, stride, over_folds
        self.moments: PositionalMoments | None = None
        self.probe: ProbeRows | None = None

    def add(self, start: int, rows: NDArray[Any], mask: NDArray[Any] | None = None) -> None:
        """Add a chunk whose first row is number `start` of the shard."""
        T, d = self._form.T, self._form.d
        for first, block in self._form.split(start, rows, mask):
            refuse_empty_rows(block.observed, first, self._empty)
            if not self._estimate:
                continue
            if self.moments is None or self.probe is None:
                self.moments = PositionalMoments(T if self._bins is None else self._bins, d, self._seen + first)
                self.probe = ProbeRows(T, d, self._probed + first, self._stride)
            self.moments.add(*label_block(block, self._bins), self._over_folds)
            self.probe.add(block)

    def merged(self, other: TokenSums) -> TokenSums:
        """The sums of both; `other`'s rows follow."""
        result = copy(self)
        if self._estimate:
            assert self.probe is not None
            assert other.moments is not None
            assert other.probe is not None
            result.moments, result.probe = deepcopy(self.moments), copy(self.probe)
            assert result.moments is not None
            result.moments.merge(other.moments)
            result.probe.merge(other.probe)
        return result

    def __getstate__(self) -> dict[str, Any]:
        # sums that travel leave the embedding table and the threads of this process behind
        return {key: value for key, value in self.__dict__.items() if key not in ("_form", "_over_folds")}
