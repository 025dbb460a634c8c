"""Merges: which clause applies to which row, what is refused, and what lies in the logs then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake import (
    Commit,
    ConfigError,
    MergeBuilder,
    SchemaError,
    Table,
    TidelakeError,
    UnsupportedTableError,
)
from tidelake.files.log_records import raw_records
from tidelake.formats.log_block import BlockKind, decode_blocks

SCHEMA = "id string, city string, ts bigint, fare int, note string"
Rows = Sequence[tuple[Any, ...]]
Clauses = Callable[[MergeBuilder], MergeBuilder]
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "cow": {"table_type": "COPY_ON_WRITE"},
    "mor": {"table_type": "MERGE_ON_READ"},
    "mor8": {"table_type": "MERGE_ON_READ", "table_version": 8},
    "mor6": {"table_type": "MERGE_ON_READ", "table_version": 6},
    "bucket": {"table_type": "MERGE_ON_READ", "options": BUCKETS},
}
OLD = [("a", "oslo", 5, 10, "x"), ("b", "oslo", 5, 20, "y"), ("c", "rom", 5, 30, None)]


def frame(spark: SparkSession, rows: Rows, schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(list(rows), schema)


def created(spark: SparkSession, path: Path, kind: str = "mor", **more: Any) -> Table:
    given = {
        "key": "id",
        "partition_by": "city",
        "ordering": "ts",
        **KINDS[kind],
        **more,
    }
    table = Table.create(spark, str(path), SCHEMA, **given)
    table.upsert(frame(spark, OLD))
    return table


def rows(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    found = table.read(columns=columns or None).collect()
    return sorted((tuple(row) for row in found), key=str)


def by_key(table: Table) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in rows(table)}


def files(table: Table) -> list[str]:
    return sorted(str(p) for p in Path(table.path).rglob("*") if p.is_file())


def counts(commit: Commit) -> tuple[int, int, int]:
    return commit.inserts, commit.updates, commit.deletes


def blocks(table: Table) -> list[tuple[bool, list[str]]]:
    """Return whether data blocks are partial, and their columns."""
    logs = sorted(p for p in Path(table.path).rglob(".*.log.*") if ".hoodie/" not in str(p))
    found = [block for path in logs for block in decode_blocks(path.read_bytes())]
    return [
        (b.is_partial, raw_records(b).column_names) for b in found if b.kind is BlockKind.AVRO_DATA
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_match_are_updated_and_others_inserted(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = created(spark, tmp_path / "t", kind)
    news = [("a", "oslo", 6, 11, "n"), ("d", "rom", 1, 40, "w"), ("e", "bern", 1, 50, None)]
    commit = (
        table.merge(frame(spark, news))
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert rows(table) == sorted([news[0], *OLD[1:], *news[1:]], key=str)
    if kind != "bucket":  # where nobody looks before a row is logged
        assert counts(commit) == (2, 1, 0)
    assert len([i for i in table.timeline() if i.is_completed]) == 2


GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}
INDEXED = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("given", [{}, GLOBAL, INDEXED, BUCKETS], ids=lambda o: str(o)[-25:-2])
def test_no_insert_brings_a_key_that_the_table_has(
    spark: SparkSession, tmp_path: Path, given: dict[str, str]
) -> None:
    """Rows that match none may have a key of the table all the same."""
    schema = "id int, part string, city string, ts bigint"
    key: dict[str, Any] = {"key": ["id", "part"], "partition_by": "city", "ordering": "ts"}
    table = Table.create(spark, str(tmp_path / "t"), schema, **key, options=given)
    old = [(1, None, "oslo", 5), (3, "x", "oslo", 5)]
    table.upsert(frame(spark, old, schema))
    own = {"id": "source.id", "part": "source.part", "ts": "source.ts"}

    def merge(row: tuple[Any, ...], on: Any, city: str = "source.city") -> None:
        news = frame(spark, [row], schema)
        table.merge(news, on=on).when_not_matched_insert({**own, "city": city}).execute()

    both = ["id", "part", "city"]
    clashes: list[tuple[tuple[Any, ...], Any, str]] = [((1, None, "oslo", 9), both, "source.city")]
    if given not in (GLOBAL, INDEXED):
        clashes.append(((3, "x", "OSLO", 9), None, "lower(source.city)"))
    else:
        clashes += [
            ((3, "x", "rom", 9), both, "source.city"),
            ((3, "x", "rom", 9), "target.city = source.city", "source.city"),
        ]
    for row, on, city in clashes:
        with pytest.raises(SchemaError, match="which a row of the table has"):
            merge(row, on, city)
    assert rows(table) == sorted(old, key=str)
    merge((4, None, "oslo", 9), both)
    assert len(rows(table)) == 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("word", ["source", "s"])
def test_a_column_may_have_the_name_of_the_source(
    spark: SparkSession, tmp_path: Path, word: str
) -> None:
    schema = "id string, source string, s struct<a: int>, v int"
    table = Table.create(spark, str(tmp_path / "t"), schema, key="id")
    table.upsert(frame(spark, [("a", "x", (1,), 1), ("b", "y", (2,), 2)], schema))
    news = frame(spark, [("a", 7), ("b", 8)], "id string, v int")
    values = {"v": f"{word}.v", "source": f"concat(target.source, {word}.v)"}
    (
        table.merge(news, on=f"target.id = {word}.id")
        .when_matched_update(values, "target.s.a = 1")
        .execute()
    )
    found = sorted(tuple(row) for row in table.read().select("id", "source", "s.a", "v").collect())
    assert found == [("a", "x7", 1, 7), ("b", "y", 2, 2)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("word", ["target", "t"])
def test_all_columns_of_the_table_are_those_of_its_user(
    spark: SparkSession, tmp_path: Path, word: str
) -> None:
    """Rows that are the same in the source stay as they are."""
    table = created(spark, tmp_path / "t")
    news = [*OLD[:2], ("c", "rom", 5, 31, None)]
    differs = f"hash({word}.*) <> hash(source.*)"
    commit = table.merge(frame(spark, news)).when_matched_update_all(differs).execute()
    assert counts(commit) == (0, 1, 0)
    texts = {"note": f"to_json(struct({word}.*))"}
    table.merge(frame(spark, OLD[:1])).when_matched_update(texts).execute()
    told = '{"id":"a","city":"oslo","ts":5,"fare":10,"note":"x"}'
    assert by_key(table)["a"] == ("oslo", 5, 10, told)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_clause_whose_condition_is_true_applies(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = created(spark, tmp_path / "t", kind)
    news = frame(
        spark,
        [
            ("a", "oslo", 9, 1, "gone"),
            ("b", "oslo", 9, 2, None),
            ("c", "rom", 9, 3, "k"),
            ("d", "rom", 9, 4, "no"),
            ("e", "rom", 9, 5, "yes"),
        ],
    )
    (
        table.merge(news, on="target.id = source.id")
        .when_matched_delete("source.note = 'gone'")
        .when_matched_update({"note": "'null'"}, "source.note is null")
        .when_matched_update(
            {"fare": "target.fare + source.fare", "note": "s.note"}, "source.note <> 'z'"
        )
        .when_not_matched_insert(
            {"id": "source.id", "city": "source.city", "ts": "source.ts"}, "source.note = 'yes'"
        )
        .execute()
    )  # fmt: skip
    assert by_key(table) == {
        "b": ("oslo", 5, 20, "null"),
        "c": ("rom", 5, 33, "k"),
        "e": ("rom", 9, None, None),
    }


def test_a_condition_that_is_null_does_not_apply(spark: SparkSession, tmp_path: Path) -> None:
    table = created(spark, tmp_path / "t")
    (
        table.merge(frame(spark, [("c", "rom", 9, 3, "k")]), on=["id"])
        .when_matched_delete("target.note = 'x'")
        .when_matched_update({"fare": "0"}, "not (target.note = 'x')")
        .execute()
    )
    assert rows(table) == sorted(OLD, key=str)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cow", "mor", "bucket"])
def test_rows_that_no_source_row_matches_are_changed_too(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = created(spark, tmp_path / "t", kind)
    commit = (
        table.merge(frame(spark, [("a", "oslo", 6, 1, "n"), ("z", "rom", 6, 2, "z")]), on="id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("target.fare > 20")
        .when_not_matched_by_source_update({"note": "concat(target.note, '!')"})
        .execute()
    )
    assert by_key(table) == {
        "a": ("oslo", 6, 1, "n"),
        "b": ("oslo", 5, 20, "y!"),
        "z": ("rom", 6, 2, "z"),
    }
    assert commit.deletes == 1


def test_names_that_people_use_for_the_two_sides(spark: SparkSession, tmp_path: Path) -> None:
    table = created(spark, tmp_path / "t")
    news = frame(spark, [("a", 7)], "id string, more int")
    told: list[tuple[DataFrame, Any, Any]] = [
        (news, "t.id = s.id", "t.fare + s.more"),
        (news, "t.id = source.id", "target.fare + s.more"),
        (news.alias("updates"), "updates.id = target.id", "target.fare + updates.more"),
        (news, F.col("target.id") == news["id"], F.col("target.fare") + F.col("source.more")),
        (news, "id", "fare + more"),
    ]
    for at, (source, on, value) in enumerate(told, start=1):
        table.merge(source, on=on).when_matched_update({"fare": value}).execute()
        assert by_key(table)["a"][2] == 10 + 7 * at


def test_partitions_that_no_match_can_be_in_are_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = created(spark, tmp_path / "t", "cow")
    (base,) = Path(table.path).glob("city=rom/*.parquet")
    base.rename(base.with_suffix(".gone"))
    news = frame(spark, [("a", "oslo", 6, 1, "n")])
    table.merge(news).when_matched_update_all().execute()
    on = "target.id = source.id and target.city = 'oslo'"
    table.merge(news, on=on).when_matched_update({"fare": "2"}).execute()
    base.with_suffix(".gone").rename(base)
    assert by_key(table)["a"] == ("oslo", 6, 2, "n")


def test_zero_matches_minus_zero_in_another_partition(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id string, p double, note string"
    path = str(tmp_path / "t")
    table = Table.create(spark, path, schema, key="id", partition_by="p")
    table.upsert(frame(spark, [("a", 0.0, "old")], schema))
    news = frame(spark, [("a", -0.0, "new")], schema)
    made = table.merge(news, on=["id", "p"]).when_matched_update({"note": "source.note"}).execute()
    assert counts(made) == (0, 1, 0)
    assert rows(table, "id", "note") == [("a", "new")]


def test_a_builder_is_never_changed(spark: SparkSession, tmp_path: Path) -> None:
    table = created(spark, tmp_path / "t")
    plain = table.merge(frame(spark, [("a", "oslo", 6, 1, "n")]), on="id")
    deleting = plain.when_matched_delete()
    plain.when_matched_update({"fare": "99"}).execute()
    assert by_key(table)["a"] == ("oslo", 5, 99, "x")
    deleting.execute()
    assert "a" not in by_key(table)


def test_the_same_write_id_merges_once(spark: SparkSession, tmp_path: Path) -> None:
    table = created(spark, tmp_path / "t")
    adding = table.merge(frame(spark, [("a", "oslo", 6, 1, "n")])).when_matched_update(
        {"fare": "target.fare + source.fare"}
    )
    first = adding.execute(write_id="once")
    assert adding.execute(write_id="once").requested_time == first.requested_time
    assert by_key(table)["a"][2] == 11


def test_an_older_row_changes_nothing_and_a_delete_always_takes_effect(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = created(spark, tmp_path / "t")
    table.merge(frame(spark, [("a", "oslo", 9, 1, "n")])).when_matched_update(
        {"note": "source.note", "ts": "source.ts"}
    ).execute()
    late = frame(spark, [("a", "oslo", 7, 77, "late"), ("b", "oslo", 1, 2, "gone")])
    (
        table.merge(late)
        .when_matched_delete("source.note = 'gone'")
        .when_matched_update({"fare": "source.fare", "ts": "source.ts"})
        .execute()
    )
    assert by_key(table) == {"a": ("oslo", 9, 10, "n"), "c": ("rom", 5, 30, None)}


def test_source_columns_may_become_columns_of_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = created(spark, tmp_path / "t")
    wide = "id string, city string, ts bigint, fare bigint, tip double"
    news = frame(spark, [("a", "oslo", 6, 1 << 40, 0.5), ("n", "rom", 6, 2, 1.5)], wide)
    merge = table.merge(news).when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(SchemaError, match="no note"):
        merge.execute()
    merge.with_schema_evolution().execute()
    assert table.schema.simpleString() == (
        "struct<id:string,city:string,ts:bigint,fare:bigint,note:string,tip:double>"
    )
    found = by_key(table)
    assert found["a"] == ("oslo", 6, 1 << 40, "x", 0.5)
    assert found["b"] == ("oslo", 5, 20, "y", None)
    assert found["n"] == ("rom", 6, 2, None, 1.5)


def test_fields_of_structs_go_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id string, s struct<a:int,b:string>, l array<struct<a:int,b:string>>"
    table = Table.create(spark, str(tmp_path / "t"), schema, key="id")
    table.upsert(frame(spark, [("x", (1, "b"), [(1, "b")]), ("y", (1, "b"), None)], schema))
    other = "id string, s struct<b:string,a:int>, l array<struct<b:string>>"
    news = frame(spark, [("x", ("c", 2), [("c",)])], other)
    table.merge(news).when_matched_update_all().execute()
    table.update_where("id = 'y'", {"s": "named_struct('b', 'd', 'a', 3)"})
    assert rows(table) == [("x", (2, "c"), [(None, "c")]), ("y", (3, "d"), None)]
    lossy = frame(spark, [("x", ("many", "c"))], "id string, s struct<a:string,b:string>")
    with pytest.raises(SchemaError, match="column s does not hold"):
        table.merge(lossy).when_matched_update({"s": "source.s"}).execute()


def test_changed_columns_alone_are_logged(spark: SparkSession, tmp_path: Path) -> None:
    meta = ["_hoodie_commit_time", "_hoodie_record_key"]
    for kind, partial, options in (
        ("mor", True, {}),
        ("mor8", True, {}),
        ("bucket", True, {}),
        ("mor6", False, {}),
        ("mor", False, {"hoodie.spark.sql.merge.into.partial.updates": "false"}),
    ):
        table = created(spark, tmp_path / f"{kind}{partial}", kind)
        before = len(blocks(table))
        note = frame(spark, [("a", None)], "id string, note string")
        table.merge(note, on="id").when_matched_update({"note": "source.note"}).execute(options)
        (made,) = blocks(table)[before:]
        assert made[0] is partial
        assert made[1] == [*meta, "ts", "note"] if partial else made[1][-5:] == SCHEMA.split()[::2]
        assert by_key(table)["a"] == ("oslo", 5, 10, None)
        changed = table.incremental(start=table.timeline()[0].completion_time).collect()
        if kind != "mor6":
            assert [tuple(row) for row in changed] == [("a", "oslo", 5, 10, None)]


def test_an_update_by_condition_logs_changed_columns_when_asked_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = created(spark, tmp_path / "t")
    before = len(blocks(table))
    table.update_where("id = 'a'", {"note": "note"})
    (whole,) = blocks(table)[before:]
    assert whole[0] is False
    before += 1
    lean = {"hoodie.spark.sql.merge.into.partial.updates": "true"}
    table.update_where("id = 'a'", {"note": "concat(note, '!')"}, options=lean)
    (made,) = blocks(table)[before:]
    assert made == (True, ["_hoodie_commit_time", "_hoodie_record_key", "ts", "note"])
    assert by_key(table)["a"] == ("oslo", 5, 10, "x!")


def test_a_deleted_key_comes_back_to_its_file_group(spark: SparkSession, tmp_path: Path) -> None:
    table = created(spark, tmp_path / "t")
    table.delete_where("id = 'a'")
    back = frame(spark, [("a", "oslo", 6, 1, "back")])
    table.merge(back).when_not_matched_insert_all().execute()
    assert by_key(table)["a"] == ("oslo", 6, 1, "back")
    assert len(table.slices(partition="city=oslo")) == 1


def test_a_new_table_takes_what_matches_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(spark, str(tmp_path / "t"), SCHEMA, key="id", partition_by="city")
    merge = table.merge(frame(spark, OLD)).when_matched_delete().when_not_matched_insert_all()
    assert counts(merge.execute()) == (3, 0, 0)
    assert counts(merge.execute()) == (0, 0, 3)
    assert rows(table) == []


def test_a_merge_of_nothing_is_a_commit(spark: SparkSession, tmp_path: Path) -> None:
    table = created(spark, tmp_path / "t")
    commit = table.merge(frame(spark, [])).when_matched_delete().execute()
    assert counts(commit) == (0, 0, 0)
    assert rows(table) == sorted(OLD, key=str)


def test_a_table_that_makes_up_its_keys_is_merged_by_a_condition(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table.create(spark, str(tmp_path / "t"), SCHEMA)
    table.insert(frame(spark, OLD))
    news = frame(spark, [("a", "oslo", 6, 1, "n"), ("d", "rom", 6, 2, "z")])
    table.merge(news, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert by_key(table)["a"] == ("oslo", 6, 1, "n")
    assert len(by_key(table)) == 4
    with pytest.raises(ConfigError, match="makes up its keys"):
        table.merge(news).when_matched_delete().execute()


NEW = [("a", "oslo", 6, 1, "n"), ("d", "rom", 6, 2, "z")]
TWICE = [("a", "oslo", 6, 1, "n"), ("a", "oslo", 7, 2, "m")]
REFUSED: list[tuple[Rows, Any, Clauses, type[TidelakeError], str]] = [
    (TWICE, None, lambda m: m.when_matched_update_all(), SchemaError, "several rows of the source"),
    (TWICE, "id", lambda m: m.when_matched_delete("source.ts > 0"), SchemaError, "key 'a'"),
    (NEW, "id", lambda m: m.when_matched_update({"id": "'q'"}), SchemaError, "another key"),
    (NEW, "id", lambda m: m.when_matched_update({"city": "'rom'"}), SchemaError, "or partition"),
    (
        [("b", "rom", 6, 1, "n")],
        "id",
        lambda m: m.when_matched_update_all(),
        SchemaError,
        "another key or partition",
    ),
    (NEW, "id", lambda m: m.when_matched_update({"nope": "1"}), SchemaError, "sets nope"),
    (NEW, "id", lambda m: m.when_matched_update({"fare": "nope"}), SchemaError, "does not fit"),
    (NEW, "id", lambda m: m.when_matched_delete("nope = 1"), SchemaError, "does not fit"),
    (NEW, "id", lambda m: m.when_matched_delete("((("), SchemaError, "does not fit"),
    (NEW, "ts = ts", lambda m: m.when_matched_delete(), SchemaError, "does not fit"),
    (NEW, "nope", lambda m: m.when_matched_delete(), SchemaError, "does not fit"),
    (NEW, ["id", "nope"], lambda m: m.when_matched_delete(), SchemaError, "no column nope"),
    (NEW, [], lambda m: m.when_matched_delete(), ConfigError, "names no column"),
    (NEW, "id", lambda m: m.when_not_matched_insert({"id": "source.id"}), SchemaError, "city, ts"),
    (
        NEW,
        "id",
        lambda m: m.when_not_matched_insert(
            {"id": "cast(null as string)", "city": "source.city", "ts": "source.ts"}
        ),
        SchemaError,
        "no value in the record key",
    ),
    (
        NEW,
        "target.id = source.id and target.fare > 10",
        lambda m: m.when_not_matched_insert_all(),
        SchemaError,
        "the key 'a', which a row of the table has",
    ),
    (
        NEW,
        "id",
        lambda m: m.when_matched_update({"fare": "source.ts + 3000000000"}),
        SchemaError,
        "column fare does not hold",
    ),
    (NEW, "id", lambda m: m.when_matched_update({"fare": "source.note"}), SchemaError, "fare"),
    (NEW, "id", lambda m: m, ConfigError, "no clause"),
    (NEW, "id", lambda m: m.when_matched_update({}), ConfigError, "sets no column"),
    (
        NEW,
        "id",
        lambda m: m.when_matched_delete().when_matched_update_all(),
        ConfigError,
        "never apply",
    ),
]  # fmt: skip


def test_what_a_merge_refuses_leaves_the_table_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = created(spark, tmp_path / "t")
    before = files(table)
    for source, on, clauses, kind, words in REFUSED:
        with pytest.raises(kind, match=words) as caught:
            clauses(table.merge(frame(spark, source), on=on)).execute()
        assert caught.value.next_step
        assert files(table) == before, words


@pytest.mark.parametrize(("kind", "value"), [("double", 1.4), ("decimal(4,2)", "1.30")])
def test_an_insert_whose_key_becomes_one_of_the_table_is_refused(
    spark: SparkSession, tmp_path: Path, kind: str, value: Any
) -> None:
    """The values that were compared differ, and the column of the key holds both as one."""
    held = "int" if kind == "double" else "decimal(4,1)"
    schema = f"id {held}, v int"
    table = Table.create(spark, str(tmp_path / "t"), schema, key="id")
    table.upsert(spark.sql(f"select cast({value} as {held}) id, 1 v"))
    before = rows(table)
    news = spark.sql(f"select cast({value} as {kind}) + cast(0.01 as {kind}) id, 2 v")
    news = news.selectExpr(f"cast(id as {kind}) id", "v")
    for on in ("id", "target.id = source.id"):
        with pytest.raises(SchemaError, match="which a row of the table has"):
            table.merge(news, on).when_not_matched_insert_all().execute()
    assert rows(table) == before


def test_a_delete_of_all_matches_does_not_mind_several(spark: SparkSession, tmp_path: Path) -> None:
    table = created(spark, tmp_path / "t")
    table.merge(frame(spark, TWICE)).when_matched_delete().execute()
    assert set(by_key(table)) == {"b", "c"}


def test_tables_without_meta_columns_are_not_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.create(
        spark,
        str(tmp_path / "t"),
        SCHEMA,
        key="id",
        options={"hoodie.populate.meta.fields": "false"},
    )
    with pytest.raises(UnsupportedTableError, match="meta columns"):
        table.merge(frame(spark, NEW), on="id").when_matched_delete().execute()


STREAM = {"hoodie.write.partial.update.schema": "*"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cow", "mor", "bucket"])
def test_streams_that_own_columns_upsert_them_alone(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = created(spark, tmp_path / "t", kind)
    fares = frame(
        spark,
        [("a", "oslo", 6, 11), ("n", "oslo", 6, 77)],
        "id string, city string, ts bigint, fare int",
    )
    notes = frame(
        spark,
        [("a", "oslo", 7, None), ("n", "oslo", 7, "hi")],
        "id string, city string, ts bigint, note string",
    )
    table.upsert(fares, options=STREAM)
    table.upsert(notes, options=STREAM)
    assert by_key(table) == {
        "a": ("oslo", 7, 11, None),
        "b": ("oslo", 5, 20, "y"),
        "c": ("rom", 5, 30, None),
        "n": ("oslo", 7, 77, "hi"),
    }
    whole = frame(spark, [("b", "oslo", 8, 1, "whole")])
    table.upsert(whole, options={"hoodie.write.partial.update.schema": "fare"})
    assert by_key(table)["b"] == ("oslo", 8, 1, "y")
    with pytest.raises(SchemaError, match="no column nope"):
        table.upsert(whole, options={"hoodie.write.partial.update.schema": "nope"})


@pytest.fixture
def quoted_names(spark: SparkSession) -> Iterator[None]:
    """Let the session read what stands in double quotes as the name of a column."""
    wanted = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}
    before = {name: spark.conf.get(name) or "false" for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.usefixtures("quoted_names")
@pytest.mark.parametrize("stats", ["true", "false"])
def test_double_quotes_mean_what_the_session_takes_them_for(
    spark: SparkSession, tmp_path: Path, stats: str
) -> None:
    options = {
        "hoodie.metadata.enable": stats,
        "hoodie.metadata.index.column.stats.enable": stats,
    }
    table = Table.create(spark, str(tmp_path / "t"), SCHEMA, key="id", options=options)
    table.upsert(frame(spark, [("a", "note", 5, 10, "note"), ("b", "x", 5, 20, "x")]))
    assert table.read(where='city = "note"').count() == 2
    source = spark.createDataFrame([("a", 11), ("b", 21)], "id string, fare int")
    merge = table.merge(source, on='target.id = source.id AND target.city = "note"')
    assert merge.when_matched_update({"fare": "source.fare"}).execute().updates == 2
    assert table.delete_where('note = "city"').deletes == 2
