"""What a fitted pooling says of itself: the table of candidates, one line, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from spikepool.errors import InvalidInputError
from spikepool.kit import validation as check
from spikepool.kit.arrays import FloatArray
from spikepool.kit.pages import html_table
from spikepool.pooling.fitted import Candidate, FittedPooling
from spikepool.pooling.query import QueryPooling
from spikepool.pooling.registry import registered
from spikepool.pooling.sequence import SequencePooling


def _cells(c: Candidate, reference: str) -> tuple[str, ...]:
    difference = ("", "") if c.label == reference else (f"{c.gain:+.4f}", f"{c.error:.4f}")
    return (c.label, f"{c.score:.4f}", *difference, f"{c.loss:.4f}", f"{c.weight:.2f}" if c.weight else "")


# What the loss is, by the name of the score.
LOSSES = {"accuracy": "log loss", "R²": "half of the squared error, relative to the variance,"}
# Poolings whose names explain themselves.
PLAIN = ("mean", "last", "first")


def candidate_table(candidates: Sequence[Candidate], chosen: str, score_name: str) -> str:
    """The candidates as lines of text; the single best one is marked. Columns and names are explained below."""
    width = max(12, *(len(c.label) for c in candidates))
    lines = [f"{'pooling':<{width}} {score_name:>8} {'gain':>8} {'s.e.':>7} {'loss':>7} {'weight':>7}"]
    for c in candidates:
        label, score, gain, error, loss, weight = _cells(c, candidates[0].label)
        mark = " <" if c.label == chosen else ""
        lines.append(f"{label:<{width}} {score:>8} {gain:>8} {error:>7} {loss:>7} {weight:>7}{mark}".rstrip())
    poolings, names = registered(), dict.fromkeys(c.name for c in candidates)
    lines += [
        f"  gain, s.e.: {score_name} minus that of {candidates[0].label} on the same rows, and its standard error",
        f"  loss: {LOSSES.get(score_name, 'loss')} on rows left out; weight: share in the prediction; <: transform",
        *(f"  {name}: {poolings[name].description}" for name in names if name in poolings and name not in PLAIN),
    ]
    return "\n".join(lines)


def candidate_html(candidates: Sequence[Candidate], chosen: str, score_name: str) -> str:
    """The candidates as an HTML table."""
    header = ("pooling", score_name, "gain over the mean", "s.e.", "loss", "weight", "")
    marks = ["transform" if c.label == chosen else "" for c in candidates]
    cells = [_cells(c, candidates[0].label) for c in candidates]
    return html_table(header, [(*row, mark) for row, mark in zip(cells, marks, strict=True)])


def leading_candidates(candidates: Sequence[Candidate], most: int = 6) -> list[Candidate]:
    """The mean of the comparison and the best others, those that predict first; in the order of the table."""
    order = sorted(candidates[1:], key=lambda c: (-(c.weight > 0), c.loss))[: most - 1]
    return [c for c in candidates if c is candidates[0] or any(c is one for one in order)]


def leading_label(fitted: Any) -> str:
    """Label of the candidate with the features of `transform`: of its heads that predict, the likeliest."""
    own: list[Candidate] = [c for c in fitted.candidates_ if c.place == fitted._chosen]
    return min(own, key=lambda c: (c.weight <= 0, c.loss)).label


def pooling_record(fitted: Any) -> dict[str, Any]:
    """A fitted pooling for JSON: the choice and its layer, the gain, the candidates and the weights."""
    return {
        "decision": fitted.decision_,
        "layer": getattr(fitted, "layer_", None),
        "prediction": getattr(fitted, "prediction_", "single"),
        "gain": getattr(fitted, "improvement_", None),
        "gain_standard_error": getattr(fitted, "improvement_error_", None),
        "candidates": [asdict(c) for c in getattr(fitted, "candidates_", ())],
        "weights": fitted.weights_,
    }


class FittedReport(BaseEstimator):  # type: ignore[misc]
    """Summary, plots and notebook view of a fitted pooling."""

    _score_name = "score"
    fitted_: FittedPooling

    def token_weights(self, X: Any, mask: Any = None) -> FloatArray:
        """Weight of every token."""
        raise NotImplementedError

    def summary(self) -> str:
        """The table of candidates, the verdict, and which pooling `transform` gives."""
        check_is_fitted(self, "fitted_")
        fitted = self.fitted_
        line = f"{self._chosen} pooling: {fitted.reason}" if not fitted.candidates else verdict(self)
        if fitted.sink:
            line += f"; position 0 masked as a sink (norm ratio {fitted.sink_ratio:.3g})"
        pooling = fitted.leading.pooling
        if isinstance(pooling, SequencePooling) and pooling.components:
            line += f"; tokens cut to {pooling.components} components"
        if fitted.score == fitted.score:  # not NaN: some rows were left out
            line += f"\n{self._score_name} {fitted.score:.3f} on rows left out"
        if self.table is None:  # else X holds token ids
            T = self.n_positions_
            line += f"\nX is read as {T:,} tokens with {self.n_features_in_ // T:,} features each per row"
        if not fitted.candidates:
            return line
        return candidate_table(fitted.candidates, leading_label(self), self._score_name) + "\n" + line

    @property
    def _chosen(self) -> str:
        name, layer = self.fitted_.leading.pooling.name, self.fitted_.leading.layer
        return name if layer is None else f"{name} @ {layer}"

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
        from spikepool.drawing import poolings as drawing

        check_is_fitted(self, "fitted_")
        what = what or ("candidates" if self.fitted_.candidates else "weights")
        check.choice(what, "what", ("candidates", "weights", "tokens", "layers"))
        if what == "tokens":
            if X is None:
                raise InvalidInputError(
                    "the weights of tokens need sequences", None, "Pass X, and mask if it has padding"
                )
            weights = self.token_weights(X, mask)
            heads = weights[:, :-1] if isinstance(self.fitted_.leading.pooling, QueryPooling) else weights
            return drawing.draw_token_weights(ax, heads.mean(axis=1), tokens)
        if what == "weights":
            return drawing.draw_position_weights(ax, self.fitted_.head_weights, self._head_names())
        if not self.fitted_.candidates or (what == "layers" and self.fitted_.layers == (None,)):
            wanted = "layers" if what == "layers" else "candidates"
            raise InvalidInputError(
                f"no {wanted} were compared: {self.fitted_.reason}",
                remedy="Fit with pooling='auto', and several layers",
            )
        if what == "layers":
            return drawing.draw_layers(ax, self.fitted_.candidates, self.fitted_.layers, self._score_name)
        return drawing.draw_candidates(ax, self.fitted_.candidates, leading_label(self), self._score_name)

    def _head_names(self) -> tuple[str, ...]:
        heads = getattr(self.fitted_.leading.pooling, "heads", None)
        return (self.fitted_.leading.pooling.name,) * len(self.fitted_.head_weights) if heads is None else heads

    def _repr_html_(self) -> str:
        """scikit-learn's diagram, and the table of candidates once fitted."""
        diagram = str(estimator_html_repr(self))
        if "fitted_" not in vars(self) or not self.fitted_.candidates:
            return diagram
        return diagram + candidate_html(self.fitted_.candidates, leading_label(self), self._score_name)


