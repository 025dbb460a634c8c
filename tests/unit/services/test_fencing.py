"""Services that undo or keep commits: whoever has lost the lock changes the timeline no more."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.unit.services.busy_table import KINDS, Busy, busy
from tests.unit.txn.toy_table import environment
from tidelake.config import (
    ArchiveOptions,
    CleanOptions,
    CleanPolicy,
    CompactionOptions,
    ConcurrencyMode,
    ServiceOptions,
)
from tidelake.errors import ConfigError, LockLostError
from tidelake.model import TableType
from tidelake.services import rollback
from tidelake.services.archive import archive
from tidelake.services.restore import restore
from tidelake.services.rollback import roll_back
from tidelake.services.savepoint import delete_savepoint, savepoint
from tidelake.storage import Storage
from tidelake.testing import FaultyStorage, ManualClock
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.locks import Holder, TableLock

Act = Callable[[Storage, str, Concurrency], object]

ALL_BUT_ONE = ServiceOptions(
    clean=CleanOptions(policy=CleanPolicy.FILE_VERSIONS),
    archive=ArchiveOptions(min_commits=1, max_commits=1),
    compaction=CompactionOptions(max_delta_commits=1),
)
ACTS: dict[str, Act] = {
    "savepoint": lambda s, time, shared: savepoint(environment(s), time, concurrency=shared),
    "delete savepoint": lambda s, time, shared: delete_savepoint(
        environment(s), time, concurrency=shared
    ),
    "restore": lambda s, time, shared: restore(environment(s), time, concurrency=shared),
    "rollback": lambda s, time, shared: roll_back(environment(s), time, concurrency=shared),
}


class Lease:
    """A lock that is lost after so many calls to the storage."""

    place = "somewhere"

    def __init__(self, storage: FaultyStorage, calls: int | None = None) -> None:
        self._storage = storage
        self._calls = calls
        self.asked = 0

    def try_acquire(self) -> bool:
        return True

    def still_held(self, margin_ms: int) -> bool:  # noqa: ARG002
        self.asked += 1
        return self._calls is None or len(self._storage.calls) < self._calls

    def lasts(self, margin_ms: int) -> bool:
        return self.still_held(margin_ms)

    def release(self) -> None:
        pass

    def give_back(self) -> bool:
        return self.still_held(0)

    def lose(self) -> None:
        self._calls = 0

    def holder(self) -> Holder | None:
        return None

    def break_lock(self) -> Holder | None:
        return None


def sharing(lease: Lease) -> Concurrency:
    return Concurrency(
        mode=ConcurrencyMode.OPTIMISTIC, lock=TableLock(lease, ManualClock()), writer="w"
    )


def made_for(name: str, table_version: int, table_type: TableType) -> tuple[Busy, str]:
    table = busy(table_version, table_type, 3)
    time = table.state.timeline.writes()[-1].requested_time
    if name in ("restore", "delete savepoint"):
        savepoint(environment(table.storage), time)
    if name == "restore":
        for text in ("x", "y"):
            table.write({"a-0": text})
    if name == "rollback":
        time = table.write({"a-0": "newest"})
    return table, time


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize(("table_version", "table_type"), KINDS)
def test_a_service_that_lost_the_lock_changes_nothing_more(
    name: str, table_version: int, table_type: TableType
) -> None:
    table, time = made_for(name, table_version, table_type)
    counting = FaultyStorage(copy.deepcopy(table.storage))
    ACTS[name](counting, time, sharing(Lease(counting)))
    lost = 0
    for number in range(len(counting.calls)):
        storage = FaultyStorage(copy.deepcopy(table.storage))
        lease = Lease(storage, number)
        try:
            ACTS[name](storage, time, sharing(lease))
        except LockLostError:
            lost += 1
        # Between a look at the lock and the file that follows nobody can look once more.
        changed = [call for call in storage.calls[number:] if _changes_timeline(*call)]
        assert len(changed) <= 1, (number, changed)
        if number == 0:
            assert not changed
    assert lost > len(counting.calls) / 2


def _changes_timeline(call: str, path: str) -> bool:
    """Return whether the call changes what others see; the rest of a pending instant is not."""
    if not path.startswith((".hoodie/timeline/", ".hoodie/2")):
        return False
    return call.startswith("put") or (
        call == "delete" and not path.endswith((".inflight", ".requested"))
    )


@pytest.mark.parametrize(("table_version", "table_type"), KINDS)
def test_what_others_archived_is_not_told_as_rolled_back(
    table_version: int, table_type: TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock was lost, and the write left the timeline: but nobody has taken it back."""
    table, time = made_for("rollback", table_version, table_type)
    storage = FaultyStorage(table.storage)
    lease = Lease(storage)

    def overtaken(*_: object, **__: object) -> list[str]:
        for text in ("newer", "newest"):
            table.write({"a-0": text})
            if table_type is TableType.MERGE_ON_READ:
                table.compact()
        assert archive(environment(table.storage), ALL_BUT_ONE) is not None
        lease.lose()
        return []

    monkeypatch.setattr(rollback, "roll_back_all_failed", overtaken)
    with pytest.raises(LockLostError):
        roll_back(environment(storage), time, concurrency=sharing(lease))
    assert time in table.state.history.completion_times()


@pytest.mark.parametrize(("table_version", "table_type"), KINDS)
def test_what_others_archived_is_not_told_as_rolled_back_by_one_without_a_lock(
    table_version: int, table_type: TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, time = made_for("rollback", table_version, table_type)

    def overtaken(*_: object, **__: object) -> list[str]:
        for text in ("newer", "newest"):
            table.write({"a-0": text})
            if table_type is TableType.MERGE_ON_READ:
                table.compact()
        assert archive(environment(table.storage), ALL_BUT_ONE) is not None
        return []

    monkeypatch.setattr(rollback, "roll_back_all_failed", overtaken)
    with pytest.raises(ConfigError, match="is archived"):
        roll_back(environment(table.storage), time)
