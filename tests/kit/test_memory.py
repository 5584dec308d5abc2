"""Work that would not fit in memory is refused."""

import pytest

from spikepool.errors import MemoryBudgetError
from spikepool.kit import memory


def test_work_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**30)
    memory.require_memory(2**29, "this", "Use less")
    with pytest.raises(MemoryBudgetError, match="this needs about 2 GiB of memory and 1 GiB are available"):
        memory.require_memory(2**31, "this", "Use less")
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    memory.require_memory(2**60, "this", "Use less")


def test_the_machine_says_what_it_has():
    found = memory.available_bytes()
    assert found is None or 0 <= found < 2**50
