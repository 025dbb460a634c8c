"""Several handles on one table write at the same time, in threads of one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidelake import (
    Commit,
    ConfigError,
    SchemaConflictError,
    Table,
    UnsupportedTableError,
    WriteConflictError,
)
from tidelake.operations.write_session import WriteSession

SCHEMA = "id string, p string, ts bigint, v int"
OCC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
NBCC = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}


def create(
    spark: SparkSession, path: Path, kind: str, version: int, options: dict[str, str]
) -> Table:
    return Table.create(
        spark,
        str(path / "t"),
        SCHEMA,
        key="id",
        partition_by="p",
        ordering="ts",
        table_type=kind,
        table_version=version,
        options=options,
    )


def rows(spark: SparkSession, values: Iterable[tuple[str, str, int, int]]) -> DataFrame:
    return spark.createDataFrame(list(values), SCHEMA)


def found(table: Table) -> dict[str, tuple[int, int]]:
    return {r["id"]: (r["ts"], r["v"]) for r in table.read().collect()}


def at_once(*writes: Callable[[], Commit]) -> list[Any]:
    """Start all writes together; return the commit or the error of each."""
    gate = Barrier(len(writes))

    def run(write: Callable[[], Commit]) -> Commit | Exception:
        gate.wait()
        try:
            return write()
        except (WriteConflictError, AssertionError) as error:
            return error

    with ThreadPoolExecutor(len(writes)) as pool:
        return list(pool.map(run, writes))


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_b20_the_same_file_group_takes_retries_and_loses_nothing(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    options = {**OCC, "hoodie.write.num.retries.on.conflict.failures": "5"}
    table = create(spark, tmp_path, kind, 9, options)
    table.upsert(rows(spark, [("a", "x", 1, 0)]), options=options)
    writers = [Table.open(spark, table.path, options) for _ in range(3)]
    done = at_once(
        *(
            lambda w=writer, n=number: w.upsert(
                rows(spark, [("a", "x", 10 + n, n), (f"own {n}", "x", 1, n)])
            )
            for number, writer in enumerate(writers)
        )
    )
    assert all(isinstance(commit, Commit) for commit in done), done
    assert found(table) == {"a": (12, 2), **{f"own {n}": (1, n) for n in range(3)}}
    assert max(commit.attempts for commit in done) > 1
    assert not [i for i in table.timeline() if not i.is_completed]


@pytest.mark.deep
@pytest.mark.slow
def test_b31_disjoint_partitions_all_commit(spark: SparkSession, tmp_path: Path) -> None:
    table = create(spark, tmp_path, "COPY_ON_WRITE", 6, OCC)
    partitions = ["x", "y", "z"]
    table.upsert(rows(spark, [(p, p, 1, 0) for p in partitions]), options=OCC)
    writers = [Table.open(spark, table.path, OCC) for _ in partitions]
    done = at_once(
        *(
            lambda w=writer, p=partition: w.upsert(rows(spark, [(p, p, 2, 1)]))
            for partition, writer in zip(partitions, writers, strict=True)
        )
    )
    assert all(isinstance(commit, Commit) for commit in done), done
    assert found(table) == dict.fromkeys(partitions, (2, 1))


@pytest.mark.deep
@pytest.mark.slow
def test_c01_non_blocking_writers_of_one_key_all_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = {**NBCC, **BUCKETS}
    table = create(spark, tmp_path, "MERGE_ON_READ", 9, options)
    writers = [Table.open(spark, table.path, options) for _ in range(3)]
    done = at_once(
        *(
            lambda w=writer, n=number: w.upsert(
                rows(spark, [("a", "x", 100 - n, n), (f"own {n}", "x", 1, n)])
            )
            for number, writer in enumerate(writers)
        )
    )
    assert all(isinstance(commit, Commit) and commit.attempts == 1 for commit in done), done
    assert found(table) == {"a": (100, 0), **{f"own {n}": (1, n) for n in range(3)}}
    ids = {s.group.file_id for s in table.slices()}
    assert all(i.endswith("-0000-0000-0000-000000000000-0") for i in ids)


@pytest.mark.deep
@pytest.mark.slow
def test_f08_two_schema_changes_meet(spark: SparkSession, tmp_path: Path) -> None:
    table = create(spark, tmp_path, "COPY_ON_WRITE", 9, OCC)
    table.upsert(rows(spark, [("a", "x", 1, 0), ("b", "y", 1, 0)]), options=OCC)
    writers = [Table.open(spark, table.path, OCC) for _ in range(2)]
    frames = [
        spark.createDataFrame([("a", "x", 2, 1, "new")], f"{SCHEMA}, one string"),
        spark.createDataFrame([("b", "y", 2, 1, 5)], f"{SCHEMA}, two int"),
    ]
    done = at_once(*(lambda w=w, f=f: w.upsert(f) for w, f in zip(writers, frames, strict=True)))
    refused = [error for error in done if isinstance(error, SchemaConflictError)]
    assert len(refused) == 1, done
    assert "schema now" in refused[0].explain()
    assert refused[0].overlap == {"one", "two"}
    merging = {
        **OCC,
        "hoodie.write.concurrency.schema.conflict.resolution.strategy": "merge",
    }
    late = 1 if isinstance(done[0], Commit) else 0
    Table.open(spark, table.path, merging).upsert(frames[late])
    assert set(table.schema.names) == {"id", "p", "ts", "v", "one", "two"}


@pytest.mark.slow
def test_c19_each_precondition_is_named(spark: SparkSession, tmp_path: Path) -> None:
    cases = [
        ("COPY_ON_WRITE", 9, BUCKETS, ConfigError, "merge-on-read"),
        ("MERGE_ON_READ", 6, BUCKETS, ConfigError, "table version 8"),
        ("MERGE_ON_READ", 9, {}, ConfigError, "a bucket index"),
        (
            "MERGE_ON_READ",
            9,
            {**BUCKETS, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
            ConfigError,
            "simple buckets",
        ),
        (
            "MERGE_ON_READ",
            9,
            {**BUCKETS, "hoodie.clean.failed.writes.policy": "EAGER"},
            ConfigError,
            "would roll back what others",
        ),
    ]
    for number, (kind, version, options, error, text) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        plain = {n: v for n, v in options.items() if "policy" not in n}
        table = create(spark, folder, kind, version, plain)
        with pytest.raises(error, match=text):
            table.upsert(rows(spark, [("a", "x", 1, 1)]), options={**options, **NBCC})
        assert table.timeline() == []
    options = {**BUCKETS, **NBCC}
    (tmp_path / "overwrite").mkdir()
    table = create(spark, tmp_path / "overwrite", "MERGE_ON_READ", 9, options)
    with pytest.raises(UnsupportedTableError, match="retires file groups"):
        table.insert_overwrite(rows(spark, [("a", "x", 1, 1)]), options=options)
    with pytest.raises(UnsupportedTableError, match="retires file groups"):
        table.delete_partitions(["p=x"], options=options)


def meanwhile(patch: pytest.MonkeyPatch, step: str, act: Callable[[], object]) -> None:
    """Let something happen once, right before a write begins on the timeline, or commits."""
    real = getattr(WriteSession, step)
    left = [act]

    def interrupted(session: WriteSession, *args: Any, **given: Any) -> Any:
        if left:
            left.pop()()
        return real(session, *args, **given)

    patch.setattr(WriteSession, step, interrupted)


def test_b24_an_update_is_made_of_what_others_left(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(spark, tmp_path, "COPY_ON_WRITE", 9, OCC)
    table.upsert(rows(spark, [("a", "x", 1, 1)]), options=OCC)
    meanwhile(
        monkeypatch, "begin", lambda: table.upsert(rows(spark, [("a", "x", 2, 5)]), options=OCC)
    )
    done = table.update_where(
        "id = 'a'",
        {"v": "v + 10"},
        options={**OCC, "hoodie.write.num.retries.on.conflict.failures": "1"},
    )
    assert done.attempts == 2
    assert found(table) == {"a": (2, 15)}


def test_b18_a_record_index_has_a_key_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        **OCC,
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
    }
    table = create(spark, tmp_path, "COPY_ON_WRITE", 9, options)
    table.upsert(rows(spark, [("a", "x", 1, 1)]), options=options)

    def late(new: tuple[str, str, int, int]) -> Callable[[], Commit]:
        return lambda: table.insert_overwrite(rows(spark, [new]), options=options)

    with monkeypatch.context() as patch:
        meanwhile(patch, "commit", late(("k", "y", 2, 2)))
        with pytest.raises(WriteConflictError, match="added the same keys"):
            table.upsert(rows(spark, [("k", "x", 3, 3)]), options=options)
    with monkeypatch.context() as patch:
        meanwhile(patch, "begin", late(("o", "x", 2, 2)))
        with pytest.raises(WriteConflictError, match="both changed the same file group"):
            table.upsert(rows(spark, [("a", "x", 3, 3)]), options=options)
    assert found(table) == {"k": (2, 2), "o": (2, 2)}
