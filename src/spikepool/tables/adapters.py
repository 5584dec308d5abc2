"""Low-rank adapters: what a pair of LoRA factors changes, without forming the product.

An adapter adds ΔW = scale·B A to a weight, with A (r, n) random at the start, B (m, r) zero, and scale = alpha/r. With
B = Q_B R_B and A' = Q_A R_A, the singular values of ΔW are those of the r x r matrix R_B R_A'.

As independent noise the singular values differ by a factor of at most s = 1.1 (1 + sqrt(r/m))(1 + sqrt(r/n)).
Directions before the last drop by more than 1.7 s, after which the rest is like noise, are *used*. Without such a drop
all directions may be used, or none: both look alike, and the verdict says so.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spikepool.data.opening import open_blocks
from spikepool.data.table_input import list_tensors, locate_table
from spikepool.errors import TableFormatError
from spikepool.kit.arrays import FloatArray
from spikepool.kit.showing import html_table, number, one_line, record
from spikepool.tables.measures import effective_rank

# Names of the factors: peft (lora_A, lora_B, with or without an adapter's name) and kohya (lora_down, lora_up).
_PATTERN = re.compile(r"^(.*)\.lora_(A|B|down|up)(?:\.[\w-]+)?(?:\.weight)?$")
_FIRST = {"A", "down"}
_MARGIN = 1.1
_DROP = 1.7  # in units of s: trained directions differ among themselves as well (benchmarks/studies/table_changes.py)
HEADER = ("weight", "shape", "rank", "used", "norm", "of the base", "effective rank", "verdict")
CSV_HEADER = (
    *("weight", "rows", "columns", "rank", "used", "scale"),
    *("norm", "relative_norm", "effective_rank", "verdict"),
)


@dataclass(frozen=True)
class AdapterWeight:
    """One adapted weight.

    Attributes
    ----------
    name : str
        Of the weight that is adapted.
    shape : tuple of int
        (m, n) of the change.
    rank, used : int
        Columns of B, and directions that stand out of the rest.
    singular_values : numpy.ndarray
        Of scale·B A, largest first.
    scale : float
        alpha/r, or alpha/sqrt(r) for rank-stabilised adapters.
    norm : float
        Frobenius norm of the change.
    relative_norm : float or None
        The same over that of the base weight, where that is known.
    """

    name: str
    shape: tuple[int, int]
    rank: int
    used: int
    singular_values: FloatArray
    scale: float
    norm: float
    relative_norm: float | None = None

    @property
    def effective_rank(self) -> float:
        """Exp of the entropy of the squared singular values."""
        return effective_rank(self.singular_values**2)

    @property
    def verdict(self) -> str:
        """What the adapter did, in a few words."""
        if self.norm == 0:
            return "did nothing"
        if self.used == 0:
            return f"all {self.rank} directions are of similar size: used evenly, or noise"
        return f"{self.used} of {self.rank} directions used"


@dataclass(frozen=True)
class AdapterSpectrum:
    """Every adapted weight of a file; largest relative change first."""

    weights: tuple[AdapterWeight, ...]
    notes: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, ...]]:
        """A row per weight."""
        return [
            (
                w.name,
                f"{w.shape[0]} x {w.shape[1]}",
                str(w.rank),
                str(w.used),
                number(w.norm, 3),
                "–" if w.relative_norm is None else f"{100 * w.relative_norm:.2g} %",
                number(w.effective_rank, 3),
                w.verdict,
            )
            for w in self.weights
        ]

    def records(self) -> list[tuple[Any, ...]]:
        """A row per weight under :data:`CSV_HEADER`."""
        return [
            (one_line(w.name), *w.shape, w.rank, w.used, w.scale, w.norm, w.relative_norm, w.effective_rank, w.verdict)
            for w in self.weights
        ]

    def summary(self) -> str:
        """One line of verdict."""
        idle = [w.name for w in self.weights if w.norm == 0]
        if len(idle) == len(self.weights):
            return "The adapter did nothing: every B is zero, as at the start of training."
        text = f"{len(self.weights)} adapted weights, {len(idle)} of them unchanged."
        return text + (f" Next: check whether {idle[0]} was meant to be trained." if idle else " Next: nothing to do.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        weights = [record(w) | record(w, "effective_rank", "verdict") for w in self.weights]
        return record(self, "notes", weights=weights, summary=self.summary())

    def _repr_html_(self) -> str:
        return html_table(HEADER, self.rows(), title=self.summary())

    def plot(self, ax: Any = None) -> Any:
        """Singular values of every adapted weight; returns the axes."""
        from spikepool.drawing.tables import draw_adapters

        return draw_adapters({w.name: w.singular_values for w in self.weights}, ax)


def lora_pairs(path: Any) -> dict[str, tuple[str, str]]:
    """Weight -> names of (A, B) for the LoRA pairs of a file; empty where there are none."""
    found: dict[str, dict[bool, str]] = {}
    for tensor in list_tensors(path):
        match = _PATTERN.match(tensor.name)
        if match and len(tensor.shape) == 2:
            found.setdefault(match.group(1), {})[match.group(2) in _FIRST] = tensor.name
    return {name: (pair[True], pair[False]) for name, pair in found.items() if len(pair) == 2}


def adapter_spectrum(path: Any, base: Any = None) -> AdapterSpectrum:
    """Analyse the LoRA pairs of a file.

    Parameters
    ----------
    path : str or path-like
        Safetensors file, or its folder; an adapter_config.json beside it gives alpha and the rank.
    base : str or path-like, optional
        The model that was adapted, for norms relative to its weights.
    """
    pairs = lora_pairs(path)
    if not pairs:
        raise TableFormatError("the file holds no LoRA pairs", str(path), "Its names must end in lora_A and lora_B")
    config = _config(path)
    notes: list[str] = []
    known = {} if base is None else {t.name: t for t in list_tensors(base)}
    weights = []
    for name, (first, second) in pairs.items():
        A, B = _matrix(path, first), _matrix(path, second)
        if A.shape[0] != B.shape[1]:
            raise TableFormatError(f"the factors of {name} do not fit", (A.shape, B.shape), "Save the adapter again")
        scale = _scale(config, A.shape[0])
        values = scale * product_singular_values(B, A)
        norm = float(np.linalg.norm(values))
        relative = None
        if base is not None:
            partner = _partner(name, known)
            if partner is None:
                notes.append(f"{name} has no partner in the base model")
            else:
                size = float(np.linalg.norm(_matrix(base, partner)))
                relative = norm / size if size > 0 else None
        shape = (B.shape[0], A.shape[1])
        weights.append(AdapterWeight(name, shape, A.shape[0], used_rank(values, shape), values, scale, norm, relative))
    weights.sort(key=lambda w: -(w.relative_norm if w.relative_norm is not None else w.norm))
    if not config:
        notes.append("no adapter_config.json beside the file: alpha is taken to equal the rank")
    return AdapterSpectrum(tuple(weights), tuple(notes))


def product_singular_values(B: FloatArray, A: FloatArray) -> FloatArray:
    """Singular values of B A, largest first, from the triangular factors of B and A'."""
    left, right = (np.asarray(np.linalg.qr(factor, mode="r")) for factor in (B, A.T))
    return np.asarray(np.linalg.svd(left @ right.T, compute_uv=False), dtype=np.float64)


