from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.write.schema_conflict import (
    SchemasClashError,
    extends,
    merge,
    resolve,
    same,
    told_changes,
)

Columns = dict[str, Any]


def nullable(kind: Any) -> list[Any]:
    return ["null", kind]


def schema(name: str = "t", /, **columns: Any) -> str:
    fields = [{"name": column, "type": kind} for column, kind in columns.items()]
    return json.dumps({"type": "record", "name": name, "fields": fields})


def struct(**columns: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(schema("s", **columns))
    return made


S1 = schema(id="string", a=nullable("int"))
WITH_B = schema(id="string", a=nullable("int"), b=nullable("string"))
WITH_C = schema(id="string", a=nullable("int"), c=nullable("string"))

CASES = [
    # case  start  now     writer  stored
    (1,     None,  None,   S1,     S1),
    (2,     None,  S1,     S1,     S1),
    (3,     None,  WITH_B, WITH_C, None),
    (4,     S1,    S1,     S1,     S1),
    (5,     S1,    S1,     WITH_B, WITH_B),
    (6,     S1,    WITH_B, S1,     WITH_B),
    (7,     S1,    WITH_B, WITH_B, WITH_B),
    (8,     S1,    WITH_B, WITH_C, None),
]  # fmt: skip


@pytest.mark.parametrize(("case", "start", "now", "writer", "stored"), CASES)
def test_the_eight_cases_of_the_rfc(
    case: int, start: str | None, now: str | None, writer: str, stored: str | None
) -> None:
    """F-01 to F-08."""
    if stored is None:
        with pytest.raises(SchemasClashError, match="so does this one") as refused:
            resolve(start, now, writer)
        assert refused.value.case == case
        assert refused.value.columns == {"b", "c"}
    else:
        assert resolve(start, now, writer) == stored


def test_names_of_records_docs_and_defaults_do_not_count() -> None:
    other = json.loads(S1)
    other["name"], other["namespace"], other["doc"] = "other", "x.y", "text"
    other["fields"][1]["default"] = None
    other["fields"].insert(0, {"name": "_hoodie_commit_time", "type": nullable("string")})
    assert same(S1, json.dumps(other))


@pytest.mark.parametrize(
    "other",
    [
        schema(a=nullable("int"), id="string"),
        schema(id="string", a="int"),
        schema(id="string", a=nullable("long")),
        schema(id="string", A=nullable("int")),
    ],
    ids=["order", "nullability", "type", "case"],
)
def test_order_types_and_nullability_count(other: str) -> None:
    assert not same(S1, other)


@pytest.mark.parametrize(
    ("now", "is_safe"),
    [
        (schema(id="string", a=nullable("long")), True),
        (schema(id="string", z=nullable("int")), False),
        (schema(a=nullable("int"), id="string"), False),
        (schema(id="string"), False),
        (schema(id="string", a="int"), False),
        (schema(id="string", a=nullable("int"), b="int"), False),
        (schema(id="string", b=nullable("int"), a=nullable("int")), True),
    ],
    ids=["widened", "renamed", "moved", "dropped", "required", "new required", "added inside"],
)
def test_f13_case_6_takes_a_change_that_old_names_survive(now: str, is_safe: bool) -> None:
    assert extends(S1, now) is is_safe
    if is_safe:
        assert resolve(S1, now, S1) == now
    else:
        with pytest.raises(SchemasClashError, match="under their old names") as refused:
            resolve(S1, now, S1)
        assert refused.value.case == 6


def merged(start: Columns, now: Columns, writer: Columns) -> list[tuple[str, Any]]:
    done = json.loads(resolve(schema(**start), schema(**now), schema(**writer), merges=True))
    return [(field["name"], field["type"]) for field in done["fields"]]


def test_merging_keeps_the_changes_of_both() -> None:
    a = nullable("int")
    assert merged({"a": a}, {"a": a, "b": nullable("int")}, {"a": a, "c": nullable("int")}) == [
        ("a", a),
        ("b", nullable("int")),
        ("c", nullable("int")),
    ]
    assert merged(
        {"a": a, "x": nullable("int")},
        {"a": nullable("long"), "x": nullable("int")},
        {"a": a, "x": nullable("double")},
    ) == [("a", nullable("long")), ("x", nullable("double"))]


@pytest.mark.parametrize("turned", [False, True])
def test_merging_first_writers_must_do_without_each_others_columns(turned: bool) -> None:
    one, other = schema(id="string", a="int"), schema(id="string", b=nullable("int"))
    with pytest.raises(SchemasClashError, match="column a is new and may not be null"):
        merge(None, *((other, one) if turned else (one, other)))


def test_changes_are_told_in_words() -> None:
    old = schema(id="string", a=nullable("int"), z="int", s=nullable(struct(x="int", y="long")))
    new = schema(
        a=nullable("long"), id="string", s=nullable(struct(x=nullable("string"))), b="double"
    )
    assert told_changes(old, new) == (
        "a is bigint, was int; s.x is string, was int; s.x may be null; s.y is gone; b double is "
        "new; z is gone; the order of the columns"
    )
    assert told_changes(old, old) == "nothing"


def test_merging_works_for_first_writers() -> None:
    done = resolve(None, schema(id="string", a=nullable("int")), schema(id="string"), merges=True)
    assert same(done, S1)


def test_merging_goes_into_structs_and_arrays() -> None:
    start = {"s": nullable(struct(x=nullable("int")))}
    now = {"s": nullable(struct(x=nullable("int"), y=nullable("int")))}
    ours = {"s": nullable(struct(x=nullable("int"), z=nullable("int")))}
    (found,) = merged(start, now, ours)
    assert [f["name"] for f in found[1][1]["fields"]] == ["x", "y", "z"]
    wrapped = [
        {"l": nullable({"type": "array", "items": side["s"]})} for side in (start, now, ours)
    ]
    (found,) = merged(*wrapped)
    assert [f["name"] for f in found[1][1]["items"][1]["fields"]] == ["x", "y", "z"]


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


JOINS = [
    ("int", "long", "long"),
    ("int", "double", "double"),
    ("float", "double", "double"),
    ("int", "float", "double"),
    (decimal(10, 2), decimal(12, 2), decimal(12, 2)),
    ("int", "string", None),
    ("long", "double", None),
    ("long", "float", None),
    (decimal(10, 2), decimal(12, 3), None),
    ("string", "boolean", None),
]


@pytest.mark.parametrize(("one", "other", "joined"), JOINS, ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_f10_a_column_new_in_both(one: Any, other: Any, joined: Any, turned: bool) -> None:
    first, second = (other, one) if turned else (one, other)
    now, ours = {"b": nullable(first)}, {"b": nullable(second)}
    if joined is None:
        with pytest.raises(SchemasClashError, match="no type holds both"):
            merged({}, now, ours)
    else:
        assert merged({}, now, ours) == [("b", nullable(joined))]


def test_f11_promotion_against_promotion() -> None:
    for first, second in (("long", "double"), ("long", "float")):
        with pytest.raises(SchemasClashError):
            merged({"a": "int"}, {"a": first}, {"a": second})
    assert merged({"a": "int"}, {"a": "float"}, {"a": "double"}) == [("a", "double")]


@pytest.mark.parametrize(
    "change",
    [{"b": nullable("int")}, {"b": nullable("int"), "a": nullable("int")}, {"z": nullable("int")}],
    ids=["dropped", "moved", "renamed"],
)
@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_merging_refuses_more_than_additions(change: Columns, whose: str) -> None:
    start = {"a": nullable("int"), "b": nullable("int")}
    added = {**start, "c": nullable("int")}
    now, ours = (change, added) if whose == "theirs" else (added, change)
    with pytest.raises(SchemasClashError, match="more than added columns"):
        merged(start, now, ours)


def test_merging_refuses_names_that_spark_takes_for_one() -> None:
    a = {"a": nullable("int")}
    with pytest.raises(SchemasClashError, match="case of their letters"):
        merged(a, {**a, "userId": nullable("int")}, {**a, "userid": nullable("int")})


NUMBERS = st.sampled_from(["int", "long", "float", "double", "string"])
ADDED = st.dictionaries(st.sampled_from("cdefg"), NUMBERS.map(nullable), max_size=4)
START: Columns = {"id": "string", "a": nullable("int"), "b": nullable("float")}


@given(now=ADDED, writer=ADDED)
def test_merging_additions_is_fair_idempotent_and_never_narrows(
    now: Columns, writer: Columns
) -> None:
    start = schema(**START)
    theirs, ours = schema(**START, **now), schema(**START, **writer)
    try:
        done = merge(start, theirs, ours)
    except SchemasClashError:
        with pytest.raises(SchemasClashError):
            merge(start, ours, theirs)
        return
    assert same(merge(start, done, ours), done)
    assert same(merge(start, done, theirs), done)
    assert extends(theirs, done)
    assert extends(start, done)
    other = merge(start, ours, theirs)
    assert sorted(map(str, json.loads(done)["fields"])) == sorted(
        map(str, json.loads(other)["fields"])
    )
    if not writer:
        assert same(done, theirs)


WIDER = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["int", "long", "double"]).map(nullable),
        "b": st.sampled_from(["float", "double"]).map(nullable),
    }
)


@given(now=ADDED, writer=ADDED, wide_now=WIDER, wide_writer=WIDER)
def test_merging_wider_types_loses_nothing_of_either(
    now: Columns, writer: Columns, wide_now: Columns, wide_writer: Columns
) -> None:
    start = schema(**START)
    theirs, ours = (
        schema(**{**START, **wide}, **more)
        for wide, more in ((wide_now, now), (wide_writer, writer))
    )
    try:
        done = merge(start, theirs, ours)
    except SchemasClashError:
        with pytest.raises(SchemasClashError):
            merge(start, ours, theirs)
        return
    assert extends(theirs, done)
    other = merge(start, ours, theirs)
    kinds, turned = ({f["name"]: f["type"] for f in json.loads(x)["fields"]} for x in (done, other))
    assert kinds == turned
    for part in (theirs, ours):
        for field in json.loads(part)["fields"]:
            assert extends(
                schema(**{field["name"]: field["type"]}),
                schema(**{field["name"]: kinds[field["name"]]}),
            )
