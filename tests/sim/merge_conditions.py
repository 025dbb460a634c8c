"""Random conditions of merges: what files are pruned by holds for every row that matches."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidelake.read.predicate import ColumnType, KnownValues, may_match, parse_where
from tidelake.spark.merge.merge_plan import TableShape, condition_of_target, plan_on

Row = Mapping[str, object]

_SHAPE = TableShape(
    columns=("id", "city", "fare", "note"),
    key=("id",),
    partition=("city",),
    fixed=frozenset({"id", "city"}),
    ordering=(),
    required=frozenset(),
    is_partial=False,
)
_TYPES = {
    "id": ColumnType.INTEGER,
    "city": ColumnType.STRING,
    "fare": ColumnType.INTEGER,
    "note": ColumnType.STRING,
}
_NOTES = [
    "a",
    "a and t.fare > 5 and b",
    "x' and target.fare > 5 and note <> '",
    "-- target.fare = 1",
    "/* and t.fare < 0 and */",
    "or (target.id = source.id) and",
]
_SIGNS: Mapping[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,  # type: ignore[operator] # of one type
    ">": lambda a, b: a > b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}


@dataclass(frozen=True)
class _Condition:
    """A text of SQL, and what it means."""

    text: str
    holds: Callable[[Row, Row], bool]


def wrong(seed: int) -> list[str]:
    """Return what is wrong with what the plan of one random merge takes from its condition."""
    chance = random.Random(seed)
    # An alias of the source may be the word that otherwise means the table.
    alias = chance.choice(["source", "s", "u", "t"])
    condition = _condition(chance, alias, depth=chance.choice([1, 2, 2, 3]))
    # Some clause may name the table in full, and then `t` may be an alias of the source.
    on = plan_on(condition.text, _SHAPE.columns, _SHAPE, ["target.fare"] if alias == "t" else [])
    pruned_by = condition_of_target(on)
    predicate = None if pruned_by is None else parse_where(pruned_by, _TYPES)
    problems = []
    rows = [_row(chance) for _ in range(12)]
    for ours in rows:
        for theirs in rows:
            if not condition.holds(ours, theirs):
                if on.covers_identity and (ours["id"], ours["city"]) == (
                    theirs["id"],
                    theirs["city"],
                ):
                    problems.append(f"{condition.text} does not cover the key")
                continue
            if predicate is not None and not may_match(predicate, _stats(ours)):
                problems.append(f"{condition.text} prunes {ours} by {pruned_by}")
            for name in on.names:
                if ours[name] != theirs[name]:
                    problems.append(f"{condition.text} does not make {name} equal")
    return problems


def _condition(chance: random.Random, alias: str, depth: int) -> _Condition:
    if depth == 0:
        return _leaf(chance, alias)
    kind = chance.choice(["and", "and", "and", "AND", "or", "not", "(", "comment"])
    first = _condition(chance, alias, depth - 1)
    if kind == "not":
        return _Condition(f"not ({first.text})", lambda a, b: not first.holds(a, b))
    if kind == "(":
        return _Condition(f"( {first.text} )", first.holds)
    if kind == "comment":
        return _Condition(f"/* or {alias}.id = 1 and t.fare > 5 */ {first.text}", first.holds)
    second = _condition(chance, alias, depth - 1)
    if kind == "or":
        return _Condition(
            f"(({first.text}) or ({second.text}))",
            lambda a, b: first.holds(a, b) or second.holds(a, b),
        )
    return _Condition(
        f"{first.text} {kind} {second.text}", lambda a, b: first.holds(a, b) and second.holds(a, b)
    )


def _leaf(chance: random.Random, alias: str) -> _Condition:
    words = ["target", "TARGET", "`target`"] + ([] if alias == "t" else ["t", "T"])
    ours, theirs = chance.choice(words), alias
    name = chance.choice(_SHAPE.columns)
    if chance.random() < 0.5:
        other = name if chance.random() < 0.8 else chance.choice(_same_type(name))
        return _Condition(f"{ours}.{name} = {theirs}.`{other}`", lambda a, b: a[name] == b[other])
    sign = chance.choice(list(_SIGNS))
    value = _row(chance)[name]
    text = str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
    is_ours = chance.random() < 0.7
    side = ours if is_ours else theirs
    if chance.random() < 0.2:
        return _Condition(
            f"{text} {sign} {side}.{name}",
            lambda a, b: _SIGNS[sign](value, (a if is_ours else b)[name]),
        )
    return _Condition(
        f"{side}.{name} {sign} {text}",
        lambda a, b: _SIGNS[sign]((a if is_ours else b)[name], value),
    )


def _same_type(name: str) -> Sequence[str]:
    return [other for other in _SHAPE.columns if _TYPES[other] is _TYPES[name]]


def _row(chance: random.Random) -> Row:
    return {
        "id": chance.randint(0, 2),
        "city": chance.choice(["oslo", "bergen", "t.fare > 5"]),
        "fare": chance.choice([-1, 0, 4, 5, 6, 9]),
        "note": chance.choice(_NOTES),
    }


def _stats(row: Row) -> dict[str, KnownValues]:
    return {
        name: KnownValues(minimum=value, maximum=value, null_count=0, value_count=1)  # type: ignore[arg-type] # of the column's type
        for name, value in row.items()
    }