def verdict(fitted: Any) -> str:
    """Whether pooling by attention, or by another candidate, helps: "Attention pooling helps: +3.4 ± 0.6 points"."""
    state: FittedPooling = fitted.fitted_
    gain = points(state.gain, state.error, fitted._score_name)
    used = [c for c in state.candidates if c.weight > 0]
    if state.prediction == "mean":
        best = max(state.candidates[1:], key=lambda c: c.gain)
        kind = "Attention pooling" if "attention" in {c.name for c in state.candidates[1:]} else "Another pooling"
        own = points(best.gain, best.error, fitted._score_name)
        return (
            f"{kind} does not help here: the candidates are not more likely than the mean by one standard error "
            f"(best in {fitted._score_name}: {best.label}, {own})"
        )
    if state.prediction == "untold":
        return "Attention pooling is used, but too few rows could be left out to tell whether it helps"
    name = state.leading.pooling.name
    if name in ATTENTION:
        line = f"Attention pooling helps: {gain} over the mean"
    else:
        words = registered()[name].description if name in registered() else name
        line = f"Another pooling helps: {words}, {gain} over the mean"
    if state.prediction == "single":
        return line
    shares: dict[str, float] = {}
    for c in used:
        shares[c.place] = shares.get(c.place, 0.0) + c.weight
    where = ", ".join(f"{place} {share:.2f}" for place, share in shares.items())
    return f"{line} (weights: {where})"


# Poolings that learn queries.
ATTENTION = ("attention", "query")


def points(gain: float, error: float, score_name: str) -> str:
    """A gain with its standard error: in points for accuracy, else in units of the score."""
    if score_name == "accuracy":
        return f"{100 * gain:+.1f} ± {100 * error:.1f} points"
    return f"{gain:+.3f} ± {error:.3f} of {score_name}"
