"""Version 6 on a storage that stamps whole seconds: windows by completion miss no write."""

from __future__ import annotations

import time
from random import Random  # noqa: TID251 - seeded

import pytest

from tests.writes.cases import Case
from tests.writes.model import Do
from tests.writes.operations import step
from tests.writes.readers import OurReader
from tests.writes.staged_writer import create_in, write_through
from tidelake.operations.open_table import load_state
from tidelake.storage import MemoryStorage

BY_COMPLETION = {"hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME"}


class Stamps:
    """The clock of a storage that stamps whole seconds."""

    def __init__(self) -> None:
        self.ms = time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        return self.ms // 1000 * 1000


def newest(storage: MemoryStorage) -> str:
    """Return up to when a reader has seen the table, as it would ask from the next time."""
    return max(i.completion_time or "" for i in load_state(storage, {}).timeline.writes())


@pytest.mark.parametrize("mor", [False, True], ids=["cow", "mor"])
@pytest.mark.parametrize("seed", range(4))
def test_a_reader_that_goes_on_from_its_last_window_sees_every_write(seed: int, mor: bool) -> None:
    chance = Random(seed)
    stamps = Stamps()
    storage = MemoryStorage(now_ms=stamps.now_ms)
    case = Case(version=6, mor=mor, extra=(("hoodie.archive.automatic", "false"),))
    create_in(storage, case)
    seen: set[str] = set()
    written: set[str] = set()
    last = "0"
    tied = 0
    for number in range(12):
        stamps.ms += chance.randint(0, 700)
        write_through(storage, case, step(Do.UPSERT, 1, f"k{number}"))
        written.add(f"k{number}")
        if chance.random() < 0.6:
            until = newest(storage)
            tied += until == last
            seen |= {
                row[0] for row in OurReader.of(storage, BY_COMPLETION).incremental(last, until)
            }
            last = until
            assert seen == written
    assert tied, "no two windows ended in one second"


def test_the_last_write_of_a_window_does_not_come_again() -> None:
    stamps = Stamps()
    storage = MemoryStorage(now_ms=stamps.now_ms)
    case = Case(version=6)
    create_in(storage, case)
    for number in range(3):
        write_through(storage, case, step(Do.UPSERT, 1, f"k{number}"))
        stamps.ms += 1000
    times = [i.completion_time or "" for i in load_state(storage, {}).timeline.writes()]
    reader = OurReader.of(storage, BY_COMPLETION)
    assert [row[0] for row in reader.incremental(times[0], times[2])] == ["k1", "k2"]
