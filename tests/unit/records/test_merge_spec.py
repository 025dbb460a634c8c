from __future__ import annotations

import pytest

from tidelake.config import ReadOptions, TableConfig
from tidelake.config.merging import COMMIT_TIME_STRATEGY, EVENT_TIME_STRATEGY
from tidelake.errors import ConfigError, UnsupportedTableError
from tidelake.model import MergeMode
from tidelake.records.merge_spec import Fill, MergeSpec

PAYLOAD = "hoodie.compaction.payload.class"
MODE = "hoodie.record.merge.mode"
STRATEGY = "hoodie.record.merge.strategy.id"
PARTIAL = "hoodie.table.partial.update.mode"
ORDERING = "hoodie.table.ordering.fields"
PACKAGE = "org.apache.hudi.common.model."
EVENT, COMMIT = MergeMode.EVENT_TIME, MergeMode.COMMIT_TIME


def config(version: int, properties: dict[str, str]) -> TableConfig:
    return TableConfig.from_properties(
        {
            "hoodie.table.name": "t",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": "1" if version == 6 else "2",
            ORDERING: "ts",
            **properties,
        }
    )


def spec(version: int, **properties: str) -> MergeSpec:
    return MergeSpec.from_config(config(version, properties))


TABLE = [
    # version  properties                                                        mode    fill
    (6, {}, EVENT, Fill.NONE),
    (6, {ORDERING: ""}, COMMIT, Fill.NONE),
    (6, {PAYLOAD: PACKAGE + "OverwriteWithLatestAvroPayload"}, COMMIT, Fill.NONE),
    (6, {PAYLOAD: PACKAGE + "DefaultHoodieRecordPayload"}, EVENT, Fill.NONE),
    (6, {PAYLOAD: PACKAGE + "EventTimeAvroPayload"}, EVENT, Fill.NONE),
    (6, {PAYLOAD: PACKAGE + "PartialUpdateAvroPayload"}, EVENT, Fill.IGNORE_DEFAULTS),
    (
        6,
        {PAYLOAD: PACKAGE + "OverwriteNonDefaultsWithLatestAvroPayload"},
        COMMIT,
        Fill.IGNORE_DEFAULTS,
    ),
    # In version 6 the class speaks, in version 8 the mode or the strategy id.
    (
        6,
        {PAYLOAD: PACKAGE + "OverwriteWithLatestAvroPayload", STRATEGY: EVENT_TIME_STRATEGY},
        COMMIT,
        Fill.NONE,
    ),
    (
        8,
        {PAYLOAD: PACKAGE + "OverwriteWithLatestAvroPayload", STRATEGY: EVENT_TIME_STRATEGY},
        EVENT,
        Fill.NONE,
    ),
    (8, {STRATEGY: COMMIT_TIME_STRATEGY}, COMMIT, Fill.NONE),
    (8, {MODE: "CUSTOM", PAYLOAD: PACKAGE + "AWSDmsAvroPayload"}, COMMIT, Fill.NONE),
    (
        8,
        {MODE: "CUSTOM", PAYLOAD: PACKAGE + "debezium.PostgresDebeziumAvroPayload"},
        EVENT,
        Fill.FILL_UNAVAILABLE,
    ),
    (9, {MODE: "EVENT_TIME_ORDERING"}, EVENT, Fill.NONE),
    (9, {MODE: "EVENT_TIME_ORDERING", ORDERING: ""}, COMMIT, Fill.NONE),
    (9, {MODE: "COMMIT_TIME_ORDERING", PARTIAL: "IGNORE_DEFAULTS"}, COMMIT, Fill.IGNORE_DEFAULTS),
    (9, {MODE: "EVENT_TIME_ORDERING", PARTIAL: "FILL_UNAVAILABLE"}, EVENT, Fill.FILL_UNAVAILABLE),
]  # fmt: skip


@pytest.mark.parametrize(("version", "properties", "mode", "fill"), TABLE)
def test_properties_choose_the_rules(
    version: int, properties: dict[str, str], mode: MergeMode, fill: Fill
) -> None:
    found = MergeSpec.from_config(config(version, properties))
    assert (found.mode, found.fill) == (mode, fill)


def test_a_mysql_debezium_table_orders_by_its_binlog_position() -> None:
    name = PACKAGE + "debezium.MySqlDebeziumAvroPayload"
    found = MergeSpec.from_config(config(6, {PAYLOAD: name, ORDERING: ""}))
    assert found.ordering_fields == ("_event_seq",)
    assert found.binlog_ordering
    assert (found.delete_field, found.delete_marker) == ("_change_operation_type", "d")


def test_version_9_stores_the_delete_marker_and_the_unavailable_value() -> None:
    prefix = "hoodie.record.merge.property."
    found = MergeSpec.from_config(
        config(
            9,
            {
                MODE: "EVENT_TIME_ORDERING",
                prefix + "hoodie.payload.delete.field": "op",
                prefix + "hoodie.payload.delete.marker": "D",
                prefix + "hoodie.write.partial.update.unavailable.value": "?",
            },
        )
    )
    assert (found.delete_field, found.delete_marker) == ("op", "D")
    assert found.unavailable_value == "?"


def test_a_query_may_name_the_delete_marker_itself() -> None:
    options = ReadOptions(
        merge_properties={"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    )
    assert MergeSpec.from_config(config(6, {}), options).delete_field == "op"


def test_half_a_delete_marker_is_refused() -> None:
    options = ReadOptions(merge_properties={"hoodie.payload.delete.field": "op"})
    with pytest.raises(ConfigError, match=r"only one of .*delete\.field"):
        MergeSpec.from_config(config(6, {}), options)


def test_a_query_may_override_mode_and_class() -> None:
    stored = config(9, {MODE: "EVENT_TIME_ORDERING"})
    assert MergeSpec.from_config(stored, ReadOptions(merge_mode=COMMIT)).mode is COMMIT
    by_class = ReadOptions(payload_class=PACKAGE + "OverwriteWithLatestAvroPayload")
    assert MergeSpec.from_config(stored, by_class).mode is COMMIT


@pytest.mark.parametrize(
    ("version", "properties", "named"),
    [
        (6, {PAYLOAD: "com.acme.MyPayload"}, r"com\.acme\.MyPayload"),
        (6, {PAYLOAD: "com.acme.DefaultHoodieRecordPayload"}, r"com\.acme"),
        (8, {MODE: "CUSTOM", STRATEGY: "11111111-2222-3333-4444-555555555555"}, "11111111-2222"),
        (9, {MODE: "EVENT_TIME_ORDERING", PARTIAL: "KEEP_VALUES"}, "KEEP_VALUES"),
    ],
)
def test_rules_nobody_knows_are_refused_by_name(
    version: int, properties: dict[str, str], named: str
) -> None:
    with pytest.raises(UnsupportedTableError, match=named):
        MergeSpec.from_config(config(version, properties))
