"""A write that was built on what somebody took off the table gives way, in every mode."""

from __future__ import annotations

import pytest

from tests.unit.services.busy_table import KINDS, Busy, busy, crash_everywhere, options
from tests.unit.txn.toy_table import PARTITION, SCHEMA, Toy, environment, new_storage
from tests.unit.txn.toy_writer import NBCC, OCC, Writer
from tidelake.config import CleanOptions, ConcurrencyMode
from tidelake.errors import PlanRunningError, RestorePendingError, WriteConflictError
from tidelake.formats import plans
from tidelake.formats.plans import RestorePlan
from tidelake.model import Action, TableType
from tidelake.services.archive import archive
from tidelake.services.clean import clean
from tidelake.services.restore import restore
from tidelake.services.rollback import roll_back
from tidelake.services.savepoint import savepoint
from tidelake.services.service_context import ServiceContext
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import ManualClock
from tidelake.timeline import Publisher, Timeline, load_timeline
from tidelake.txn import Transaction, begin
from tidelake.txn.protocol.plans import schedule, take_over
from tidelake.txn.rollback.rollback import Rollback

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
SINGLE = ConcurrencyMode.SINGLE_WRITER
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def late_clock() -> ManualClock:
    """Return a clock that is past all times of a table that others wrote."""
    return ManualClock(environment(MemoryStorage()).clock.now_ms() + 600_000)


def begun(
    storage: Storage, mode: ConcurrencyMode, seen: Timeline | None = None
) -> tuple[Writer | None, Transaction]:
    """Begin a write that found its file groups on the timeline `seen`."""
    writer = None if mode is SINGLE else Writer(storage, late_clock(), 1, mode)
    toy = Toy(storage)
    txn = begin(
        toy.env if writer is None else writer.env,
        toy.config,
        toy.timeline,
        action=toy.write_action,
        operation="UPSERT",
        roll_back=mode is SINGLE,
        concurrency=None if writer is None else writer.concurrency,
        seen=seen,
    )
    return writer, txn


def write(storage: Storage, txn: Transaction, built_on: Timeline) -> None:
    toy = Toy(storage)
    existing = toy.slices(built_on)
    txn.start()
    stats = [toy.task(txn, "a-0", "built on it", existing.get("a-0"), "0-1-0")]
    with txn:
        txn.commit(stats, schema=SCHEMA)


def timeline_of(storage: Storage) -> Timeline:
    return load_timeline(storage, Toy(storage).config)


def undo_unseen(table: Busy, time: str) -> None:
    """Take a completed write off as somebody does who heeds no heartbeat."""
    now = table.now
    (instant,) = (i for i in now.state.timeline.writes() if i.requested_time == time)
    rollback = Rollback(now.env, now.state.config, now.state.timeline, now.times, now.keeper)
    rollback.run_completed(instant, [PARTITION])


@pytest.mark.parametrize("mode", [SINGLE, OCC, NBCC])
@pytest.mark.parametrize("by", ["rollback", "restore"])
@each_kind
def test_what_was_undone_since_the_look_does_not_come_back(
    mode: ConcurrencyMode, by: str, table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 2)
    saved = savepoint(environment(table.storage)).instant
    rows = table.rows()
    time = table.write({"a-0": "wrong", "b-0": "wrong"})
    seen = timeline_of(table.storage)
    if by == "rollback":
        roll_back(environment(table.storage), time)
    else:
        restore(environment(table.storage), saved)
    _, txn = begun(table.storage, mode, seen)
    with pytest.raises(WriteConflictError, match=f"built on {time}, which was undone") as refused:
        write(table.storage, txn, txn.timeline)
    assert refused.value.theirs == time
    assert "run the write again" in refused.value.next_step
    assert table.rows() == rows


@pytest.mark.parametrize("mode", [SINGLE, OCC, NBCC])
@each_kind
def test_what_is_undone_while_a_write_runs_does_not_come_back(
    mode: ConcurrencyMode, table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 2)
    rows = table.rows()
    time = table.write({"a-0": "wrong", "b-0": "wrong"})
    _, txn = begun(table.storage, mode)
    before = txn.timeline
    undo_unseen(table, time)
    with pytest.raises(WriteConflictError, match=f"built on {time}, which was undone"):
        write(table.storage, txn, before)
    assert table.rows() == rows


@pytest.mark.parametrize("mode", [SINGLE, OCC, NBCC])
def test_a_write_does_not_commit_into_a_restore(mode: ConcurrencyMode) -> None:
    table = busy(9, MOR, 2)
    _, txn = begun(table.storage, mode)
    now = table.now
    plan = RestorePlan(instants_to_rollback=(), version=2, savepoint_to_restore_timestamp=None)
    Publisher(table.storage, now.state.config).request(
        now.times.next(), Action.RESTORE, plans.encode(plan)
    )
    with pytest.raises(WriteConflictError, match="a restore has begun"):
        write(table.storage, txn, txn.timeline)


