"""When a write tells the metadata table what."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest

from tests.unit.txn.toy_table import KINDS, PARTITION, SCHEMA, Toy, new_storage
from tidelake.config import TableConfig
from tidelake.formats.commit_metadata import WriteStat
from tidelake.model import State, TableType
from tidelake.model.index_target import IndexTarget
from tidelake.storage import MemoryStorage
from tidelake.timeline import Timeline, load_timeline
from tidelake.txn import FileChanges, InstantTimes, Transaction, begin, changes_of

each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


class Watching:
    """A keeper that notes what it is told, and what the table looks like at that moment."""

    def __init__(self, toy: Toy, *, forgets: bool = True) -> None:
        self._toy = toy
        self._forgets = forgets
        self.told: list[tuple[str, str, State | None]] = []
        self.changes: list[FileChanges] = []
        self.files: list[list[str]] = []

    def prepare(
        self,
        config: TableConfig,
        timeline: Timeline,
        times: InstantTimes,
        *,
        is_fresh: bool = False,
    ) -> TableConfig:
        assert not is_fresh
        self._note("prepare", times.next())
        assert timeline is self._toy.timeline
        return config

    def bounded_columns(self, config: TableConfig) -> Sequence[str]:
        return [config.name]

    def begin_index_logs(self, config: TableConfig, instant_time: str) -> IndexTarget | None:
        assert config.name < instant_time + config.name
        return None

    def record(self, instant_time: str, changes: FileChanges, times: InstantTimes) -> bool:
        self._note("record", instant_time)
        self.changes.append(changes)
        assert times.next() > instant_time
        return False

    def undo(self, instant_time: str, times: InstantTimes) -> bool:
        self._note("undo", instant_time)
        assert times.next() > instant_time
        return self._forgets

    def reconcile(self, instant_time: str, times: InstantTimes) -> None:
        self._note("reconcile", instant_time)
        assert times.next() > instant_time

    def _note(self, what: str, instant_time: str) -> None:
        now = load_timeline(self._toy.storage, self._toy.config)
        states = {i.requested_time: i.state for i in now.instants}
        self.told.append((what, instant_time, states.get(instant_time)))
        self.files.append(list(self._toy.data_files()))


def start(toy: Toy, keeper: Watching) -> Transaction:
    return begin(
        toy.env,
        toy.config,
        toy.timeline,
        action=toy.write_action,
        operation="UPSERT",
        keeper=keeper,
    )


def failed_write(table_version: int, table_type: TableType) -> tuple[MemoryStorage, str]:
    """Return a table with one file group and a write to it that ended before it completed."""
    storage = new_storage(table_version, table_type)
    Toy(storage).write({"a-0": "a1"})
    toy = Toy(storage)
    txn = toy.begin()
    txn.start()
    toy.task(txn, "a-0", "a2", toy.slices()["a-0"], "0-1-1")
    return storage, txn.instant_time


@each_kind
def test_files_are_recorded_while_their_instant_is_still_inflight(
    table_version: int, table_type: TableType
) -> None:
    toy = Toy(new_storage(table_version, table_type))
    keeper = Watching(toy)
    txn = start(toy, keeper)
    txn.start()
    stat = toy.task(txn, "a-0", "a1", None, "0-1-1")
    txn.commit([stat], schema=SCHEMA)

    assert keeper.told[0][::2] == ("prepare", None)
    assert keeper.told[1:] == [("record", txn.instant_time, State.INFLIGHT)]
    assert keeper.files[-1] == [stat.path]
    written = {PARTITION: {(stat.path or "")[4:]: 2}}
    assert keeper.changes == [FileChanges(written=written, begun=frozenset({PARTITION}))]


@each_kind
@pytest.mark.parametrize("forgets", [True, False])
def test_a_failed_instant_is_forgotten_before_its_files_go(
    table_version: int, table_type: TableType, forgets: bool
) -> None:
    storage, failed = failed_write(table_version, table_type)
    before = list(Toy(copy.deepcopy(storage)).data_files())
    toy = Toy(storage)
    keeper = Watching(toy, forgets=forgets)
    start(toy, keeper)

    assert keeper.told[1] == ("undo", failed, State.INFLIGHT)
    assert keeper.files[1] == before
    left = set(toy.data_files())
    if table_version < 8 and table_type is TableType.MERGE_ON_READ:
        (command,) = left - set(before)
        (failed_log,) = (path for path in before if ".log." in path)
        logs = {p.rpartition("/")[2]: len(storage.read(p)) for p in (command, failed_log)}
        wanted = [FileChanges(written={PARTITION: logs})]
    else:
        (gone,) = set(before) - left
        deleted = {PARTITION: [gone.rpartition("/")[2]]}
        wanted = [] if forgets else [FileChanges(deleted=deleted)]
    assert keeper.changes == wanted
    if wanted:
        assert keeper.told[2][0] == "record"
        assert keeper.told[2][2] is State.INFLIGHT


def test_change_logs_are_files_of_a_write_too() -> None:
    stat = WriteStat(file_id="a-0", path=None, cdc_stats={"p=1/.a.cdc": 7})
    made = changes_of([stat], {"p": ["b"]})
    begun = frozenset({"p=1"})
    assert made == FileChanges(written={"p=1": {".a.cdc": 7}}, replaced={"p": ["b"]}, begun=begun)
