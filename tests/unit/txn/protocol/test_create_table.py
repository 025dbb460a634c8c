from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.timelines import meta_files
from tests.unit.txn.toy_table import SCHEMA, environment
from tidelake.config import KeyGeneratorType
from tidelake.errors import ConfigError, NotATableError, TableExistsError
from tidelake.formats import properties
from tidelake.model import MergeMode, TableType
from tidelake.storage import LocalStorage, MemoryStorage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.timeline import load_table_config, load_timeline
from tidelake.timeline.table_properties import PROPERTIES_PATH
from tidelake.txn import TableSpec, create_table
from tidelake.txn.protocol.create_table import table_properties

#: Properties that Hudi 1.2 writes for its own services, or that say what is the default anyway.
NOT_OURS = {
    "hoodie.partition.metafile.use.base.format",
    "hoodie.table.base.file.format",
    "hoodie.table.cdc.enabled",
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.multiple.base.file.formats.enable",
    "hoodie.table.partition_extractor_class",
    "hoodie.database.name",
}
#: LOCAL in Hudi's tables, which makes the times depend on the machine that writes.
ZONE = "hoodie.table.timeline.timezone"
SPEC = TableSpec(
    name="t", schema=SCHEMA, record_key_fields=("id",), partition_fields=("p",), ordering_fields=()
)


def spec(table: str) -> TableSpec:
    entries = properties.decode(meta_files(table)[PROPERTIES_PATH])
    version = int(entries["hoodie.table.version"])
    ordering = entries.get("hoodie.table.ordering.fields") or entries.get(
        "hoodie.table.precombine.field"
    )
    payload = entries.get("hoodie.table.legacy.payload.class")
    return TableSpec(
        name=entries["hoodie.table.name"],
        schema=SCHEMA,
        table_type=TableType(entries["hoodie.table.type"]),
        table_version=version,
        record_key_fields=tuple(entries["hoodie.table.recordkey.fields"].split(",")),
        partition_fields=tuple(entries["hoodie.table.partition.fields"].split(",")),
        ordering_fields=tuple(ordering.split(",")) if ordering else (),
        payload_class=payload or entries.get("hoodie.compaction.payload.class"),
        url_encode_partitioning=entries["hoodie.datasource.write.partitionpath.urlencode"]
        == "true",
        key_generator=KeyGeneratorType.TIMESTAMP if "keygen_timestamp" in table else None,
        properties={k: v for k, v in entries.items() if "timebased" in k},
    )


@pytest.mark.parametrize(
    "table",
    [
        "v9_cow_cleaned",
        "v9_cow_keygen_timestamp_millis",
        "v9_mor_bucket_commit_time",
        "v9_mor_bucket_event_time",
        "v9_mor_keygen_custom",
        "v9_mor_payload_debezium_fill_unavailable",
        "v9_mor_payload_overwrite_non_defaults",
        "v9_mor_payload_partial_update",
        "v9_mor_two_ordering_fields",
        "v8_mor_bucket_commit_time",
        "v8_mor_bucket_event_time",
        "v6_mor_avro",
    ],
)
def test_the_properties_are_those_that_hudi_writes(table: str) -> None:
    apache = properties.decode(meta_files(table)[PROPERTIES_PATH])
    storage = MemoryStorage()
    create_table(environment(storage), spec(table))
    ours = properties.decode(storage.read(PROPERTIES_PATH))
    assert ours.pop("hoodie.table.create.schema") == SCHEMA
    assert ours.pop(ZONE) == "UTC"
    for name in (*NOT_OURS, ZONE, "hoodie.table.create.schema"):
        apache.pop(name, None)
    assert ours == apache


def test_a_new_table_can_be_opened() -> None:
    storage = MemoryStorage()
    created = create_table(environment(storage), SPEC)
    assert created.properties.items() <= load_table_config(storage).properties.items()
    assert created.table_version == 9
    assert created.record_merge_mode is MergeMode.COMMIT_TIME
    assert not created.metadata_partitions
    assert load_timeline(storage, created).instants == ()


