"""What differs between the spec of a store and the one that is asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What differs between two plain specs, one line each: ``trials: 20 in the store, 30 asked for``."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines = []
        for key in [*old, *(key for key in new if key not in old)]:
            where = f"{path}.{key}" if path else str(key)
            if key not in new:
                lines.append(f"{where}: {_brief(old[key])} in the store, absent from what is asked for")
            elif key not in old:
                lines.append(f"{where}: absent from the store, {_brief(new[key])} asked for")
            else:
                lines += differences(old[key], new[key], where)
        if not lines and list(old) != list(new):
            lines.append(f"{path}: order {list(old)} in the store, {list(new)} asked for")
        return lines
    if _same(old, new):
        return []
    return [f"{path}: {_brief(old)} in the store, {_brief(new)} asked for"]


def _same(old: Any, new: Any) -> bool:
    """Equality up to rounding: the same script on another machine may differ in last bits. The store's are used."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_same, old, new))
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=1e-12, abs_tol=1e-15)
    return type(old) is type(new) and bool(old == new)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
