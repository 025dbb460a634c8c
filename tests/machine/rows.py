"""Rows of the machine's tables: their columns, values to draw from, and how they compare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random  # noqa: TID251 - every one of them is seeded
from typing import Any

from pyspark.sql import types as T  # noqa: N812 - the customary name

Row = Mapping[str, Any]
Values = tuple[Any, ...]
Columns = Mapping[str, str]
"""The columns of a table or of the rows of a write, with their types in DDL."""

#: Every column that a table begins with.
FIRST: Columns = {
    "id": "string",
    "k": "int",
    "p": "string",
    "ts": "bigint",
    "seq": "int",
    "n": "int",
    "x": "double",
    "d": "decimal(9,2)",
    "s": "string",
    "day": "date",
    "at": "timestamp",
    "b": "boolean",
    "o": "struct<a:int,t:string>",
}
#: Columns that a table may get, in this order.
ADDED: Columns = {"extra": "string", "more": "bigint"}
#: What a column of a type may become.
WIDER = {"int": "bigint", "bigint": "double"}

PARTITIONS = ("A", "B", "c d", "x and p='A'")
_START = date(2026, 1, 30)
_NOON = datetime(2026, 1, 31, 23, 0, tzinfo=timezone.utc)
TEXTS = (
    "a",
    "A",
    "b",
    "",
    "x and y",
    "it's",
    'say "hi"',
    "or t.n > 5 or",
    "50%",
    "a_c",
    "ü, 雪",
    "10",
    "-- no",
)
_STRUCTS = {
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "boolean": T.BooleanType(),
    "decimal(9,2)": T.DecimalType(9, 2),
    "struct<a:int,t:string>": T.StructType(
        [T.StructField("a", T.IntegerType()), T.StructField("t", T.StringType())]
    ),
}


def struct(columns: Columns) -> T.StructType:
    """Return the columns as Spark has them."""
    return T.StructType([T.StructField(name, _STRUCTS[kind]) for name, kind in columns.items()])


def value(random: Random, name: str) -> Any:
    """Return a value of a column that is neither key nor partition."""
    if random.random() < 0.15:
        return None
    if name in ("k", "n", "seq", "more"):
        return random.randint(-3, 9)
    if name == "ts":
        return random.randint(-2, 12)
    if name == "x":
        return random.choice((0.0, 0.5, -1.5, 2.25, 1e39, math.nan, 7.0))
    if name == "d":
        return Decimal(random.randint(-250, 250)) / 100
    if name == "day":
        return _START + timedelta(days=random.randint(0, 4))
    if name == "at":
        return _NOON + timedelta(minutes=30 * random.randint(0, 6))
    if name == "b":
        return random.random() < 0.5
    if name == "o":
        inner = random.choice((None, *range(4)))
        return {"a": inner, "t": random.choice((None, "a", "it's"))}
    return random.choice(TEXTS)


def order(row: Row, ordering: Sequence[str]) -> int:
    """Return a number for the ordering value of a row; the greater is newer, by docs/merge.md."""
    found = 0
    for name in ordering:
        found = found * 10**6 + _rank(row.get(name), name)
    return found


def _rank(given: Any, name: str) -> int:
    if given is None:
        # Numbers take null for zero, all else is newer than it.
        return 0 if name in ("ts", "seq", "n", "x") else -1
    if isinstance(given, datetime):
        return int((given - _NOON) / timedelta(minutes=1))
    if isinstance(given, date):
        return (given - _START).days
    if isinstance(given, str):
        return sorted(TEXTS).index(given)
    if isinstance(given, float):
        if math.isnan(given):
            return 400_000
        return 300_000 if given > 1e38 else int(given * 4)
    return int(given)


def plain(given: Any) -> Any:
    """Return a value in a form in which it compares, whatever type of number holds it."""
    if isinstance(given, bool) or given is None:
        return given
    if isinstance(given, int | float):
        return "NaN" if math.isnan(given) else float(given)
    if isinstance(given, datetime):
        return given.astimezone(timezone.utc).isoformat()
    if isinstance(given, Decimal):
        return f"{given:.2f}"
    if isinstance(given, Mapping):
        return tuple((name, plain(inner)) for name, inner in given.items())
    return str(given) if isinstance(given, date) else given


def as_values(row: Row, columns: Iterable[str]) -> Values:
    """Return a row in a form in which it compares."""
    return tuple(plain(row.get(name)) for name in columns)


def values(rows: Iterable[Row], columns: Iterable[str]) -> list[Values]:
    """Return rows in a form and an order in which they compare."""
    names = list(columns)
    return sorted((as_values(row, names) for row in rows), key=repr)
