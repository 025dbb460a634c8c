"""The protocol on a store that has neither folders nor renames."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from tests.unit.txn.toy_table import KINDS, SCHEMA, Toy, environment
from tidelake.model import TableType
from tidelake.storage import ObjectStorage, StorageSpec
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.txn import TableSpec, create_table


@pytest.mark.parametrize(("table_version", "table_type"), KINDS)
def test_a_failed_write_is_recovered_from(table_version: int, table_type: TableType) -> None:
    storage = ObjectStorage(MemoryStore(), StorageSpec("s3://lake/t"))
    spec = TableSpec(
        name="t",
        schema=SCHEMA,
        table_type=table_type,
        table_version=table_version,
        partition_fields=("p",),
    )
    create_table(environment(storage), spec)
    Toy(storage).write({"a-0": "a1", "b-0": "b1"})

    def crash(_number: int, _name: str, path: str) -> Fault | None:
        return Fault.CRASH_BEFORE if path.endswith("commit") else None

    with pytest.raises(Crash):
        Toy(FaultyStorage(storage, crash)).write({"a-0": "lost", "c-0": "lost"})
    assert Toy(storage).leftovers()
    Toy(storage).write({"b-0": "b2"})
    toy = Toy(storage)
    assert toy.rows() == toy.rows_once_archived() == {"a-0": "a1", "b-0": "b2"}
    assert toy.leftovers() == []
