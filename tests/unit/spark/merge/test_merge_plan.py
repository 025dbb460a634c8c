"""Which columns the clauses of a merge bring, look at and refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidelake.errors import ConfigError, SchemaError
from tidelake.spark.merge.conditions import with_named_columns
from tidelake.spark.merge.merge_clauses import Clause, Deed, MergeRequest, Side
from tidelake.spark.merge.merge_plan import (
    ClausePlan,
    FromSource,
    FromTarget,
    MergePlan,
    TableShape,
    condition_of_target,
    mentions,
    plan_merge,
    plan_on,
    read_columns,
)

SHAPE = TableShape(
    columns=("id", "city", "ts", "fare", "note"),
    key=("id",),
    partition=("city",),
    fixed=frozenset({"id", "city"}),
    ordering=("ts",),
    required=frozenset(),
    is_partial=True,
)
NOTE = "`note` = 'a and t.fare > 5 and b'"
SOURCE = ("id", "city", "ts", "fare", "note", "more")


def update(values: Any = None, **more: Any) -> Clause:
    return Clause(side=Side.MATCHED, deed=Deed.UPDATE, values=values, **more)


def insert(values: Any = None) -> Clause:
    return Clause(side=Side.NOT_MATCHED, deed=Deed.INSERT, values=values)


def request(*clauses: Clause, on: Any = None, evolves: bool = False) -> MergeRequest:
    return MergeRequest(source=None, on=on, clauses=clauses, evolves=evolves)  # type: ignore[arg-type] # no session here


def planned(clause: Clause, shape: TableShape = SHAPE) -> tuple[MergePlan, ClausePlan]:
    plan = plan_merge(request(clause), SOURCE, shape)
    return plan, plan.clauses[0]


def test_an_update_brings_what_it_sets_and_the_ordering_as_it_is() -> None:
    plan, own = planned(update({"NOTE": "'n'"}))
    assert own.values == {"note": "'n'", "ts": FromTarget("ts")}
    assert [s.names for s in plan.column_sets] == [("ts", "note")]
    assert plan.column_sets[0].is_known
    assert own.column_set == 0


def test_updates_of_the_same_columns_share_a_set() -> None:
    clauses = [update({"note": "'a'"}, condition="c"), update({"fare": "1"}, condition="d")]
    plan = plan_merge(request(*clauses, update({"note": "'b'"})), SOURCE, SHAPE)
    assert [c.column_set for c in plan.clauses] == [0, 1, 0]


def test_an_update_of_every_column_brings_whole_rows() -> None:
    for values in (None, {"ts": "1", "fare": "1", "note": "''"}):
        plan, own = planned(update(values))
        assert own.column_set is None
        assert plan.column_sets == ()
        assert set(own.values) == set(SHAPE.columns)


def test_where_rows_have_to_be_whole_the_table_completes_them() -> None:
    plan, own = planned(update({"note": "'n'"}), replace(SHAPE, is_partial=False))
    assert plan.column_sets == ()
    assert own.values["fare"] == FromTarget("fare")
    assert own.values["id"] == FromTarget("id")


def test_a_key_that_is_set_is_checked_and_not_written() -> None:
    plan, own = planned(update({"id": "source.id", "note": "'n'"}))
    assert own.checks_identity
    assert own.values["city"] == FromTarget("city")
    assert plan.column_sets[0].names == ("ts", "note")


def test_an_insert_takes_the_columns_of_the_source() -> None:
    _, own = planned(insert())
    assert own.values == {name: FromSource(name) for name in SHAPE.columns}


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        (update({"nope": "1"}), "nope"),
        (update({"fare": "1", "FARE": "2"}), "fare twice"),
        (insert({"id": "1"}), "city, ts"),
    ],
)
def test_columns_that_do_not_fit_are_refused(clause: Clause, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        planned(clause)


def test_a_source_without_all_columns_is_refused_unless_the_schema_may_differ() -> None:
    with pytest.raises(SchemaError, match="fare, note"):
        plan_merge(request(update()), ("id", "city", "ts"), SHAPE)
    plan = plan_merge(request(update(), evolves=True), ("id", "city", "ts", "fare"), SHAPE)
    assert plan.column_sets[0].names == ("ts", "fare")


@pytest.mark.parametrize(
    ("on", "names", "covers"),
    [
        (None, (), True),
        ("id", ("id",), True),
        (["ID", "city"], ("id", "city"), True),
        (["id", "fare"], ("id", "fare"), False),
        ("target.id = source.id", ("id",), True),
        ("t.`id` = u.id AND u.city=t.city", ("id", "city"), True),
        ("target.id = source.id and target.fare = source.fare", ("id", "fare"), False),
        ("target.id = source.id and target.fare > 3", (), False),
        ("target.id = source.id or target.city = source.city", (), False),
        ("target.id = target.id", (), False),
        ("target.id = source.city", (), False),
        ("target.id = source.id and '${more}' = 'x'", (), False),
    ],
)
def test_what_a_match_says_of_the_key(on: Any, names: tuple[str, ...], covers: bool) -> None:
    found = plan_on(on, SOURCE, SHAPE)
    assert (found.names, found.covers_identity) == (names, covers)
    assert found.by_identity is (on is None)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("hash(target.*) <> hash(source.*)", "hash(target.`a`, target.`b``c`) <> hash(source.*)"),
        ("struct(TARGET . *, 1)", "struct(target.`a`, target.`b``c`, 1)"),
        ("'target.*' = target.x", "'target.*' = target.x"),
        ("2*target.a + x.target.*", "2*target.a + x.target.*"),
    ],
)
def test_all_columns_of_the_table_are_named(text: str, made: str) -> None:
    assert with_named_columns(text, "target", ["a", "b`c"]) == made


def test_where_a_key_is_in_one_partition_alone_the_partition_tells_nothing() -> None:
    shape = replace(SHAPE, is_global=True)
    assert plan_on("id", SOURCE, shape).covers_identity
    assert not plan_on(["id", "city"], SOURCE, shape).covers_identity
    assert not plan_on("target.city = source.city", SOURCE, shape).covers_identity


def test_columns_that_may_be_null_match_nothing_then() -> None:
    assert plan_on("id", SOURCE, SHAPE).may_be_null == ()
    assert plan_on(["id", "city"], SOURCE, SHAPE).may_be_null == ("city",)
    several = replace(SHAPE, key=("id", "note"), fixed=frozenset({"id", "note", "city"}))
    assert plan_on(["id", "note"], SOURCE, several).may_be_null == ("id", "note")


def test_columns_that_differ_in_case_alone_are_told_apart() -> None:
    """A session may tell them apart, and the plan does not know."""
    shape = replace(SHAPE, columns=(*SHAPE.columns, "ID"))
    assert plan_on("target.id = source.ID", (*SOURCE, "ID"), SHAPE).names == ()
    assert plan_on("target.ID = source.id", SOURCE, shape).names == ()
    assert plan_on("target.ID = source.ID", (*SOURCE, "ID"), shape).names == ("ID",)
    assert plan_on("target.ID = source.Id", SOURCE, SHAPE).names == ("id",)
    values = {"id": "source.ID", "city": "source.city", "ts": "1"}
    for source, made in ((SOURCE, set[str]()), ((*SOURCE, "ID"), {"id"})):
        plan = plan_merge(request(insert(values)), source, SHAPE)
        assert plan.clauses[0].made == made


@pytest.mark.parametrize(
    ("city", "made"),
    [
        ("source.city", set()),
        ("`source`.`CITY`", set()),
        ("lower(source.city)", {"city"}),
        ("source.note", {"city"}),
        ("'oslo'", {"city"}),
        ("target.city", {"city"}),
        ("city", {"city"}),
    ],
)
def test_an_insert_may_make_another_key_than_the_match_compared(city: str, made: set[str]) -> None:
    values = {"id": "source.id", "city": city, "ts": "1"}
    assert planned(insert(values))[1].made == made
    assert planned(insert())[1].made == set()


@pytest.mark.parametrize(
    ("on", "found"),
    [
        (None, None),
        ("id", None),
        ("target.id = source.id", None),
        ("target.id = source.id and target.city = 'oslo'", "`city` = 'oslo'"),
        ("t.ts >= 5 AND t.`fare` < -2.5 and t.id = s.id", "`ts` >= 5 AND `fare` < -2.5"),
        ("target.city = 'oslo' or target.id = source.id", None),
        ("not (target.id = source.id and target.city = 'oslo' and target.ts = 1)", None),
        ("source.city = 'oslo' and target.id = source.id", None),
        ("target.ts between 1 and 5 and target.city = 'oslo'", "`city` = 'oslo'"),
        ("target.id = source.id and target.note = 'a and t.fare > 5 and b'", NOTE),
        ("t.id = source.id /* and t.fare > 5 */ and (5 < t.ts)", "5 < `ts`"),
        ("target.id = source.id -- and t.fare > 5", None),
        ("target.id = source.id and target.more.x = 5", None),
        ("target.note = 'it\\'s' and t.fare > 5", None),
        ("target.id = source.id and t.fare > 5 + 1 and t.fare > 5 is null", None),
        ("target.id = source.id and case when t.fare > 5 and t.ts = 1 then true end", None),
    ],
)
def test_what_a_match_says_of_the_table_alone(on: Any, found: str | None) -> None:
    assert condition_of_target(plan_on(on, SOURCE, SHAPE)) == found


def test_a_word_that_may_mean_the_source_or_a_struct_says_nothing_of_the_table() -> None:
    on = "t.id = s.id and t.fare > 5"
    assert condition_of_target(plan_on(on, SOURCE, SHAPE)) == "`fare` > 5"
    assert condition_of_target(plan_on(on, SOURCE, SHAPE, ["target.note = ''"])) is None
    assert condition_of_target(plan_on(f"{on} and target.ts = 1", SOURCE, SHAPE)) == "`ts` = 1"
    struct = replace(SHAPE, columns=(*SHAPE.columns, "T"))
    assert condition_of_target(plan_on(on, SOURCE, struct)) is None
    assert condition_of_target(plan_on(on, (*SOURCE, "t"), SHAPE)) is None


def test_columns_are_equal_only_where_table_and_source_meet() -> None:
    for on in ("t.id = target.id", "Target.id = target.id", "target.id = info.id", "a.id = b.id"):
        assert plan_on(on, (*SOURCE, "info"), SHAPE).names == ()
    assert plan_on("TARGET.ID = source.id", SOURCE, SHAPE).names == ("id",)


def test_an_expression_over_all_columns_reads_them_all() -> None:
    on = plan_on(None, SOURCE, SHAPE)
    texts = ["to_json(struct(target.*))", "target.${column}", "IDENTIFIER('fa' || 're')"]
    for text, is_all in [*((text, True) for text in texts), ("fare * 2", False)]:
        asked = request(update({"note": text}))
        found = read_columns(asked, plan_merge(asked, SOURCE, SHAPE), on, SHAPE)
        assert (found is None) is is_all


def test_matches_by_a_key_that_is_made_up_are_refused() -> None:
    with pytest.raises(ConfigError, match="makes up"):
        plan_on(None, SOURCE, replace(SHAPE, key=()))


def test_only_columns_that_somebody_names_are_read() -> None:
    asked = request(update({"note": "concat(target.note, source.more)"}, condition="FARE > 1"))
    plan = plan_merge(asked, SOURCE, SHAPE)
    on = plan_on(None, SOURCE, SHAPE)
    assert read_columns(asked, plan, on, SHAPE) == ["ts", "fare", "note"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s.x > 1", True),
        ("`s`.x", True),
        ("S . x", True),
        ("ts.x", False),
        ("target.s > 1", False),
        ("a = 's.x'", False),
        ("'s.x'", False),
        ("a.s.x", False),
        ("${alias}.x = 1", True),
        ("identifier('s' || '.x') = 1", True),
    ],
)
def test_a_qualifier_is_found_in_texts(text: str, found: bool) -> None:
    assert mentions([text], "s") is found
