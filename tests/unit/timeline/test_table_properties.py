from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.timelines import meta_files
from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    CorruptFileError,
    LockLostError,
    NotATableError,
    TableNotFoundError,
    UnsupportedTableError,
)
from tidelake.formats import properties
from tidelake.storage import LocalStorage, MemoryStorage
from tidelake.testing import Crash, Fault, FaultyStorage, ManualClock
from tidelake.timeline import load_table_config, update_table_config
from tidelake.timeline.table_properties import (
    BACKUP_PATH,
    PROPERTIES_PATH,
    refuse_cut,
    repair_table_config,
)

GOOD = meta_files("v9_cow_cleaned")[PROPERTIES_PATH]
TORN = GOOD[: len(GOOD) // 2].replace(b"hoodie.table.name", b"hoodie.table.nam")


def changed(**entries: str) -> bytes:
    names = {key.replace("__", "."): value for key, value in entries.items()}
    return properties.encode({**properties.decode(GOOD), **names})


def test_a_table_is_opened_by_its_properties() -> None:
    config = load_table_config(MemoryStorage({PROPERTIES_PATH: GOOD}))
    assert (config.name, config.table_version) == ("v9_cow_cleaned", 9)


@pytest.mark.parametrize("main", [None, b"", TORN, changed(hoodie__table__checksum="12345")])
def test_the_backup_stands_in_while_the_properties_are_rewritten(main: bytes | None) -> None:
    storage = MemoryStorage({BACKUP_PATH: GOOD})
    if main is not None:
        storage.put(PROPERTIES_PATH, main)
    assert load_table_config(storage).name == "v9_cow_cleaned"


@pytest.mark.parametrize(
    "main", [b"", b"\xff\xfe", TORN, changed(hoodie__table__checksum="12345"), b"a=\\u12"]
)
def test_properties_that_are_damaged_are_named(main: bytes) -> None:
    storage = MemoryStorage({PROPERTIES_PATH: main, BACKUP_PATH: TORN})
    with pytest.raises(CorruptFileError) as raised:
        load_table_config(storage)
    assert raised.value.path == PROPERTIES_PATH


def test_a_renamed_table_fails_its_checksum() -> None:
    storage = MemoryStorage({PROPERTIES_PATH: changed(hoodie__table__name="other")})
    with pytest.raises(CorruptFileError, match="checksum"):
        load_table_config(storage)


@pytest.mark.parametrize("missing_bytes", [1, 2, 30])
def test_properties_whose_last_line_has_no_end_may_be_cut_short(
    missing_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    entries = dict(properties.decode(GOOD))
    entries["hoodie.table.made.for"] = "this test, in which the end of a value is lost"
    data = properties.encode(entries)[:-missing_bytes]
    found = load_table_config(MemoryStorage({PROPERTIES_PATH: data}))
    assert "cut short" in caplog.text
    assert "this test" in found.properties["hoodie.table.made.for"]
    whole = MemoryStorage({PROPERTIES_PATH: data, BACKUP_PATH: GOOD})
    assert "hoodie.table.made.for" not in load_table_config(whole).properties


def test_the_checksum_is_the_last_line_of_what_an_update_stores() -> None:
    storage = MemoryStorage({PROPERTIES_PATH: GOOD})
    update_table_config(Env(storage, clock=ManualClock()), {"hoodie.table.partition.fields": "a"})
    assert storage.read(PROPERTIES_PATH).splitlines()[-1].startswith(b"hoodie.table.checksum=")


def test_properties_that_lack_a_checksum_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    entries = {k: v for k, v in properties.decode(GOOD).items() if "checksum" not in k}
    entries["hoodie.table.made.for"] = "this test"
    load_table_config(MemoryStorage({PROPERTIES_PATH: properties.encode(entries)}))
    assert "has no hoodie.table.checksum" in caplog.text


def test_properties_without_a_checksum_are_taken() -> None:
    entries = dict(properties.decode(GOOD))
    del entries["hoodie.table.checksum"]
    storage = MemoryStorage({PROPERTIES_PATH: properties.encode(entries)})
    assert load_table_config(storage).name == "v9_cow_cleaned"


def test_a_path_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="nowhere"):
        load_table_config(LocalStorage(str(tmp_path / "nowhere")))


def test_a_folder_that_is_no_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotATableError, match=r"no \.hoodie folder"):
        load_table_config(LocalStorage(str(tmp_path)))
    (tmp_path / ".hoodie").mkdir()
    with pytest.raises(NotATableError, match=r"no \.hoodie/hoodie\.properties"):
        load_table_config(LocalStorage(str(tmp_path)))


@pytest.mark.parametrize(
    "entries",
    [{"hoodie__table__version": "5"}, {"hoodie__timeline__layout__version": "1"}],
)
def test_an_unknown_version_or_layout_is_refused(entries: dict[str, str]) -> None:
    with pytest.raises(UnsupportedTableError):
        load_table_config(MemoryStorage({PROPERTIES_PATH: changed(**entries)}))


CHANGES = {"hoodie.table.metadata.partitions": "", "hoodie.table.cdc.enabled": None, "a b": "ü=:"}


def expected() -> dict[str, str]:
    entries = {**properties.decode(GOOD), "hoodie.table.metadata.partitions": "", "a b": "ü=:"}
    del entries["hoodie.table.cdc.enabled"]
    return entries


