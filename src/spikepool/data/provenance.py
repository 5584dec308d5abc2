"""How features came about, in a small file beside them: whether the labels of their rows had a part in it.

``P.npy`` has ``P.npy.json`` beside it when a pooling learned from labels made it. A score of a model on such features
with the same labels is too high: the labels are shown twice.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spikepool.data.locations import is_path
from spikepool.kit.files import replacing_file


def note_labels_seen(path: str, pooling: str, learned: bool) -> None:
    """Write beside the local features `path` that `pooling` has learned from labels; remove an old note if not."""
    beside = _beside(path)
    if beside is None:
        return
    if not learned:
        beside.unlink(missing_ok=True)
        return
    with replacing_file(beside) as temporary:
        temporary.write_text(json.dumps({"pooling": pooling, "labels_seen": True}) + "\n", encoding="utf-8")


def labels_seen(path: Any) -> str | None:
    """A warning where the features at `path` were pooled by weights that have seen the labels of their rows."""
    beside = _beside(str(path)) if is_path(path) else None
    if beside is None or not beside.is_file():
        return None
    try:
        found = json.loads(beside.read_text(encoding="utf-8"))
        if not found["labels_seen"]:
            return None
        name = str(found["pooling"])
    except (OSError, ValueError, TypeError, KeyError):  # a file of someone else
        return None
    return (
        f"{Path(str(path)).name} was pooled by {name}, which has learned from the labels of these rows: scores are too "
        "high, because the labels are used twice; forecast from the tokens with pooling= (--pooling) instead"
    )


def _beside(path: str) -> Path | None:
    """The note's place; none in object storage."""
    return None if "://" in path else Path(path.rstrip("/") + ".json")