def used_rank(values: FloatArray, shape: tuple[int, int]) -> int:
    """Singular values that stand out of the rest."""
    r = len(values)
    if r == 0 or values[0] == 0:
        return 0
    numerical = int(np.sum(values > 1e-6 * values[0]))
    if numerical < r:
        return numerical  # the rest is nothing at all
    spread = _MARGIN * (1 + math.sqrt(r / shape[0])) * (1 + math.sqrt(r / shape[1]))
    drops = [
        k
        for k in range(1, r)
        if values[k - 1] > _DROP * spread * values[k] and values[k] <= spread * float(np.sqrt(np.mean(values[k:] ** 2)))
    ]
    return max(drops, default=0)


def _matrix(path: Any, tensor: str) -> FloatArray:
    source = open_blocks(locate_table(path).url, name=tensor, column=tensor, role="table")
    return np.concatenate(list(source.blocks()))


def _config(path: Any) -> dict[str, Any]:
    place = Path(str(path))
    file = (place if place.is_dir() else place.parent) / "adapter_config.json"
    try:
        found = json.loads(file.read_text()) if file.is_file() else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _scale(config: dict[str, Any], rank: int) -> float:
    alpha = config.get("lora_alpha")
    if not isinstance(alpha, (int, float)):
        return 1.0
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _partner(name: str, known: dict[str, Any]) -> str | None:
    """The base weight that an adapted name belongs to: the longest common ending."""
    bare = name.removeprefix("base_model.model.").removeprefix("base_model.")
    for tensor in known:
        stem = tensor.removesuffix(".weight")
        if stem == bare or stem.endswith("." + bare) or bare.endswith("." + stem):
            return tensor
    return None
