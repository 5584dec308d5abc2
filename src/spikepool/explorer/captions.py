"""One sentence under each panel: what is seen, with the numbers of the moment."""

from __future__ import annotations

from typing import Any

from spikepool.explorer.theory import Panels


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
