"""Requests that the storage loses, or carries out late, cost no row and double none.

Every change that an operation makes to the storage is lost once: on its way there, on its way
back, and so that it arrives when the operation has been told of the failure, or when the next is
done.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.writes.lost_requests import Arrives, play
from tests.writes.operations import ACTS, KINDS, SILENT_MS, Made, can, made_for
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import Fault, FaultyStorage
from tidelake.testing.faults import CHANGES

LOST = (
    (Fault.LOST_CALL, Arrives.NEVER),
    (Fault.LOST_REPLY, Arrives.NEVER),
    (Fault.LATE, Arrives.BEFORE_NEXT),
    (Fault.LATE, Arrives.AFTER_NEXT),
)
CASES = [(kind, name) for kind, case in KINDS.items() for name in ACTS if can(name, case)]


class InMemory:
    """A table in memory; the call with the number `number` fails."""

    def __init__(self, made: Made, number: int, fault: Fault) -> None:
        self._made = made
        self._storage = made.copied()
        self._faulty = FaultyStorage.failing_at(self._storage, number, fault)

    @property
    def faulty(self) -> Storage:
        return self._faulty

    @property
    def storage(self) -> Storage:
        return self._storage

    def look(self) -> MemoryStorage:
        return self._storage

    def wait(self) -> None:
        self._made.silence.ms += SILENT_MS

    def deliver(self) -> None:
        self._faulty.deliver()

    def settled(self) -> InMemory:
        return self


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_no_request_that_gets_lost_costs_a_row(kind: str, name: str, tmp_path: Path) -> None:
    made = made_for(name, KINDS[kind], tmp_path)
    counted = FaultyStorage(made.copied())
    ACTS[name](counted, made)
    changing = [n for n, (call, _) in enumerate(counted.calls, 1) if call in CHANGES]
    assert changing
    for number in changing:
        for fault, arrives in LOST:
            where = f"{name}: {fault} {arrives} of {counted.calls[number - 1]}"
            play(InMemory(made, number, fault), made, name, arrives, where)
