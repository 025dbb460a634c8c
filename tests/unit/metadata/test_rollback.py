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
from tests.unit.services.busy_table import crash_everywhere
from tests.unit.txn.toy_table import PARTITION, Toy, environment, new_storage
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.upkeep import compact
from tidelake.model import TableType
from tidelake.operations.open_table import load_state
from tidelake.read.check import check_table
from tidelake.services.rollback import roll_back, roll_back_all_failed
from tidelake.storage import MemoryStorage, Storage
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


@each_kind
def test_files_that_others_wrote_to_its_slices_are_said_to_be_gone(
    table_version: int, table_type: TableType
) -> None:
    """Up to version 7 a rollback adds logs with the time of the slice, and the list has them."""
    before = created(table_version, table_type, FIRST, {"z-0": "z"})
    failed = toy(before).begin()
    failed.start()
    Toy(before).task(failed, "z-0", "never", Toy(before).slices()["z-0"], "0-1-1")
    failed.heartbeat.end()
    env = environment(before)
    roll_back_all_failed(env, keeping()(env))
    newest = Toy(before).timeline.writes()[-1].requested_time

    def undo(storage: Storage) -> None:
        env = environment(storage)
        roll_back(env, newest, keeping()(env))

    def check(left: MemoryStorage) -> None:
        assert Toy(left).rows(metadata(left)) == Toy(left).rows()
        env = environment(left)
        roll_back_all_failed(env, keeping()(env))
        agrees(left)

    crash_everywhere(before, undo, check)
    undo(before)
    assert Toy(before).rows() == FIRST
    agrees(before)


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


@each_kind
def test_check_accuses_no_rollback_that_is_on_its_way(
    table_version: int, table_type: TableType
) -> None:
    """Up to version 7 it appends blocks, which the metadata table learns once it completes."""
    before = created(table_version, table_type)
    failed = toy(before).begin()
    failed.start()
    Toy(before).task(failed, "a-0", "never", Toy(before).slices()["a-0"], "0-1-1")
    failed.heartbeat.end()

    def undo(storage: Storage) -> None:
        env = environment(storage)
        roll_back_all_failed(env, keeping()(env))

    def check(left: MemoryStorage) -> None:
        state = load_state(left, {})
        at = (left, state.config, state.timeline)
        report = check_table(state, MetadataTable.open(*at), unknown_writes(*at))
        assert not [v for v in report.violations if "metadata table" in v.problem]

    crash_everywhere(before, undo, check)
