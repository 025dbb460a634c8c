from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sim.partition_values import _PIECES
from tests.unit.write.tables import options, table
from tidelake import SchemaError, Table
from tidelake.formats.partition_path import format_path, unreadable
from tidelake.spark.write.key_columns import KeyColumns
from tidelake.write.key_spec import key_spec

VALUES = [None, "", "oslo", "a/b", *(a + b for a in ("", "a", "/") for b in _PIECES), "x" * 256]


@pytest.mark.parametrize("hive", [False, True])
@pytest.mark.parametrize("encode", [False, True])
def test_spark_refuses_the_partition_values_that_python_refuses(
    spark: SparkSession, hive: bool, encode: bool
) -> None:
    fields = ("p", "q")
    config = table(
        partition_fields=fields, hive_style_partitioning=hive, url_encode_partitioning=encode
    )
    pairs = [(v, "oslo") for v in VALUES] + [("oslo", v) for v in VALUES]
    frame = spark.createDataFrame([("k", *pair) for pair in pairs], "id string, p string, q string")
    keys = KeyColumns(spark, key_spec(config, options(), named_single=None), frame.schema)
    found = [row[0] for row in frame.coalesce(1).select(keys.is_unreadable_partition()).collect()]
    how = {"hive_style": hive, "url_encode": encode}
    owed = [
        unreadable(fields, pair, format_path(fields, pair, **how), **how) is not None
        for pair in pairs
    ]
    assert [(pair, is_bad) for pair, is_bad in zip(pairs, found, strict=True)] == list(
        zip(pairs, owed, strict=True)
    )


@pytest.mark.parametrize(
    "write", ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"]
)
def test_every_write_refuses_a_partition_that_could_not_be_read_back(
    spark: SparkSession, tmp_path: Path, write: str
) -> None:
    kind = "id string, p string"
    made = Table.create(
        spark, str(tmp_path / "t"), spark.createDataFrame([], kind), key="id", partition_by="p"
    )
    made.upsert(spark.createDataFrame([("1", "a")], kind))
    before = sorted(tmp_path.rglob("*"))
    for value in ("b//c", "b/."):
        with pytest.raises(SchemaError, match="could not be read back"):
            getattr(made, write)(spark.createDataFrame([("2", "c"), ("3", value)], kind))
    merge = made.merge(spark.createDataFrame([("2", "b/")], kind)).when_not_matched_insert_all()
    with pytest.raises(SchemaError, match="could not be read back"):
        merge.execute()
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(SchemaError, match="lies inside of partition"):
        getattr(made, write)(spark.createDataFrame([("2", "a/b")], kind))
    assert [row.id for row in made.read().collect()] == ["1"]
