"""What the numbers of the tab "Content" mean, in words."""

from __future__ import annotations

from spikepool.explorer.content_theory import Answer
from spikepool.explorer.verdict import decimal

NAMES = {"softmax": "softmax", "sigmoid": "the sigmoid gate", "linear": "rectified linear weights"}


def headline(answer: Answer) -> tuple[str, str]:
    """What attention does here, and its tone."""
    now, mean = answer.prediction.alignment, answer.mean
    name = "two layers of attention" if answer.state.window else NAMES[answer.state.kernel]
    leading = next((o.kind for o in answer.prediction.outliers if o.kind != "query"), "")
    if answer.state.beta == 0:
        return f"At slope 0 every token counts the same: mean pooling, alignment {decimal(mean)}.", _tone(now)
    if mean == 0 and leading != "signal":
        return f"Neither the mean nor {name} can find the signal here.", "none"
    if now > mean + 0.005:
        before = "0" if mean == 0 else decimal(mean)
        verb = "raise" if answer.state.window else "raises"
        return f"Attention helps: {name} {verb} the alignment from {before} to {decimal(now)}.", _tone(now)
    if now < mean - 0.005:
        verb = "lower" if answer.state.window else "lowers"
        return f"Attention hurts here: {name} {verb} the mean's {decimal(mean)} to {decimal(now)}.", "weak"
    return f"Attention makes no difference here: alignment {decimal(now)}, as with the mean.", _tone(now)


def _tone(alignment: float) -> str:
    return "good" if alignment >= 0.5 else "weak" if alignment > 0 else "none"


def details(answer: Answer) -> str:
    """What would be better, and what stands in front of the signal."""
    p, (kernel, beta, alignment) = answer.prediction, answer.best
    sentences = []
    if alignment > p.alignment + 0.01:
        which = NAMES[kernel]
        sentences.append(f"{which[0].upper()}{which[1:]} at slope {beta:.2g} would reach {decimal(alignment)}.")
    others = [o for o in p.outliers if o.kind in ("sequence", "usage") and o.eigenvalue >= p.eigenvalue]
    if others:
        what = "a single sequence" if others[0].kind == "sequence" else "a single token"
        sentences.append(f"The top eigenvector is made of {what} that draws the attention.")
    if p.query is not None:
        sentences.append(f"Were the query not projected out, it would be an eigenvalue of {p.query.eigenvalue:.3g}.")
    if answer.limits is not None:
        limits = answer.limits
        sentences.append(
            f"The best pooling of these scores reaches {decimal(limits.alignment_pooling)}, any method at most "
            f"{decimal(limits.alignment_bayes)}."
        )
    if not p.detectable and 0 < p.mu_sample < float("inf"):
        sentences.append(f"The threshold of the strength is {p.mu_sample:.3g}.")
    return " ".join(sentences)


def captions(answer: Answer) -> tuple[str, str]:
    """One sentence under each chart."""
    kernel, beta, alignment = answer.best
    first = (
        f"Best on this chart: {NAMES[kernel]} at slope {beta:.2g}, alignment {decimal(alignment)}. Slope 0 is the mean."
    )
    if answer.enough is None:
        second = "No number of labelled sequences teaches a query an overlap of 0.8."
    else:
        second = (
            f"About {answer.enough:,} labelled sequences teach a query an overlap of 0.8. Tokens that never repeat, "
            "scattered, one layer."
        )
    return first, second
