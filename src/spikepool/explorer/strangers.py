"""Requests with a body that do not carry the token, refused after their headers: the body is never received."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Any

from spikepool.errors import require


def refuse_strangers(server: Any, cookie: str, token: str) -> None:
    """Let a waitress server answer 401 to bodies without the right cookie, before it reads them."""
    channel, parser = require("waitress.channel", "explore"), require("waitress.parser", "explore")
    error: Any = require("waitress.utilities", "explore").Error

    class Unauthorized(error):  # type: ignore[misc]
        code = 401
        reason = "Unauthorized"

    class Parser(parser.HTTPRequestParser):  # type: ignore[misc,name-defined]
        def received(self, data: bytes) -> int:
            consumed = int(super().received(data))
            done = bool(getattr(self, "completed", False))
            waiting = self.headers_finished and not done and self.body_rcv is not None
            if waiting and not carries(str(self.headers.get("COOKIE", "")), cookie, token):
                self.error = Unauthorized("This server needs the token that was printed when it started.")
                self.completed = True
            return consumed

    class Channel(channel.HTTPChannel):  # type: ignore[misc,name-defined]
        parser_class = Parser

    # one socket, or one for each address that the host name has
    for listener in [server, *getattr(server, "map", {}).values()]:
        if hasattr(listener, "channel_class"):
            listener.channel_class = Channel


def carries(header: str, cookie: str, token: str) -> bool:
    """Whether a ``Cookie`` header holds the token."""
    try:
        found = SimpleCookie(header).get(cookie)
    except CookieError:
        return False
    return found is not None and hmac.compare_digest(found.value.encode("utf-8", "surrogatepass"), token.encode())
