from __future__ import annotations

import pytest

from tests.golden.timelines import files_ending
from tidelake.errors import Malformed
from tidelake.formats import index_definitions


def test_files_of_hudi_come_back_byte_for_byte() -> None:
    for table in ("v9_mor_record_index_full_mdt", "mor_avro_v8_trips_8i3u1d"):
        raw = files_ending(table, "/index.json")[0]
        assert index_definitions.encode(index_definitions.decode(raw)) == raw


def test_version_9_says_which_version_an_index_has() -> None:
    found = index_definitions.decode(files_ending("v9_mor_record_index_full_mdt", "/index.json")[0])
    assert {name: one.version for name, one in found.items()} == {
        "record_index": "V1",
        "column_stats": "V2",
    }
    assert found["column_stats"].source_fields[:2] == (
        "_hoodie_commit_time",
        "_hoodie_partition_path",
    )


@pytest.mark.parametrize("data", [b"", b"{}", b'{"indexDefinitions": {"a": {"indexName": "a"}}}'])
def test_damage_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        index_definitions.decode(data)
