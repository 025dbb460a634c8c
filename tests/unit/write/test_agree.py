from __future__ import annotations

import pytest

from tests.unit.write.tables import options, table
from tidelake.config import TableConfig
from tidelake.errors import ConfigError
from tidelake.model import TableType
from tidelake.write.agree import refuse_contradictions

MODEL = "org.apache.hudi.common.model"
FITTING = [
    {},
    {"hoodie.table.name": "t"},
    {"hoodie.datasource.write.recordkey.field": "id"},
    {"hoodie.datasource.write.partitionpath.field": "p"},
    {"hoodie.datasource.write.partitionpath.field": "p:SIMPLE"},
    {"hoodie.datasource.write.precombine.field": "ts"},
    {"hoodie.datasource.write.table.type": "copy_on_write"},
    {"hoodie.write.table.version": "9"},
    {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"},
    {"hoodie.datasource.write.payload.class": f"{MODEL}.DefaultHoodieRecordPayload"},
    {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator"},
    {"hoodie.datasource.write.hive_style_partitioning": "false"},
    {"hoodie.table.cdc.supplemental.logging.mode": "op_key_only"},
    {"hoodie.table.base.file.format": "parquet"},
]
OTHER = [
    {"hoodie.table.name": "u"},
    {"hoodie.datasource.write.recordkey.field": "name"},
    {"hoodie.datasource.write.recordkey.field": "id,name"},
    {"hoodie.datasource.write.partitionpath.field": "name"},
    {"hoodie.datasource.write.precombine.field": "name"},
    {"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
    {"hoodie.write.table.version": "8"},
    {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"},
    {"hoodie.datasource.write.payload.class": f"{MODEL}.OverwriteWithLatestAvroPayload"},
    {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"},
    {"hoodie.datasource.write.keygenerator.type": "COMPLEX"},
    {"hoodie.datasource.write.hive_style_partitioning": "true"},
    {"hoodie.datasource.write.partitionpath.urlencode": "true"},
    {"hoodie.datasource.write.drop.partition.columns": "true"},
    {"hoodie.populate.meta.fields": "false"},
    {"hoodie.table.cdc.enabled": "true"},
]


@pytest.mark.parametrize("given", FITTING)
def test_options_that_say_what_the_table_says(given: dict[str, str]) -> None:
    refuse_contradictions(table(), options(**given))


@pytest.mark.parametrize("given", OTHER)
def test_options_that_say_something_else(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="but the table has"):
        refuse_contradictions(table(), options(**given))


def test_a_table_that_logs_changes_logs_them_in_one_mode() -> None:
    mode = "hoodie.table.cdc.supplemental.logging.mode"
    logging = {"hoodie.table.cdc.enabled": "true", mode: "data_before"}
    config = table(properties=logging)
    refuse_contradictions(config, options(**logging))
    with pytest.raises(ConfigError, match="but the table has DATA_BEFORE"):
        refuse_contradictions(config, options(**{mode: "OP_KEY_ONLY"}))
    with pytest.raises(ConfigError, match="but the table has true"):
        refuse_contradictions(config, options(**{"hoodie.table.cdc.enabled": "false"}))


def old_table() -> TableConfig:
    return table(table_version=6, table_type=TableType.MERGE_ON_READ)


def test_a_table_of_version_6_has_its_payload_class() -> None:
    payload = old_table().payload_class or ""
    refuse_contradictions(
        old_table(), options(**{"hoodie.datasource.write.payload.class": payload})
    )
    with pytest.raises(ConfigError, match="PartialUpdate"):
        refuse_contradictions(
            old_table(),
            options(
                **{"hoodie.datasource.write.payload.class": f"{MODEL}.PartialUpdateAvroPayload"}
            ),
        )