def test_properties_are_changed_and_the_rest_stays() -> None:
    storage = MemoryStorage({PROPERTIES_PATH: GOOD})
    config = update_table_config(Env(storage, ManualClock()), CHANGES)
    written = storage.read(PROPERTIES_PATH)
    assert properties.decode(written) == config.properties == expected()
    assert written.startswith(b"#Updated at 2026-11-15T00:00:00Z\n#Sun Nov 15 00:00:00 UTC 2026\n")
    assert storage.stat(BACKUP_PATH) is None


def test_a_new_name_gets_a_new_checksum() -> None:
    storage = MemoryStorage({PROPERTIES_PATH: GOOD})
    update_table_config(Env(storage), {"hoodie.table.name": "other"})
    assert load_table_config(storage).name == "other"


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_an_update_that_stops_anywhere_leaves_the_old_or_the_new(fault: Fault) -> None:
    counting = FaultyStorage(MemoryStorage({PROPERTIES_PATH: GOOD}))
    update_table_config(Env(counting), CHANGES)
    seen = set()
    for number in range(1, len(counting.calls) + 1):
        storage = MemoryStorage({PROPERTIES_PATH: GOOD})
        with pytest.raises(Crash):
            update_table_config(Env(FaultyStorage.failing_at(storage, number, fault)), CHANGES)
        found = load_table_config(storage).properties
        assert found in (properties.decode(GOOD), expected())
        seen.add(found == expected())
        update_table_config(Env(storage), CHANGES)
        assert load_table_config(storage).properties == expected()
        assert storage.stat(BACKUP_PATH) is None
    assert seen == {False, True}


@pytest.mark.parametrize("main", [None, b"", TORN])
def test_an_update_starts_from_the_backup_where_it_has_to(main: bytes | None) -> None:
    storage = MemoryStorage({BACKUP_PATH: GOOD})
    if main is not None:
        storage.put(PROPERTIES_PATH, main)
    update_table_config(Env(storage), CHANGES)
    assert load_table_config(storage).properties == expected()


def test_an_update_of_damaged_properties_changes_nothing() -> None:
    storage = MemoryStorage({PROPERTIES_PATH: TORN, BACKUP_PATH: TORN})
    with pytest.raises(CorruptFileError):
        update_table_config(Env(storage), CHANGES)
    assert storage.read(PROPERTIES_PATH) == storage.read(BACKUP_PATH) == TORN


def test_two_updates_at_once_exclude_each_other() -> None:
    storage = MemoryStorage({PROPERTIES_PATH: GOOD})

    def other_comes_first(_number: int, name: str, path: str) -> None:
        if (name, path) == ("put_if_absent", BACKUP_PATH):
            storage.put(BACKUP_PATH, GOOD)

    with pytest.raises(ConfigError, match="another writer"):
        update_table_config(Env(FaultyStorage(storage, other_comes_first)), CHANGES)
    assert storage.read(PROPERTIES_PATH) == GOOD


def test_an_update_that_stood_still_does_not_undo_what_came_meanwhile() -> None:
    storage = MemoryStorage({PROPERTIES_PATH: GOOD})
    env = Env(storage, ManualClock())

    def others_come(_number: int, name: str, path: str) -> None:
        if (name, path) == ("put_if_tagged", PROPERTIES_PATH):
            repair_table_config(env)

    with pytest.raises(ConfigError, match="another writer"):
        update_table_config(Env(FaultyStorage(storage, others_come), ManualClock()), CHANGES)
    assert load_table_config(storage).properties == properties.decode(GOOD)
    assert storage.stat(BACKUP_PATH) is None


def test_an_update_looks_at_the_lock_behind_its_last_look_at_the_properties() -> None:
    storage = FaultyStorage(MemoryStorage({PROPERTIES_PATH: GOOD}))

    def fence() -> None:
        assert storage.calls[-1] == ("read", PROPERTIES_PATH)
        raise LockLostError("lost", next_step="")

    with pytest.raises(LockLostError):
        update_table_config(Env(storage), CHANGES, fence)
    assert storage.read(PROPERTIES_PATH) == GOOD


@pytest.mark.parametrize("cut", [GOOD[:-1], GOOD.replace(b"hoodie.table.checksum", b"#")])
def test_properties_that_may_be_cut_short_are_read_and_not_written(cut: bytes) -> None:
    storage = MemoryStorage({PROPERTIES_PATH: cut})
    config = load_table_config(storage)
    with pytest.raises(CorruptFileError, match="cut short") as refused:
        refuse_cut(config)
    assert "nothing was changed" in refused.value.next_step
    with pytest.raises(CorruptFileError, match="cut short"):
        update_table_config(Env(storage), CHANGES)
    assert storage.read(PROPERTIES_PATH) == cut


@pytest.mark.parametrize("cut", [GOOD[:-1], GOOD.replace(b"hoodie.table.checksum", b"#")])
def test_a_backup_stands_in_for_properties_that_may_be_cut_short(cut: bytes) -> None:
    storage = MemoryStorage({PROPERTIES_PATH: cut, BACKUP_PATH: GOOD})
    update_table_config(Env(storage), CHANGES)
    assert load_table_config(storage).properties == expected()


def test_a_file_is_told_apart_from_a_path_at_which_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(NotATableError, match="is a file, and a Hudi table is a folder"):
        load_table_config(LocalStorage(str(tmp_path / "rows.parquet")))
    with pytest.raises(TableNotFoundError, match="nothing lies at"):
        load_table_config(LocalStorage(str(tmp_path / "trips")))
