from __future__ import annotations

import pickle

import pytest

from tidelake.config import CdcMode, KeyGeneratorType, PartitionFieldType, TableConfig
from tidelake.errors import ConfigError, UnsupportedTableError
from tidelake.model import MergeMode, TableType

V6 = {
    "hoodie.table.name": "orders",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
}
V9 = V6 | {"hoodie.table.version": "9", "hoodie.timeline.layout.version": "2"}


def config(base: dict[str, str], **more: str) -> TableConfig:
    named = {f"hoodie.{name.replace('__', '.')}": value for name, value in more.items()}
    return TableConfig.from_properties(base | named)


def test_defaults_are_those_of_hudi() -> None:
    found = config(V6)
    assert found.table_type is TableType.COPY_ON_WRITE
    assert found.key_generator is KeyGeneratorType.NON_PARTITION
    assert found.populate_meta_fields
    assert not found.hive_style_partitioning
    assert found.base_file_format == "PARQUET"
    assert found.cdc_logging_mode is CdcMode.DATA_BEFORE_AFTER
    assert found.record_merge_mode is None
    assert not found.timeline_timezone_utc
    assert found.metadata_partitions == frozenset()


def test_each_layout_has_its_folders() -> None:
    assert (config(V6).timeline_folder, config(V6).history_folder) == (
        ".hoodie",
        ".hoodie/archived",
    )
    assert (config(V9).timeline_folder, config(V9).history_folder) == (
        ".hoodie/timeline",
        ".hoodie/timeline/history",
    )
    moved = config(V9, timeline__path="t", timeline__history__path="h")
    assert (moved.timeline_folder, moved.history_folder) == (".hoodie/t", ".hoodie/t/h")


@pytest.mark.parametrize("path", ["..", "a/../../b", "/", "."])
def test_a_timeline_folder_never_leads_out_of_the_table(path: str) -> None:
    with pytest.raises(ConfigError, match=r"leads out of \.hoodie"):
        config(V9, timeline__path=path)


def test_version_6_written_by_release_1_2_carries_keys_of_version_9() -> None:
    found = TableConfig.from_properties(
        V6
        | {
            "hoodie.table.ordering.fields": "ts",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.table.partition.fields": "region",
            "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
            "hoodie.archivelog.folder": "history",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.table.format": "native",
        }
    )
    assert found.ordering_fields == ("ts",)
    assert found.key_generator is KeyGeneratorType.SIMPLE
    assert found.timeline_folder == ".hoodie"
    assert found.history_folder == ".hoodie/history"


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({"hoodie.table.precombine.field": "ver"}, ("ver",)),
        ({"hoodie.table.ordering.fields": "day, seq"}, ("day", "seq")),
        (
            {"hoodie.table.ordering.fields": "a", "hoodie.table.precombine.field": "b"},
            ("a",),
        ),
        ({"hoodie.table.ordering.fields": "", "hoodie.table.precombine.field": "b"}, ("b",)),
    ],
)
def test_ordering_fields_have_two_names(more: dict[str, str], fields: tuple[str, ...]) -> None:
    assert TableConfig.from_properties(V9 | more).ordering_fields == fields


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"type": "COMPLEX_AVRO"}, KeyGeneratorType.COMPLEX),
        ({"type": "timestamp"}, KeyGeneratorType.TIMESTAMP),
        ({"class": "org.apache.hudi.keygen.ComplexKeyGenerator"}, KeyGeneratorType.COMPLEX),
        (
            {"type": "USER_PROVIDED", "class": "org.apache.hudi.keygen.SimpleAvroKeyGenerator"},
            KeyGeneratorType.SIMPLE,
        ),
        (
            {"type": "SIMPLE", "class": "org.apache.hudi.keygen.ComplexKeyGenerator"},
            KeyGeneratorType.SIMPLE,
        ),
    ],
)
def test_key_generator_by_type_then_class(more: dict[str, str], expected: KeyGeneratorType) -> None:
    named = {f"hoodie.table.keygenerator.{name}": value for name, value in more.items()}
    assert TableConfig.from_properties(V9 | named).key_generator is expected


@pytest.mark.parametrize(
    ("record_keys", "partitions", "expected"),
    [
        ("id", "", KeyGeneratorType.NON_PARTITION),
        ("id", "p", KeyGeneratorType.SIMPLE),
        ("a,b", "p", KeyGeneratorType.COMPLEX),
        ("id", "p,q", KeyGeneratorType.COMPLEX),
        ("id", "p:SIMPLE,at:TIMESTAMP", KeyGeneratorType.CUSTOM),
    ],
)
def test_key_generator_is_inferred_when_unset(
    record_keys: str, partitions: str, expected: KeyGeneratorType
) -> None:
    found = config(V9, table__recordkey__fields=record_keys, table__partition__fields=partitions)
    assert found.key_generator is expected


