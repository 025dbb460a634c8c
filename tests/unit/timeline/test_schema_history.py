from __future__ import annotations

import pytest

from tests.golden.timelines import memory_table
from tidelake.errors import CorruptFileError
from tidelake.storage import MemoryStorage
from tidelake.timeline import (
    load_history_times,
    load_schema_history,
    load_table_config,
    load_timeline,
)
from tidelake.view.table_view import CommitTimes


def versions(storage: MemoryStorage) -> list[int]:
    config = load_table_config(storage)
    timeline = load_timeline(storage, config)
    times = CommitTimes(timeline, lambda: load_history_times(storage, config))
    found = load_schema_history(storage, config, times.is_committed)
    return [v.version_id for v in found]


@pytest.mark.parametrize(
    ("table", "count"),
    [("v6_cow_schema_on_read", 5), ("v9_cow_schema_on_read", 4), ("v9_mor_schema_on_read", 4)],
)
def test_all_versions_are_found(table: str, count: int) -> None:
    found = versions(memory_table(table))
    assert len(found) == count
    assert found[0] == 0
    assert found == sorted(found)


def test_a_table_without_schema_on_read_has_none() -> None:
    assert versions(memory_table("v9_cow_cleaned")) == []


def test_a_change_of_the_schema_that_failed_does_not_count() -> None:
    storage = memory_table("v6_cow_schema_on_read")
    before = versions(storage)
    storage.put(".hoodie/.schema/29991231000000000.schemacommit", b'{"schemas": []}')
    storage.put(".hoodie/.schema/29991231000000001.schemacommit.inflight", b"")
    assert versions(storage) == before


def test_a_damaged_schema_file_is_named() -> None:
    storage = memory_table("v6_cow_schema_on_read")
    newest = max(
        file.name
        for file in storage.list(".hoodie/.schema").files
        if file.name.endswith(".schemacommit")
    )
    storage.put(f".hoodie/.schema/{newest}", b"{")
    with pytest.raises(CorruptFileError) as raised:
        versions(storage)
    assert raised.value.path == f".hoodie/.schema/{newest}"
