"""What the writing doors take and refuse, and what a refusal leaves: nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

import tidelake
from tidelake import (
    Commit,
    ConfigError,
    InputChangedError,
    NotATableError,
    SchemaError,
    Table,
    TableExistsError,
    TidelakeError,
)
from tidelake.config import WriteOperation, WriteOptions
from tidelake.env import Env
from tidelake.formats.file_name import bucket_number
from tidelake.operations.open_table import open_state
from tidelake.records.keys import bucket_of, split_record_key
from tidelake.spark.write.writer import Writer
from tidelake.storage import open_storage
from tidelake.testing import FaultyStorage

SCHEMA = "id string, city string, ts bigint, fare int"
Rows = Sequence[tuple[Any, ...]]
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "5"}


@pytest.fixture
def trips(spark: SparkSession, tmp_path: Path) -> Table:
    table = Table.create(
        spark,
        str(tmp_path / "trips"),
        SCHEMA,
        key="id",
        partition_by="city",
        ordering="ts",
        table_type="MERGE_ON_READ",
    )
    table.upsert(frame(spark, [("a", "oslo", 1, 10), ("b", "rom", 1, 20)]))
    return table


def frame(spark: SparkSession, rows: Rows, schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(list(rows), schema)


def rows(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    found = table.read(columns=columns or None).collect()
    return sorted((tuple(row) for row in found), key=str)


def files(table: Table) -> list[str]:
    return sorted(str(p) for p in Path(table.path).rglob("*") if p.is_file())


REFUSED: list[tuple[Callable[[SparkSession, Table], object], type[TidelakeError], str]] = [
    (lambda s, t: t.upsert(frame(s, [(None, "oslo", 1, 1)])), SchemaError, "record key"),
    (lambda s, t: t.upsert(frame(s, [("", "oslo", 1, 1)])), SchemaError, "record key"),
    (lambda s, t: t.bulk_insert(frame(s, [(None, "oslo", 1, 1)])), SchemaError, "record key"),
    (lambda s, t: t.delete(frame(s, [(None, "oslo", 1, 1)])), SchemaError, "record key"),
    (lambda s, t: t.insert(frame(s, [("c", None, 1, 1)])), SchemaError, "partition field"),
    (
        lambda s, t: t.insert_overwrite(frame(s, [("c", "oslo", 1, 1), (None, "oslo", 1, 1)])),
        SchemaError,
        "1 row has no value in the record key",
    ),
    (
        lambda s, t: t.insert(frame(s, [("c", "oslo")], "i string, city string")),
        SchemaError,
        "record key field id is no column",
    ),
    (
        lambda s, t: t.upsert(frame(s, [("c", "oslo")], "id string, city string")),
        SchemaError,
        "ordering column ts",
    ),
    (
        lambda s, t: t.delete(frame(s, [("c",)], "id string")),
        SchemaError,
        "partition field city is no column",
    ),
    (
        lambda s, t: t.upsert(
            frame(s, [("c", "oslo", 1, True)], SCHEMA.replace(" int", " boolean"))
        ),
        SchemaError,
        "fare is int in the table and boolean",
    ),
    (
        lambda s, t: t.upsert(frame(s, [("c", "oslo", 1, 1, 1)], f"{SCHEMA}, FARE int")),
        SchemaError,
        "case of their letters",
    ),
    (
        lambda s, t: t.insert(
            frame(s, [("a", "oslo", 1, 1)]),
            options={"hoodie.datasource.insert.dup.policy": "fail"},
        ),
        SchemaError,
        "'a' is in the table already",
    ),
    (
        lambda s, t: t.insert(
            frame(s, [("z", "oslo", 1, 1)] * 2), options={"hoodie.sql.insert.mode": "strict"}
        ),
        SchemaError,
        "'z' is in the table already, or comes twice",
    ),
    (lambda _, t: t.delete_where("nope = 1"), SchemaError, "condition nope"),
    (lambda _, t: t.update_where("fare = 10", {"id": "'z'"}), SchemaError, "part of the record"),
    (lambda _, t: t.update_where("fare = 10", {"nope": "1"}), SchemaError, "no column nope"),
    (lambda _, t: t.update_where("fare = 10", {"fare": "nope + 1"}), SchemaError, "new values"),
    (
        lambda _, t: t.update_where("fare = 10", {"fare": "5000000000"}),
        SchemaError,
        "1 row has a value that column fare does not hold",
    ),
    (
        lambda _, t: t.update_where("fare = 10", {"fare": "1", "FARE": "2"}),
        SchemaError,
        "sets fare twice",
    ),
    (lambda _, t: t.delete_partitions(["city=nope"]), ConfigError, "no partition"),
    (
        lambda s, t: t.write(
            frame(s, []), options={"hoodie.datasource.write.operation": "delete_partition"}
        ),
        ConfigError,
        "takes no rows, and no partition is named",
    ),
    (
        lambda s, t: t.write(
            frame(s, []),
            options={
                "hoodie.datasource.write.operation": "delete_partition",
                "hoodie.datasource.write.partitions.to.delete": "city=nope",
            },
        ),
        ConfigError,
        "no partition",
    ),
    (
        lambda s, t: t.upsert(frame(s, []), options={"hoodie.write.table.version": "6"}),
        ConfigError,
        "the table has 9",
    ),
    (
        lambda s, t: t.upsert(
            frame(s, []), options={"hoodie.datasource.write.recordkey.field": "city"}
        ),
        ConfigError,
        "the table has id",
    ),
    (
        lambda s, t: t.upsert(
            frame(s, []), options={"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
        ),
        ConfigError,
        "the table has MERGE_ON_READ",
    ),
    (
        lambda s, t: t.upsert(
            frame(s, []), options={"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
        ),
        ConfigError,
        "the table has EVENT_TIME_ORDERING",
    ),
    (
        lambda s, t: t.upsert(frame(s, []), options={"hoodie.index.type": "BUCKET"}),
        ConfigError,
        "name no bucket",
    ),
    (
        lambda s, t: t.upsert(
            frame(s, []),
            options={"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
        ),
        ConfigError,
        "NON_BLOCKING_CONCURRENCY_CONTROL takes",
    ),
    (lambda s, t: Table.create(s, t.path, SCHEMA, key="id"), TableExistsError, "already"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("call", "error", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_bad_input_is_refused_before_any_file_is_written(
    spark: SparkSession,
    trips: Table,
    call: Callable[[SparkSession, Table], object],
    error: type[TidelakeError],
    said: str,
) -> None:
    before = files(trips)
    with pytest.raises(error, match=said):
        call(spark, trips)
    assert files(trips) == before


@pytest.mark.slow
def test_another_number_of_buckets_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(spark, str(tmp_path / "t"), SCHEMA, key="id", options=BUCKETS)
    table.insert(frame(spark, [("a", "oslo", 1, 1)]))
    before = files(table)
    with pytest.raises(ConfigError, match=r"num\.buckets is 7, but"):
        table.upsert(
            frame(spark, [("a", "oslo", 2, 2)]),
            options={**BUCKETS, "hoodie.bucket.index.num.buckets": "7"},
        )
    assert files(table) == before


class Changing:
    """Rows that are others each time they are run; `counter` says how often that was."""

    def __init__(self, counter: Path, runs: Sequence[Rows]) -> None:
        self._counter = counter
        self._runs = runs

    def __call__(self, _: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = len(self._counter.read_bytes()) if self._counter.exists() else 0
        self._counter.write_bytes(b"x" * (run + 1))
        rows = self._runs[min(run, len(self._runs) - 1)]
        names = [part.split()[0] for part in SCHEMA.split(", ")]
        columns = zip(*rows, strict=True)
        kinds = (pa.string(), pa.string(), pa.int64(), pa.int32())
        made = [pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(made, names)


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("operation", [WriteOperation.UPSERT, WriteOperation.INSERT_OVERWRITE])
def test_rows_that_change_between_two_runs_are_not_written(
    spark: SparkSession, trips: Table, tmp_path: Path, operation: WriteOperation
) -> None:
    runs = [[("a", "oslo", 9, 1), ("c", "oslo", 9, 1)], [("a", "oslo", 9, 1), ("d", "oslo", 9, 1)]]
    given = spark.range(0, 1, 1, 1).mapInArrow(Changing(tmp_path / "runs", runs), SCHEMA)

    def lose_what_spark_kept(_number: int, _name: str, path: str) -> None:
        if path.endswith(".inflight"):
            spark.catalog.clearCache()

    storage = FaultyStorage(open_storage(trips.path), lose_what_spark_kept)
    state = open_state(trips.path)
    before = [path for path in files(trips) if ".hoodie" not in path]
    writer = Writer(spark, Env(storage), state, WriteOptions.from_options({}))
    with pytest.raises(InputChangedError, match="2 that were not the same"):
        writer.write(operation, given)
    assert rows(trips) == [("a", "oslo", 1, 10), ("b", "rom", 1, 20)]
    assert [path for path in files(trips) if ".hoodie" not in path] == before
    assert not [i for i in trips.timeline() if i.completion_time is None]


@pytest.mark.slow
def test_a_row_that_loses_its_key_between_two_runs_is_not_written(
    spark: SparkSession, trips: Table, tmp_path: Path
) -> None:
    runs: list[Rows] = [[("c", "oslo", 9, 1)], [(None, "oslo", 9, 1)]]
    given = spark.range(0, 1, 1, 1).mapInArrow(Changing(tmp_path / "runs", runs), SCHEMA)
    before = [path for path in files(trips) if ".hoodie" not in path]
    with pytest.raises(InputChangedError, match="without a record key came up"):
        trips.bulk_insert(given)
    assert [path for path in files(trips) if ".hoodie" not in path] == before
    assert rows(trips) == [("a", "oslo", 1, 10), ("b", "rom", 1, 20)]


@pytest.mark.slow
def test_other_data_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1")
    with pytest.raises(NotATableError, match=r"x\.csv"):
        Table.create(spark, str(tmp_path), SCHEMA, key="id")
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.slow
def test_a_null_in_a_required_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(spark, str(tmp_path / "t"), "id string, v int not null", key="id")
    with pytest.raises(SchemaError, match="null in v, which the table requires"):
        table.upsert(frame(spark, [("a", None)], "id string, v int"))
    table.upsert(frame(spark, [("a", 1)], "id string, v int"))
    with pytest.raises(SchemaError, match="null in v, which the table requires"):
        table.update_where("id = 'a'", {"v": "null"})
    assert rows(table) == [("a", 1)]


@pytest.mark.slow
def test_the_same_write_id_commits_once(spark: SparkSession, trips: Table) -> None:
    first = trips.upsert(frame(spark, [("c", "oslo", 1, 1)]), write_id="batch 1")
    again = trips.upsert(frame(spark, [("d", "oslo", 1, 1)]), write_id="batch 1")
    assert again == first
    assert [r[0] for r in rows(trips, "id")] == ["a", "b", "c"]


@pytest.mark.slow
def test_a_commit_says_what_it_did(spark: SparkSession, trips: Table) -> None:
    done: Commit = trips.upsert(frame(spark, [("a", "oslo", 2, 11), ("c", "bern", 1, 1)]))
    assert (done.operation, done.action.value, done.inserts, done.updates) == (
        "UPSERT",
        "deltacommit",
        1,
        1,
    )
    assert trips.timeline()[-1].requested_time == done.requested_time
    assert trips.delete_where("id = 'c'").deletes == 1
    assert trips.upsert(frame(spark, [])).files_written == 0


@pytest.mark.slow
def test_columns_are_added_widened_and_left_out(spark: SparkSession, trips: Table) -> None:
    trips.upsert(frame(spark, [("a", "oslo", 2, 11, "hi")], f"{SCHEMA}, note string"))
    trips.upsert(frame(spark, [("b", "rom", 2, 2**40)], SCHEMA.replace(" int", " bigint")))
    trips.upsert(frame(spark, [("c", "rom", 1)], "id string, city string, ts bigint"))
    assert rows(trips) == [
        ("a", "oslo", 2, 11, "hi"),
        ("b", "rom", 2, 2**40, None),
        ("c", "rom", 1, None, None),
    ]
    assert trips.schema.simpleString().startswith("struct<id:string,city:string,ts:bigint")
    with pytest.raises(SchemaError, match=r"missing\.columns"):
        trips.upsert(
            frame(spark, [("c", "rom", 2)], "id string, city string, ts bigint"),
            options={"hoodie.datasource.write.reconcile.schema": "false"},
        )


@pytest.mark.deep
@pytest.mark.slow
def test_an_update_may_not_change_a_field_of_the_key(spark: SparkSession, tmp_path: Path) -> None:
    schema = "who struct<id: string, name: string>, ts bigint"
    table = Table.create(spark, str(tmp_path / "t"), schema, key="who.id", ordering="ts")
    table.upsert(frame(spark, [(("a", "x"), 1)], schema))
    with pytest.raises(SchemaError, match="who is part of the record key"):
        table.update_where("ts = 1", {"who": "named_struct('id', 'b', 'name', 'x')"})


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("ansi", ["false", "true"])
def test_an_update_stores_no_number_that_is_another(
    spark: SparkSession, trips: Table, ansi: str
) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        with pytest.raises(SchemaError, match="column fare does not hold"):
            trips.update_where("id = 'a'", {"fare": "fare + 5000000000"})
        trips.update_where("id = 'a'", {"FARE": "fare + 5L"})
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")
    assert rows(trips) == [("a", "oslo", 1, 15), ("b", "rom", 1, 20)]


@pytest.mark.slow
def test_rows_older_than_the_tables_lose(spark: SparkSession, trips: Table) -> None:
    trips.upsert(frame(spark, [("a", "oslo", 0, 99), ("b", "rom", 1, 21)]))
    assert rows(trips) == [("a", "oslo", 1, 10), ("b", "rom", 1, 21)]


@pytest.mark.slow
def test_duplicates_of_an_insert_are_dropped_kept_or_combined(
    spark: SparkSession, trips: Table
) -> None:
    new = frame(spark, [("a", "oslo", 1, 1), ("c", "oslo", 1, 1)])
    thrice = new.union(frame(spark, [("c", "oslo", 3, 3), ("c", "oslo", 2, 2)]))
    trips.insert(thrice, options={"hoodie.datasource.write.insert.drop.duplicates": "true"})
    assert rows(trips)[2:] == [("c", "oslo", 3, 3)]
    trips.insert(thrice, options={"hoodie.datasource.insert.dup.policy": "drop"})
    assert [r[0] for r in rows(trips, "id")] == ["a", "b", "c"]
    twice = frame(spark, [("d", "oslo", 1, 1), ("d", "oslo", 2, 2)])
    trips.insert(twice, options={"hoodie.combine.before.insert": "true"})
    assert [r[0] for r in rows(trips, "id")] == ["a", "b", "c", "d"]
    trips.insert(new)
    assert [r[0] for r in rows(trips, "id")] == ["a", "a", "b", "c", "c", "d"]


@pytest.mark.slow
def test_keys_of_another_type_are_refused_where_they_would_be_other_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table.create(
        spark, str(tmp_path / "t"), "id double, p double, v int", key="id", partition_by="p"
    )
    old = [(1.0, 2.0, 3)]
    table.upsert(frame(spark, old, "id double, p double, v int"))
    for kinds in ("id int, p double, v int", "id double, p bigint, v int"):
        new = frame(spark, [(1.0, 2.0, 3)], "id double, p double, v int").selectExpr(
            *(f"cast({c.split()[0]} as {c.split()[1]})" for c in kinds.split(", "))
        )
        for write in (table.upsert, table.insert, table.delete, table.insert_overwrite):
            with pytest.raises(SchemaError, match="spelled in another way"):
                write(new)
        with pytest.raises(SchemaError, match="spelled in another way"):
            table.merge(new).when_matched_delete().execute()
    assert rows(table) == old


@pytest.mark.slow
def test_a_bulk_insert_drops_duplicates_as_an_insert_does(
    spark: SparkSession, trips: Table
) -> None:
    new = frame(spark, [("a", "oslo", 9, 9), ("c", "oslo", 3, 3), ("c", "oslo", 2, 2)])
    with pytest.raises(SchemaError, match=r"'[ac]' is in the table already, or comes twice"):
        trips.bulk_insert(new, options={"hoodie.datasource.insert.dup.policy": "fail"})
    trips.bulk_insert(new, options={"hoodie.datasource.insert.dup.policy": "drop"})
    assert [r[0] for r in rows(trips, "id")] == ["a", "b", "c"]
    assert rows(trips)[2] == ("c", "oslo", 3, 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_condition_changes_the_rows_that_meet_it_among_duplicates(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = Table.create(
        spark, str(tmp_path / "t"), SCHEMA, key="id", partition_by="city", table_type=kind
    )
    table.bulk_insert(frame(spark, [("a", "oslo", 1, n) for n in range(4)]).coalesce(1))
    if kind == "MERGE_ON_READ":
        with pytest.raises(SchemaError, match="key 'a' is there several times"):
            table.delete_where("fare = 1")
        assert len(rows(table)) == 4
        return
    assert table.delete_where("fare = 1").deletes == 1
    assert table.update_where("fare >= 2", {"fare": "fare + 10"}).updates == 2
    assert rows(table) == [("a", "oslo", 1, 0), ("a", "oslo", 1, 12), ("a", "oslo", 1, 13)]


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", ["NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION_AND_SORT"]
)
def test_sort_modes_of_a_bulk_insert(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = Table.create(spark, str(tmp_path / "t"), SCHEMA, key="id", partition_by="city")
    many = spark.range(0, 300, 1, 3).select(
        F.format_string("k%03d", (F.col("id") * 7) % 300).alias("id"),
        F.format_string("c%d", F.col("id") % 4).alias("city"),
        F.col("id").alias("ts"),
        F.col("id").cast("int").alias("fare"),
    )
    table.bulk_insert(many, options={"hoodie.bulkinsert.sort.mode": mode})
    assert rows(table) == sorted((tuple(r) for r in many.collect()), key=str)
    ordered = table.read(columns=["id"], meta=True).collect()
    if mode != "NONE":
        by_file: dict[str, list[str]] = {}
        for row in sorted(ordered, key=lambda r: int(r["_hoodie_commit_seqno"].split("_")[2])):
            by_file.setdefault(row["_hoodie_file_name"], []).append(row["id"])
        assert all(keys == sorted(keys) for keys in by_file.values())


TYPES = (
    "k string, b boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f float, d double, "
    "n9 decimal(9,2), n18 decimal(18,4), n38 decimal(38,10), s string, raw binary, day date, "
    "t timestamp, tn timestamp_ntz, a array<string>, m map<string,bigint>, "
    "st struct<x:int,y:array<struct<z:string>>>"
)
FULL: tuple[Any, ...] = (
    "k1",
    True,
    -128,
    -32768,
    2**31 - 1,
    -(2**63),
    1.5,
    float("-inf"),
    Decimal("-1234567.89"),
    Decimal("12345678901234.5678"),
    Decimal("-1234567890123456789012345678.0123456789"),
    "ü, 雪 'q' \\",
    b"\x00\xff",
    date(1901, 2, 3),
    datetime(2026, 3, 1, 10, 15, 0, 123456, tzinfo=timezone.utc),
    datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - a local timestamp
    ["a", None, ""],
    {"one": 1, "none": None},
    (7, [("z",), (None,)]),
)
EMPTY: tuple[Any, ...] = ("k2", *[None] * 18)
HALF: tuple[Any, ...] = ("k3", False, *[None] * 14, [], {}, (None, None))


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("table_type", "log_format"),
    [("COPY_ON_WRITE", "avro"), ("MERGE_ON_READ", "avro"), ("MERGE_ON_READ", "parquet")],
)
@pytest.mark.parametrize("version", [6, 9])
def test_every_type_comes_back_as_it_went(
    spark: SparkSession, tmp_path: Path, table_type: str, log_format: str, version: int
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = Table.create(
        spark,
        str(tmp_path / "t"),
        TYPES,
        key="k",
        table_type=table_type,
        table_version=version,
        options={**BUCKETS, "hoodie.logfile.data.block.format": log_format},
    )
    table.bulk_insert(frame(spark, [FULL, EMPTY, HALF], TYPES))
    assert str(rows(table)) == str(_as_rows(spark, [FULL, EMPTY, HALF]))
    swapped = [("k1", *EMPTY[1:]), ("k2", *FULL[1:]), ("k3", *FULL[1:])]
    table.upsert(frame(spark, swapped, TYPES))
    assert str(rows(table)) == str(_as_rows(spark, swapped))


def _as_rows(spark: SparkSession, given: Rows) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame(spark, given, TYPES).collect()), key=str)


def test_a_number_that_is_none_is_found_among_others(spark: SparkSession, tmp_path: Path) -> None:
    first = spark.sql("select id, if(id = 2, double('NaN'), id / 4) as x from range(5)")
    table = Table.create(spark, str(tmp_path / "numbers"), first, key="id")
    table.insert(first.coalesce(1))
    assert [r.id for r in table.read(where="x > 7.5").collect()] == [2]
    assert [r.id for r in table.read(where="x = double('NaN')").collect()] == [2]
    assert [r.id for r in table.read(where="x > 0.5").orderBy("id").collect()] == [2, 3, 4]


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_nan_is_the_greatest_ordering_value_and_minus_zero_is_below_zero(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    schema = "id string, ts double, v int"
    table = Table.create(
        spark, str(tmp_path / "t"), schema, key="id", ordering="ts", table_type=table_type
    )
    table.upsert(frame(spark, [("a", float("nan"), 1), ("b", 0.0, 1), ("c", 1.0, 1)], schema))
    table.upsert(frame(spark, [("a", 9.9, 2), ("b", -0.0, 2), ("c", float("nan"), 2)], schema))
    assert rows(table, "id", "v") == [("a", 1), ("b", 1), ("c", 2)]


ODD_KEYS = [
    "a",
    "a,b",
    "x:y",
    "p,q:r",
    "id:5,z",
    ",",
    ":",
    "é😀",
    "k" * 5000,
    " ",
    "%2F",
    "__null__",
]


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("door", ["table", "data source"])
@pytest.mark.parametrize(("key", "kind"), [("id", None), ("id", "COMPLEX"), ("id,n", None)])
def test_keys_with_separators_find_the_bucket_that_hudi_gives_them(
    spark: SparkSession, tmp_path: Path, key: str, kind: str | None, door: str
) -> None:
    tidelake.register(spark)
    schema = "id string, n string, v int"
    options = {**BUCKETS, **({"hoodie.datasource.write.keygenerator.type": kind} if kind else {})}
    table = Table.create(spark, str(tmp_path / "t"), schema, key=key, options=options)
    given = [(text, f"n{text[:20]}", at) for at, text in enumerate(ODD_KEYS)]
    for step in (0, 100):
        new = frame(spark, [(a, b, v + step) for a, b, v in given], schema)
        if door == "table":
            table.upsert(new)
        else:
            new.write.format("tidelake").mode("append").save(table.path)
    assert rows(table) == sorted(((a, b, v + 100) for a, b, v in given), key=str)
    for row in table.read(meta=True).collect():
        wanted = bucket_of(split_record_key(row["_hoodie_record_key"], key.split(",")), 5)
        assert bucket_number(row["_hoodie_file_name"].partition("_")[0]) == wanted


@pytest.mark.slow
def test_partitions_are_named_by_value_too(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(
        spark,
        str(tmp_path / "t"),
        SCHEMA,
        key="id",
        partition_by="city",
        options={"hoodie.datasource.write.hive_style_partitioning": "false"},
    )
    table.insert(frame(spark, [("a", "oslo", 1, 1), ("b", "rom", 1, 1), ("c", "bern", 1, 1)]))
    done = table.delete_partitions(["city=oslo", "rom"])
    assert (done.operation, done.action.value) == ("DELETE_PARTITION", "replacecommit")
    assert [r[0] for r in rows(table, "id")] == ["c"]


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
@pytest.mark.parametrize("version", ["6", "9"])
def test_the_data_source_writes_with_hudis_options(
    spark: SparkSession, tmp_path: Path, index: str, version: str
) -> None:
    tidelake.register(spark)
    path = str(tmp_path / "t")
    options = {
        **(BUCKETS if index == "BUCKET" else {"hoodie.index.type": index}),
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.table.version": version,
    }

    def write(given: Rows, operation: str, mode: str = "append") -> list[tuple[Any, ...]]:
        name = "hoodie.datasource.write.operation"
        new = frame(spark, given).repartition(2)
        new.write.format("tidelake").options(**options).option(name, operation).mode(mode).save(
            path
        )
        return rows(Table.open(spark, path))

    one, two = ("a", "oslo", 1, 1), ("b", "rom", 1, 1)
    assert write([one, two], "upsert") == [one, two]
    newer = ("a", "oslo", 2, 2)
    assert write([newer, ("b", "rom", 0, 9), ("c", "rom", 1, 3)], "upsert") == [
        newer,
        two,
        ("c", "rom", 1, 3),
    ]
    assert write([("c", "rom", 0, 0), ("nobody", "rom", 0, 0)], "delete") == [newer, two]
    assert write([("d", "bern", 1, 4)], "insert") == [newer, two, ("d", "bern", 1, 4)]
    assert write([("e", "rom", 1, 5)], "insert_overwrite") == [
        newer,
        ("d", "bern", 1, 4),
        ("e", "rom", 1, 5),
    ]
    assert write([("f", "rom", 1, 6)], "bulk_insert", "overwrite") == [("f", "rom", 1, 6)]
    before = sorted(p.name for p in Path(path).rglob("*.parquet"))
    with pytest.raises(Exception, match="no value in the record key"):
        write([(None, "rom", 1, 6)], "upsert")
    assert sorted(p.name for p in Path(path).rglob("*.parquet")) == before
    assert not list(Path(path, ".hoodie", ".temp").rglob("*.arrow"))


@pytest.mark.slow
def test_the_first_rows_may_bring_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    """As Apache Hudi's DataFrame writer leaves a table whose first write failed."""
    table = Table.create(spark, str(tmp_path / "t"), SCHEMA, key="id", partition_by="city")
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if "create.schema" not in line))
    table.upsert(frame(spark, [("a", "oslo", 1, 10)]))
    assert [tuple(row) for row in table.read().collect()] == [("a", "oslo", 1, 10)]
