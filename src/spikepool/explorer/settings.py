"""What an explorer server allows: addresses, sizes, counts and times."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields

from spikepool.errors import DomainError, InvalidInputError

MINIMUM_TOKEN_LENGTH = 12


def is_loopback(host: str) -> bool:
    """Whether `host` is an address that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Settings:
    """Limits of one server. The defaults suit a laptop or a small shared machine.

    Attributes
    ----------
    host : str
        Address the server binds to; anything but loopback needs a `token`.
    token : str or None
        Secret that every request must carry (as ``?token=`` once, then as a cookie).
    threads : int
        Request threads of the web server.
    max_running, max_waiting : int
        Worker processes at one time, and requests that may wait for one.
    max_trials : int
        Independent draws of one simulation.
    max_simulation_cells : int
        Largest ``d (V + N)`` of a simulation: the numbers held in memory for one draw.
    job_seconds : float
        A worker that runs longer is killed.
    job_memory_bytes : int
        Address space of a worker, where the system can limit it.
    idle_seconds : float
        A worker whose page has not asked for progress this long is killed: the page is gone.
    kept_results : int
        Finished results kept for pages and exports.
    """

    host: str = "127.0.0.1"
    token: str | None = None
    threads: int = 8
    max_running: int = 4
    max_waiting: int = 8
    max_trials: int = 50
    max_simulation_cells: int = 20_000_000
    job_seconds: float = 300.0
    job_memory_bytes: int = 6 * 2**30
    idle_seconds: float = 60.0
    kept_results: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not (value > 0 and value < float("inf")):
                raise DomainError(f"{field.name} must be above 0 and finite", value, "Pass a positive limit")
        if self.token is not None and len(self.token) < MINIMUM_TOKEN_LENGTH:
            raise InvalidInputError(
                f"the token must have at least {MINIMUM_TOKEN_LENGTH} characters",
                f"{len(self.token)} characters",
                "Leave it out to have one made",
            )
        if self.token is not None and not (
            self.token.isascii() and self.token.replace("-", "").replace("_", "").isalnum()
        ):
            raise InvalidInputError(
                "the token may contain letters, digits, '-' and '_' only", remedy="Leave it out to have one made"
            )
        if not self.is_loopback and self.token is None:
            raise InvalidInputError("a server that other machines can reach needs a token", self.host, "Pass token=...")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach `host`."""
        return is_loopback(self.host)
