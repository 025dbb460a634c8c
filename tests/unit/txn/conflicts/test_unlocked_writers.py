from __future__ import annotations

import pytest

from tests.unit.txn.toy_table import Toy, new_storage
from tests.unit.txn.toy_writer import Writer
from tidelake.errors import WriteConflictError
from tidelake.formats.file_name import FIXED_ID_MARK
from tidelake.model import Action, Instant, State, TableType
from tidelake.testing import ManualClock
from tidelake.timeline import Timeline
from tidelake.txn.conflicts.judge import Footprint, Kind, Rule, Slot, slot_name
from tidelake.txn.conflicts.unlocked_writers import came_late, unexplained


def instant(requested: int, completed: int | None = None) -> Instant:
    return Instant(
        requested_time=f"{requested:02d}",
        action=Action.COMMIT,
        state=State.INFLIGHT if completed is None else State.COMPLETED,
        completion_time=None if completed is None else f"{completed:02d}",
    )


THEN = Timeline(instants=(instant(1, 3), instant(5), instant(6, 8)))


@pytest.mark.parametrize(
    ("appeared", "is_late"),
    [
        (instant(9), False),
        (instant(9, 12), False),
        (instant(5, 12), False),
        (instant(4), True),
        (instant(4, 12), True),
        (instant(5, 7), True),
    ],
    ids=["new", "new and done", "pending and done", "older", "older and done", "done before then"],
)
def test_what_appears_after_its_time_had_no_lock(appeared: Instant, is_late: bool) -> None:
    kept = [i for i in THEN.instants if i.requested_time != appeared.requested_time]
    now = Timeline(instants=tuple(sorted((*kept, appeared), key=lambda i: i.requested_time)))
    assert came_late(THEN, now, by_completion=True) == ([appeared] if is_late else [])


def write(
    requested: int,
    completed: int,
    *slots: str,
    base: bool = True,
    kind: Kind = Kind.INGESTION,
    mode: str = "",
) -> Footprint:
    places = frozenset(Slot("p", slot_name(name)) for name in slots)
    return Footprint(
        kind=kind,
        requested_time=f"{requested:02d}",
        completion_time=f"{completed:02d}",
        slots=places,
        base_slots=places if base else frozenset(),
        file_ids={Slot("p", slot_name(name)): name for name in slots},
        mode=mode,
    )


LOG = write(4, 5, "a", base=False)
FIXED = f"00000001{FIXED_ID_MARK}0"
RANDOM = "00000001-1234-4abc-8def-0123456789ab-0"
NBCC = "NON_BLOCKING_CONCURRENCY_CONTROL"
OCC = "OPTIMISTIC_CONCURRENCY_CONTROL"


def logged(requested: int, completed: int, file_id: str, mode: str = "") -> Footprint:
    return write(requested, completed, file_id, base=False, mode=mode)


@pytest.mark.parametrize(
    ("first", "second", "rule"),
    [
        (write(1, 3, "a"), write(4, 6, "a"), None),
        (write(1, 5, "a"), write(4, 6, "b"), None),
        (write(1, 5, "a"), write(4, 6, "a"), Rule.OVERLAP),
        (write(1, 5, "a"), write(4, 6, "a", base=False), Rule.OVERLAP),
        (write(1, 5, FIXED, base=False), write(4, 6, FIXED, base=False), None),
        (logged(1, 5, RANDOM), logged(4, 6, RANDOM), None),
        (logged(1, 5, RANDOM, OCC), logged(4, 6, RANDOM, NBCC), None),
        (logged(1, 5, RANDOM, NBCC), logged(4, 6, RANDOM, OCC), Rule.OVERLAP),
        (logged(1, 5, FIXED, OCC), logged(4, 6, FIXED, OCC), Rule.OVERLAP),
        (write(1, 5, FIXED, mode=OCC), logged(4, 6, FIXED, NBCC), None),
        (logged(1, 5, RANDOM), logged(4, 6, FIXED, NBCC), Rule.OVERLAP),
        (logged(1, 5, RANDOM), logged(4, 6, FIXED), Rule.OVERLAP),
        (write(1, 5, "a", base=False), write(4, 6, "a", base=False), Rule.OVERLAP),
        (write(1, 5, "a", kind=Kind.CLUSTERING), write(4, 6, "a"), Rule.CLUSTERED_AWAY),
        (LOG, write(1, 6, "a", kind=Kind.CLUSTERING), Rule.CLUSTERING_YIELDS),
        (LOG, write(1, 6, "a", kind=Kind.COMPACTION), None),
        (write(1, 5, "a", kind=Kind.COMPACTION), write(4, 6, "a", base=False), None),
        (write(1, 5, "a", kind=Kind.COMPACTION), write(4, 6, "a"), Rule.TWO_BASES),
    ],
)  # fmt: skip
def test_pairs_that_no_lock_explains(
    first: Footprint, second: Footprint, rule: Rule | None
) -> None:
    found = list(unexplained([second, first], table_version=9))
    assert [pair.rule for pair in found] == ([] if rule is None else [rule])


def test_a_writer_with_a_lock_of_its_own_is_found_at_the_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The strategy by start relies on the order of requests, which such a writer does not keep."""
    storage = new_storage(9, TableType.COPY_ON_WRITE)
    Toy(storage).write({"a": "0"})
    clock = ManualClock()
    foreign = Writer(storage, clock, 2)
    late = foreign.begin()
    own = [path for path in storage.files_below(".hoodie") if late.instant_time in path]
    hidden = {path: storage.read(path) for path in own}
    for path in hidden:
        storage.delete(path)  # it has taken its time, and published nothing yet
    clock.sleep_ms(10)
    newer = Writer(storage, clock, 3)
    done = newer.begin()
    newer.commit(done, newer.write(done, "b", "1"))
    ours = Writer(storage, clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    for path, data in hidden.items():
        storage.put(path, data)
    foreign.commit(late, foreign.write(late, "a", "theirs"))
    with pytest.raises(WriteConflictError) as refused:
        ours.commit(txn, stats)
    assert refused.value.theirs == late.instant_time
    assert "appeared after its time had passed" in refused.value.explain()
    assert "without its lock" in caplog.text
