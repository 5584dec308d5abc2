"""The spectrum of every matrix of a checkpoint, what could not be read or is missing, and what deserves a look."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from spikepool.data.table_input import list_tensors, open_table
from spikepool.errors import (
    DataSourceError,
    DomainError,
    MemoryBudgetError,
    NonFiniteError,
    SpikepoolError,
    TableFormatError,
)
from spikepool.kit.progress import Progress
from spikepool.tables.checkpoints import flat_entries, open_any
from spikepool.tables.spectrum import TableSpectrum

# A weight whose spectral norm differs by more than this factor from the median of its kind (its name with the numbers
# left out) in a file with at least so many of them is pointed out.
UNLIKE, FEWEST_ALIKE = 10.0, 4
# Share of the rank that a weight may lack: the row of a padding token is often zero.
LOST_RANK = 0.05
# Factors of low-rank adapters, as peft and kohya name them.
_LORA = re.compile(r"(^|\.)lora_(embedding_)?(A|B|down|up)(\.|$)")


@dataclass(frozen=True)
class EveryWeight:
    """Spectra of the matrices of a file.

    Attributes
    ----------
    fits : dict of str to TableSpectrum
    failed : dict of str to str
        Tensors of any shape that cannot be read or hold NaN, and why.
    missing : dict of str to str
        Tensors that the file announces and does not hold, such as those of a missing shard.
    skipped : dict of str to str
        Matrices of a type that is not read here, or too wide for a covariance in memory.
    unmeasured : dict of str to str
        Matrices that have no bulk: too small, or constant.
    constant : list of str
        Those of them whose rows are all equal.
    extreme : list of str
        Those of them whose entries are so large or small that their squares overflow.
    about : list of str
        Notes about the file as a whole.
    """

    fits: dict[str, TableSpectrum] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    unmeasured: dict[str, str] = field(default_factory=dict)
    constant: list[str] = field(default_factory=list)
    extreme: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Tensors of each kind but the first."""
        return {name: len(getattr(self, name)) for name in ("failed", "missing", "skipped", "unmeasured")}

    @property
    def notes(self) -> list[str]:
        """Notes about the file, and a line for each tensor without a spectrum."""
        tensors = [f"{name} {kind}: {reason}" for kind in self.counts for name, reason in getattr(self, kind).items()]
        return [*self.about, *tensors]

    def ordered(self) -> list[str]:
        """Names of the fits by what stands out: lost rank first, then the share of the variance in outliers."""
        return sorted(self.fits, key=lambda name: (not lost_rank(self.fits[name]), -outlier_share(self.fits[name])))

    def unlike(self) -> dict[str, float]:
        """Weights whose spectral norm is far from the median of their kind, and the ratio."""
        kinds: dict[str, list[str]] = {}
        for name in self.fits:
            kinds.setdefault(re.sub(r"\d+", "#", name), []).append(name)
        differing: dict[str, float] = {}
        for names in kinds.values():
            norms = np.array([self.fits[name].measures_.spectral for name in names])
            ratios = norms / np.median(norms)
            if len(names) >= FEWEST_ALIKE:
                differing |= {n: float(r) for n, r in zip(names, ratios, strict=True) if not 1 / UNLIKE < r < UNLIKE}
        return differing

    def look(self) -> list[str]:
        """What deserves a look in a file that is complete, each with the next step."""
        lines = [f"{len(self.skipped)} tensor(s) were skipped. Next: read why above."] if self.skipped else []
        check = "Next: check that it was trained and saved as intended."
        lines += [f"{name} is constant. {check}" for name in self.constant]
        lines += [f"The entries of {name} are too large or too small to be measured. {check}" for name in self.extreme]
        lines += [
            f"{name} has rank {fit.rank_} of {min(fit.shape_)}. {check}"
            for name, fit in self.fits.items()
            if lost_rank(fit)
        ]
        lines += [
            f"The spectral norm of {name} is {ratio:.3g} times the median of its kind. {check}"
            for name, ratio in self.unlike().items()
        ]
        return lines

    def fine(self) -> str:
        """What stands out in a file without anything to look at."""
        if not self.fits:
            return "No weight has a bulk to measure. Next: nothing to do."
        first = self.ordered()[0]
        count, share = self.fits[first].n_outliers_, outlier_share(self.fits[first])
        text = f"{len(self.fits)} weights are complete, and none lacks rank."
        if self.unmeasured:
            text = f"{len(self.fits)} weights were measured, and none lacks rank; {len(self.unmeasured)} were not."
        if count:
            text += f" {first} stands out most: {count} outlier(s) hold {100 * share:.0f} % of its variance."
        return f"{text} Next: nothing to do; record a baseline with --json to notice later changes."


