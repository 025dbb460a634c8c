"""Who was stopped between the last look at the lock and the file that follows takes that back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.services.busy_table import KINDS, PARTITION, Busy
from tests.unit.services.test_fencing import ACTS, Act, Lease, made_for, sharing
from tests.unit.services.test_undoing_beside_cleans import NEWEST_ONLY, each_kind, rewritten
from tests.unit.txn.toy_table import SCHEMA, Toy, environment
from tidelake.errors import InstantLostError, LockLostError, PlanRemovedError, PlanRunningError
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import format_base
from tidelake.formats.marker_name import MarkerKind, marker_path
from tidelake.model import Action, Instant, TableType
from tidelake.services.clean import clean, run_clean, schedule_clean
from tidelake.services.restore import restore
from tidelake.services.rollback import roll_back
from tidelake.services.savepoint import savepoint
from tidelake.services.service_context import ServiceContext
from tidelake.storage import MemoryStorage
from tidelake.testing import FaultyStorage
from tidelake.timeline import Publisher
from tidelake.txn import begin, schedule, take_over
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.metadata_keeper import NoMetadataTable
from tidelake.txn.rollback.rollback import Rollback

MOR = TableType.MERGE_ON_READ


def stopped_at(
    storage: MemoryStorage, what: str, meanwhile: Callable[[], object] = lambda: None
) -> tuple[FaultyStorage, Concurrency]:
    """Return a storage and a share in it that is lost in front of a file, while others go on."""

    def stop(_number: int, call: str, path: str) -> None:
        if call == "put_if_absent" and path.endswith(what):
            lease.lose()
            meanwhile()

    stopped = FaultyStorage(storage, stop)
    lease = Lease(stopped)
    return stopped, sharing(lease)


@each_kind
def test_a_clean_that_was_planned_before_a_rollback_deletes_nothing(
    table_version: int, table_type: TableType
) -> None:
    table, time = rewritten(table_version, table_type)
    rows = table.rows_as_of(table.state.timeline.writes()[-2].requested_time)
    stopped, shared = stopped_at(
        table.storage,
        ".clean.requested",
        lambda: roll_back(environment(table.storage), time),
    )
    with pytest.raises(LockLostError):
        clean(environment(stopped), NEWEST_ONLY, concurrency=shared)
    clean(environment(table.storage), NEWEST_ONLY)
    assert set(table.rows()) == set(rows)
    assert time not in [i.requested_time for i in table.state.timeline.writes()]


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("savepoint", ".savepoint"),
        ("rollback", ".rollback.requested"),
        ("restore", ".restore.requested"),
    ],
)
@pytest.mark.parametrize(("table_version", "table_type"), KINDS)
def test_what_appears_without_the_lock_is_off_the_timeline_again(
    name: str, what: str, table_version: int, table_type: TableType
) -> None:
    table, time = made_for(name, table_version, table_type)
    before, rows = table.state.timeline.completed, table.rows()
    stopped, shared = stopped_at(table.storage, what)
    act: Act = ACTS[name]
    with pytest.raises(LockLostError, match="off the timeline again"):
        act(stopped, time, shared)
    now = table.state.timeline
    assert now.completed == before
    assert {i.action for i in now.pending} <= {Action.SAVEPOINT}
    assert table.rows() == rows


@each_kind
def test_the_end_of_a_service_that_appears_without_the_lock_is_told_again(
    table_version: int, table_type: TableType
) -> None:
    """Others may have gone on with it, and archived it, or taken its time."""
    for name in ("rollback", "restore"):
        table, time = made_for(name, table_version, table_type)
        stopped, shared = stopped_at(table.storage, f".{name}")
        with pytest.raises(LockLostError, match=f"the end of {name}"):
            ACTS[name](stopped, time, shared)
        (pending,) = table.state.timeline.pending if name == "rollback" else _restoring(table)
        assert pending.action is Action(name)
        if name == "restore":
            ACTS[name](FaultyStorage(table.storage), time, Concurrency())
        else:
            clean(environment(table.storage), NEWEST_ONLY, expires_ms=0)
        assert not table.state.timeline.pending


def _restoring(table: Busy) -> tuple[Instant, ...]:
    return ServiceContext.load_restoring(environment(table.storage)).state.timeline.pending


@each_kind
def test_a_write_that_begins_without_the_lock_has_not_begun(
    table_version: int, table_type: TableType
) -> None:
    table, _ = made_for("savepoint", table_version, table_type)
    stopped, shared = stopped_at(table.storage, "commit.requested")
    toy = Toy(stopped)
    with pytest.raises(LockLostError):
        begin(
            toy.env,
            toy.config,
            toy.timeline,
            action=toy.write_action,
            operation="UPSERT",
            concurrency=shared,
        )
    assert not table.state.timeline.pending


def planned(shared: Concurrency, storage: FaultyStorage) -> str | None:
    toy = Toy(storage)
    return schedule(
        toy.env,
        toy.config,
        toy.timeline,
        action=Action.COMPACTION,
        make_plan=lambda *_: b"plan",
        keeper=NoMetadataTable(toy.env),
        concurrency=shared,
    )


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_compaction_that_is_planned_without_the_lock_is_no_plan(table_version: int) -> None:
    table, _ = made_for("savepoint", table_version, MOR)
    stopped, shared = stopped_at(table.storage, ".compaction.requested")
    with pytest.raises(LockLostError):
        planned(shared, stopped)
    assert not table.state.timeline.pending


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_plan_that_somebody_has_begun_by_then_stays(table_version: int) -> None:
    table, _ = made_for("savepoint", table_version, MOR)

    def begun(_number: int, call: str, path: str) -> None:
        # The first look behind the file asks whether somebody has begun it.
        if call == "stat" and path.endswith(".compaction.inflight"):
            table.storage.put(path, b"")

    stopped, shared = stopped_at(table.storage, ".compaction.requested")
    with pytest.raises(LockLostError):
        planned(shared, FaultyStorage(stopped, begun))
    (plan,) = table.state.timeline.pending
    assert plan.planned_as is Action.COMPACTION
    assert f"{plan.requested_time}.compaction.requested" in table.state.timeline.file_names


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_nothing_is_inflight_without_its_plan(table_version: int) -> None:
    """A compaction was removed while its executor was stopped: nobody could read the table."""
    table, _ = made_for("savepoint", table_version, MOR)
    table.write({"a-0": "log"})
    time = table.plan_compaction()
    stopped, shared = stopped_at(
        table.storage,
        ".compaction.inflight",
        lambda: Publisher(table.storage, table.state.config).remove(
            [f"{time}.compaction.requested"]
        ),
    )
    toy = Toy(stopped)
    with (
        pytest.raises((InstantLostError, LockLostError)),
        take_over(
            toy.env,
            toy.config,
            toy.timeline,
            requested_time=time,
            action=Action.COMPACTION,
            operation="COMPACT",
            keeper=NoMetadataTable(toy.env),
            concurrency=shared,
        ) as txn,
    ):
        txn.start()
    assert not table.state.timeline.pending
    assert table.rows()["a-0"].endswith("log")


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_compaction_that_a_restore_took_off_does_not_complete(table_version: int) -> None:
    """Its executor was stopped in front of the last file, and its base file is gone."""
    table, _ = made_for("savepoint", table_version, MOR)
    saved = table.write({"a-0": "saved"})
    savepoint(environment(table.storage), saved)
    rows = table.rows()
    table.write({"a-0": "later"})
    time = table.plan_compaction()
    stopped, shared = stopped_at(
        table.storage, ".commit", lambda: restore(environment(table.storage), saved)
    )
    toy = Toy(stopped)
    name = format_base(file_id="a-0", write_token="0-0-0", instant_time=time, extension="parquet")
    path = f"{PARTITION}/{name}"

    def carry_out() -> None:
        with take_over(
            toy.env,
            toy.config,
            toy.timeline,
            requested_time=time,
            action=Action.COMPACTION,
            operation="COMPACT",
            keeper=NoMetadataTable(toy.env),
            concurrency=shared,
        ) as txn:
            txn.start()
            stopped.put(marker_path(txn.marker_folder, path, MarkerKind.MERGE), b"")
            stopped.put(path, b"merged")
            stat = WriteStat(file_id="a-0", path=path, partition_path=PARTITION)
            txn.commit([stat], schema=SCHEMA)

    with pytest.raises(InstantLostError, match="took it off the table"):
        carry_out()
    assert time not in [i.requested_time for i in table.state.timeline.instants]
    assert table.rows() == rows


@each_kind
def test_a_clean_or_a_rollback_that_was_taken_back_is_not_carried_out(
    table_version: int, table_type: TableType
) -> None:
    table, time = rewritten(table_version, table_type)
    rows = table.rows()
    requested = schedule_clean(table.now, NEWEST_ONLY)
    assert requested is not None
    publisher = Publisher(table.storage, table.state.config)
    stopped, _ = stopped_at(
        table.storage,
        ".clean.inflight",
        lambda: publisher.remove([f"{requested}.clean.requested"]),
    )
    with pytest.raises(PlanRemovedError):
        run_clean(ServiceContext.load(environment(stopped)), requested)
    now = ServiceContext.load(environment(table.storage))
    rollback = Rollback(now.env, now.state.config, now.state.timeline, now.times, now.keeper)
    instant = now.state.find_instant(time)
    found = rollback.schedule_completed(instant, [])
    stopped, _ = stopped_at(
        table.storage,
        ".rollback.inflight",
        lambda: publisher.remove([f"{found.requested_time}.rollback.requested"]),
    )
    at = ServiceContext.load(environment(stopped))
    with pytest.raises(PlanRunningError):
        Rollback(at.env, at.state.config, at.state.timeline, at.times, at.keeper).carry_out(found)
    assert not table.state.timeline.pending
    assert table.rows() == rows


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_plan_that_completes_while_a_restore_drops_it_is_dropped_as_well(
    table_version: int,
) -> None:
    """Its executor does not honour the lock: a completed file would name what is gone."""
    table, _ = made_for("savepoint", table_version, MOR)
    saved = table.write({"a-0": "saved"})
    savepoint(environment(table.storage), saved)
    rows = table.rows()
    table.write({"a-0": "later"})
    time = table.plan_compaction()

    def complete(_number: int, call: str, path: str) -> None:
        if call == "put_if_absent" and path.endswith(".restore.requested"):
            table.run_compaction(time)

    restore(environment(FaultyStorage(table.storage, complete)), saved)
    assert time not in [i.requested_time for i in table.state.timeline.instants]
    assert table.rows() == rows
