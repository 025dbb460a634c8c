"""What cleans and archival ask of storage: as much as has changed, however long the past is."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest

from tests.unit.services.busy_table import Busy, options
from tests.unit.txn.toy_table import environment, new_storage
from tidelake.env import Env
from tidelake.model import TableType
from tidelake.services.archive import archive
from tidelake.services.archive_plan import plan_archive
from tidelake.services.clean import clean
from tidelake.services.clean_plan import plan_clean
from tidelake.services.service_context import ServiceContext
from tidelake.testing.faults import FaultyStorage

SERVICES = options(clean_commits_retained="10", keep_min_commits="20", keep_max_commits="30")
#: Writes between two runs of the services.
ROUND = 10
each_kind = pytest.mark.parametrize(
    ("table_version", "table_type"),
    [(6, TableType.COPY_ON_WRITE), *((9, table_type) for table_type in TableType)],
)


def go_on(table: Busy, rounds: int = 1) -> None:
    """Write to file groups that come up again and again, as updates do."""
    for n in range(rounds * ROUND):
        table.write({"a-0": f"a{n}", f"g{n % 7}-0": f"g{n}"})
        if table.state.config.table_type is TableType.MERGE_ON_READ and n % 5 == 4:
            table.compact()


def calls(table: Busy, act: Callable[[Env], object]) -> int:
    storage = FaultyStorage(table.storage)
    act(environment(storage))
    return len(storage.calls)


def cleaned(env: Env) -> None:
    assert sum(done.files_deleted for done in clean(env, SERVICES.clean)) > 0


def archived(env: Env) -> None:
    assert archive(env, SERVICES) is not None


@each_kind
def test_a_clean_costs_the_same_after_many_commits(
    table_version: int, table_type: TableType
) -> None:
    table = Busy(new_storage(table_version, table_type))
    go_on(table, 3)
    clean(environment(table.storage), SERVICES.clean)
    go_on(table)
    early = calls(table, cleaned)
    for _ in range(7):
        go_on(table)
        clean(environment(table.storage), SERVICES.clean)
    go_on(table)
    assert len(table.state.timeline.writes()) > 100
    assert calls(table, cleaned) == early
    # Nothing has changed since: the timeline is listed, and the last clean read.
    assert calls(table, lambda env: plan_clean(ServiceContext.load(env), SERVICES.clean)) <= 4
    assert calls(table, lambda env: plan_archive(ServiceContext.load(env), SERVICES)) <= 5


@each_kind
def test_archival_costs_the_same_after_a_long_history(
    table_version: int, table_type: TableType
) -> None:
    table = Busy(new_storage(table_version, table_type))
    costs = []
    for _ in range(14):
        go_on(table, 2)
        clean(environment(table.storage), SERVICES.clean)
        if len(table.state.timeline.writes()) > 35:
            costs.append(calls(table, archived))
    assert len(table.state.history.instants()) > 220
    # Now and then files of the history are merged, which adds a few calls.
    assert min(costs[-5:]) <= min(costs[3:8])
    assert max(costs) <= 1.3 * median(costs)
