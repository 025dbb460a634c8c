"""A row that keeps its partition has the value that its path says."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake import Table
from tidelake.spark.write import path_values

VALUES: dict[str, tuple[Any, Any]] = {
    "string": ("a b/c", "ä"),
    "int": (7, -8),
    "date": (dt.date(2026, 1, 2), dt.date(1999, 12, 31)),
    "boolean": (True, False),
    "timestamp": (dt.datetime(2026, 1, 2, 3, 4), dt.datetime(2027, 1, 2)),  # noqa: DTZ001
}
STAYS = {
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}


@pytest.mark.slow
@pytest.mark.parametrize("joins", [False, True])
def test_a_row_that_stays_has_the_value_of_its_path(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, joins: bool
) -> None:
    if joins:
        monkeypatch.setattr(path_values, "_EXPRESSED", 0)
    for kind in ["date"] if joins else VALUES:
        old, new = VALUES[kind]
        schema = f"id string, ts bigint, p {kind}"
        table = Table.create(
            spark,
            str(tmp_path / kind),
            schema,
            key="id",
            ordering="ts",
            partition_by="p",
            options=STAYS,
        )
        table.upsert(spark.createDataFrame([("a", 1, old), ("b", 1, new)], schema))
        table.upsert(spark.createDataFrame([("a", 2, new), ("b", 2, new), ("c", 2, new)], schema))
        found = {r["id"]: (r["ts"], r["p"]) for r in table.read().collect()}
        # A path of times does not say which, so that nothing is pruned by it either.
        kept = new if kind == "timestamp" else old
        assert found == {"a": (2, kept), "b": (2, new), "c": (2, new)}
        of_new = table.read().where(F.col("p") == F.lit(new)).count()
        literal = f"'{new}'" if kind != "int" else str(new)
        where = f"p = cast({literal} as {kind})"
        assert table.read(where=where).count() == of_new == 3 - (kind != "timestamp")
        assert table.delete_where(where).deletes == of_new
