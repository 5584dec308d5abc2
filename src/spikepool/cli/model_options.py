"""Options that describe a model and its pooling weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spikepool.cli.descriptions import CORRELATION_HELP, WEIGHTS_HELP, parse_correlation, parse_weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from spikepool.model import SequenceModel


DEFAULT_PREFIX = 3  # positions that share the signal when no correlation is given, or all of fewer

Dimension = Annotated[int, typer.Option("--d", help="Embedding dimension.")]
Vocabulary = Annotated[int, typer.Option("--V", help="Vocabulary size (even).")]
Sequences = Annotated[int, typer.Option("--N", help="Number of sequences.")]
Length = Annotated[int, typer.Option("--T", help="Sequence length.")]
Signal = Annotated[float, typer.Option("--mu", help="Signal strength: the norm of the hidden signal.")]
Correlation = Annotated[
    str | None,
    typer.Option("--correlation", "-R", help=CORRELATION_HELP, show_default="prefix:3, or prefix:T for a shorter T"),
]
Weights = Annotated[list[str], typer.Option("--weights", "-w", help=WEIGHTS_HELP)]
Table = Annotated[str, typer.Option("--table", help="sampled (as the paper states it) or class_centered.")]
Uncentered = Annotated[bool, typer.Option("--uncentered", help="Do not subtract the mean of the pooled vectors.")]
Latent = Annotated[str, typer.Option("--latent", help="signs or gaussian.")]


@dataclass(frozen=True)
class ModelOptions:
    """A model and its pooling weights; every command that takes a model has these options (see `bundled`)."""

    d: Dimension = 500
    V: Vocabulary = 800
    N: Sequences = 1000
    T: Length = 10
    mu: Signal = 2.5
    correlation: Correlation = None
    weights: Weights = field(default_factory=lambda: ["mean", "causal", "optimal"])
    table: Table = "sampled"
    uncentered: Uncentered = False
    latent: Latent = "signs"

    def model(self) -> SequenceModel:
        """The model; a spiked correlation without unit diagonal needs ``--latent gaussian``."""
        from spikepool.kit import validation as check
        from spikepool.model import SequenceModel

        R = parse_correlation(self.described_correlation, check.size(self.T, "T"))
        return SequenceModel(
            d=self.d,
            V=self.V,
            N=self.N,
            R=R,
            mu=self.mu,
            table=self.table,
            centered=not self.uncentered,
            latent=self.latent,
        )

    @property
    def described_correlation(self) -> str:
        """The correlation as it is written on the command line; a default that fits T when none was given."""
        return f"prefix:{max(1, min(DEFAULT_PREFIX, self.T))}" if self.correlation is None else self.correlation

    def files(self) -> list[str]:
        """Values that may name files: inputs, which no output replaces."""
        return [*([] if self.correlation is None else [self.correlation]), *self.weights]

    def fields(self, model: SequenceModel) -> dict[str, Any]:
        """The model's fields for JSON output; the correlation by its description."""
        return {
            "d": model.d,
            "V": model.V,
            "N": model.N,
            "T": model.T,
            "mu": model.mu,
            "correlation": self.described_correlation,
            "table": model.table,
            "centered": model.centered,
            "latent": model.latent,
            "delta": model.delta,
            "gamma": model.gamma,
        }

    def named_weights(self, model: SequenceModel) -> dict[str, NDArray[np.float64]]:
        """The pooling weights by name."""
        return parse_weights(self.weights, model.R)
