from __future__ import annotations

import logging

import pytest

from tests.unit.services.busy_table import Busy, options
from tests.unit.txn.toy_table import environment, new_storage
from tidelake.config import ServiceOptions
from tidelake.model import Action, TableType
from tidelake.services.inline import after_write
from tidelake.testing import Fault, FaultyStorage

COW = TableType.COPY_ON_WRITE


def write(table: Busy, given: ServiceOptions, n: int) -> None:
    before = table.state.timeline
    table.write({"a-0": f"a{n}"})
    after_write(environment(table.storage), before, given)


def count(table: Busy, action: Action) -> int:
    return sum(i.action is action for i in table.state.timeline.instants)


def test_a_young_table_is_not_even_looked_at() -> None:
    table = Busy(new_storage(9, COW))
    watching = FaultyStorage(table.storage)
    for n in range(9):
        before = table.state.timeline
        table.write({"a-0": f"a{n}"})
        after_write(environment(watching), before, options())
    assert watching.calls == []


def test_a_table_that_is_written_all_the_time_stays_small() -> None:
    table = Busy(new_storage(9, COW))
    for n in range(25):
        write(table, options(clean_commits_retained="3"), n)
    files = [p for p in table.toy.data_files() if "/a-0_" in p]
    # Three commits stay readable, and the one before them for queries that are under way.
    assert len(files) == 4
    assert table.rows() == {"a-0": "a24"}


@pytest.mark.parametrize("table_version", [6, 9])
def test_two_hundred_writes_leave_as_much_as_they_are_told_to(table_version: int) -> None:
    table = Busy(new_storage(table_version, COW))
    given = options(clean_commits_retained="2", keep_min_commits="4", keep_max_commits="6")
    costs = []
    for n in range(200):
        before = table.state.timeline
        table.write({"a-0": f"a{n}"})
        counting = FaultyStorage(table.storage)
        after_write(environment(counting), before, given)
        costs.append(len(counting.calls))
    now = table.now
    assert len(now.state.timeline.writes()) <= 6
    assert len(now.state.timeline.instants) <= 13
    assert len(list(table.toy.data_files())) == 3
    writes = [i for i in now.state.history.instants() if i.action is Action.COMMIT]
    assert len(writes) + len(now.state.timeline.writes()) == 200
    assert max(costs[100:]) <= max(costs[20:100]) * 1.3


def test_archival_can_be_switched_off() -> None:
    table = Busy(new_storage(9, COW))
    given = options(
        clean_commits_retained="2",
        keep_min_commits="4",
        keep_max_commits="6",
        archive_automatic="false",
    )
    for n in range(12):
        write(table, given, n)
    assert len(table.state.timeline.writes()) == 12


def test_cleans_wait_for_as_many_commits_as_they_are_told() -> None:
    table = Busy(new_storage(9, COW))
    for n in range(12):
        write(table, options(clean_commits_retained="2", clean_max_commits="4"), n)
    assert count(table, Action.CLEAN) == 3
    table = Busy(new_storage(9, COW))
    for n in range(12):
        write(table, options(clean_commits_retained="2", clean_automatic="false"), n)
    assert count(table, Action.CLEAN) == 0


def test_a_clean_that_fails_does_not_take_the_write_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = Busy(new_storage(9, COW))
    given = options(clean_commits_retained="1")
    for n in range(3):
        write(table, given, n)
    before = table.state.timeline
    table.write({"a-0": "last"})
    broken = FaultyStorage(
        table.storage,
        lambda _number, name, path: (
            Fault.ERROR if name == "delete" and path.endswith(".parquet") else None
        ),
    )
    with caplog.at_level(logging.WARNING):
        after_write(environment(broken), before, given)
    assert "the write has committed, but the clean after it failed" in caplog.text
    assert table.rows() == {"a-0": "last"}
    assert [i.action for i in table.state.timeline.pending] == [Action.CLEAN]
    write(table, given, 9)
    assert table.state.timeline.pending == ()
