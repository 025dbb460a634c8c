"""Taking back a write that completed: the metadata table forgets it, or that its files exist."""

from __future__ import annotations

import pytest

from tests.unit.metadata.test_crashes import Indexed
from tests.unit.metadata.test_keeper import (
    FIRST,
    SECOND,
    agrees,
    created,
    each_kind,
    keeping,
    metadata,
    toy,
)
from tests.unit.txn.toy_table import PARTITION, Toy, new_storage
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.upkeep import compact
from tidelake.model import TableType
from tidelake.services.rollback import roll_back
from tidelake.storage import MemoryStorage
from tidelake.timeline import load_table_config
from tidelake.txn import InstantTimes


def take_back(storage: MemoryStorage) -> str:
    """Roll the newest write back, and return its time."""
    now = Toy(storage)
    newest = now.timeline.writes()[-1].requested_time
    roll_back(now.env, newest, keeping()(now.env))
    return newest


@each_kind
def test_the_newest_write_is_forgotten(table_version: int, table_type: TableType) -> None:
    storage = created(table_version, table_type)
    toy(storage).write(SECOND)
    undone = take_back(storage)
    assert Toy(storage).rows() == FIRST
    agrees(storage)
    own = OwnTable.load(storage)
    assert own is not None
    assert not own.has(undone)
    toy(storage).write(SECOND)
    agrees(storage)


@each_kind
def test_files_of_a_write_from_before_the_metadata_table_are_said_to_be_gone(
    table_version: int, table_type: TableType
) -> None:
    storage = new_storage(table_version, table_type)
    Toy(storage).write(FIRST)
    Toy(storage).write(SECOND)
    now = toy(storage, enabled=True)
    assert now.keeper is not None
    txn = now.begin()
    txn.abort()
    assert load_table_config(storage).metadata_partitions == {"files"}
    take_back(storage)
    assert Toy(storage).rows() == FIRST
    agrees(storage)


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("table_type", TableType)
def test_keys_of_the_write_are_not_found_any_more(
    table_type: TableType, is_compacted: bool
) -> None:
    storage = new_storage(9, table_type)
    for group in ("a-0", "b-0", "z-0"):
        Indexed(storage).write({group: "text"})
    if is_compacted:
        now = Toy(storage)
        own = OwnTable.load(storage)
        assert own is not None
        times = InstantTimes(now.env.clock, now.config, own.timeline)
        compact(own, sorted(now.config.metadata_partitions), times.next(), times)
    take_back(storage)
    assert Toy(storage).rows() == {"a-0": "text", "b-0": "text"}
    agrees(storage)
    found = metadata(storage).record_index_lookup(["a-0", "b-0", "z-0"])
    # What went into a base file cannot be told apart from the rest, so the index is given up.
    kept = {"a-0": (PARTITION, "a-0"), "b-0": (PARTITION, "b-0")}
    assert found == (None if is_compacted else kept)