def lost_rank(fit: TableSpectrum) -> bool:
    """Whether a weight has a clearly lower rank than its shape allows."""
    return fit.rank_ < (1 - LOST_RANK) * min(fit.shape_[0] - 1, fit.shape_[1])


def outlier_share(fit: TableSpectrum) -> float:
    """Share of the variance that the outliers hold."""
    return float(fit.eigenvalues_[: fit.n_outliers_].sum() / fit.eigenvalues_.sum())


def weight_values(fit: TableSpectrum) -> dict[str, Any]:
    """The numbers of one weight by name: our counts, and the measures that other tools report."""
    held = fit.heldout_
    return {
        "outliers": fit.n_outliers_,
        "outlier_share": outlier_share(fit),
        "edge": fit.edge_,
        "largest": float(fit.eigenvalues_[0]),
        "rank": fit.rank_,
        **asdict(fit.measures_),
        "trusted": fit.trusted_,
        "stable": fit.stable_,
        "p_value": None if held is None else held.p_value,
        "heldout_error": None if held is None else held.distance,
        "row_share": max((row.share for row in fit.influential_rows_), default=0.0) if fit.influential else None,
    }


def every_weight(file: Any, *, held_out: bool = False, fast: bool = False, progress: bool | None = None) -> EveryWeight:
    """Fit :class:`TableSpectrum` to every matrix of real numbers, the longer side as rows; no nulls are simulated.

    Parameters
    ----------
    file : str or path-like
        As for :meth:`TableSpectrum.from_file`.
    held_out : bool
        Also predict held-out rows, which simulates 39 tables for each weight and takes most of the time.
    fast : bool
        Counts and measures only: no counts of the halves, no heavy rows.
    progress : bool, optional
        Show a progress bar; by default on a terminal or in a notebook, when the work is long.
    """
    tensors = list_tensors(file)
    settings: dict[str, Any] = {} if held_out else {"repetitions": 0}
    settings |= {"stability": False, "influential": 0} if fast else {}
    weights = EveryWeight()
    if factors := sum(bool(_LORA.search(tensor.name)) for tensor in tensors):
        weights.about.append(
            f"{factors} tensors are factors of a LoRA adapter; each is judged as a weight of its own. To see what the "
            "adapter changes, merge it into its model and run compare --delta"
        )
    for tensor in tensors:
        if tensor.problem and tensor.dtype == "missing":
            weights.missing[tensor.name] = tensor.problem
        elif tensor.problem and len(tensor.shape) == 2:
            weights.skipped[tensor.name] = tensor.problem
    matrices = [tensor for tensor in tensors if tensor.is_matrix]
    if not matrices and not weights.missing and not weights.skipped:
        raise TableFormatError("the file has no 2-D weight of real numbers", str(file), "See --list")
    with Progress(len(matrices), "spectra", show=progress) as bar:
        for tensor in matrices:
            try:
                source = open_table(
                    file, None if len(tensors) == 1 else tensor.name, transpose=tensor.shape[0] < tensor.shape[1]
                )
                weights.fits[tensor.name] = TableSpectrum(null_draws=0, progress=False, **settings).fit(source)
            except SpikepoolError as err:  # one matrix does not spoil the others
                if isinstance(err, DomainError) and "overflow" in str(err):
                    weights.extreme.append(tensor.name)
                if isinstance(err, DomainError) and "equal" in str(err):
                    weights.constant.append(tensor.name)
                _kind(weights, err)[tensor.name] = str(err)
            bar.advance()
    # the other tensors have no spectrum, but NaN in one of them spoils a model as well
    done = {*weights.fits, *weights.failed, *weights.skipped}
    for tensor in tensors:
        if not tensor.problem and tensor.name not in done:
            try:
                entries = open_any(file, None if len(tensors) == 1 else tensor.name, tensor.shape)
                for _ in () if entries is None else flat_entries(entries):
                    pass
            except (NonFiniteError, DataSourceError) as err:
                weights.unmeasured.pop(tensor.name, None)
                weights.failed[tensor.name] = str(err)
    return weights


def _kind(weights: EveryWeight, err: SpikepoolError) -> dict[str, str]:
    if isinstance(err, (NonFiniteError, DataSourceError)):
        return weights.failed
    return weights.skipped if isinstance(err, MemoryBudgetError) else weights.unmeasured
