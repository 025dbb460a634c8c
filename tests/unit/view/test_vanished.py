"""A slice that was cleaned away after the timeline was loaded is never an empty file group."""

from __future__ import annotations

import pytest

from tests.unit.services.busy_table import KINDS, PARTITION, Busy, busy, options
from tests.unit.txn.toy_table import environment, new_storage
from tidelake.config import CleanOptions, CleanPolicy
from tidelake.errors import SnapshotLostError
from tidelake.model import Commit, TableType
from tidelake.services.archive import archive
from tidelake.services.clean import clean
from tidelake.services.rollback import roll_back
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.timeline import Timeline, load_timeline
from tidelake.txn.protocol.retry import retry_on_conflict
from tidelake.view import TableView
from tidelake.write.groups import live_groups

each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)
COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
TWO = CleanOptions(commits=2)
ONE_VERSION = CleanOptions(policy=CleanPolicy.FILE_VERSIONS, file_versions=1)
ARCHIVING = options(clean_commits_retained="2", keep_min_commits="3", keep_max_commits="4")


def looked_up(state: TableState) -> list[str]:
    return [group.id.file_id for group in live_groups(state.view, state.config, [PARTITION])]


def written_on(table: Busy, rounds: int = 13) -> None:
    for n in range(rounds):
        table.write({"a-0": f"later {n}"})
        if table.state.config.table_type is MOR:
            table.compact()


@each_kind
def test_a_slice_that_was_cleaned_before_the_files_were_listed_is_not_absent(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 2)
    slow = table.state
    assert "a-0" in looked_up(table.state)
    written_on(table)
    clean(environment(table.storage), TWO)
    with pytest.raises(SnapshotLostError, match="deleted"):
        looked_up(slow)
    with pytest.raises(SnapshotLostError):
        slow.view.latest_slices()
    assert "a-0" in looked_up(table.state)


@each_kind
def test_nor_when_all_that_it_knew_was_archived(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type, 2)
    slow = table.state
    for _ in range(3):
        written_on(table, 5)
        clean(environment(table.storage), ARCHIVING.clean)
        archive(environment(table.storage), ARCHIVING)
    with pytest.raises(SnapshotLostError):
        looked_up(slow)


@each_kind
def test_nor_when_a_clean_by_versions_took_it(table_version: int, table_type: TableType) -> None:
    table = busy(table_version, table_type, 2)
    slow = table.state
    written_on(table, 1)
    clean(environment(table.storage), ONE_VERSION)
    with pytest.raises(SnapshotLostError):
        looked_up(slow)


@each_kind
def test_nor_when_an_overwrite_put_others_in_its_place(
    table_version: int, table_type: TableType
) -> None:
    table = busy(table_version, table_type, 2)
    slow = table.state
    table.write({"b-0": "new"}, overwrite=True)
    for n in range(4):
        table.write({"b-0": f"newer {n}"})
    assert clean(environment(table.storage), TWO)
    with pytest.raises(SnapshotLostError):
        looked_up(slow)


def test_nor_when_its_commit_was_undone_and_another_came() -> None:
    table = busy(9, COW, 2)
    slow = table.state
    newest = slow.timeline.writes()[-1].requested_time
    roll_back(environment(table.storage), newest)
    table.write({"a-0": "other"})
    with pytest.raises(SnapshotLostError, match=newest):
        looked_up(slow)


@each_kind
def test_a_snapshot_whose_files_are_all_there_is_read_as_it_was(
    table_version: int, table_type: TableType
) -> None:
    """A clean that deletes what the snapshot does not need disturbs nobody."""
    table = busy(table_version, table_type, 6)
    slow = table.state
    found = [s.group for s in slow.view.latest_slices()]
    again = ServiceContext.load(environment(table.storage))
    table.write({"a-0": "later", "new-0": "new"})
    assert clean(environment(table.storage), TWO)
    assert [s.group for s in again.state.view.latest_slices()] == found
    assert looked_up(again.state) == sorted(g.file_id for g in found)


def test_the_timeline_is_loaded_again_only_when_the_listing_is_ahead_of_it() -> None:
    table = busy(9, COW, 3)
    now = table.now
    loaded: list[Timeline] = []

    def load() -> Timeline:
        loaded.append(load_timeline(table.storage, now.state.config))
        return loaded[-1]

    def listed() -> None:
        TableView(
            table_version=9,
            timeline=now.state.timeline,
            contents=now.state.contents,
            listing=now.state.listing(),
            history_times=now.state.history.completion_times,
            timeline_now=load,
        ).latest_slices()

    listed()
    assert not loaded
    table.write({"a-0": "later"})
    listed()
    assert len(loaded) == 1


def test_a_write_that_lost_its_snapshot_starts_anew_by_itself() -> None:
    table = busy(9, COW, 2)
    attempts: list[ServiceContext] = []

    def write() -> Commit:
        now = table.now
        attempts.append(now)
        if len(attempts) == 1:
            written_on(table, 4)
            clean(environment(table.storage), TWO)
        assert "a-0" in looked_up(now.state)
        return table.toy.write({"a-0": "mine"})

    commit = retry_on_conflict(environment(table.storage), 0, write)
    assert commit.attempts == 2
    assert table.rows()["a-0"] == "mine"


def test_and_gives_up_after_a_few_times() -> None:
    tried: list[int] = []

    def write() -> Commit:
        tried.append(1)
        raise SnapshotLostError("a file is gone")

    with pytest.raises(SnapshotLostError):
        retry_on_conflict(environment(new_storage(9, COW)), 0, write)
    assert len(tried) == 3
