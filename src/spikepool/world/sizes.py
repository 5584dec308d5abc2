"""What every model of pooled sequences has: sizes, their ratios, and the gains of weights."""

from __future__ import annotations

from numpy.typing import ArrayLike

from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray


class PooledSizes:
    """Embedding dimension d, vocabulary V, number of sequences N, and the positional correlation R, proved."""

    d: int
    V: int
    N: int
    R: FloatArray

    @property
    def T(self) -> int:
        """Sequence length."""
        return len(self.R)

    @property
    def delta(self) -> float:
        """Aspect ratio d/V."""
        return self.d / self.V

    @property
    def gamma(self) -> float:
        """Aspect ratio d/N."""
        return self.d / self.N

    def gains(self, w: ArrayLike) -> tuple[float, float]:
        """Signal gain alpha = w'Rw and noise gain kappa = w'w; R was proved when the model was made."""
        w = check.weight_vector(w, self.T)
        return max(float(w @ self.R @ w), 0.0), float(w @ w)
