"""Upserts of some columns, through the writer of the data source and without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.errors import ConfigError, SchemaError, TidelakeError, UnsupportedTableError
from tidelake.files import read_slice
from tidelake.model import TableType
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state, open_state
from tidelake.operations.task_runner import Here
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.spark.types.to_avro import avro_schema
from tidelake.storage import open_storage
from tidelake.txn import create_table
from tidelake.write.table_spec import table_spec

KINDS: Mapping[str, tuple[T.DataType, pa.DataType]] = {
    "id": (T.StringType(), pa.string()),
    "ts": (T.LongType(), pa.int64()),
    "fare": (T.DoubleType(), pa.float64()),
    "note": (T.StringType(), pa.string()),
}
ALL = tuple(KINDS)
STREAM = {"hoodie.write.partial.update.schema": "*"}
DELETE = {"hoodie.datasource.write.operation": "delete"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
OLD = [("a", 1, 1.0, "old"), ("b", 1, 1.0, "old")]


def struct(columns: Sequence[str], required: Sequence[str] = ()) -> T.StructType:
    return T.StructType([T.StructField(n, KINDS[n][0], n not in required) for n in columns])


def create(
    root: Path,
    kind: TableType = TableType.MERGE_ON_READ,
    version: int = 9,
    required: Sequence[str] = (),
    **options: str,
) -> None:
    given = {name.replace("_", "."): value for name, value in options.items()}
    spec = table_spec(
        avro_schema(struct(ALL, required), "t"),
        WriteOptions.from_options(given),
        name="t",
        key=["id"],
        ordering=["ts"],
        table_type=kind,
        table_version=version,
    )
    create_table(Env(open_storage(str(root))), spec)


def upsert(
    root: Path,
    rows: Sequence[tuple[Any, ...]],
    columns: Sequence[str] = ALL,
    options: Mapping[str, str] | None = None,
) -> None:
    schema = pa.schema([(n, KINDS[n][1]) for n in columns])
    made = [dict(zip(columns, row, strict=True)) for row in rows]
    writer = TidelakeWriter(
        {"path": str(root), **(options or {})}, struct(columns), overwrite=False
    )
    batches = pa.Table.from_pylist(made, schema=schema).to_batches()
    writer.commit([writer.write(iter(batches))])


def read(root: Path) -> dict[str, tuple[Any, ...]]:
    plan = plan_snapshot(open_state(str(root)))
    rows = (r for t in plan.tasks for b in read_slice(t, plan.spec) for r in b.to_pylist())
    return {row["id"]: tuple(row[n] for n in ALL[1:]) for row in rows}


@pytest.mark.parametrize("kind", TableType)
@pytest.mark.parametrize("index", [{}, BUCKET], ids=["simple", "bucket"])
def test_two_streams_each_own_a_column(
    tmp_path: Path, kind: TableType, index: Mapping[str, str]
) -> None:
    create(tmp_path, kind)
    upsert(tmp_path, OLD, options=index)
    fares, notes = ("id", "ts", "fare"), ("id", "ts", "note")
    upsert(tmp_path, [("a", 2, 5.0), ("n", 2, 7.0)], fares, {**index, **STREAM})
    upsert(tmp_path, [("a", 3, None), ("n", 3, "hi")], notes, {**index, **STREAM})
    upsert(tmp_path, [("a", 4, 6.0), ("a", 5, None)], fares, {**index, **STREAM})
    assert read(tmp_path) == {"a": (5, None, None), "b": (1, 1.0, "old"), "n": (3, 7.0, "hi")}


def test_without_the_option_missing_columns_become_null(tmp_path: Path) -> None:
    create(tmp_path)
    upsert(tmp_path, OLD)
    upsert(tmp_path, [("a", 2, 5.0)], ("id", "ts", "fare"))
    assert read(tmp_path)["a"] == (2, 5.0, None)


@pytest.mark.parametrize(
    "given", ["fare", '{"type": "record", "name": "r", "fields": [{"name": "fare"}]}']
)
def test_columns_that_are_not_to_change_may_come_along(tmp_path: Path, given: str) -> None:
    create(tmp_path)
    upsert(tmp_path, OLD)
    upsert(tmp_path, [("a", 2, 5.0, "x")], options={"hoodie.write.partial.update.schema": given})
    assert read(tmp_path)["a"] == (2, 5.0, "old")


@pytest.mark.parametrize("kind", TableType)
def test_a_null_means_unchanged_where_the_table_says_so(tmp_path: Path, kind: TableType) -> None:
    create(tmp_path, kind, hoodie_table_partial_update_mode="IGNORE_DEFAULTS")
    upsert(tmp_path, OLD)
    upsert(tmp_path, [("a", 2, 5.0)], ("id", "ts", "fare"))
    upsert(tmp_path, [("a", 3, None, "new"), ("b", 0, 9.0, None)])
    assert read(tmp_path) == {"a": (3, 5.0, "new"), "b": (1, 1.0, "old")}


def test_a_text_means_unchanged_where_the_table_says_so(tmp_path: Path) -> None:
    create(tmp_path, hoodie_table_partial_update_mode="FILL_UNAVAILABLE")
    upsert(tmp_path, OLD)
    upsert(tmp_path, [("a", 2, None, "__debezium_unavailable_value")])
    assert read(tmp_path)["a"] == (2, None, "old")


def compact(root: Path, options: Mapping[str, str]) -> None:
    storage = open_storage(str(root))
    compactor = Compactor(
        Env(storage),
        lambda: load_state(storage, options),
        WriteOptions.from_options(options),
        Here(),
    )
    planned = compactor.schedule()
    if planned is not None:
        compactor.run(planned)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("index", [{}, BUCKET], ids=["simple", "bucket"])
def test_random_streams_leave_what_the_model_holds_however_often_logs_are_compacted(
    tmp_path: Path, version: int, index: Mapping[str, str]
) -> None:
    for seed in range(4):
        random = Random(seed)
        root = tmp_path / str(seed)
        create(root, version=version)
        model: dict[str, dict[str, Any]] = {}
        for ts in range(1, 9):
            columns = random.choice([ALL, ("id", "ts", "fare"), ("id", "ts", "note")])
            rows: list[dict[str, Any]] = [
                {
                    "id": key,
                    "ts": ts,
                    "fare": random.choice([None, float(ts)]),
                    "note": random.choice([None, f"n{ts}"]),
                }
                for key in random.sample("abcde", 3)
            ]
            options = dict(index) if columns is ALL else {**index, **STREAM}
            upsert(root, [tuple(row[n] for n in columns) for row in rows], columns, options)
            for row in rows:
                old = model.get(row["id"], dict.fromkeys(ALL))
                model[row["id"]] = {**old, **{name: row[name] for name in columns}}
            if random.random() < 0.3:
                gone = random.choice(sorted(model))
                upsert(root, [(gone,)], ("id",), {**index, **DELETE})
                del model[gone]
            if random.random() < 0.3:
                compact(root, index)
            found = {
                key: dict(zip(ALL, (key, *row), strict=True)) for key, row in read(root).items()
            }
            assert found == model, f"seed {seed}, step {ts}"


REFUSED: list[tuple[Any, Mapping[str, str], type[TidelakeError], str]] = [
    ({"version": 6}, STREAM, UnsupportedTableError, "table version 8"),
    ({}, {"hoodie.write.partial.update.schema": "nope"}, SchemaError, "no column nope"),
    ({}, {"hoodie.write.partial.update.schema": "{}"}, ConfigError, "Avro record schema"),
    ({"required": ["note"]}, STREAM, SchemaError, "no column note"),
    (
        {"hoodie_table_partial_update_mode": "IGNORE_DEFAULTS"},
        STREAM,
        UnsupportedTableError,
        "plain merge modes",
    ),
]


@pytest.mark.parametrize(("table", "options", "kind", "words"), REFUSED)
def test_upserts_that_cannot_be_partial_are_refused(
    tmp_path: Path, table: Any, options: Mapping[str, str], kind: type[TidelakeError], words: str
) -> None:
    create(tmp_path, **table)
    with pytest.raises(kind, match=words):
        upsert(tmp_path, [("a", 2, 5.0)], ("id", "ts", "fare"), options)


@pytest.mark.parametrize(
    ("version", "mode", "words"), [(8, "IGNORE_DEFAULTS", "version 9"), (9, "KEEP", "IGNORE_DEF")]
)
def test_modes_that_no_reader_knows_are_refused(
    tmp_path: Path, version: int, mode: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        create(tmp_path, version=version, hoodie_table_partial_update_mode=mode)
