"""Ends of windows as people give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.lake import BUCKETS, Lake, row
from tidelake.model import TableType

SMALL = {
    **BUCKETS,
    "hoodie.clean.automatic": "false",
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.compact.inline.max.delta.commits": "1",
}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", TableType)
def test_a_commit_time_that_was_pasted_means_that_commit(
    tmp_path: Path, version: int, kind: TableType
) -> None:
    """From version 8 on windows go by completion time, and `_hoodie_commit_time` is earlier."""
    lake = Lake(tmp_path, kind, version, BUCKETS)
    commits = [lake.write([row(key, 1)]) for key in "abc"]
    times = [commit.requested_time for commit in commits]
    ends = [commit.completion_time if version >= 8 else commit.requested_time for commit in commits]
    assert set(lake.incremental("0", times[1])) == {"a", "b"}
    assert set(lake.incremental(ends[0], times[1])) == {"b"}
    assert set(lake.incremental(ends[0], ends[1])) == {"b"}
    # Windows side by side bring each row once, whichever times they are made of.
    for start in (times[0], ends[0]):
        assert set(lake.incremental(start, times[1])) == {"b"}
        assert set(lake.incremental(start)) == {"b", "c"}
    assert lake.incremental(times[1], ends[1]) == {}


@pytest.mark.parametrize("version", [8, 9])
def test_a_commit_time_that_is_archived_means_that_commit_too(tmp_path: Path, version: int) -> None:
    lake = Lake(tmp_path, TableType.COPY_ON_WRITE, version, SMALL)
    commits = [lake.write([row(f"k{number}", 1, p=f"p{number}")]) for number in range(6)]
    lake.table_services().archive()
    second = commits[1].requested_time
    assert second in lake.state().history.completion_times()
    assert set(lake.incremental("0", second)) == {"k0", "k1"}
    assert set(lake.incremental(second)) == {"k2", "k3", "k4", "k5"}
