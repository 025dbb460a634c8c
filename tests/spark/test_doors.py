"""The reading doors of a table: columns, conditions, times, the data source, and refusals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelake
from tests.conftest import Unpack
from tests.golden import harness
from tidelake import (
    ConfigError,
    CorruptFileError,
    IncrementalRangeError,
    MissingFileError,
    NotATableError,
    SchemaError,
    Table,
    TableNotFoundError,
    TidelakeError,
    TimeTravelError,
    UnsupportedTableError,
)
from tidelake.records import META_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOR = "v9_mor_bucket_event_time"
COW = "v9_cow_cdc_data_before_after"


def rows(frame: DataFrame) -> list[str]:
    return harness.canonical(json.loads(str(text)) for text in frame.toJSON().collect())


@pytest.fixture
def damaged(golden_table: Unpack, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function from a golden table's name to a copy that may be changed."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(golden_table(name), tmp_path / name))

    return copy


def test_columns_come_in_the_order_asked_for_and_meta_columns_first(
    spark: SparkSession, golden_table: Unpack
) -> None:
    table = Table.open(spark, str(golden_table(MOR)))
    assert table.read().columns == table.schema.names
    assert table.read(columns=["ts", "order_id"]).columns == ["ts", "order_id"]
    assert table.read(meta=True).columns == [*META_COLUMNS, *table.schema.names]
    with pytest.raises(SchemaError, match="no column 'absent'"):
        table.read(columns=["absent"])


@pytest.mark.parametrize("path", ["auto", "mask", "rows"])
@pytest.mark.parametrize(
    "where", ["region = 'emea' AND ts > 15", "order_id IN ('o0001', 'o0012')", "amount IS NULL"]
)
def test_a_condition_gives_the_rows_that_filtering_the_whole_table_gives(
    spark: SparkSession, golden_table: Unpack, path: str, where: str
) -> None:
    table = Table.open(spark, str(golden_table(MOR)), {"hoodie.read.merge.path": path})
    found = table.read(columns=["note"], where=where)
    assert found.columns == ["note"]
    assert rows(found) == rows(table.read().where(where).select("note"))


def test_a_condition_on_an_unknown_column_names_the_columns_there_are(
    spark: SparkSession, golden_table: Unpack
) -> None:
    with pytest.raises(SchemaError, match="absent") as refused:
        Table.open(spark, str(golden_table(MOR))).read(where="absent = 1")
    assert "order_id" in refused.value.next_step


@pytest.mark.parametrize("name", [MOR, COW])
def test_the_data_source_answers_as_the_table_does(
    spark: SparkSession, golden_table: Unpack, name: str
) -> None:
    root = str(golden_table(name))
    table = Table.open(spark, root)
    writes = [i for i in table.timeline() if i.is_completed]
    first, last = writes[0].completion_time or "", writes[-1].completion_time or ""
    tidelake.register(spark)

    def load(**options: str) -> DataFrame:
        named = {name.replace("__", "."): value for name, value in options.items()}
        return spark.read.format("tidelake").options(**named).load(root)

    assert load().columns == table.read(meta=True).columns
    assert rows(load()) == rows(table.read())
    assert rows(load(as__of__instant=first)) == rows(table.read(as_of=first))
    window = {"hoodie__datasource__query__type": "incremental"}
    window["hoodie__datasource__read__begin__instanttime"] = first
    window["hoodie__datasource__read__end__instanttime"] = last
    assert rows(load(**window)) == rows(table.incremental(start=first, end=last))
    if name == COW:
        window["hoodie__datasource__query__incremental__format"] = "cdc"
        assert rows(load(**window)) == rows(table.changes(start=first, end=last))


def test_what_is_no_table_is_told_from_what_is_not_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    absent = str(tmp_path / "absent")
    assert not Table.exists(spark, absent)
    assert not Table.exists(spark, str(tmp_path))
    with pytest.raises(TableNotFoundError):
        Table.open(spark, absent)
    with pytest.raises(NotATableError):
        Table.open(spark, str(tmp_path))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def fill_with_garbage(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


DAMAGES: list[tuple[str, Callable[[Path], None], type[TidelakeError]]] = [
    ("*/*.parquet", cut_short, CorruptFileError),
    ("*/*.parquet", Path.unlink, MissingFileError),
    ("*/*.parquet", fill_with_garbage, CorruptFileError),
    (".hoodie/timeline/*_*.commit", cut_short, CorruptFileError),
    (".hoodie/hoodie.properties", fill_with_garbage, TidelakeError),
]


@pytest.mark.parametrize(("files", "damage", "error"), DAMAGES)
def test_a_damaged_file_is_named(
    spark: SparkSession,
    damaged: Callable[[str], Path],
    files: str,
    damage: Callable[[Path], None],
    error: type[TidelakeError],
) -> None:
    root = damaged("v9_cow_bucket_event_time")
    for path in sorted(root.glob(files)):
        damage(path)
    with pytest.raises(error) as refused:
        Table.open(spark, str(root)).read().collect()
    assert refused.value.next_step


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("hoodie.table.version", "12", UnsupportedTableError),
        ("hoodie.timeline.layout.version", "1", UnsupportedTableError),
        ("hoodie.table.type", "SIDEWAYS", TidelakeError),
        ("hoodie.table.name", "renamed", TidelakeError),
    ],
)
def test_a_table_we_do_not_know_is_refused_by_name(
    spark: SparkSession,
    damaged: Callable[[str], Path],
    key: str,
    value: str,
    error: type[TidelakeError],
) -> None:
    properties = damaged(MOR) / ".hoodie" / "hoodie.properties"
    lines = [
        f"{key}={value}" if line.startswith(f"{key}=") else line
        for line in properties.read_text().splitlines()
    ]
    properties.write_text("\n".join(lines))
    with pytest.raises(error):
        Table.open(spark, str(properties.parent.parent))


def test_times_outside_of_what_the_table_remembers_are_refused(
    spark: SparkSession, golden_table: Unpack
) -> None:
    table = Table.open(spark, str(golden_table("v9_cow_cleaned")))
    with pytest.raises(TimeTravelError, match="did not exist"):
        table.read(as_of="2020-01-01")
    with pytest.raises(TimeTravelError, match="cleaned"):
        table.read(as_of="20261115081208099")
    with pytest.raises(ConfigError, match="not a point in time"):
        table.read(as_of="yesterday")
    with pytest.raises(ConfigError, match="after its end"):
        table.incremental(start="20270101000000000", end="20260101000000000")
    with pytest.raises(ConfigError, match="change log"):
        table.changes()


def test_changes_that_were_archived_are_refused(spark: SparkSession, golden_table: Unpack) -> None:
    options = {"hoodie.datasource.query.type": "incremental", "as.of.instant": "2026-01-01"}
    with pytest.raises(ConfigError, match="incremental"):
        Table.open(spark, str(golden_table(MOR)), options)
    with pytest.raises(IncrementalRangeError):
        Table.open(spark, str(golden_table("v6_cow_no_meta"))).incremental()
