"""Conditions in Spark's SQL, each with what it means for a row, in Python's own terms.

A value is never computed by Spark, and never by our own code: null is None, and what is neither
true nor false is None too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cmp_to_key
from random import Random  # noqa: TID251 - every one of them is seeded
from typing import Any

from tests.machine.rows import PARTITIONS, TEXTS, Columns, value

Scope = Mapping[str, Any]
"""The values of columns, by the names that a condition gives them."""
Truth = bool | None


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression in SQL, and the same in Python."""

    sql: str
    of: Callable[[Scope], Any] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Named:
    """A column as a condition names it."""

    sql: str
    key: str
    kind: str
    column: str


def columns_of(columns: Columns, prefix: str = "", side: str = "") -> list[Named]:
    """Return columns as a condition names them behind `prefix`; `side` tells scopes apart."""
    return [
        Named(f"{prefix}{name}", f"{side}{name}", kind, name)
        for name, kind in columns.items()
        if name not in ("id",)
    ]


def compare(left: Any, right: Any) -> int:
    """Return the sign of a comparison as Spark sees it: NaN is equal to itself, and greatest."""
    if isinstance(left, Decimal) != isinstance(right, Decimal):
        left, right = _double(left), _double(right)
    nans = [isinstance(one, float) and math.isnan(one) for one in (left, right)]
    if any(nans):
        return int(nans[0]) - int(nans[1])
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return int(left > right) - int(left < right)


def _double(given: Any) -> Any:
    return float(given) if isinstance(given, Decimal) else given


BY_VALUE = cmp_to_key(compare)
_SIGNS: Mapping[str, Callable[[int], bool]] = {
    "=": lambda sign: sign == 0,
    "<>": lambda sign: sign != 0,
    "!=": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}


def condition(random: Random, names: Sequence[Named], depth: int = 2) -> Expression:
    """Return a random condition over columns."""
    if depth == 0 or random.random() < 0.3:
        return _leaf(random, names)
    kind = random.choice(("and", "AND", "or", "OR", "not", "("))
    first = condition(random, names, depth - 1)
    if kind == "not":
        return Expression(f"NOT ({first.sql})", lambda row: _not(first.of(row)))
    if kind == "(":
        return Expression(f"( {first.sql} )", first.of)
    second = condition(random, names, depth - 1)
    join = _and if kind.lower() == "and" else _or
    return Expression(
        f"({first.sql} {kind} {second.sql})", lambda row: join(first.of(row), second.of(row))
    )


def _not(one: Truth) -> Truth:
    return None if one is None else not one


def _and(one: Truth, other: Truth) -> Truth:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _or(one: Truth, other: Truth) -> Truth:
    if one is True or other is True:
        return True
    return None if one is None or other is None else False


def _leaf(random: Random, names: Sequence[Named]) -> Expression:
    named = random.choice(names)
    side = _side(random, named)
    kind = random.random()
    if kind < 0.12:
        return Expression(f"{side.sql} IS NULL", lambda row: side.of(row) is None)
    if kind < 0.24:
        return Expression(f"{side.sql} IS NOT NULL", lambda row: side.of(row) is not None)
    if named.kind == "string" and kind < 0.4:
        return _like(random, side)
    if kind < 0.5:
        return _in(random, named, side)
    if kind < 0.6 and named.kind != "boolean":
        return _between(random, named, side)
    if kind < 0.65:
        other = literal(random, named)
        return Expression(
            f"{side.sql} <=> {other.sql}",
            lambda row: _is_same(side.of(row), other.of(row)),
        )
    sign = random.choice(list(_SIGNS))
    alike = [one for one in names if one.kind == named.kind and one.key != named.key]
    if alike and random.random() < 0.2:
        one = random.choice(alike)
        right = Expression(one.sql, lambda row: _inner(row[one.key], one.kind))
    else:
        right = literal(random, named)
    if random.random() < 0.2:
        side, right = right, side
    return _compared(sign, side, right)


def _compared(sign: str, left: Expression, right: Expression) -> Expression:
    def holds(row: Scope) -> Truth:
        one, other = left.of(row), right.of(row)
        return None if one is None or other is None else _SIGNS[sign](compare(one, other))

    return Expression(f"{left.sql} {sign} {right.sql}", holds)


def _is_same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return compare(one, other) == 0


def _inner(given: Any, kind: str) -> Any:
    """Return what stands for a column in comparisons: of a struct, its number."""
    if kind.startswith("struct"):
        return None if given is None else given["a"]
    return given


