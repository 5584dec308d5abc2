"""What the numbers of a state mean, in words: the verdict, and a caption under each panel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spikepool.explorer.theory import Panels
from spikepool.theory import spikes
from spikepool.theory.validity import near_threshold

NAMES = {"mean": "mean pooling", "causal": "causal weights", "optimal": "optimal weights", "custom": "your weights"}


@dataclass(frozen=True)
class Verdict:
    """A tone for the colour, one headline, and sentences that follow from it."""

    tone: str  # "good", "weak" or "none"
    headline: str
    details: tuple[str, ...]
    caution: str = ""  # where the numbers hold only roughly


def decimal(value: float) -> str:
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
        limit = f" the limit is {decimal(plan.limit)}." if plan.limit is not None else ""
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
    return f"{name[0].upper()}{name[1:]} would reach {decimal(panels.predictions[best].alignment)}."


def _why_not(panels: Panels) -> list[str]:
    """Why the signal is not detected, and how many sequences would change that."""
    prediction, plan, state = panels.prediction, panels.plan, panels.state
    if prediction.alpha == 0:
        return ["These weights cancel the signal: none of it is left in the pooled vectors."]
    reason = f"The strength μ = {state.mu:g} is below these weights' threshold, {prediction.mu_sample:.3g}."
    if plan.samples is None:
        return [reason, f"No number of sequences brings the alignment to {plan.target:g}."]
    return [reason, f"{plan.samples - state.N:,} more sequences bring the alignment to {plan.target:g}."]


def at_threshold(panels: Panels) -> str | None:
    """Why a single data set may go either way with the chosen weights: mu is next to their threshold."""
    p, model = panels.prediction, panels.model
    if not 0 < p.mu_sample < float("inf"):
        return None
    strength = p.alpha * (model.mu**2 + model.class_mean_power)
    excess = float(spikes.spike_excess(strength, model.delta, p.kappa))
    return near_threshold(excess, float(spikes.critical_excess(model.delta, model.gamma)), model.d)


def _caution(panels: Panels, sentence: str | None) -> str:
    """What else limits the numbers, in the prediction's own words."""
    reasons = [reason for reason in panels.prediction.validity.reasons if reason != sentence]
    return " ".join(f"{reason[0].upper()}{reason[1:]}." for reason in reasons)


def verdict(panels: Panels) -> Verdict:
    """The verdict on the chosen weights."""
    prediction, near = panels.prediction, at_threshold(panels)
    details = []
    signal = prediction.signal
    covered = signal is not None and prediction.alignment == 0 and signal.alignment > 0
    if covered:
        assert signal is not None
        headline = "Hidden behind the mean: the top component will say nothing about the signal."
        details.append(
            f"The signal is the second component (alignment {decimal(signal.alignment)}); the first is the average "
            "of the vocabulary's noise. Centre the features to remove it."
        )
        tone = "weak"
    elif near:
        headline = "At the threshold: one data set may show the signal, the next may not."
        details.append(
            f"{near[0].upper()}{near[1:]}. In the limit of large sizes the threshold is μ = {prediction.mu_sample:.3g} "
            f"and the alignment {decimal(prediction.alignment)}."
        )
        details.append(_samples_sentence(panels))
        tone = "weak"
    elif prediction.detectable and prediction.alignment > 0:
        headline = f"Detectable: the top component will align {decimal(prediction.alignment)} with the signal."
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
    return Verdict(tone, headline, tuple(details), _caution(panels, near))


def captions(panels: Panels, simulated: dict[str, Any] | None) -> list[str]:
    """Captions of the spectrum, the alignment, the phase diagram and the weights."""
    return [_spectrum(panels, simulated), _alignment(panels, simulated), _phase(panels), _weights(panels)]


def _spectrum(panels: Panels, simulated: dict[str, Any] | None) -> str:
    kinds = {outlier.kind for outlier in panels.prediction.outliers}
    if not kinds:
        text = "The shaded bulk is what noise alone produces. Nothing stands out to the right of its edge."
    elif kinds == {"signal"}:
        text = "The shaded bulk is what noise alone produces; the line to the right of its edge is the signal."
    elif "signal" in kinds:
        text = "The shaded bulk is what noise alone produces. Red line: signal; grey line: the vocabulary's average."
    else:
        text = (
            "The shaded bulk is what noise alone produces. The grey line to the right of its edge is the vocabulary's "
            "average; the signal itself does not stand out."
        )
    if simulated:
        text += " Grey bars: one simulated draw; ticks: simulated top eigenvalues."
    return text


def _alignment(panels: Panels, simulated: dict[str, Any] | None) -> str:
    order = sorted(panels.predictions, key=lambda name: -panels.predictions[name].alignment)
    values = ", ".join(f"{name} {panels.predictions[name].alignment:.2f}" for name in order)
    text = f"At μ = {panels.state.mu:g}: {values}."
    if simulated:
        text += " Circles: simulated, with one standard error."
    return text


def _phase(panels: Panels) -> str:
    text = f"Colour: alignment with {panels.state.w} weights. Lines: where each weighting starts to see the signal"
    if panels.model.mean_strength > 0:
        return f"{text}; uncoloured to the right of a line, the vocabulary's average is still on top."
    return f"{text}; it is found to the right of its line."


def _weights(panels: Panels) -> str:
    if panels.state.w == "custom":
        return f"Only proportions matter: the bars are divided by their sum, {sum(panels.state.custom):.4g}."
    return "Drag a bar, use the arrow keys on it, or type a number to set other weights."
