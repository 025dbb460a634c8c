"""Properties that an update tore are made whole by the next write."""

from __future__ import annotations

import pytest

from tests.unit.txn.toy_table import Toy, new_storage
from tidelake.model import TableType
from tidelake.timeline.table_properties import BACKUP_PATH, PROPERTIES_PATH


@pytest.mark.parametrize("torn", [b"", b"hoodie.table.na", None])
@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_the_next_write_repairs_torn_properties(table_version: int, torn: bytes | None) -> None:
    storage = new_storage(table_version, TableType.COPY_ON_WRITE)
    Toy(storage).write({"a-0": "a"})
    sound = storage.read(PROPERTIES_PATH)
    storage.put(BACKUP_PATH, sound)
    if torn is None:
        storage.delete(PROPERTIES_PATH)
    else:
        storage.put(PROPERTIES_PATH, torn)
    Toy(storage).write({"b-0": "b"})
    assert storage.read(PROPERTIES_PATH) == sound
    assert storage.stat(BACKUP_PATH) is None
    assert Toy(storage).rows() == {"a-0": "a", "b-0": "b"}


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_properties_cut_between_two_lines_are_those_of_the_backup(table_version: int) -> None:
    storage = new_storage(table_version, TableType.COPY_ON_WRITE)
    Toy(storage).write({"a-0": "a"})
    sound = storage.read(PROPERTIES_PATH)
    whole = Toy(storage).config
    storage.put(BACKUP_PATH, sound)
    lines = sound.splitlines(keepends=True)
    for kept in range(len(lines)):
        storage.put(PROPERTIES_PATH, b"".join(lines[:kept]))
        assert Toy(storage).config == whole
        Toy(storage).write({"b-0": f"{kept}"})
        assert storage.read(PROPERTIES_PATH) == sound
        storage.put(BACKUP_PATH, sound)
