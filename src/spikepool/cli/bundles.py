"""Groups of options: the fields of a dataclass become options of every command that takes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any


def bundled(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the fields of its dataclass parameters as options, in their place."""
    # Typer reads options from the signature, and finds no way to group them
    parameters = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: item.annotation for name, item in parameters.items() if is_dataclass(item.annotation)
    }
    members = {name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()}

    @wraps(command)
    def run(**given: Any) -> None:
        made = {name: group(**{field: given.pop(field) for field in members[name]}) for name, group in groups.items()}
        command(**made, **given)

    listed: list[inspect.Parameter] = []
    for name, item in parameters.items():
        if name in groups:
            defaults = groups[name]()
            listed += [one.replace(default=getattr(defaults, field)) for field, one in members[name].items()]
        else:
            listed.append(item)
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in listed]
    )
    run.__annotations__ = {item.name: item.annotation for item in listed}
    return run
