"""Choose, trust, plan: the library's report on uploaded rows, as plain values for the page and its exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spikepool.errors import require
from spikepool.explorer.jobs import Report


def answer(paths: dict[str, Path], target: float | None, report: Report) -> dict[str, Any]:
    """The three answers about ``paths["data"]``, with the files of ``"labels"`` and ``"mask"`` where they are given."""
    from spikepool.answers.report import report as ask
    from spikepool.data.columns import open_features, read_column, read_mask

    require("matplotlib", "explore")
    rows = open_features(paths["data"], name="the file")
    labels = read_column(paths["labels"], rows=rows.shape[0]) if "labels" in paths else None
    mask = read_mask(paths["mask"], tuple(rows.shape)) if "mask" in paths else None
    found = ask(
        rows,
        labels,
        mask=mask,
        target=target,
        random_state=0,
        progress=lambda share, text: report(0.1 + 0.8 * share, text),
    )
    report(0.9, "drawing")
    return {
        "kind": "features",
        "shape": [int(size) for size in rows.shape],
        "source": found.source,
        "answers": [_section(name, part) for name, part in found.answers.items()],
        "record": found.to_dict(),
        "html": found.to_html(),
    }


def _section(name: str, part: Any) -> dict[str, Any]:
    return {
        "name": name,
        "question": part.question,
        "answered": part.result is not None,
        "verdict": part.verdict,
        "advice": part.advice,
        "notes": list(part.notes),
        "numbers": part.details(),
        "pictures": list(part.drawings),
    }
