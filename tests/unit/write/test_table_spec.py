from __future__ import annotations

import pytest

from tests.unit.write.tables import AVRO, options
from tidelake.config import KeyGeneratorType, TableConfig
from tidelake.errors import ConfigError, SchemaError
from tidelake.model import MergeMode, TableType
from tidelake.txn.protocol.create_table import table_properties
from tidelake.write.index import BUCKET_COUNT_PROPERTY
from tidelake.write.key_spec import key_spec
from tidelake.write.table_spec import table_spec


def made(given: dict[str, str] | None = None, **arguments: object) -> TableConfig:
    spec = table_spec(AVRO, options(**(given or {})), name="t", **arguments)  # type: ignore[arg-type]  # arguments are of many types
    return TableConfig.from_properties(table_properties(spec))


def test_arguments_alone() -> None:
    found = made(key=("id",), partition_by=("p",), ordering=("ts",))
    assert found.table_version == 9
    assert found.table_type is TableType.COPY_ON_WRITE
    assert found.key_generator is KeyGeneratorType.SIMPLE
    assert found.record_merge_mode is MergeMode.EVENT_TIME
    assert found.hive_style_partitioning


def test_options_alone_say_the_same() -> None:
    found = made(
        {
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.write.table.version": "6",
            "hoodie.datasource.write.hive_style_partitioning": "false",
        }
    )
    assert found.record_key_fields == ("id",)
    assert found.table_type is TableType.MERGE_ON_READ
    assert found.table_version == 6
    assert not found.hive_style_partitioning


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"hoodie.datasource.write.recordkey.field": "name"}, {"key": ("id",)}),
        ({"hoodie.write.table.version": "8"}, {"table_version": 9}),
        (
            {"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
            {"table_type": TableType.COPY_ON_WRITE},
        ),
    ],
)
def test_an_argument_and_its_option_must_agree(
    given: dict[str, str], arguments: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="but the call says"):
        made(given, **arguments)


@pytest.mark.parametrize("role", ["key", "partition_by", "ordering"])
def test_fields_must_be_columns(role: str) -> None:
    with pytest.raises(SchemaError, match="field nope is no column"):
        made(None, **{role: ("nope",)})


def test_a_table_without_a_key_makes_them_up() -> None:
    assert made(partition_by=("p",)).key_generator is KeyGeneratorType.AUTO_RECORD


def test_the_bucket_count_is_recorded() -> None:
    given = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    assert made(given, key=("id",)).properties[BUCKET_COUNT_PROPERTY] == "4"


def test_version_6_remembers_the_types_of_partition_fields() -> None:
    given = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
        "hoodie.keygen.timebased.output.dateformat": "yyyyMM",
    }
    found = made(given, key=("id",), partition_by=("p:SIMPLE", "ts:TIMESTAMP"), table_version=6)
    spec = key_spec(found, options(), named_single=None)
    assert [(f.name, f.kind.value) for f in spec.partition] == [
        ("p", "SIMPLE"),
        ("ts", "TIMESTAMP"),
    ]
    assert spec.timebased == {"output.dateformat": "yyyyMM"}


@pytest.mark.parametrize(("kind", "field"), [("TIMESTAMP", "ts"), ("CUSTOM", "ts:TIMESTAMP")])
def test_a_partition_column_that_its_path_does_not_tell_is_not_left_out(
    kind: str, field: str
) -> None:
    given = {
        "hoodie.datasource.write.keygenerator.type": kind,
        "hoodie.datasource.write.drop.partition.columns": "true",
    }
    with pytest.raises(ConfigError, match="would lose the values of ts"):
        made(given, key=("id",), partition_by=(field,))


def test_the_logging_mode_is_spelt_as_hudi_spells_it() -> None:
    mode = "hoodie.table.cdc.supplemental.logging.mode"
    given = {"hoodie.table.cdc.enabled": "true", mode: "op_key_only"}
    assert made(given, key=("id",)).properties[mode] == "OP_KEY_ONLY"
    with pytest.raises(ConfigError, match="tidelake knows OP_KEY_ONLY"):
        made({**given, mode: "everything"}, key=("id",))
    assert not made({"hoodie.table.cdc.enabled": "false"}, key=("id",)).cdc_enabled


def test_base_files_of_another_format_are_refused() -> None:
    with pytest.raises(ConfigError, match="'ORC', and tidelake knows PARQUET"):
        made({"hoodie.table.base.file.format": "ORC"}, key=("id",))


@pytest.mark.parametrize(
    ("output", "field", "is_told"),
    [("yyyy-MM", "ts", True), ("yyyyMM", "ts", False), ("yyyy-MM", "name", False)],
)
def test_folders_that_apache_takes_for_numbers_are_told_of(
    output: str, field: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    given = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
        "hoodie.datasource.write.partitionpath.field": f"p:SIMPLE,{field}:TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": output,
    }
    made(given, key=("id",))
    assert (f"the number {field} makes folders" in caplog.text) is is_told
