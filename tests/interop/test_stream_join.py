"""A wide table whose streams have orderings of their own, as Apache Hudi reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION
from tidelake import Table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


@pytest.mark.skipif(VERSION != "1.2.0", reason="one release is enough for what is ours alone")
def test_apache_goes_by_arrival_where_streams_have_orderings_of_their_own(
    hudi_spark: SparkSession, tmp_path: Path
) -> None:
    schema = "id string, fare_ts bigint, fare double, note_ts bigint, note string"
    path = str(tmp_path / "joined")
    table = Table.create(
        hudi_spark,
        path,
        schema,
        key="id",
        table_type="MERGE_ON_READ",
        options={**BUCKET, "hoodie.table.partial.update.ordering": "fare_ts:fare;note_ts:note"},
    )

    def upsert(values: list[tuple[Any, ...]], columns: str) -> None:
        options = {**BUCKET, "hoodie.write.partial.update.schema": "*"}
        table.upsert(hudi_spark.createDataFrame(values, columns), options=options)

    def check(what: str, ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
        names = schema.replace(",", "").split()[::2]
        apache = hudi_spark.read.format("hudi").load(path)
        for reader, frame, owed in (("tidelake", table.read(), ours), ("apache", apache, theirs)):
            found = sorted(tuple(row) for row in frame.select(*names).collect())
            assert found == owed, f"{reader} after {what}"

    fares, notes = (
        "id string, fare_ts bigint, fare double",
        "id string, note_ts bigint, note string",
    )
    upsert([("a", 1, 1.0, 1, "first"), ("b", 1, 1.0, 1, "first")], schema)
    upsert([("a", 5, 2.0)], fares)
    upsert([("a", 3, None), ("b", 3, "new")], notes)
    rows = [("a", 5, 2.0, 3, None), ("b", 1, 1.0, 3, "new")]
    check("two streams", rows, rows)
    upsert([("a", 4, 99.0)], fares)
    check("a late fare", rows, [("a", 4, 99.0, 3, None), rows[1]])
    table.compact()
    check("our compaction", rows, rows)
