"""Terms and their definitions: the explorer's question marks, its glossary page, and the documentation's.

``python -m spikepool.explorer.glossary > docs/glossary.md`` writes the documentation's page; a test compares the two.
"""

from __future__ import annotations

import html
from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """An entry: what it is called everywhere, its symbol, what it is in a sentence, more if needed, and in code."""

    key: str
    name: str
    symbol: str
    text: str
    more: str = ""
    code: str = ""


GROUPS: dict[str, tuple[Term, ...]] = {
    "Data": (
        Term(
            "row",
            "Row",
            "n",
            "One item of your own data: a text, a series, an image, as one line of features or tokens.",
            "Your files have rows; the model has sequences. They are the same, counted by n in data and N in theory. "
            "A sample is the rows that were observed; the population is what they were drawn from.",
        ),
        Term("N", "Sequences", "N", "How many sequences were pooled: the sample size of the covariance.", code="N"),
        Term(
            "T",
            "Sequence length",
            "T",
            "How many positions a sequence has before it is pooled into one vector.",
            code="T",
        ),
        Term("V", "Vocabulary", "V", "How many different tokens there are, half of each class. Even.", code="V"),
        Term("d", "Dimension", "d", "Length of each embedding vector.", code="d"),
        Term(
            "features",
            "Features",
            "",
            "Pooled vectors, one per row: an array of shape (n, d).",
            "Before pooling they are tokens, an array of shape (n, T, d), with a mask that is true where there is "
            "a token.",
            code="X, C, mask",
        ),
        Term(
            "table",
            "Embedding table",
            "E",
            "One vector for each token. Sampled: every token's noise is drawn independently, so each class of a finite "
            "vocabulary has a mean that differs from zero by chance. Class-centred: those chance means are removed.",
            code='table="sampled" or "class_centered"',
        ),
    ),
    "Signal and weights": (
        Term(
            "mu",
            "Strength",
            "μ",
            "How far the two classes of tokens lie from the middle, in units of the noise of one coordinate.",
            code="mu",
        ),
        Term(
            "corr",
            "Positions that agree",
            "",
            "Which positions of a sequence tend to show the same class. Positions that agree carry the signal.",
        ),
        Term(
            "R",
            "Correlation matrix",
            "R",
            "A correlation matrix of the positions: one row per line, numbers separated by spaces or commas, ones on "
            "the diagonal.",
            code="R",
        ),
        Term(
            "L",
            "Prefix length",
            "L",
            "The first L positions carry the same class; the classes of the others are random.",
            code="prefix_correlation(T, L)",
        ),
        Term(
            "rho",
            "Neighbour correlation",
            "ρ",
            "Correlation of neighbouring positions; it decays as ρ to the power of the distance.",
            code="markov_correlation(T, rho)",
        ),
        Term(
            "w",
            "Pooling weights",
            "w",
            "How much each position counts in the pooled vector. Mean: all equal. Causal: a score-free causal "
            "attention layer, then the mean; early positions count more. Optimal: the best for this correlation. Drag "
            "the bars to set other weights.",
            code="mean_weights, causal_weights, optimal_weights",
        ),
        Term(
            "gain",
            "Gain",
            "α/κ",
            "Signal gain over noise gain of the weights, w'Rw / w'w. It decides alignment and threshold where the "
            "covariance is centred and weights are spread out; without centring, and for classifiers, alpha matters "
            "by itself.",
            code="alpha, kappa",
        ),
        Term(
            "nu",
            "Relevance",
            "ν",
            "How far relevant tokens lie from the others along the mark that a query looks for, in units of the noise.",
            code="QueryModel(nu=)",
        ),
        Term(
            "relevant",
            "Relevant tokens",
            "L",
            "How many tokens of a sequence carry the signal, at unknown places; in the prefix model, the first L.",
            code="QueryModel(L=)",
        ),
        Term(
            "query-overlap",
            "Overlap of a query",
            "m",
            "Cosine of the query with the mark of relevant tokens, not squared: 1 for a perfect query, 0 for a blind "
            "one.",
            code="QueryModel(overlap=)",
        ),
        Term(
            "kernel",
            "Weights of a query",
            "",
            "Weight of a token as a function of its score: softmax, exp(βh); gate, a sigmoid that for β = νm is the "
            "probability of being relevant; linear, max(0, 1 + βh). All are divided by their sum over the sequence.",
            code="QueryModel(kernel=)",
        ),
        Term(
            "beta",
            "Slope",
            "β",
            "How steeply the weight of a token grows with its score, the inverse temperature; 0 is mean pooling.",
            code="QueryModel(beta=)",
        ),
        Term(
            "repeat",
            "Repeating tokens",
            "",
            "Whether tokens come from a vocabulary, so that a token has the same score in every sequence, or never "
            "repeat.",
            code="QueryModel(V=)",
        ),
        Term(
            "content-gain",
            "Gain over the mean",
            "",
            "Signal over noise of the weights, divided by that of the mean; few very uneven sequences may spoil it.",
            code="QueryModel.gain",
        ),
        Term(
            "effective",
            "Effective tokens",
            "1/κ",
            "Over how many tokens the weights are spread: T for mean pooling, 1 for a single token.",
            "Below three the closed form is flagged as an approximation, unless the signal is twice its threshold.",
        ),
        Term(
            "centered",
            "Centring",
            "",
            "Whether the average of the pooled vectors is subtracted first. Without it the vocabulary's average can "
            "appear as a component that says nothing about the signal.",
            code="centered",
        ),
    ),
    "What is found": (
        Term(
            "alignment",
            "Alignment",
            "cos²",
            "Squared cosine between the top component and the hidden direction: 0 unrelated, 1 identical.",
            "Always squared, always of one direction with one other; never called overlap.",
            code="alignment",
        ),
        Term(
            "overlap",
            "Overlap",
            "",
            "Agreement of two spans of k components: the mean squared cosine of their directions, 1 for the same span "
            "and k/d for a random one.",
            "For k = 1 it is the alignment.",
            code="span.overlap",
        ),
        Term("bulk", "Bulk", "", "The range of eigenvalues that noise alone produces.", code="bulk"),
        Term(
            "coloured",
            "Coloured",
            "",
            "Noise whose variance differs between directions, as in nearly all real features and tables.",
            "White or isotropic noise has the same variance in every direction.",
            code='diagnose(X).verdict == "coloured"',
        ),
        Term(
            "poor-fit",
            "Poor fit",
            "",
            "The fitted noise does not reproduce the rows, so that the report gives the reason and no numbers.",
            code='diagnose(X).verdict == "poor fit"',
        ),
        Term(
            "usage",
            "Usage",
            "",
            "How often each token occurs in the pooled sequences. Very frequent tokens make outliers.",
            code='outlier.kind == "usage"',
        ),
        Term(
            "edge",
            "Bulk edge",
            "λ₊",
            "Right end of the bulk: the largest eigenvalue that pure noise produces.",
            "An edge is an eigenvalue; a threshold is a signal strength.",
            code="edge",
        ),
        Term(
            "outlier",
            "Outlier",
            "",
            "An eigenvalue to the right of the bulk edge.",
            "Of the signal, of the vocabulary's average (mean), or of frequent tokens (usage).",
            code="outliers",
        ),
        Term("top", "Top eigenvalue", "", "Predicted largest eigenvalue of the pooled covariance.", code="eigenvalue"),
        Term(
            "component",
            "Component",
            "",
            "An eigenvector of the covariance; the top one belongs to the largest eigenvalue.",
            code="components",
        ),
        Term(
            "change",
            "Change",
            "",
            "How far a table differs from another: the norm of the difference over that of the first, both centred.",
            "Of one token, in units of a typical vector.",
            code="compare_tables(a, b).change",
        ),
        Term(
            "drift",
            "Drift",
            "",
            "How far a weight of a checkpoint has moved, as stored: the norm of the difference over that of the first.",
            code="compare_checkpoints(a, b)",
        ),
        Term(
            "threshold",
            "Threshold",
            "μ*",
            "Below this signal strength the top component carries no information on the signal.",
            "Where an outlier of the signal leaves the bulk of the sample covariance.",
            code="mu_sample",
        ),
        Term(
            "population",
            "Threshold of the population",
            "N = ∞",
            "The threshold that would remain with infinitely many sequences.",
            code="mu_population",
        ),
        Term(
            "detectable",
            "Detectable",
            "",
            "The sample covariance has an outlier that is made of the signal.",
            "Within d^(-1/3) of the threshold (at the threshold), some data sets show it and others do not.",
            code="detectable",
        ),
        Term(
            "closed-form",
            "Closed form",
            "",
            "Predictions from formulas, for long sequences with spread-out weights and uniform tokens.",
            "The explorer shows these. Their validity says where they are only an approximation.",
            code="predict(w)",
        ),
        Term(
            "given-tokens",
            "Given the tokens",
            "",
            "Predictions for the tokens that were drawn or read. They hold for one "
            "token per sequence and for words that follow Zipf's law.",
            code="predict(w, exact=True), predict_tokens",
        ),
    ),
    "The page": (
        Term(
            "draws",
            "Draws",
            "",
            "How many independent data sets to simulate at the present μ; a few more are drawn at other strengths.",
            code="trials",
        ),
        Term(
            "plane", "Phase diagram", "", "Alignment over μ and a size, N or V, with the threshold of each weighting."
        ),
        Term(
            "target",
            "Accuracy to plan for",
            "",
            "The report says how many labelled rows a ridge classifier needs for this accuracy.",
            code="target",
        ),
        Term(
            "choose",
            "Choose, trust, plan",
            "",
            "Which pooling is best for a linear model, which components are real, what more labelled rows will bring.",
            code="sp.report, LearnedPoolingClassifier, diagnose, forecast",
        ),
    ),
}

