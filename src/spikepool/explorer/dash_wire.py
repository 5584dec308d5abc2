"""The one place that knows how Dash's page and server talk to each other.

Dash documents callbacks, not the requests behind them, and trusts the shape of those requests: a body that its own page
would never send ends in an exception or runs a callback with other values than it declared. :func:`check_callback`
refuses such bodies first. Everything here was read off Dash 3 and 4; the tests hold it against the description that
Dash serves to its page and against what the page sends in a real browser, so that they fail when Dash changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Request

CALLBACK_PATH = "/_dash-update-component"
MAX_CALLBACK_BYTES = 256 * 1024
# what the page sends: the callback's name, what it sets, what it reads, and what has changed
PARTS = frozenset({"output", "outputs", "inputs", "state", "changedPropIds", "parsedChangedPropsIds"})

Callbacks = Mapping[str, Mapping[str, Any]]
Problem = tuple[int, str]


def is_callback(request: Request) -> bool:
    """Whether `request` asks Dash to run a callback."""
    return request.path == CALLBACK_PATH and request.method == "POST"


def check_callback(request: Request, callbacks: Callbacks) -> Problem | None:
    """Why `request` cannot have come from the page, as a status and a message; None when it can.

    Parameters
    ----------
    request : flask.Request
        A request for which :func:`is_callback` holds.
    callbacks : mapping
        Dash's ``app.callback_map``, by output; it is complete once the first request arrives.
    """
    if (request.content_length or 0) > MAX_CALLBACK_BYTES:
        return 413, "The request is too large."
    try:
        body = request.get_json(silent=True) if request.content_length else None
    except RecursionError:
        body = None
    if not isinstance(body, dict):
        return 400, "The request is not a JSON object."
    return check_body(body, callbacks)


def check_body(body: dict[str, Any], callbacks: Callbacks) -> Problem | None:
    """As :func:`check_callback`, for the parsed body."""
    output = body.get("output")
    callback = callbacks.get(output) if isinstance(output, str) else None
    if not isinstance(output, str) or callback is None or "callback" not in callback:
        return 400, "The request names no callback of this page."
    # absent parts are empty parts, as in Dash
    for part in ("inputs", "state"):
        if not _same_ids(body.get(part, []), callback[part]):
            return 400, f"The {part} of the request do not belong to its callback."
    if not _good_outputs(body.get("outputs"), output):
        return 400, "The outputs of the request do not belong to its callback."
    changed, parsed = body.get("changedPropIds", []), body.get("parsedChangedPropsIds", [])
    if not isinstance(changed, list) or not all(isinstance(item, str) and "." in item for item in changed):
        return 400, "The changed properties of the request are malformed."
    if not isinstance(parsed, list):
        return 400, "The changed properties of the request are malformed."
    if set(body) - PARTS:
        return 400, "The request has parts that this page never sends."
    return None


def output_names(output: str) -> list[str]:
    """The properties that an output names: ``"a.x"`` or ``"..a.x...b.y.."``."""
    return output.strip(".").split("...") if output.startswith("..") else [output]


def _same_ids(given: Any, expected: list[dict[str, Any]]) -> bool:
    """Whether `given` is a list of {id, property, value} in the order the callback declared."""
    return (
        isinstance(given, list)
        and len(given) == len(expected)
        and all(
            isinstance(item, dict) and item.get("id") == want["id"] and item.get("property") == want["property"]
            for item, want in zip(given, expected, strict=True)
        )
    )


def _good_outputs(given: Any, output: str) -> bool:
    """Whether `given` lists the properties that `output` names."""
    names = [name.partition("@")[0] for name in output_names(output)]
    items = given if isinstance(given, list) else [given]
    return (
        isinstance(given, list) == output.startswith("..")
        and all(isinstance(item, dict) for item in items)
        and [f"{item.get('id')}.{item.get('property')}" for item in items] == names
    )
