"""What a clean has begun to delete is behind the horizon before the clean completes."""

from __future__ import annotations

import pytest

from tests.unit.services.busy_table import Busy, busy, crash_everywhere
from tidelake.config import CleanOptions, ReadOptions
from tidelake.model import Action, State, TableType
from tidelake.services.clean import run_clean, schedule_clean
from tidelake.state.table_state import TableState
from tidelake.storage import MemoryStorage, Storage


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_clean_moves_the_horizon_when_it_begins(table_version: int) -> None:
    table = busy(table_version, TableType.COPY_ON_WRITE, 5)
    kept = table.state.timeline.writes()[-2].requested_time
    planned = schedule_clean(table.now, CleanOptions(commits=2))
    assert planned is not None
    files = len(list(table.toy.data_files()))
    deleting = 0

    def check(left: MemoryStorage) -> None:
        nonlocal deleting
        state = TableState.load(left, ReadOptions())
        found = Busy(left)
        cleans = [i.state for i in state.timeline.instants if i.action is Action.CLEAN]
        assert state.earliest_retained == (None if cleans == [State.REQUESTED] else kept)
        if len(list(found.toy.data_files())) < files:
            deleting += cleans == [State.INFLIGHT]
            assert state.earliest_retained == kept

    def act(storage: Storage) -> None:
        run_clean(Busy(storage).now, planned)  # type: ignore[arg-type]

    crash_everywhere(table.storage, act, check)
    assert deleting
