"""What becomes of operations whose requests the storage loses, or carries out late."""

from __future__ import annotations

import pytest

from tests.unit.txn.toy_table import Toy, new_storage
from tests.unit.txn.toy_writer import Writer
from tidelake.formats.marker_name import heartbeat_path
from tidelake.model import Action, TableType
from tidelake.storage import MemoryStorage
from tidelake.testing import Fault, FaultyStorage, ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(clock: ManualClock) -> MemoryStorage:
    return new_storage(9, TableType.COPY_ON_WRITE, clock.now_ms)


def test_a_rollback_counts_although_its_heartbeat_stays(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    first = Writer(storage, clock, 1)
    txn = first.begin()
    stats = first.write(txn, "a-0", "a1")
    first.commit(txn, stats)

    def keeps_heartbeats(_number: int, name: str, path: str) -> Fault | None:
        is_heartbeat = path.startswith(heartbeat_path("")) and not path.endswith(".sealed")
        is_of_rollback = is_heartbeat and path != heartbeat_path(txn.instant_time)
        return Fault.ERROR if name == "delete" and is_of_rollback else None

    second = Writer(FaultyStorage(storage, keeps_heartbeats), clock, 2)
    txn = second.begin()
    second.write(txn, "b-0", "b1")
    txn.abort()
    toy = Toy(storage)
    assert [i.action for i in toy.timeline.completed] == [Action.COMMIT, Action.ROLLBACK]
    assert toy.rows() == {"a-0": "a1"}
