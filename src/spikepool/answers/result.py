"""The answers: what was asked, what was found, what to do next; for people, programs, notebooks and pages."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

from spikepool.data.targets import check_target
from spikepool.errors import InvalidInputError
from spikepool.kit.files import write_text
from spikepool.kit.pages import html_page, html_table, html_text
from spikepool.kit.results import Result, plain, to_json
from spikepool.pooling.evaluation import Evaluation
from spikepool.pooling.learned_report import candidate_html, leading_label, pooling_record

ENDINGS = (".html", ".htm", ".json")
# Labels up to which a page has the whole confusion matrix, as a picture.
MOST_LABELS = 12
# What the folded section of a page with a classifier is about.
TRUST_LINE = "principal components of the mean of the tokens"


@dataclass(frozen=True)
class Answer(Result, schema="answer"):
    """One question about the data, answered or not.

    Attributes
    ----------
    question : str
    verdict : str
        What was found, in a sentence.
    advice : str
        What to do next.
    result : object or None
        The fitted estimator, diagnosis or forecast behind it; None when the question could not be answered.
    notes : tuple of str
        What to know about the data, and warnings that were raised.
    pictures : tuple of callables
        Each draws one picture on the axes it is given.
    numbers : str or None
        What a page shows of the result in place of its printed form.
    evaluations : dict of str to Evaluation
        Classifiers of texts, on rows left out: the fitted one first, then references.
    """

    question: str
    verdict: str
    advice: str
    result: Any = None
    notes: tuple[str, ...] = ()
    pictures: tuple[Callable[[Any], Any], ...] = field(default=(), repr=False)
    numbers: str | None = field(default=None, repr=False)
    evaluations: dict[str, Evaluation] = field(default_factory=dict, repr=False)

    @cached_property
    def drawings(self) -> tuple[str, ...]:
        """Each picture as the text of an SVG, in the colours of a light page; drawn once."""
        from spikepool.drawing.plotting import new_figure, svg_text

        drawn = []
        for picture in self.pictures:
            figure, axes = new_figure(width=8.2, height=getattr(picture, "height", 3.4))
            picture(axes[0, 0])
            drawn.append(svg_text(figure))
        return tuple(drawn)

    def details(self) -> str:
        """The result's own printed form, or nothing."""
        if self.numbers is not None:
            return self.numbers
        return str(self.result.summary()) if self.result is not None else ""

    def _record(self) -> dict[str, Any]:
        more = {name: result._record() for name, result in self.evaluations.items()}
        return {
            "question": self.question,
            "answered": self.result is not None,
            "verdict": self.verdict,
            "advice": self.advice,
            "notes": list(self.notes),
            "result": _result_record(self.result),
            **({"evaluations": more} if more else {}),
        }

    def _notes(self) -> list[str]:
        return [self.verdict, self.advice, *self.notes]

    def _repr_html_(self) -> str:
        return _section("answer", self, pictures=False)

    def plot(self, ax: Any = None) -> Any:
        """The main picture on `ax`, or every picture on a separate figure."""
        from spikepool.drawing.plotting import new_figure

        if ax is not None:
            return self.pictures[0](ax) if self.pictures else ax
        count = max(len(self.pictures), 1)
        figure, axes = new_figure(count, 1, width=7.5, height=3.4 * count)
        for place, picture in zip(axes[:, 0], self.pictures, strict=False):
            picture(place)
        return figure


def _result_record(result: Any) -> Any:
    if result is None:
        return None
    return plain(result) if isinstance(result, Result) else plain(pooling_record(result))


