"""What a fitted pooling says of itself: the table of candidates, one line, pictures."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.pooling.candidates import Candidate, candidate_html, candidate_table
from spikepool.pooling.query import QueryPooling
from spikepool.pooling.registry import Pooling
from spikepool.pooling.sequence import SequencePooling

# Why the mean was kept, where ridge alone had preferred another candidate.
BY_LIKELIHOOD = "compared with logistic regression"


class FittedReport(BaseEstimator):  # type: ignore[misc]
    """Summary, plots and notebook view of a fitted pooling."""

    _score_name = "score"
    _pooling: Pooling
    candidates_: tuple[Candidate, ...]
    decision_: str
    reason_: str
    layer_: Any
    layers_: tuple[Any, ...]
    prediction_: str
    sink_: bool
    sink_ratio_: float
    improvement_: float
    improvement_error_: float
    head_weights_: FloatArray
    accuracy_: float

    def token_weights(self, X: Any, mask: Any = None) -> FloatArray:
        """Weight of every token."""
        raise NotImplementedError

    def summary(self) -> str:
        """The table of candidates, then one line: which pooling is in use, and why."""
        check_is_fitted(self, "weights_")
        line = (
            f"{self.decision_} pooling" if self.layer_ is None else f"{self.decision_} pooling of layer {self.layer_}"
        )
        line += f": {self._reason()}"
        if self.sink_:
            line += f"; position 0 masked as a sink (norm ratio {self.sink_ratio_:.3g})"
        if isinstance(self._pooling, SequencePooling) and self._pooling.components:
            line += f"; tokens cut to {self._pooling.components} components"
        shares = getattr(self, "head_shares_", {"ridge": 1.0})
        if len(shares) > 1:
            mixed = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
            line += f"\nscores added: {mixed}; accuracy {self.accuracy_:.3f} on rows left out"
        if not self.candidates_:
            return line
        return candidate_table(self.candidates_, self._chosen, self._score_name) + "\n" + line

    @property
    def _chosen(self) -> str:
        return self.decision_ if self.layer_ is None else f"{self.decision_} @ {self.layer_}"

    def _reason(self) -> str:
        if not self.candidates_:
            return self.reason_
        gain = _with_error(self.improvement_, self.improvement_error_)
        if self.prediction_ == "mean":
            best = max(self.candidates_[1:], key=lambda c: c.gain)
            if self.reason_ == BY_LIKELIHOOD:
                return (
                    "with logistic regression, the candidates were not better than the mean by one standard error of "
                    f"likelihood (best by ridge alone: {best.label} {_with_error(best.gain, best.error)})"
                )
            return (
                "the stack of candidates was not better by one standard error "
                f"(best single candidate: {best.label} {_with_error(best.gain, best.error)})"
            )
        if self.prediction_ == "single":
            return f"{gain} over the mean; the stack of candidates was not better by one standard error"
        used = sum(c.weight > 0 for c in self.candidates_)
        return f"best of {used} in the stack, which is {gain} over the mean"

    def plot(
        self, ax: Any = None, what: str | None = None, *, X: Any = None, mask: Any = None, tokens: Any = None
    ) -> Any:
        """Draw the fit and return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            A new figure's by default.
        what : {"candidates", "weights", "tokens", "layers"}, optional
            The candidates with their standard errors; the weights by position of each head; the weights of the
            tokens of given sequences; or the score of each layer. By default the candidates where some were compared,
            else the weights.
        X, mask : optional
            A few sequences, for ``"tokens"``.
        tokens : list of lists of str, optional
            What to write for the tokens of each sequence, for ``"tokens"``; positions by default.
        """
        from spikepool.drawing import pooling as drawing

        check_is_fitted(self, "weights_")
        what = what or ("candidates" if self.candidates_ else "weights")
        check.choice(what, "what", ("candidates", "weights", "tokens", "layers"))
        if what == "tokens":
            if X is None:
                raise InvalidInputError(
                    "the weights of tokens need sequences", None, "Pass X, and mask if it has padding"
                )
            weights = self.token_weights(X, mask)
            heads = weights[:, :-1] if isinstance(self._pooling, QueryPooling) else weights
            return drawing.draw_token_weights(ax, heads.mean(axis=1), tokens)
        if what == "weights":
            return drawing.draw_position_weights(ax, self.head_weights_, self._head_names())
        if not self.candidates_ or (what == "layers" and self.layers_ == (None,)):
            wanted = "layers" if what == "layers" else "candidates"
            raise InvalidInputError(
                f"no {wanted} were compared: {self.reason_}", remedy="Fit with pooling='auto', and several layers"
            )
        if what == "layers":
            return drawing.draw_layers(ax, self.candidates_, self.layers_, self._score_name)
        return drawing.draw_candidates(ax, self.candidates_, self._chosen, self._score_name)

    def _head_names(self) -> tuple[str, ...]:
        heads = getattr(self._pooling, "heads", None)
        return (self.decision_,) * len(self.head_weights_) if heads is None else heads

    def _repr_html_(self) -> str:
        """scikit-learn's diagram, and the table of candidates once fitted."""
        diagram = str(estimator_html_repr(self))
        if not getattr(self, "candidates_", ()):
            return diagram
        return diagram + candidate_html(self.candidates_, self._chosen, self._score_name)


def _with_error(gain: float, error: float) -> str:
    return f"{gain:+.3f} (s.e. {error:.3f})"
