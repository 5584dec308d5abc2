"""The verdict: what the numbers mean, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spikepool.explorer.theory import Panels

# Width of the transition at a threshold, relative and in units of d^(-1/3). Simulated at d = 120 to 800 for four kinds
# of setting: within it the alignment of single draws scatters by half of its mean or more, and just below the
# threshold, where the limit is 0, averages .03 to .10.
TRANSITION_WIDTH = 1.0
# Effective tokens a sequence, 1/kappa, below which the closed form is flagged: simulated at 1.3 times the threshold
# (T = 1 to 6, d = 200 to 400) alignments were up to .16 lower; from 3 on the difference is within the scatter of draws.
FEW_TOKENS = 3.0

NAMES = {"mean": "mean pooling", "causal": "causal weights", "optimal": "optimal weights", "custom": "your weights"}


@dataclass(frozen=True)
class Verdict:
    """A tone for the colour, one headline, and sentences that follow from it."""

    tone: str  # "good", "weak" or "none"
    headline: str
    details: tuple[str, ...]
    caution: str = ""  # where the numbers hold only roughly


def _decimal(value: float) -> str:
    """Two decimals, without claiming a perfect alignment that is not there."""
    if 0.995 <= value < 1:
        return "more than 0.99"
    if 0 < value < 0.005:
        return "less than 0.01"
    return f"{value:.2f}"


def _samples_sentence(panels: Panels) -> str:
    plan, present = panels.plan, panels.prediction.alignment
    target = f"{plan.target:g}"
    if plan.samples is None:
        limit = f" the limit is {_decimal(plan.limit)}." if plan.limit is not None else ""
        joint = ";" if limit else "."
        return f"No number of sequences brings it to {target}{joint}{limit}"
    extra = plan.samples - panels.state.N
    if extra > 0:
        return f"{extra:,} more sequences bring it to {target}."
    if present >= plan.target:
        return f"{plan.samples:,} sequences would already be enough for {target}."
    return f"It takes {plan.samples:,} sequences to reach {target}."


def _comparison_sentence(panels: Panels) -> str | None:
    chosen = panels.state.w
    best = max(panels.predictions, key=lambda name: panels.predictions[name].alignment)
    gain = panels.predictions[best].alignment - panels.prediction.alignment
    if best == chosen or gain < 0.005:
        return None
    name = NAMES[best]
    return f"{name[0].upper()}{name[1:]} would reach {_decimal(panels.predictions[best].alignment)}."


def _why_not(panels: Panels) -> list[str]:
    """Why the signal is not detected, and how many sequences would change that."""
    prediction, plan, state = panels.prediction, panels.plan, panels.state
    if prediction.alpha == 0:
        return ["These weights cancel the signal: none of it is left in the pooled vectors."]
    reason = f"The strength μ = {state.mu:g} is below these weights' threshold, {prediction.mu_sample:.3g}."
    if plan.samples is None:
        return [reason, f"No number of sequences brings the alignment to {plan.target:g}."]
    return [reason, f"{plan.samples - state.N:,} more sequences bring the alignment to {plan.target:g}."]


def transition_width(panels: Panels) -> float:
    """How far from a threshold, relative to it, single data sets go either way."""
    return TRANSITION_WIDTH * math.pow(panels.model.d, -1 / 3)


def at_threshold(panels: Panels) -> bool:
    """Whether mu is so close to the threshold of the chosen weights that a single data set may go either way."""
    threshold = panels.prediction.mu_sample
    if not 0 < threshold < float("inf"):
        return False
    return abs(panels.state.mu / threshold - 1) < transition_width(panels)


def _caution(panels: Panels) -> str:
    tokens = 1 / panels.prediction.kappa
    if tokens >= FEW_TOKENS:
        return ""
    count = "one effective token" if tokens < 1.05 else f"{tokens:.1f} effective tokens"
    return (
        f"With {count} a sequence these numbers, the closed form for many tokens, hold only roughly: "
        "simulate here, or call model.predict(w, exact=True)."
    )


def verdict(panels: Panels) -> Verdict:
    """The verdict on the chosen weights."""
    prediction = panels.prediction
    details = []
    signal = prediction.signal
    covered = signal is not None and prediction.alignment == 0 and signal.alignment > 0
    if covered:
        assert signal is not None
        headline = "Hidden behind the mean: the top component will say nothing about the signal."
        details.append(
            f"The signal is the second component (alignment {_decimal(signal.alignment)}); the first is the average "
            "of the vocabulary's noise. Centre the features to remove it."
        )
        tone = "weak"
    elif at_threshold(panels):
        headline = "At the threshold: one data set may show the signal, the next may not."
        details.append(
            f"The strength μ = {panels.state.mu:g} is within {transition_width(panels):.0%} of these weights' "
            f"threshold, {prediction.mu_sample:.3g}: the width of the transition at d = {panels.state.d}. In the limit "
            f"of large sizes the alignment is {_decimal(prediction.alignment)}."
        )
        details.append(_samples_sentence(panels))
        tone = "weak"
    elif prediction.detectable and prediction.alignment > 0:
        headline = f"Detectable: the top component will align {_decimal(prediction.alignment)} with the signal."
        details.append(_samples_sentence(panels))
        tone = "good" if prediction.alignment >= 0.5 else "weak"
    elif prediction.detectable:
        headline = "An outlier, but no signal: it comes from the vocabulary's own class means."
        details.append("With μ = 0 there is no hidden direction to find.")
        tone = "none"
    else:
        headline = "Not detectable: the top component will be unrelated to the signal."
        details += _why_not(panels)
        tone = "none"
    comparison = _comparison_sentence(panels)
    if comparison:
        details.append(comparison)
    return Verdict(tone, headline, tuple(details), _caution(panels))