@dataclass(frozen=True)
class DataReport(Result, schema="report"):
    """What :func:`spikepool.report` found; print it, look at it in a notebook, or :meth:`save` it as a page.

    Attributes
    ----------
    source : str
        The data in a few words.
    choose, trust, plan : Answer
        Which pooling, which components, what more rows will bring.
    notes : tuple of str
        How the data were read.
    facts : tuple of pairs of str
        The data set in a table: rows, classes, encoder.
    """

    source: str
    choose: Answer
    trust: Answer
    plan: Answer
    version: str
    notes: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def answers(self) -> dict[str, Answer]:
        """The three answers by name, in order."""
        return {"choose": self.choose, "trust": self.trust, "plan": self.plan}

    def summary(self) -> str:
        """The verdicts and advice as text."""
        lines = [self.source, *(f"Note: {note}" for note in self.notes)]
        for name, answer in self.answers.items():
            lines += ["", f"{name.upper()}  {answer.question}", f"  {answer.verdict}", f"  Next: {answer.advice}"]
            lines += [f"  Note: {note}" for note in answer.notes]
        return "\n".join(lines)

    def _record(self) -> dict[str, Any]:
        answers = {name: answer._record() for name, answer in self.answers.items()}
        return {"spikepool": self.version, "source": self.source, "notes": list(self.notes), **answers}

    def plot(self) -> Any:
        """Figure with the main picture of each answer, one below the other."""
        from spikepool.drawing.plotting import new_figure

        drawn = [(name, a.pictures[0]) for name, a in self.answers.items() if a.pictures]
        figure, axes = new_figure(max(len(drawn), 1), 1, width=7.5, height=3.4 * max(len(drawn), 1))
        for ax, (name, picture) in zip(axes[:, 0], drawn, strict=False):
            picture(ax)
            ax.set_title(name, loc="left")
        return figure

    def to_html(self) -> str:
        """One self-contained page: every answer with its verdict, next step, pictures and numbers."""
        body = [f"<h1>Choose, trust, plan</h1><p class='muted'>{html.escape(self.source)}</p>"]
        if self.facts:
            body.append(html_table((), [*self.facts, ("Date", date.today().isoformat())]))
        body += [f"<p class='muted'>Note: {html.escape(note)}</p>" for note in self.notes]
        body += [_section(name, getattr(self, name), pictures=True) for name in ("choose", "plan")]
        trust = _section("trust", self.trust, pictures=True)
        folded = self.choose.result is not None and self.plan.result is not None
        body.append(f"<details><summary>Trust: {TRUST_LINE}</summary>{trust}</details>" if folded else trust)
        body.append(f"<footer class='muted'>spikepool {html.escape(self.version)}</footer>")
        return html_page(f"spikepool report: {self.source}", "\n".join(body))

    def _repr_html_(self) -> str:
        """Verdicts, advice and numbers for a notebook; pictures with :meth:`plot`."""
        return "".join(_section(name, answer, pictures=False) for name, answer in self.answers.items())

    def save(self, path: Any, *, overwrite: bool = False) -> Path:
        """Write the report as a page (.html) or as numbers (.json); returns the path.

        An existing file is refused; with `overwrite` an earlier report is replaced.
        """
        file = Path(path)
        if file.suffix.lower() not in ENDINGS:
            raise InvalidInputError("a report is saved as .html or .json", str(path), "Choose one of these endings")
        check_target(file, "report" if file.suffix.lower() == ".json" else "page", overwrite=overwrite)
        text = to_json(self.to_dict()) if file.suffix.lower() == ".json" else self.to_html()
        write_text(file, text, overwrite=overwrite)
        return file


def _section(name: str, answer: Answer, *, pictures: bool) -> str:
    parts = [
        f"<section id='{name}'><h2>{name.capitalize()}: {html.escape(answer.question)}</h2>",
        f"<p class='verdict'>{html.escape(answer.verdict)}</p>",
        f"<p class='next'><strong>Next:</strong> {html.escape(answer.advice)}</p>",
    ]
    if answer.evaluations:
        parts.append(_scores(answer.evaluations))
    if pictures:
        parts += [f"<div class='picture'>{drawing}</div>" for drawing in answer.drawings]
    parts += [f"<p class='muted'>Note: {html.escape(note)}</p>" for note in answer.notes]
    if answer.evaluations:
        parts.append(_mistakes(next(iter(answer.evaluations.values()))))
    scores = getattr(answer.result, "class_scores_", ())
    if scores:
        rows = [(str(s.label), f"{s.support:g}", f"{s.recall:.2f}", _share(s.precision)) for s in scores]
        table = html_table(("class", "rows", "recall", "precision"), rows, title="Each class, on rows left out")
        parts.append(
            f"<details open><summary>Each class</summary>{table}</details>"
            if len(rows) <= 30
            else f"<details><summary>Each of {len(rows)} classes</summary>{table}</details>"
        )
    if answer.evaluations and answer.result.candidates_:
        every = candidate_html(answer.result.candidates_, leading_label(answer.result), "accuracy")
        parts.append(f"<details><summary>All candidates</summary>{every}</details>")
    elif answer.result is not None:
        parts.append(f"<details><summary>The numbers</summary>{html_text(answer.details())}</details>")
    return "".join(parts) + "</section>"


def _scores(evaluations: dict[str, Evaluation]) -> str:
    """Scores of the classifier and of the references on the same rows."""
    rows = [
        (name, f"{one.accuracy:.3f}", f"{one.log_loss:.3f}", f"{one.calibration_error:.3f}")
        for name, one in evaluations.items()
    ]
    count = next(iter(evaluations.values())).rows
    header = ("classifier", "accuracy", "log loss", "calibration error")
    return html_table(header, rows, title=f"On {count:,} rows left out")


def _mistakes(result: Evaluation) -> str:
    """Pairs of many labels that are confused, and the most confident mistakes."""
    parts = []
    pairs = result.confused()
    if pairs and len(result.labels) > MOST_LABELS:
        parts.append(html_table(("label", "predicted as", "rows"), pairs, title="Confused most often"))
    if result.mistakes:
        worst = [
            (" ".join(str(one["text"]).split())[:200], one["label"], one["prediction"], f"{one['probability']:.2f}")
            for one in result.mistakes
        ]
        header = ("text", "label", "prediction", "probability")
        parts.append(html_table(header, worst, title="Texts most confidently wrong"))
    return "".join(parts)


def _share(value: float) -> str:
    return "never predicted" if math.isnan(value) else f"{value:.2f}"
