"""A log that a task left after its write was rolled back does not hold compactions up."""

from __future__ import annotations

import pytest

from tests.unit.services.busy_table import PARTITION, busy, options
from tests.unit.txn.toy_table import environment
from tidelake.config import CleanOptions, CompactionOptions
from tidelake.errors import UnsupportedTableError
from tidelake.model import Action, TableType
from tidelake.services.archive import archive
from tidelake.services.clean import clean
from tidelake.services.compaction import plan_compaction
from tidelake.services.rollback import roll_back_all_failed

SMALL = options(
    clean_commits_retained="1",
    keep_min_commits="2",
    keep_max_commits="3",
    compact_inline_max_delta_commits="1",
)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("table_version", [8, 9])
def test_a_log_of_a_write_that_was_rolled_back_is_passed_over(
    table_version: int, known: bool
) -> None:
    table = busy(table_version, TableType.MERGE_ON_READ, 2)
    txn = table.toy.begin()
    txn.start()
    stat = table.toy.task(txn, "a-0", "zombie", table.toy.slices()["a-0"], "0-1-0")
    assert stat.path is not None
    left = table.storage.read(stat.path)
    roll_back_all_failed(environment(table.storage))
    for n in range(5):
        table.write({"a-0": f"later{n}"})
        table.compact()
    clean(environment(table.storage), CleanOptions(commits=1))
    done = archive(environment(table.storage), SMALL)
    assert done is not None
    assert Action.ROLLBACK in {i.action for i in done.instants}
    table.write({"a-0": "newest"})
    rows = table.rows()
    path = stat.path if known else stat.path.replace(txn.instant_time, "20261115000000001")
    table.storage.put(path, left)
    now = table.now
    at = now.times.next()

    def plan() -> object:
        return plan_compaction(
            now.state.view,
            now.state.contents,
            CompactionOptions(),
            table_version=table_version,
            requested_time=at,
        )

    if known:
        assert plan() is not None
        assert path.startswith(PARTITION)
        assert table.rows() == rows
    else:
        with pytest.raises(UnsupportedTableError, match="neither on the timeline nor in"):
            plan()