@pytest.mark.parametrize(
    ("table_version", "folders"),
    [(6, {".aux", ".schema", ".temp", "archived"}), (9, {".aux", ".schema", ".temp", "timeline"})],
)
def test_folders_are_those_that_hudi_makes(
    table_version: int, folders: set[str], tmp_path: Path
) -> None:
    storage = LocalStorage(str(tmp_path / "t"))
    create_table(
        environment(storage), TableSpec(name="t", schema=SCHEMA, table_version=table_version)
    )
    assert set(storage.list(".hoodie").folders) == folders
    assert (tmp_path / "t/.hoodie/timeline/history").is_dir() == (table_version == 9)


def test_a_table_is_not_created_twice() -> None:
    storage = MemoryStorage()
    create_table(environment(storage), SPEC)
    with pytest.raises(TableExistsError):
        create_table(environment(storage), SPEC)
    storage.put(".hoodie/hoodie.properties.backup", storage.read(PROPERTIES_PATH))
    storage.delete(PROPERTIES_PATH)
    with pytest.raises(TableExistsError):
        create_table(environment(storage), SPEC)


@pytest.mark.parametrize(
    "path",
    [
        "part-00000.parquet",
        "_delta_log/0.json",
        "p=1/x",
        ".hoodie/20260101000000000.commit",
        ".hoodie/timeline/20260101000000000_20260101000000001.commit",
    ],
)
def test_other_data_is_left_alone(path: str) -> None:
    storage = MemoryStorage({path: b""})
    with pytest.raises(NotATableError, match="other data"):
        create_table(environment(storage), SPEC)
    assert storage.files_below("") == [path]


def test_a_crash_leaves_no_table_or_a_whole_one() -> None:
    counting = FaultyStorage(MemoryStorage())
    create_table(environment(counting), SPEC)
    outcomes = set()
    for number in range(1, len(counting.calls) + 1):
        for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            storage = MemoryStorage()
            with pytest.raises(Crash):
                create_table(environment(FaultyStorage.failing_at(storage, number, fault)), SPEC)
            try:
                create_table(environment(storage), SPEC)
                outcomes.add("none")
            except TableExistsError:
                outcomes.add("whole")
            assert load_table_config(storage).name == "t"
    assert outcomes == {"none", "whole"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"table_version": 7}, "version 7"),
        ({"name": " "}, "name"),
        ({"table_version": 8, "ordering_fields": ("a", "b")}, "one ordering column"),
        ({"merge_mode": MergeMode.EVENT_TIME}, "needs an ordering column"),
        ({"merge_mode": MergeMode.CUSTOM}, "payload class"),
        (
            {
                "ordering_fields": ("a",),
                "merge_mode": MergeMode.COMMIT_TIME,
                "payload_class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
            },
            "contradict",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(
    changes: dict[str, object], problem: str
) -> None:
    storage = MemoryStorage()
    with pytest.raises(ConfigError, match=problem):
        create_table(environment(storage), TableSpec(**{"name": "t", "schema": "{}", **changes}))  # type: ignore[arg-type]  # a table of arguments
    assert storage.files_below("") == []


def test_commit_time_is_kept_beside_an_ordering_column() -> None:
    """Apache makes it event time, and then refuses the next write with the same options."""
    found = table_properties(
        TableSpec(name="t", schema="{}", ordering_fields=("ts",), merge_mode=MergeMode.COMMIT_TIME)
    )
    assert found["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert found["hoodie.table.ordering.fields"] == "ts"


@pytest.mark.parametrize("table_version", [8, 9])
def test_an_unknown_payload_class_is_custom(table_version: int) -> None:
    found = table_properties(
        TableSpec(name="t", schema="{}", table_version=table_version, payload_class="com.x.Mine")
    )
    assert found["hoodie.record.merge.mode"] == "CUSTOM"
    assert found["hoodie.compaction.payload.class"] == "com.x.Mine"
    assert found["hoodie.record.merge.strategy.id"] == "00000000-0000-0000-0000-000000000000"
