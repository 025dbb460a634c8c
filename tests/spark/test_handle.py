"""The handle that people hold: what it takes, what it prints, and which names it has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelake
from tests.conftest import Unpack
from tidelake import MergeBuilder, ScheduledService, SchemaError, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEW_COLUMNS_ONLY = {"hoodie.write.set.null.for.missing.columns": "true"}


@pytest.fixture(scope="module")
def trips(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Return a table at a `pathlib.Path`, with the rows of a list of dicts."""
    path = tmp_path_factory.mktemp("lake") / "trips"
    table = Table.create(
        spark, path, "id int, city string, fare double", key="id", table_type="MERGE_ON_READ"
    )
    assert "last commit none" in repr(table)
    table.insert([{"id": 1, "city": "oslo", "fare": 1}, {"id": 2, "city": "rome"}])
    return table


GIVEN = {
    "pandas": pd.DataFrame({"id": [3], "city": ["pandas"], "fare": [3]}),
    "arrow": pa.table({"id": pa.array([4], pa.int32()), "city": ["arrow"], "fare": [4.0]}),
    "polars": pl.DataFrame(
        {"id": [5], "city": ["polars"], "fare": [5.0]}, schema_overrides={"id": pl.Int32}
    ),
    "dicts": [{"id": 6, "city": "dicts", "fare": 6}],
}


@pytest.mark.parametrize("library", GIVEN)
def test_rows_of_other_libraries_are_written_and_deleted(trips: Table, library: str) -> None:
    schema, number = trips.schema, list(GIVEN).index(library) + 3
    rows: Any = GIVEN[library]
    assert trips.upsert(rows).inserts == 1
    found = trips.read(where=f"city = '{library}'").collect()
    assert [(row.id, row.fare) for row in found] == [(number, float(number))]
    trips.merge(rows, on="id").when_matched_update({"fare": "source.fare * 2"}).execute()
    assert trips.read("fare", f"id = {number}").collect() == [(number * 2.0,)]
    trips.delete(rows)
    assert trips.read(where=f"city = '{library}'").count() == 0
    assert trips.schema == schema


def test_a_table_takes_its_columns_from_rows(spark: SparkSession, tmp_path: Path) -> None:
    given: list[Any] = [*GIVEN.values()]
    for at, rows in enumerate(given):
        table = Table.create(spark, tmp_path / str(at), rows, key="id")
        assert table.schema.names == ["id", "city", "fare"]


def test_values_that_do_not_fit_are_refused_before_anything_is_written(trips: Table) -> None:
    before = trips.timeline()
    with pytest.raises(SchemaError, match="column id has values that do not fit"):
        trips.upsert([{"id": "x", "city": "oslo", "fare": 1.0}])
    assert trips.timeline() == before


def test_one_column_is_given_by_its_name(trips: Table) -> None:
    assert trips.read("city").columns == ["city"]
    assert trips.read_optimized(columns="city").columns == ["city"]
    assert trips.incremental(columns="city").columns == ["city"]


def test_a_table_says_what_it_is(trips: Table) -> None:
    last = trips.timeline()[-1].requested_time
    told = f"type MERGE_ON_READ, version 9, path {trips.path}, last commit {last} (deltacommit)"
    assert repr(trips) == f"<Table trips: {told}>"
    shown = trips._repr_html_()
    assert all(f"<td>{fact}</td>" in shown for fact in ("trips", "9", "MERGE_ON_READ", trips.path))


def test_a_table_that_is_gone_still_says_what_it_was(
    spark: SparkSession, golden_table: Unpack, tmp_path: Path
) -> None:
    place = tmp_path / "copy"
    golden_table("v9_mor_savepoint").rename(place)
    table = Table.open(spark, place)
    place.rename(tmp_path / "elsewhere")
    assert "last commit unknown (nothing lies at" in repr(table)


def test_timeline_and_slices_print_as_tables(trips: Table) -> None:
    lines = repr(trips.timeline()).splitlines()
    assert lines[0].split() == ["REQUESTED", "ACTION", "STATE", "COMPLETED"]
    assert len(lines) == len(trips.timeline()) + 1
    assert repr(trips.slices()).splitlines()[1].startswith("(whole table)")


def test_the_history_is_a_dataframe_with_what_commits_did(
    spark: SparkSession, golden_table: Unpack
) -> None:
    table = Table.open(spark, golden_table("v9_cow_archived_lsm"))
    instants = table.timeline(history=True)
    rows = table.history().collect()
    assert [row.requested_time for row in rows] == [i.requested_time for i in instants]
    assert [row.is_archived for row in rows] == [i.file_name is None for i in instants]
    assert {row.is_archived for row in rows} == {True, False}
    writes = [row for row in rows if row.action == "commit" and row.state == "completed"]
    assert all(row.operation and row.files_written for row in writes)
    others = [row for row in rows if row.action == "clean"]
    assert all(row.operation is None and row.inserts is None for row in others)


def test_services_have_one_form(trips: Table) -> None:
    assert trips.clean() == []
    assert trips.clean.schedule() is None
    instant = trips.compact.schedule()
    assert instant is not None
    planned = next(i for i in trips.timeline() if i.requested_time == instant)
    assert trips.compact.run(planned).requested_time == instant
    assert repr(trips.compact).startswith("<compact: call compact()")
    for service in (trips.compact, trips.clean):
        with pytest.raises(TypeError):
            service({})  # type: ignore[call-arg] # which is the point


def test_a_merge_shows_its_clauses(trips: Table) -> None:
    merge = (
        trips.merge([{"id": 1, "fare": 2.0}], on="id")
        .when_matched_update({"fare": "source.fare"}, condition="source.fare > 1")
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete()
    )
    assert repr(merge).splitlines() == [
        "merge on id, which execute() writes",
        "  when matched and source.fare > 1 update fare",
        "  when not matched insert all",
        "  when not matched by source delete",
    ]
    assert repr(trips.merge([{"id": 1}])).endswith("no clause yet")


@pytest.mark.parametrize("where", ["city = = 1", "city ="])
def test_a_syntax_error_says_what_is_wrong(trips: Table, where: str) -> None:
    with pytest.raises(SchemaError, match="PARSE_SYNTAX_ERROR"):
        trips.read(where=where)
    with pytest.raises(SchemaError, match="PARSE_SYNTAX_ERROR"):
        trips.update_where("id = 1", {"fare": where})


@pytest.mark.parametrize("of", [Table, MergeBuilder, ScheduledService])
def test_flags_are_given_by_name_and_every_type_that_is_returned_can_be_imported(of: type) -> None:
    spoken = {"str", "bool", "int", "list", "None", "DataFrame", "T", "StructType"}
    spoken |= {"Ran_co", "Both_co"}  # of a service: what its property says
    public = [name for name in vars(of) if not name.startswith("_")]
    for name in public:
        found: Any = inspect.getattr_static(of, name)
        method: Any = found.fget if isinstance(found, property) else getattr(of, name)
        for parameter in inspect.signature(method).parameters.values():
            if parameter.annotation == "bool":
                assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, (name, parameter.name)
        for word in re.findall(r"[A-Za-z]\w*", method.__annotations__["return"]):
            assert word in spoken or word in tidelake.__all__, (name, word)
        assert inspect.getdoc(method), name