@pytest.mark.parametrize("mode", [SINGLE, OCC, NBCC])
@each_kind
def test_what_was_archived_since_the_look_is_not_undone(
    mode: ConcurrencyMode, table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 7)
    seen = timeline_of(table.storage)
    small = options(clean_commits_retained="1", keep_min_commits="2", keep_max_commits="3")
    clean(environment(table.storage), CleanOptions(commits=1))
    done = archive(environment(table.storage), small)
    assert done is not None
    _, txn = begun(table.storage, mode, seen)
    write(table.storage, txn, txn.timeline)
    assert table.rows()["a-0"] == "built on it"


@pytest.mark.parametrize("mode", [OCC, NBCC])
@each_kind
def test_a_write_finishes_a_rollback_before_it_looks_at_the_table(
    mode: ConcurrencyMode, table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 2)
    rows = table.rows()
    time = table.write({"a-0": "wrong", "b-0": "wrong"})
    met = 0

    def check(left: MemoryStorage) -> None:
        nonlocal met
        found = Busy(left)
        if found.rows() == rows:
            return
        met += any(i.action is Action.ROLLBACK for i in found.now.state.timeline.pending)
        is_pending = any(i.action is Action.ROLLBACK for i in found.now.state.timeline.pending)
        _, txn = begun(left, mode)
        if is_pending:
            assert time not in {i.requested_time for i in txn.timeline.writes()}
            write(left, txn, txn.timeline)
            assert found.rows() == {**rows, "a-0": "built on it"}

    def act(storage: Storage) -> None:
        roll_back(environment(storage), time)

    crash_everywhere(table.storage, act, check)
    assert met


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_plan_is_not_made_of_what_is_being_rolled_back(table_version: int) -> None:
    table = busy(table_version, MOR, 1)
    table.write({"a-0": "right"})
    time = table.write({"a-0": "wrong"})
    planned: list[tuple[str, ...]] = []

    def make_plan(timeline: Timeline, _time: str) -> bytes | None:
        planned.append(tuple(i.requested_time for i in timeline.writes()))
        return None

    def check(left: MemoryStorage) -> None:
        now = ServiceContext.load(environment(left))
        if not any(i.action is Action.ROLLBACK for i in now.state.timeline.pending):
            return
        writer = Writer(left, late_clock(), 1)
        schedule(
            writer.env,
            now.state.config,
            now.state.timeline,
            action=Action.COMPACTION,
            make_plan=make_plan,
            keeper=now.keeper,
            concurrency=writer.concurrency,
            roll_back=False,
        )

    def act(storage: Storage) -> None:
        roll_back(environment(storage), time)

    crash_everywhere(table.storage, act, check)
    assert planned
    assert not [times for times in planned if time in times]


@pytest.mark.parametrize("mode", [SINGLE, OCC])
@pytest.mark.parametrize("table_version", [6, 9])
def test_a_compaction_whose_inputs_were_undone_does_not_commit(
    mode: ConcurrencyMode, table_version: int
) -> None:
    table = busy(table_version, MOR, 1)
    table.write({"a-0": "right"})
    rows = table.rows()
    time = table.write({"a-0": "wrong"})
    plan = table.plan_compaction()
    now = table.now
    writer = None if mode is SINGLE else Writer(table.storage, late_clock(), 1, mode)
    txn = take_over(
        now.env if writer is None else writer.env,
        now.state.config,
        now.state.timeline,
        requested_time=plan,
        action=Action.COMPACTION,
        operation="COMPACT",
        keeper=now.keeper,
        concurrency=None if writer is None else writer.concurrency,
        roll_back=False,
    )
    txn.start()
    undo_unseen(table, time)
    with pytest.raises(WriteConflictError, match=f"built on {time}"), txn:
        txn.commit([], schema=SCHEMA)
    assert table.rows() == rows


def test_a_rollback_that_somebody_is_at_is_waited_for() -> None:
    clock = late_clock()
    table = Busy(new_storage(9, COW, clock.now_ms))
    time = table.write({"a-0": "wrong"})
    now = table.now
    writer = Writer(table.storage, clock, 1)
    (instant,) = (i for i in now.state.timeline.writes() if i.requested_time == time)
    rollback = Rollback(
        writer.env, now.state.config, now.state.timeline, now.times, now.keeper, writer.concurrency
    )
    with writer.concurrency.section():
        requested = rollback.schedule_completed(instant, [PARTITION]).requested_time
    table.storage.put(f".hoodie/.heartbeat/{requested}", b"somebody")
    other = Writer(table.storage, clock, 2)
    with pytest.raises(PlanRunningError, match=f"rollback {requested} takes {time} back"):
        other.begin()


def test_nobody_begins_in_a_restore() -> None:
    table = busy(9, COW, 2)
    now = table.now
    plan = RestorePlan(instants_to_rollback=(), version=2, savepoint_to_restore_timestamp=None)
    Publisher(table.storage, now.state.config).request(
        now.times.next(), Action.RESTORE, plans.encode(plan)
    )
    with pytest.raises(RestorePendingError):
        begun(table.storage, OCC)
