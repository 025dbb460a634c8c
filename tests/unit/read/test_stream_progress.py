from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.harness import load, unpack
from tests.scenarios.lake import COW, Lake, by_key, row
from tidelake.errors import IncrementalRangeError
from tidelake.operations.open_table import open_state
from tidelake.read.incremental import plan_incremental
from tidelake.read.stream_progress import Limits, latest_time, next_end
from tidelake.state.table_state import TableState


def state(name: str, folder: Path) -> TableState:
    return open_state(str(unpack(load(name), folder)))


def completions(table: TableState) -> list[str]:
    return [i.completion_time or "" for i in table.writes_by_time()]


def test_without_limits_a_window_reaches_the_newest_commit(tmp_path: Path) -> None:
    table = state("mor_avro_v9_txns_complex_meta", tmp_path)
    newest = max(completions(table))
    assert latest_time(table) == newest
    assert next_end(table, None, Limits()) == newest
    assert next_end(table, newest, Limits()) is None


@pytest.mark.parametrize("limits", [Limits(files=1), Limits(size_bytes=1)])
def test_limits_give_a_commit_at_a_time(tmp_path: Path, limits: Limits) -> None:
    table = state("mor_avro_v9_txns_complex_meta", tmp_path)
    seen = []
    at = None
    while (end := next_end(table, at, limits)) is not None:
        seen.append(end)
        at = end
    assert seen == completions(table)


def test_a_limit_that_is_not_reached_takes_several_commits(tmp_path: Path) -> None:
    table = state("mor_avro_v9_txns_complex_meta", tmp_path)
    assert next_end(table, None, Limits(files=1000)) == latest_time(table)


def test_commits_that_were_archived_unread_are_reported(tmp_path: Path) -> None:
    table = state("v9_cow_archived_lsm", tmp_path)
    with pytest.raises(IncrementalRangeError, match="archived before they were read"):
        next_end(table, "20000101000000000", Limits())


def test_a_window_ends_where_cleans_left_something_to_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW)
    for number in range(5):
        lake.write([row("a", number)])
    lake.table_services({"hoodie.clean.commits.retained": "1"}).clean()
    table = lake.state()
    for start in (None, completions(table)[0]):
        end = next_end(table, start, Limits(files=1))
        found = by_key(table, plan_incremental(table, start=start, end=end))
        assert found["a"]["v"] == 4


def test_version_6_goes_by_requested_times(tmp_path: Path) -> None:
    table = state("v6_mor_avro", tmp_path)
    writes = [i.requested_time for i in table.timeline.writes()]
    assert latest_time(table) == writes[-1]
    assert next_end(table, writes[0], Limits(files=1)) == writes[1]
