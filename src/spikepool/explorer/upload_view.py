"""The analysis of an upload as it is shown: answers with their pictures, or the spectrum of a table."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from dash import html

from spikepool.drawing.dark import in_theme
from spikepool.explorer.controls import graph
from spikepool.explorer.figures import COLORS, INK, MUTED, SIGNAL, Figure, axis, layout, note, packed

_SHOWN_EDGES = 4.0


def present(result: dict[str, Any], theme: str) -> list[Any]:
    """The page's cards for a result of :func:`spikepool.explorer.uploads.upload_task`."""
    if result["kind"] == "table":
        return [_table_card(result, theme)]
    head = html.P(result["source"], className="source")
    return [head, *(_answer_card(answer, theme) for answer in result["answers"])]


def _answer_card(answer: dict[str, Any], theme: str) -> html.Section:
    """One of the three questions: verdict, what to do next, pictures, notes, numbers."""
    name = answer["name"]
    parts: list[Any] = [
        html.Div(
            [html.Span(name.capitalize(), className="answer-name"), html.H2(answer["question"])], className="question"
        ),
        html.P(answer["verdict"], className="headline", id=f"{name}-verdict"),
        html.P([html.Strong("Next: "), answer["advice"]], className="details", id=f"{name}-advice"),
    ]
    parts += [
        html.Div(
            html.Img(
                src=_address(in_theme(picture, theme)), className="picture", alt=f"Picture for: {answer['question']}"
            ),
            className="picture-frame",
        )
        for picture in answer["pictures"]
    ]
    parts += [html.P(f"Note: {text}", className="note") for text in answer["notes"]]
    if answer["numbers"]:
        numbers = html.Pre(answer["numbers"], className="numbers", tabIndex="0")
        parts.append(html.Details([html.Summary("The numbers"), numbers]))
    tone = "answered" if answer["answered"] else "unanswered"
    return html.Section(parts, className=f"card answer {tone}", id=f"{name}-answer")


def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def _table_card(result: dict[str, Any], theme: str) -> html.Section:
    rows, columns = result["shape"]
    headline, _, details = result["verdict"].partition(". ")
    headline = headline if headline.endswith(".") else headline + "."
    return html.Section(
        [
            html.H2(f"Embedding table: {rows:,} tokens in {columns:,} dimensions", id="upload-title"),
            html.P(headline, className="headline", id="upload-verdict"),
            html.P(details, className="details", id="upload-details"),
            html.Div(className="frame", children=[graph("upload-graph", _spectrum(result, theme))]),
            _outlier_table(result),
        ],
        className="card answer",
    )


def outlier_caption(result: dict[str, Any]) -> str:
    """What the table of outliers lists, and how many each null would count."""
    count, listed = result["outlier_count"], len(result["outliers"])
    if not count:
        return "No outliers."
    counts = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in result["counts"].items())
    which = (
        f"The {listed} largest of {count:,} outliers" if listed < count else f"All {count:,} outliers, largest first"
    )
    return f"{which if count > 1 else 'The one outlier'}. Counts under each null: {counts}."


def _outlier_table(result: dict[str, Any]) -> Any:
    caption = outlier_caption(result)
    if not result["outliers"]:
        return html.P(caption, className="note")
    names = ("Eigenvalue", "In the population", "Beyond the edge (noise units)")
    keys = ("eigenvalue", "population_eigenvalue", "distance")
    head = html.Thead(html.Tr([html.Th(name, scope="col") for name in names]))
    body = [
        html.Tr([html.Td(f"{outlier[key]:.4g}", **{"data-label": name}) for key, name in zip(keys, names, strict=True)])
        for outlier in result["outliers"]
    ]
    # the caption stands outside the table: inside it would be as wide as the table
    return html.Div(
        [html.P(caption, className="table-caption"), html.Table([head, html.Tbody(body)], className="stack")],
        id="upload-table",
        className="table-frame",
    )


def _spectrum(result: dict[str, Any], theme: str) -> Figure:
    """Histogram of the eigenvalues with the edge of the bulk and the outliers beyond it."""
    edge = result["edge"]
    edges = np.asarray(result["histogram"]["edges"])
    density = np.asarray(result["histogram"]["density"])
    values = [outlier["eigenvalue"] for outlier in result["outliers"]]
    right = 1.25 * max([edge, *(value for value in values if value <= _SHOWN_EDGES * edge)])
    near = [value for value in values if value <= right]
    inside = density[edges[:-1] <= edge]
    top = 1.25 * float(max(np.quantile(inside, 0.97), 1e-12)) if len(inside) else 1.0
    data = [
        {
            "type": "bar", "name": "eigenvalues", "x": packed((edges[1:] + edges[:-1]) / 2), "y": packed(density),
            "width": packed(np.diff(edges)), "marker": {"color": MUTED[theme], "opacity": 0.55, "line": {"width": 0}},
            "hovertemplate": "λ %{x:.3g}: density %{y:.3g}<extra></extra>",
        },
        {
            "type": "scatter", "mode": "lines", "name": "fitted bulk", "x": packed(result["curve"][0]),
            "y": packed(result["curve"][1]), "line": {"color": COLORS[theme]["causal"], "width": 2},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter", "mode": "markers", "name": "outliers", "x": near, "y": [0.04 * top] * len(near),
            "marker": {"color": SIGNAL[theme], "size": 9, "symbol": "diamond"},
            "hovertemplate": "outlier %{x:.4g}<extra></extra>",
        },
    ]  # fmt: skip
    line = {"color": INK[theme], "width": 1.2, "dash": "dash"}
    notes = [note(f"edge {edge:.3g}", theme, x=edge, y=0.9, yref="paper", yanchor="bottom")]
    beyond = result["outlier_count"] - len(near)
    if len(values) > len(near):
        text = f"{beyond} more, up to {max(values):.3g} →"
        notes.append(note(text, theme, x=1, xref="paper", y=0.6, yref="paper", xanchor="right"))
    shown = layout(
        theme,
        axis(theme, "eigenvalue λ", range=[0, right]),
        axis(theme, "density", range=[0, top], nticks=5),
        shapes=[{"type": "line", "x0": edge, "x1": edge, "y0": 0, "y1": 0.9, "yref": "paper", "line": line}],
        annotations=notes,
        bargap=0,
        showlegend=True,
    )
    return {"data": data, "layout": shown}
