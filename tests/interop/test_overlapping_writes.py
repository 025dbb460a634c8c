"""Writes of ours that overlap, read by Apache Hudi: it orders their metadata by requested times."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidelake import Commit, Table
from tidelake.txn import Transaction

pytestmark = pytest.mark.interop

OPTIONS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
}
_LONGEST_S = 120


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_no_row_hides_behind_the_statistics_of_a_later_request(
    hudi_spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    table_type: str,
    version: int,
) -> None:
    root = str(tmp_path / "t")
    schema = "id string, p string, n int"
    table = Table.create(
        hudi_spark,
        root,
        schema,
        key="id",
        partition_by="p",
        table_type=table_type,
        table_version=version,
    )

    def insert(*numbers: int) -> Commit:
        made = [(f"k{number}", "a", number) for number in numbers]
        rows = hudi_spark.createDataFrame(made, schema).coalesce(1)
        return Table.open(hudi_spark, root).insert(rows, options=OPTIONS)

    insert(10, 20)
    began, overtaken = Event(), Event()
    commit = Transaction.commit

    def commit_late(txn: Transaction, *args: Any, **more: Any) -> Commit:
        if current_thread() is not main_thread():
            began.set()
            assert overtaken.wait(_LONGEST_S)
        return commit(txn, *args, **more)

    monkeypatch.setattr(Transaction, "commit", commit_late)
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(insert, -5, 500)
        assert began.wait(_LONGEST_S)
        later = insert(15)
        overtaken.set()
        earlier = slow.result()
    assert earlier.requested_time < later.requested_time
    assert earlier.completion_time > later.completion_time

    def found(rows: DataFrame) -> list[int]:
        return sorted(row.n for row in rows.select("n").collect())

    theirs = hudi_spark.read.format("hudi").options(
        **{"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    )
    for where, owed in (
        ("n > 100", [500]),
        ("n < 0", [-5]),
        ("n = 15", [15]),
        ("n < 15", [-5, 10]),
    ):
        assert found(theirs.load(root).where(where)) == owed
        assert found(table.read(where=where)) == owed
