"""Readers of a table whose savepoint was deleted after archival had gone on behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.local_table import LocalTable
from tests.unit.metadata.test_statistics import made, write
from tests.unit.read.test_saved_past import PLAIN, each_kind, rows
from tests.unit.services.busy_table import options
from tidelake.env import Env
from tidelake.model import TableType
from tidelake.operations.open_table import open_state
from tidelake.services.archive import archive
from tidelake.services.savepoint import delete_savepoint, savepoint
from tidelake.storage import LocalStorage

BEYOND = options(
    clean_policy="KEEP_LATEST_FILE_VERSIONS",
    keep_min_commits="3",
    keep_max_commits="4",
    archive_beyond_savepoint="true",
)
each_listing = pytest.mark.parametrize("listed", [{}, PLAIN], ids=["metadata", "storage"])


def between(root: str, start: str, end: str | None = None) -> list[str]:
    return sorted(LocalTable(root, {}).incremental(start=start, end=end).collect())


def saved_early(root: str, given: dict[str, str]) -> list[str]:
    """Return the writes of a table whose first is saved, and whose next ones are archived."""
    for ts in range(1, 10):
        # Keys 4 and 5 are never written again once the commits that changed them are archived.
        write(root, range(8) if ts == 1 else [4, 5] if ts == 3 else [0, 1, 10 + ts], ts, **given)
        if ts == 1:
            savepoint(Env(LocalStorage(root)))
    writes = [i.requested_time for i in open_state(root).timeline.writes()]
    done = archive(Env(LocalStorage(root)), BEYOND)
    assert done is not None
    assert next(i.requested_time for i in done.instants if i.requested_time in writes) == writes[1]
    assert open_state(root).timeline.writes()[0].requested_time == writes[0]
    return writes


@pytest.mark.sampled(4)
@each_kind
@each_listing
def test_every_reader_answers_as_before(
    tmp_path: Path, version: int, table_type: TableType, listed: dict[str, str]
) -> None:
    root = made(tmp_path / "t", version, table_type)
    writes = saved_early(root, listed)
    asked = [writes[0], writes[2], writes[-1]]

    def answers() -> list[list[str]]:
        return [
            rows(root),
            *(rows(root, time) for time in asked),
            *(between(root, time) for time in asked),
            between(root, writes[0], writes[-2]),
            between(root, "000"),
        ]

    before = answers()
    assert any("note 4 of 3" in row for row in before[0])
    delete_savepoint(Env(LocalStorage(root)), writes[0])
    assert answers() == before
    write(root, [4, 30], 20, **listed)
    after = rows(root)
    assert sum("note 4 of 20" in row for row in after) == 1
    assert len(after) == len(before[0]) + 1
    assert sorted(r for r in after if "of 20" not in r) == [
        r for r in before[0] if "note 4 of" not in r
    ]
