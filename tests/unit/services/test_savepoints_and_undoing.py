"""Savepoints beside what undoes and archives commits, also when one of them died half-way."""

from __future__ import annotations

import pytest

from tests.unit.services.busy_table import KINDS, Busy, busy, crash_everywhere, options
from tests.unit.txn.toy_table import environment
from tidelake.errors import ConfigError
from tidelake.formats import plans
from tidelake.formats.plans import InstantInfo, RollbackPlan
from tidelake.model import Action, TableType
from tidelake.services.archive import archive
from tidelake.services.restore import restore
from tidelake.services.rollback import roll_back
from tidelake.services.savepoint import delete_savepoint, savepoint
from tidelake.storage import MemoryStorage, Storage
from tidelake.timeline import Publisher

COW = TableType.COPY_ON_WRITE
SMALL = options(clean_commits_retained="1", keep_min_commits="2", keep_max_commits="3")
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def newest(table: Busy) -> str:
    return table.state.timeline.writes()[-1].requested_time


def begin_rollback(table: Busy, time: str) -> str:
    """Put the rollback of a completed write on the timeline, and go no further."""
    now = table.now
    action = next(i.action for i in now.state.timeline.writes() if i.requested_time == time)
    target = InstantInfo(commit_time=time, action=action.value)
    plan = RollbackPlan(instant_to_rollback=target, rollback_requests=())
    at = now.times.next()
    Publisher(table.storage, now.state.config).request(at, Action.ROLLBACK, plans.encode(plan))
    return at


def died(table: Busy, time: str) -> None:
    """Leave what a crash in a savepoint leaves."""
    Publisher(table.storage, table.state.config).start(time, Action.SAVEPOINT)


def savepoint_names(table: Busy) -> list[str]:
    return sorted(n for n in table.state.timeline.file_names if "savepoint" in n)


@each_kind
def test_a_restore_takes_later_savepoints_along(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type, 3)
    env = environment(table.storage)
    first = savepoint(env).instant
    rows = table.rows()
    table.write({"a-0": "later"})
    later = savepoint(env).instant
    table.write({"a-0": "later still"})

    def check(left: MemoryStorage) -> None:
        restore(environment(left), first)
        found = Busy(left)
        assert found.rows() == rows
        assert [i.requested_time for i in found.now.state.savepoints()] == [first]
        assert not [n for n in savepoint_names(found) if n.startswith(later)]

    def act(storage: Storage) -> None:
        restore(environment(storage), first)

    crash_everywhere(table.storage, act, check)
    check(table.storage)


@each_kind
def test_a_savepoint_that_died_holds_nothing_up(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type, 5)
    rows = table.rows()
    env = environment(table.storage)
    time = table.write({"a-0": "newest"})
    died(table, time)
    roll_back(env, time)
    assert table.rows() == rows
    assert not savepoint_names(table)
    first = table.state.timeline.writes()[0].requested_time
    died(table, first)
    for n in range(3):
        table.write({"a-0": f"new{n}"})
        table.write({"a-0": f"newer{n}"})
    rows = table.rows()
    done = archive(env, SMALL)
    assert done is not None
    assert first in {i.requested_time for i in done.instants}
    assert table.rows() == rows
    assert not savepoint_names(table)


def test_a_savepoint_that_died_can_be_deleted_or_made_again() -> None:
    table = busy(9, COW, 3)
    env = environment(table.storage)
    died(table, newest(table))
    delete_savepoint(env, newest(table))
    assert not savepoint_names(table)
    died(table, newest(table))
    assert savepoint(env).instant == newest(table)
    with pytest.raises(ConfigError, match="kept by a savepoint"):
        roll_back(env, newest(table))


@each_kind
def test_what_is_being_rolled_back_is_not_kept_nor_archived(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 6)
    time = newest(table)
    rollback = begin_rollback(table, time)
    before = table.storage.files_below("")
    with pytest.raises(ConfigError, match=f"rollback {rollback} has begun to take it back"):
        savepoint(environment(table.storage))
    assert table.storage.files_below("") == before
    first = table.state.timeline.writes()[1].requested_time
    rollback = begin_rollback(table, first)
    done = archive(environment(table.storage), SMALL)
    assert first not in {i.requested_time for i in (done.instants if done else ())}
