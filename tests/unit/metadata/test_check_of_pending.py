"""What `check` says of a table while files are being taken away, or after whoever did that died."""

from __future__ import annotations

import pytest

from tests.unit.metadata.test_keeper import (
    FIRST,
    SECOND,
    THIRD,
    agrees,
    created,
    each_kind,
    keeping,
    toy,
)
from tests.unit.services.busy_table import crash_everywhere
from tests.unit.txn.toy_table import Toy, environment
from tidelake.config import CleanOptions
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.model import Action, TableType
from tidelake.operations.open_table import load_state
from tidelake.read.check import check_table
from tidelake.read.check_report import CheckReport
from tidelake.services.clean import clean
from tidelake.services.restore import restore
from tidelake.services.rollback import roll_back, roll_back_all_failed
from tidelake.services.savepoint import savepoint
from tidelake.storage import MemoryStorage, Storage
from tidelake.txn.rollback.rollback import Rollback


def checked(storage: Storage) -> CheckReport:
    state = load_state(storage, {})
    at = (storage, state.config, state.timeline)
    return check_table(state, MetadataTable.open(*at), unknown_writes(*at))


def accused(storage: Storage) -> list[str]:
    found = checked(storage).violations
    return [f"{v.path}: {v.problem}" for v in found if "metadata table" in v.problem]


def cleaned(storage: Storage) -> None:
    env = environment(storage)
    clean(env, CleanOptions(commits=1), keeping()(env))


@each_kind
def test_a_clean_that_is_on_its_way_is_not_accused(
    table_version: int, table_type: TableType
) -> None:
    before = created(table_version, table_type)
    for rows in (FIRST, SECOND, THIRD, FIRST):
        toy(before).write(rows, overwrite=rows is SECOND)
    told: list[str] = []

    def check(left: MemoryStorage) -> None:
        assert accused(left) == []
        told.extend(note for note in checked(left).notes if "deleted by a clean" in note)
        cleaned(left)
        assert accused(left) == []
        agrees(left)

    assert crash_everywhere(before, cleaned, check) > 10
    assert told


def test_a_listed_file_that_no_clean_has_deleted_is_named() -> None:
    storage = created(9, TableType.COPY_ON_WRITE)
    for rows in (FIRST, SECOND, THIRD, FIRST):
        toy(storage).write(rows)
    lost = next(path for path in Toy(storage).data_files() if path.startswith("p=1/a-0"))
    storage.delete(lost)
    assert accused(storage) == [f"{lost}: is listed by the metadata table, but is not on storage"]


@each_kind
def test_a_rollback_behind_a_savepoint_is_not_accused(
    table_version: int, table_type: TableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies between a commit that a savepoint keeps and the next may look archived."""
    storage = created(table_version, table_type)
    savepoint(environment(storage))
    failed = toy(storage).begin()
    failed.start()
    Toy(storage).task(failed, "a-0", "never", Toy(storage).slices()["a-0"], "0-1-1")
    failed.heartbeat.end()
    env = environment(storage)
    with monkeypatch.context() as patch:
        patch.setattr(Rollback, "_metadata", lambda *_, **__: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            roll_back_all_failed(env, keeping()(env))
    assert [i.action for i in Toy(storage).timeline.pending] == [Action.ROLLBACK]
    # Somebody who shares the table does not wait for a rollback that others are at.
    with monkeypatch.context() as patch:
        patch.setattr("tidelake.txn.protocol.begin.roll_back_failed", lambda *_, **__: False)
        toy(storage).write(THIRD)
    assert accused(storage) == []
    roll_back_all_failed(env, keeping()(env))
    assert accused(storage) == []
    agrees(storage)


@each_kind
def test_a_rollback_of_a_completed_write_is_not_accused(
    table_version: int, table_type: TableType
) -> None:
    before = created(table_version, table_type, FIRST, SECOND)
    newest = Toy(before).timeline.writes()[-1].requested_time

    def undo(storage: Storage) -> None:
        env = environment(storage)
        roll_back(env, newest, keeping()(env))

    def check(left: MemoryStorage) -> None:
        assert accused(left) == []
        env = environment(left)
        roll_back_all_failed(env, keeping()(env))
        assert accused(left) == []
        agrees(left)

    crash_everywhere(before, undo, check)


@each_kind
def test_a_restore_that_is_on_its_way_is_not_accused(
    table_version: int, table_type: TableType
) -> None:
    before = created(table_version, table_type, FIRST)
    time = savepoint(environment(before)).instant
    for rows in (SECOND, THIRD):
        toy(before).write(rows)

    def undo(storage: Storage) -> None:
        env = environment(storage)
        restore(env, time, keeping()(env))

    def check(left: MemoryStorage) -> None:
        assert accused(left) == []
        undo(left)
        assert accused(left) == []
        agrees(left)

    crash_everywhere(before, undo, check)
