"""Restores of a table with a metadata table: it lists what is left, and goes on being kept."""

from __future__ import annotations

import copy

import pytest

from tests.unit.metadata.test_crashes import Indexed, holds
from tests.unit.metadata.test_keeper import FIRST, SECOND, THIRD, agrees, keeping, metadata
from tests.unit.services.busy_table import crash_everywhere
from tests.unit.txn.toy_table import KINDS, Toy, environment, new_storage
from tidelake.metadata.names import FILES, RECORD_INDEX
from tidelake.metadata.own_table import OwnTable
from tidelake.model import Action, TableType
from tidelake.services.restore import restore
from tidelake.services.savepoint import savepoint
from tidelake.storage import MemoryStorage, Storage
from tidelake.timeline import load_table_config

each_kind = pytest.mark.parametrize(("table_version", "table_type"), KINDS)


def toy(storage: Storage, compact_after: int) -> Toy:
    return Toy(storage, keeping(enabled=True, compact_after=compact_after))


def saved(
    table_version: int, table_type: TableType, *, compact_after: int
) -> tuple[MemoryStorage, str]:
    """Return a table that went on after a savepoint, and the savepoint's time."""
    storage = new_storage(table_version, table_type)
    for rows in (FIRST, SECOND):
        toy(storage, compact_after).write(rows)
    time = savepoint(environment(storage)).instant
    for rows in (THIRD, {"e-0": "e"}, {"a-0": "a5"}):
        toy(storage, compact_after).write(rows)
    return storage, time


def taken_back(storage: Storage, time: str) -> None:
    env = environment(storage)
    restore(env, time, keeping()(env))


@pytest.mark.parametrize("compact_after", [2, 100])
@each_kind
def test_the_list_of_files_is_that_of_the_savepoint(
    table_version: int, table_type: TableType, compact_after: int
) -> None:
    storage, time = saved(table_version, table_type, compact_after=compact_after)
    taken_back(storage, time)
    assert Toy(storage).rows() == {**FIRST, **SECOND}
    assert load_table_config(storage).metadata_partitions == {FILES}
    agrees(storage)
    own = OwnTable.load(storage)
    assert own is not None
    assert any(i.action is Action.COMMIT for i in own.timeline.completed) == (compact_after == 2)
    for rows in (THIRD, {"e-0": "again"}):
        toy(storage, 2).write(rows)
        agrees(storage)
    assert Toy(storage).rows() == {**FIRST, **SECOND, **THIRD, "e-0": "again"}


@pytest.mark.parametrize("table_type", TableType)
def test_statistics_and_keys_stay_as_long_as_they_can_be_told_apart(table_type: TableType) -> None:
    storage = new_storage(9, table_type)
    Indexed(storage).write(FIRST)
    time = savepoint(environment(storage)).instant
    Indexed(storage).write(SECOND)
    compacted = copy.deepcopy(storage)
    taken_back(storage, time)
    holds(storage)
    for rows in (THIRD, {"e-0": "e"}, {"f-0": "f"}):
        Indexed(compacted).write(rows)
    taken_back(compacted, time)
    agrees(compacted)
    assert Toy(compacted).rows() == FIRST
    assert load_table_config(compacted).metadata_partitions == {FILES}
    assert metadata(compacted).record_index_lookup(FIRST) is None
    assert RECORD_INDEX not in load_table_config(compacted).metadata_partitions


@pytest.mark.sampled(1)
@pytest.mark.parametrize("compact_after", [2, 100])
@pytest.mark.parametrize("kind", [(6, TableType.MERGE_ON_READ), (9, TableType.COPY_ON_WRITE)])
def test_a_crash_at_any_call_leaves_what_readers_find_true(
    kind: tuple[int, TableType], compact_after: int
) -> None:
    before, time = saved(*kind, compact_after=compact_after)

    def check(left: MemoryStorage) -> None:
        assert Toy(left).rows(metadata(left)) == Toy(left).rows()
        taken_back(left, time)
        assert Toy(left).rows() == {**FIRST, **SECOND}
        agrees(left)
        assert not Toy(left).timeline.pending

    assert crash_everywhere(before, lambda storage: taken_back(storage, time), check) > 20