def test_custom_partition_fields_carry_their_type() -> None:
    found = config(V9, table__partition__fields="city:simple,at:TIMESTAMP")
    assert found.partition_fields == ("city", "at")
    assert found.partition_field_types == (
        PartitionFieldType.SIMPLE,
        PartitionFieldType.TIMESTAMP,
    )


def test_custom_key_generator_of_version_6_leaves_the_types_unknown() -> None:
    found = config(
        V6,
        table__partition__fields="city,at",
        table__keygenerator__class="org.apache.hudi.keygen.CustomKeyGenerator",
    )
    assert found.partition_field_types == (PartitionFieldType.UNKNOWN,) * 2


def test_timestamp_key_generator_makes_its_field_a_timestamp() -> None:
    found = TableConfig.from_properties(
        V9
        | {
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            "hoodie.table.partition.fields": "at",
            "hoodie.deltastreamer.keygen.timebased.timezone": "CET",
            "hoodie.deltastreamer.keygen.timebased.timestamp.type": "SCALAR",
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        }
    )
    assert found.partition_field_types == (PartitionFieldType.TIMESTAMP,)
    assert found.timebased == {"timestamp.type": "EPOCHMILLISECONDS", "timezone": "CET"}


def test_merge_settings() -> None:
    found = TableConfig.from_properties(
        V9
        | {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.compaction.record.merger.strategy": "id-1",
            "hoodie.record.merge.property.hoodie.payload.delete.field": "op",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        }
    )
    assert found.record_merge_mode is MergeMode.EVENT_TIME
    assert found.merge_strategy_id == "id-1"
    assert found.merge_properties == {"hoodie.payload.delete.field": "op"}
    assert found.partial_update_mode == "IGNORE_DEFAULTS"


def test_metadata_table_is_recognised() -> None:
    assert config(V9, table__keygenerator__type="HOODIE_TABLE_METADATA").is_metadata_table
    payload = "org.apache.hudi.metadata.HoodieMetadataPayload"
    assert config(V6, compaction__payload__class=payload).is_metadata_table
    assert not config(V9).is_metadata_table


def test_travels_to_workers() -> None:
    found = config(V9, table__partition__fields="p")
    assert pickle.loads(pickle.dumps(found)) == found


UNSUPPORTED = [
    ("hoodie.table.version", "10", "newer tidelake"),
    ("hoodie.table.version", "5", "upgrade the table"),
    ("hoodie.table.version", "5", "upgrade the table"),
    ("hoodie.table.version", "", "restore"),
    ("hoodie.timeline.layout.version", "", "restore"),
    ("hoodie.timeline.layout.version", "1", "half-way"),
    ("hoodie.table.type", "COPY_ON_READ", "engine that wrote it"),
    ("hoodie.table.keygenerator.type", "MAGIC", "engine that wrote it"),
    ("hoodie.table.keygenerator.type", "USER_PROVIDED", "engine that wrote it"),
    ("hoodie.table.keygenerator.class", "com.acme.Keys", "engine that wrote it"),
    ("hoodie.table.base.file.format", "ORC", "engine that wrote it"),
    ("hoodie.record.merge.mode", "NEWEST", "engine that wrote it"),
    ("hoodie.table.cdc.supplemental.logging.mode", "ALL", "engine that wrote it"),
    ("hoodie.table.format", "iceberg", "engine of that format"),
    ("hoodie.bootstrap.base.path", "/old", "rewrite the table"),
    ("hoodie.table.partition.fields", "p:HASH", "correct the type"),
]


@pytest.mark.parametrize(("key", "value", "next_step"), UNSUPPORTED)
def test_what_tidelake_does_not_know_is_refused_by_name(
    key: str, value: str, next_step: str
) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        TableConfig.from_properties(V9 | {key: value})
    assert value.split(":")[-1] in caught.value.problem
    assert next_step in caught.value.next_step


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.version", "nine"),
        ("hoodie.table.version", "9" * 30),
        ("hoodie.table.version", "1_0"),
        ("hoodie.timeline.layout.version", "2.0"),
        ("hoodie.populate.meta.fields", "yes"),
        ("hoodie.table.name", ""),
    ],
)
def test_malformed_values_name_key_and_value(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TableConfig.from_properties(V9 | {key: value})
    assert key in caught.value.problem
    assert value in caught.value.problem
