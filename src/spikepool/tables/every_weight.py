"""The spectrum of every matrix of a checkpoint, with what could not be read, is missing, or has no spectrum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spikepool.data.table_input import list_tensors, open_table
from spikepool.errors import DataSourceError, MemoryBudgetError, NonFiniteError, SpikepoolError, TableFormatError
from spikepool.kit.progress import Progress
from spikepool.tables.spectrum import TableSpectrum


@dataclass(frozen=True)
class EveryWeight:
    """Spectra of the matrices of a file.

    Attributes
    ----------
    fits : dict of str to TableSpectrum
    failed : dict of str to str
        Matrices that cannot be read or hold NaN, and why.
    missing : dict of str to str
        Tensors that the file announces and does not hold, such as those of a missing shard.
    skipped : dict of str to str
        Matrices of a type that is not read here, or too wide for a covariance in memory.
    unmeasured : dict of str to str
        Matrices that have no bulk: too small, or constant.
    """

    fits: dict[str, TableSpectrum] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unmeasured: dict[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Tensors of each kind but the first."""
        return {name: len(getattr(self, name)) for name in ("failed", "missing", "skipped", "unmeasured")}

    @property
    def remarks(self) -> list[str]:
        """A line for each tensor without a spectrum."""
        return [
            f"{name} {kind}: {reason}" for kind in self.counts for name, reason in getattr(self, kind).items()
        ]  # fmt: skip


def every_weight(file: Any, *, progress: bool | None = None) -> EveryWeight:
    """Fit :class:`TableSpectrum` to every matrix of real numbers, the longer side as rows; no nulls are simulated.

    Parameters
    ----------
    file : str or path-like
        As for :meth:`TableSpectrum.from_file`.
    progress : bool, optional
        Show a progress bar; by default on a terminal or in a notebook, when the work is long.
    """
    tensors = list_tensors(file)
    found = EveryWeight()
    for tensor in tensors:
        if tensor.problem and tensor.dtype == "missing":
            found.missing[tensor.name] = tensor.problem
        elif tensor.problem and len(tensor.shape) == 2:
            found.skipped[tensor.name] = tensor.problem
    matrices = [tensor for tensor in tensors if tensor.is_matrix]
    if not matrices and not found.missing and not found.skipped:
        raise TableFormatError("the file has no 2-D weight of real numbers", str(file), "See --list")
    with Progress(len(matrices), "spectra", show=progress) as bar:
        for tensor in matrices:
            try:
                source = open_table(
                    file, None if len(tensors) == 1 else tensor.name, transpose=tensor.shape[0] < tensor.shape[1]
                )
                found.fits[tensor.name] = TableSpectrum(null_draws=0, progress=False).fit(source)
            except SpikepoolError as err:  # one matrix does not spoil the others
                _kind(found, err)[tensor.name] = str(err)
            bar.advance()
    return found


def _kind(found: EveryWeight, err: SpikepoolError) -> dict[str, str]:
    if isinstance(err, (NonFiniteError, DataSourceError)):
        return found.failed
    return found.skipped if isinstance(err, MemoryBudgetError) else found.unmeasured