def _side(random: Random, named: Named) -> Expression:
    """Return a column, or a function of it that has values of its type."""
    key, sql, kind = named.key, named.sql, named.kind
    if kind.startswith("struct"):
        return Expression(f"{sql}.a", lambda row: _inner(row[key], kind))
    as_it_is = Expression(sql, lambda row: row[key])
    if random.random() < 0.75:
        return as_it_is
    if kind == "string":
        return random.choice(
            (
                Expression(f"lower({sql})", lambda row: _map(str.lower, row[key])),
                Expression(f"concat({sql}, '')", lambda row: row[key]),
                Expression(f"coalesce({sql}, 'a')", lambda row: _or_else(row[key], "a")),
                Expression(
                    f"substring({sql}, 1, 1)", lambda row: _map(lambda text: text[:1], row[key])
                ),
            )
        )
    if kind in ("int", "bigint"):
        return random.choice(
            (
                Expression(f"abs({sql})", lambda row: _map(abs, row[key])),
                Expression(f"{sql} + 1", lambda row: _map(lambda n: n + 1, row[key])),
                Expression(f"- {sql}", lambda row: _map(lambda n: -n, row[key])),
                Expression(f"coalesce({sql}, 0)", lambda row: _or_else(row[key], 0)),
                Expression(f"CAST({sql} AS BIGINT)", lambda row: row[key]),
                Expression(f"CAST({sql} AS DOUBLE)", lambda row: _map(float, row[key])),
            )
        )
    if kind == "date":
        return Expression(
            f"date_add({sql}, 1)", lambda row: _map(lambda day: day + timedelta(days=1), row[key])
        )
    return as_it_is


def _map(function: Callable[[Any], Any], given: Any) -> Any:
    return None if given is None else function(given)


def _or_else(given: Any, other: Any) -> Any:
    return other if given is None else given


def _like(random: Random, side: Expression) -> Expression:
    pattern = random.choice(("a%", "%y", "%and%", "_", "it_s", "%", "50\\\\%", "A%", "x%"))
    unescaped = pattern.replace("\\\\", "\\")
    regex = ""
    at = 0
    while at < len(unescaped):
        letter = unescaped[at]
        if letter == "\\":
            at += 1
            regex += re.escape(unescaped[at])
        else:
            regex += {"%": ".*", "_": "."}.get(letter, re.escape(letter))
        at += 1
    matches = re.compile(regex, re.DOTALL).fullmatch
    is_not = random.random() < 0.3

    def holds(row: Scope) -> Truth:
        text = side.of(row)
        if text is None:
            return None
        return (matches(text) is None) == is_not

    return Expression(f"{side.sql} {'NOT LIKE' if is_not else 'LIKE'} '{pattern}'", holds)


def _in(random: Random, named: Named, side: Expression) -> Expression:
    options = [literal(random, named, is_null=0.1) for _ in range(random.randint(1, 3))]
    is_not = random.random() < 0.4

    def holds(row: Scope) -> Truth:
        one = side.of(row)
        found: Truth = False
        for option in options:
            other = option.of(row)
            same = None if one is None or other is None else compare(one, other) == 0
            found = _or(found, same)
        return _not(found) if is_not else found

    listed = ", ".join(option.sql for option in options)
    return Expression(f"{side.sql} {'NOT IN' if is_not else 'IN'} ({listed})", holds)


def _between(random: Random, named: Named, side: Expression) -> Expression:
    low, high = literal(random, named), literal(random, named)

    def holds(row: Scope) -> Truth:
        one, least, most = (e.of(row) for e in (side, low, high))
        above = None if one is None or least is None else compare(one, least) >= 0
        below = None if one is None or most is None else compare(one, most) <= 0
        return _and(above, below)

    return Expression(f"{side.sql} BETWEEN {low.sql} AND {high.sql}", holds)


def literal(random: Random, named: Named, is_null: float = 0.03) -> Expression:
    """Return a literal that a column may be compared with."""
    if random.random() < is_null:
        return Expression("NULL", lambda _: None)
    kind = named.kind
    if kind.startswith("struct"):
        return _number(random.randint(0, 3))
    if named.column == "p":
        return text(random.choice((*PARTITIONS, "B' and p = 'A")))
    if kind == "string":
        return text(random.choice(TEXTS), random)
    given = None
    while given is None:
        given = value(random, named.column)
    return _spelled(random, given, kind)


def _spelled(random: Random, given: Any, kind: str) -> Expression:
    if kind == "boolean":
        return Expression(random.choice((str(given).lower(), str(given))), lambda _: given)
    if kind == "date":
        day: date = given
        return Expression(random.choice((f"DATE '{day}'", f"date'{day}'")), lambda _: day)
    if kind == "timestamp":
        return _moment(random, given)
    if kind.startswith("decimal"):
        return Expression(f"{given:.2f}", lambda _: given)
    if isinstance(given, float) or kind == "double":
        return _float(random, float(given))
    return _number(given)


def _moment(random: Random, given: datetime) -> Expression:
    hours = random.choice((0, 2, -5))
    there = given.astimezone(timezone(timedelta(hours=hours)))
    spelled = there.strftime("%Y-%m-%d %H:%M:%S")
    # The session is in UTC.
    zone = random.choice(("", "Z", "+00:00")) if hours == 0 else f"{hours:+03d}:00"
    return Expression(f"TIMESTAMP '{spelled}{zone}'", lambda _: given)


def _float(random: Random, given: float) -> Expression:
    if math.isnan(given):
        return Expression("double('NaN')", lambda _: given)
    if given > 1e38:
        return Expression("1e39", lambda _: given)
    return Expression(random.choice((f"{given}D", f"{given:e}")), lambda _: given)


def _number(given: int) -> Expression:
    return Expression(str(given), lambda _: given)


def text(given: str, random: Random | None = None) -> Expression:
    """Return a literal of a text."""
    escaped = given.replace("\\", "\\\\").replace("'", "\\'")
    sql = f"'{escaped}'"
    if random is not None and random.random() < 0.2:
        sql = '"' + given.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return Expression(sql, lambda _: given)
