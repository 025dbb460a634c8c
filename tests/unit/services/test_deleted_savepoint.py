"""Archival that went on behind a saved commit, once its savepoint is deleted.

The commit is on the active timeline still, and what was archived behind it is not older than that.
"""

from __future__ import annotations

import copy

import pytest

from tests.unit.services.busy_table import KINDS, Busy, busy, crash_everywhere, options
from tests.unit.txn.toy_table import environment
from tidelake.errors import ConfigError
from tidelake.model import TableType
from tidelake.services.archive import archive
from tidelake.services.clean import clean
from tidelake.services.savepoint import delete_savepoint, savepoint
from tidelake.storage import MemoryStorage

SERVICES = {
    "clean_commits_retained": "2",
    "keep_min_commits": "4",
    "keep_max_commits": "6",
}
BEYOND = options(**SERVICES, archive_beyond_savepoint="true")
each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def saved_early(table_version: int, table_type: TableType) -> tuple[Busy, list[str]]:
    """Return a table whose first commit is saved while later ones are archived, and its writes."""
    table = busy(table_version, table_type, 0)
    writes = [table.write({"a-0": "a", "b-0": "b", "c-0": "c"})]
    savepoint(environment(table.storage), writes[0])
    for n in range(12):
        # `b-0` and the new ones are written by commits that get archived, and never again.
        changed = {"a-0": f"a{n}", f"g{n}-0": f"g{n}"} | ({"b-0": "b2"} if n == 2 else {})
        writes.append(table.write(changed))
        if table_type is TableType.MERGE_ON_READ and n == 8:
            table.compact()
        clean(environment(table.storage), BEYOND.clean)
    done = archive(environment(table.storage), BEYOND)
    assert done is not None
    assert writes[3] in {i.requested_time for i in done.instants}
    assert table.state.timeline.writes()[0].requested_time == writes[0]
    return table, writes


@each_kind
def test_no_row_goes_back_in_time(table_version: int, table_type: TableType) -> None:
    table, writes = saved_early(table_version, table_type)
    rows = table.toy.rows()
    assert rows["b-0"] == "b2"
    delete_savepoint(environment(table.storage), writes[0])
    assert table.toy.rows() == rows
    table.write({"b-0": "b3", "new-0": "new"})
    assert table.toy.rows() == {**rows, "b-0": "b3", "new-0": "new"}
    after = table.toy.rows()
    clean(environment(table.storage), BEYOND.clean)
    assert table.toy.rows() == after
    for n in range(8):
        table.write({f"later{n}-0": "x"})
    archive(environment(table.storage), BEYOND)
    assert table.toy.rows().items() >= after.items()


@pytest.mark.sampled(2)
@each_kind
def test_a_crash_at_any_call_of_the_archival_or_the_deletion(
    table_version: int, table_type: TableType
) -> None:
    table, writes = saved_early(table_version, table_type)
    rows = table.toy.rows()

    def check(left: MemoryStorage) -> None:
        assert Busy(left).toy.rows() == rows
        unsaved = copy.deepcopy(left)
        try:
            delete_savepoint(environment(unsaved), writes[0])
        except ConfigError:
            return
        assert Busy(unsaved).toy.rows() == rows

    for n in range(4):
        table.write({f"h{n}-0": "h"})
    rows = table.toy.rows()
    crash_everywhere(table.storage, lambda s: archive(environment(s), BEYOND), check)
    crash_everywhere(table.storage, lambda s: delete_savepoint(environment(s), writes[0]), check)
