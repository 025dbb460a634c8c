from __future__ import annotations

import json

import pytest

from tidelake.config import ReadOptions
from tidelake.errors import CorruptFileError
from tidelake.state.table_state import TableState
from tidelake.storage import MemoryStorage

PROPERTIES = """\
hoodie.table.name=orders
hoodie.table.version=6
hoodie.timeline.layout.version=1
"""
COMMIT = "20260301101500123.commit"


def state(schema: str, *, created_as: str | None = None) -> TableState:
    commit = {"partitionToWriteStats": {}, "extraMetadata": {"schema": schema}}
    created = "" if created_as is None else f"hoodie.table.create.schema={created_as}\n"
    storage = MemoryStorage(
        {
            ".hoodie/hoodie.properties": (PROPERTIES + created).encode(),
            f".hoodie/{COMMIT}": json.dumps(commit).encode(),
        }
    )
    return TableState.load(storage, ReadOptions())


@pytest.mark.parametrize("schema", ['{"type":"rec', '"string"', '{"type":"record"}'])
def test_a_damaged_schema_names_the_commit_that_holds_it(schema: str) -> None:
    with pytest.raises(CorruptFileError, match=f"hoodie/{COMMIT} is damaged"):
        state(schema).schema()


def test_a_damaged_schema_of_creation_names_the_properties() -> None:
    with pytest.raises(CorruptFileError, match=r"hoodie\.properties is damaged"):
        state("", created_as="{").schema()