TERMS = {term.key: term for terms in GROUPS.values() for term in terms}


def to_markdown() -> str:
    """The documentation's page."""
    lines = [
        "# Glossary",
        "",
        "Terms as they are used in the code, in the explorer and in this documentation. The question marks of the",
        "explorer link to the same list. Symbols of the formulas are in [Notation](notation.md).",
    ]
    for group, terms in GROUPS.items():
        lines += ["", f"## {group}", "", "| term | meaning | in code |", "| --- | --- | --- |"]
        for term in terms:
            name = f'<span id="{term.key}"></span>**{term.name}**' + (f" {term.symbol}" if term.symbol else "")
            code = f"`{term.code}`" if term.code else ""
            lines.append(f"| {name} | {' '.join(filter(None, (term.text, term.more)))} | {code} |")
    return "\n".join(lines) + "\n"


def to_page() -> str:
    """The explorer's page, in the explorer's style."""
    parts = []
    for group, terms in GROUPS.items():
        parts.append(f"<section class='card'><h2>{html.escape(group)}</h2><dl class='glossary'>")
        for term in terms:
            code = f" <code>{html.escape(term.code)}</code>" if term.code else ""
            parts.append(
                f"<dt id='{term.key}'>{html.escape(term.name)} <var>{html.escape(term.symbol)}</var></dt>"
                f"<dd>{html.escape(' '.join(filter(None, (term.text, term.more))))}{code}</dd>"
            )
        parts.append("</dl></section>")
    return (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<title>Glossary, spikepool explorer</title>"
        "<link rel='stylesheet' href='assets/explorer.css'><script src='assets/a_theme.js'></script></head>"
        "<body><header class='header'><div class='brand'><span class='mark'>spikepool</span><span>explorer</span></div>"
        "<nav class='nav'><a href='./'>Explore</a><a href='glossary' aria-current='page'>Glossary</a></nav></header>"
        f"<main class='data'><h1>Glossary</h1>{''.join(parts)}</main></body></html>"
    )


if __name__ == "__main__":
    print(to_markdown(), end="")
