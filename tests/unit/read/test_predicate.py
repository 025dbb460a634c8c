from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelake.read.predicate import (
    ColumnType,
    KnownValues,
    Unknown,
    Value,
    columns_of,
    may_match,
    merged,
    parse_where,
    partition_stats,
)

TYPES = {
    "i": ColumnType.INTEGER,
    "f": ColumnType.FLOAT,
    "n": ColumnType.DECIMAL,
    "s": ColumnType.STRING,
    "b": ColumnType.BOOLEAN,
    "d": ColumnType.DATE,
    "t": ColumnType.TIMESTAMP,
    "z": ColumnType.TIMESTAMP_NTZ,
    "My Col": ColumnType.INTEGER,
    "x": ColumnType.OTHER,
    "comment": ColumnType.STRING,
}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def between(low: Value, high: Value, nulls: int = 0) -> KnownValues:
    return KnownValues(minimum=low, maximum=high, null_count=nulls, value_count=10)


FILE = {
    "i": between(10, 20),
    "f": between(1.0, 2.0),
    "n": between(Decimal("10.00"), Decimal("20.00")),
    "s": between("delta", "golf"),
    "b": between(True, True),
    "d": between(date(2026, 3, 1), date(2026, 3, 31)),
    "t": between(utc("2026-03-10 00:00:00"), utc("2026-03-12 00:00:00")),
    "z": between(utc("2026-03-10 00:00:00"), utc("2026-03-12 00:00:00")),
    "My Col": between(1, 1),
    "x": KnownValues(null_count=10, value_count=10),
    "comment": between("a", "b"),
}

RULED_OUT = [
    "i = 9", "i = 21", "i < 10", "i <= 9", "i > 20", "i >= 21", "9 = i", "20 < i", "i = -15L",
    "i = '21'", "i = 9.5", "i > 20.5", "i IN (1, 2, NULL)", "i BETWEEN 21 AND 30", "i IS NULL",
    "i = 5 AND unheard_of(i)", "i = 5 OR i = 6", "NOT (i > 9)", "NOT (i > 9 OR unheard_of(i))",
    "NOT i BETWEEN 1 AND 30", "I = 9", "i <=> 9", "i <=> NULL", "`my col` = 2", "i = 1e9",
    "f = 0.5", "f < 0.99D", "f <= 0.5",
    "n > 22", "n = 8.5", "n < 1e0",
    "s = 'alpha'", "s > 'hotel'", "s < 'delta'", "s LIKE 'h%'", "s LIKE 'a_c'", "s LIKE 'zulu'",
    's = "zulu"', "s IN ('alpha', 'hotel')",
    "NOT b", "b = false", "b <> true AND i = 1", "b = false OR i = 1",
    "d = DATE'2026-04-01'", "d < '2026-03-01'", "d > CAST('2026-03-31' AS DATE)",
    "t > TIMESTAMP'2026-03-13 00:00:00'", "t < '2026-03-09'", "t > '2026-03-12 00:00:02Z'",
    "t < '2026-03-10 01:00:00+02:00'", "t >= DATE'2026-03-14'",
    "t > TIMESTAMP_LTZ'2026-03-12 00:00:02Z'", "z > '2026-03-13 00:00:00'",
    "z > TIMESTAMP_LTZ'2026-03-13 00:00:00Z'", "z < TIMESTAMP_NTZ'2026-03-08 00:00:00'",
    "i IN ('21', '22')", "i IN (1e0, 2e0)", "f IN (3, 4e0)", "i = CAST(100 AS TINYINT)",
    "f = CAST(1e3 AS FLOAT)",
    "x IS NOT NULL", "comment = 'c'", "COMMENT > 'c' -- or true", "i = 1 -- OR true",
]  # fmt: skip

KEPT = [
    "i = 10", "i = 20", "i < 11", "i <= 10", "i > 19", "i >= 20", "i <> 15", "i IS NOT NULL",
    "i IN (1, 15)", "NOT i IN (1, 15)", "i = NULL", "i = 5 OR unheard_of(i)",
    "NOT (i = 5 AND f = 9)",
    "abs(i) = 5", "-i = 5", "i + 0 = 5", "i IS DISTINCT FROM 5", "NOT i <=> NULL", "NOT i <=> 9",
    "i = 'five'", "i = '5.0'", "i IN (SELECT 1)", "other = 1", "a.i = 1", "(i, f) = (1, 1)",
    "i = 5 IS NULL",
    "CAST(i AS STRING) = '5'", "i = CAST('5' AS INT)", "i = current_date()",
    "f > 2.5", "f >= 3", "f <> 1", "f = 2.0000001", "NOT f < 3", "NOT (f <= 2)",
    "n = 9.5", "n > 20", "n <> 10",
    "s > 'golf'", "s = 'golfer'", "s >= 'golfz'", "s LIKE 'golfing%'", "s LIKE '%z'",
    "s NOT LIKE 'h%'", "NOT s LIKE 'h%'", "s LIKE 'a!_c' ESCAPE '!'", "s ILIKE 'H%'", "s = 5",
    "s = 'a' COLLATE UTF8_LCASE", "s LIKE ANY ('a%')", "s = 'a\\'b'", "s RLIKE 'z'",
    "b", "b = true", "b <> false", "NOT (b = false)",
    "d = '2026-03-31'", "d = '2026-4-1'", "d = 'x'", "d > TIMESTAMP'2027-01-01 00:00:00'",
    "t = '2026-03-12 12:00:00'", "t > TIMESTAMP'2026-03-12 17:00:00'", "t = '2026-13-45'",
    "t = '2026-03-12 00:00:00.5Z'", "t = '2027-01-01 00:00:00 America/New_York'",
    "t < '2026-03-10T00:30:00+02:00' OR t > TIMESTAMP'2026-03-12 10:00:00Z'",
    "z < TIMESTAMP_NTZ'2026-03-10 00:30:00+05:00'", "z < '2026-03-10 00:30:00+05:00'",
    "t < TIMESTAMP_NTZ'2026-03-10 00:30:00+05:00'", "z > TIMESTAMP_LTZ'2026-03-12 17:00:00Z'",
    "z > TIMESTAMP_LTZ'0001-01-01 00:00:00Z'", "i = CAST(272 AS TINYINT)",
    "i < CAST(3000000000 AS INT)", "i <> CAST(300 AS TINYINT)", "f < CAST(1e39 AS FLOAT)",
    "x = 5 OR true", "nonsense here (", "", "i = 5; i = 6", "SELECT 1", "i = 1 --comment\nOR true",
    "s = '${word}'", "s LIKE '${word}%'", "i = ${number}", "i = 5) OR (true",
]  # fmt: skip


@pytest.mark.parametrize("where", RULED_OUT)
def test_a_file_that_cannot_match_is_left_out(where: str) -> None:
    assert not may_match(parse_where(where, TYPES), FILE)


@pytest.mark.parametrize("where", KEPT)
def test_a_file_that_may_match_is_kept(where: str) -> None:
    assert may_match(parse_where(where, TYPES), FILE)


@pytest.mark.parametrize("where", RULED_OUT)
def test_without_statistics_every_file_is_kept(where: str) -> None:
    assert may_match(parse_where(where, TYPES), {})
    assert may_match(parse_where(where, TYPES), dict.fromkeys(TYPES, KnownValues()))


def test_statistics_of_another_type_say_nothing() -> None:
    # Written before the column became a string, or a bigint.
    assert may_match(parse_where("s = '5'", TYPES), {"s": between(10, 20)})
    assert may_match(parse_where("i = 5", TYPES), {"i": between("10", "20")})
    assert may_match(parse_where("b", TYPES), {"b": between(0, 0)})


def test_not_a_number_as_a_bound_says_nothing() -> None:
    file = {"f": between(math.nan, math.nan)}
    assert may_match(parse_where("f = 1", TYPES), file)
    assert may_match(parse_where("f < 1", TYPES), file)


def test_column_names_that_differ_in_case_only_are_not_guessed() -> None:
    types = {"a": ColumnType.INTEGER, "A": ColumnType.INTEGER}
    assert parse_where("a = 1", types) == Unknown()


def test_deep_conditions_are_kept() -> None:
    where = " AND ".join(["i = 15"] * 5000) + " AND i = 5"
    assert may_match(parse_where("(" * 3000 + "i = 15" + ")" * 3000, TYPES), FILE)
    parse_where(where, TYPES)


def test_columns_that_matter() -> None:
    found = columns_of(parse_where("i = 1 AND (s LIKE 'a%' OR abs(f) = 1) AND d IS NULL", TYPES))
    assert found == {"i", "s", "d"}


def partition(where: str, **values: str | None) -> bool:
    return may_match(parse_where(where, TYPES), partition_stats(values, TYPES))


def test_partition_values_are_exact() -> None:
    assert not partition("s <> 'oslo'", s="oslo")
    assert not partition("s > 'oslo'", s="oslo")
    assert not partition("s = 'oslo1'", s="oslo")
    assert not partition("NOT s IN ('oslo', 'rome')", s="oslo")
    assert partition("s = 'oslo'", s="oslo")
    assert not partition("i = '7'", i="8")
    assert not partition("d >= '2026-03-01'", d="2026-02-28")
    assert not partition("b", b="false")


def test_partition_values_that_do_not_parse_say_nothing() -> None:
    assert partition("i = 1", i="one")
    assert partition("d = '2026-01-01'", d="20454")
    assert partition("f = 1.5", f="2.5")
    assert partition("t = '2026-01-01'", t="1700000000000000")
    assert partition("b", b="0")


def test_lists_of_several_types_are_compared_as_one_type() -> None:
    # As text, without ANSI mode: 07 is not 7.
    assert partition("i NOT IN ('07', 8)", i="7")
    assert partition("i NOT IN ('07')", i="7")
    assert not partition("i NOT IN (7, 8)", i="7")
    # As doubles, which hold the one no better than the other.
    assert partition("i IN (9007199254740993, 1e0)", i="9007199254740992")
    assert not partition("i IN (9007199254740993, 1)", i="9007199254740992")


def test_what_single_precision_cannot_hold_is_not_compared() -> None:
    infinite = {"f": between(math.inf, math.inf)}
    assert may_match(parse_where("f = CAST(1e39 AS FLOAT)", TYPES), infinite)
    assert may_match(parse_where("f = CAST(1e-60 AS FLOAT)", TYPES), {"f": between(-1.0, 0.0)})


def test_the_folder_of_nulls_also_holds_empty_strings() -> None:
    assert partition("s = ''", s="__HIVE_DEFAULT_PARTITION__")
    assert not partition("i = 1", i="__HIVE_DEFAULT_PARTITION__")
    assert partition("i IS NULL", i="__HIVE_DEFAULT_PARTITION__")


def test_a_slice_is_judged_by_all_its_files_together() -> None:
    base = {"i": between(1, 1), "s": between("b", "b")}
    log = {"i": between(5, 5), "s": between("a", "a")}
    where = parse_where("i = 1 AND s = 'a'", TYPES)
    assert not may_match(where, base)
    assert not may_match(where, log)
    assert may_match(where, merged([base, log]))
    assert not may_match(parse_where("i = 6", TYPES), merged([base, log]))


def test_a_bound_that_was_cut_covers_longer_ones_of_the_same_slice() -> None:
    """The greatest value of the one is c3, of which the writer left a c."""
    slice_ = merged([{"s": between("b", "c")}, {"s": between("a", "c0")}, {"s": between("a", "b")}])
    for where in ("s > 'c1'", "s = 'c3'", "s LIKE 'c3%'", "s >= 'c9'"):
        assert may_match(parse_where(where, TYPES), slice_)
    assert not may_match(parse_where("s > 'd'", TYPES), slice_)


def test_a_log_of_deletes_alone_adds_nothing_and_a_log_without_statistics_hides_all() -> None:
    base = {"i": between(1, 2)}
    deletes = {"i": KnownValues(null_count=0, value_count=0)}
    assert not may_match(parse_where("i = 5", TYPES), merged([base, deletes]))
    assert may_match(parse_where("i = 5", TYPES), merged([base, {}]))
    assert may_match(parse_where("i = 5", TYPES), merged([base, {"i": KnownValues()}]))
    assert may_match(parse_where("i = 5", TYPES), merged([base, {"i": between("a", "b")}]))
    assert merged([]) == {}


# A filter as text beside what it means, so that the two can be held against each other.
Row = dict[str, Value | None]
Truth = Callable[[Row], bool | None]
Filter = tuple[str, Truth]

_STRINGS = st.text(alphabet="abz\u00e9\U0001f600", max_size=3)
_DATES = st.dates(date(2026, 1, 1), date(2026, 1, 9))
_FLOATS = st.sampled_from(
    [-0.0, 0.0, 1.0, -1.0, 0.1, 1e300, math.inf, -math.inf, math.nan, 16777217.0]
)
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "i": st.integers(-4, 4) | st.sampled_from([2**53 + 1, -(2**63)]),
    "f": _FLOATS,
    "s": _STRINGS,
    "b": st.booleans(),
    "d": _DATES,
    "n": st.decimals(-3, 3, places=2),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    min_size=1,
    max_size=4,
)


def _sql(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return f"DATE'{value}'"
    if isinstance(value, str):
        return f"'{value}'"
    return f"{value}"


def _order(value: Value) -> tuple[bool, Value]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


OPS: dict[str, Callable[[int], bool]] = {
    "=": lambda c: c == 0,
    "<>": lambda c: c != 0,
    "<": lambda c: c < 0,
    "<=": lambda c: c <= 0,
    ">": lambda c: c > 0,
    ">=": lambda c: c >= 0,
}


def _compare(left: Value, right: Value) -> int:
    a, b = _order(left), _order(right)
    return (a > b) - (a < b)


def _written(value: Value) -> bool:
    return not isinstance(value, float) or (math.isfinite(value) and abs(value) < 1e9)


@st.composite
def comparisons(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(sorted(VALUES)))
    literal = draw(VALUES[column].filter(_written))
    op = draw(st.sampled_from(sorted(OPS)))

    def truth(row: Row) -> bool | None:
        value = row[column]
        return None if value is None else OPS[op](_compare(value, literal))

    return f"{column} {op} {_sql(literal)}", truth


@st.composite
def memberships(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(["d", "i", "s"]))
    members = draw(st.lists(st.none() | VALUES[column], min_size=1, max_size=3))

    def truth(row: Row) -> bool | None:
        if row[column] is None:
            return None
        if row[column] in [member for member in members if member is not None]:
            return True
        return None if None in members else False

    listed = ", ".join("NULL" if member is None else _sql(member) for member in members)
    return f"{column} IN ({listed})", truth


@st.composite
def others(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(sorted(VALUES)))
    prefix = draw(_STRINGS)
    low, high = draw(VALUES["i"]), draw(VALUES["i"])

    def in_range(row: Row) -> bool | None:
        value = row["i"]
        if value is None:
            return None
        return _compare(value, low) >= 0 and _compare(value, high) <= 0

    def starts(row: Row) -> bool | None:
        value = row["s"]
        return value.startswith(prefix) if isinstance(value, str) else None

    found: list[Filter] = [
        (f"{column} IS NULL", lambda row: row[column] is None),
        (f"{column} IS NOT NULL", lambda row: row[column] is not None),
        (f"s LIKE '{prefix}%'", starts),
        (f"i BETWEEN {low} AND {high}", in_range),
        ("b", lambda row: None if row["b"] is None else bool(row["b"])),
        ("i % 2 = 0", lambda row: row["i"] % 2 == 0 if isinstance(row["i"], int) else None),
    ]
    return draw(st.sampled_from(found))


def _negated(inner: Filter) -> Filter:
    def truth(row: Row) -> bool | None:
        found = inner[1](row)
        return None if found is None else not found

    return f"NOT ({inner[0]})", truth


def _joined(sides: tuple[Filter, Filter], word: str) -> Filter:
    def truth(row: Row) -> bool | None:
        found = {sides[0][1](row), sides[1][1](row)}
        decisive = word == "OR"
        if decisive in found:
            return decisive
        return None if None in found else not decisive

    return f"({sides[0][0]}) {word} ({sides[1][0]})", truth


FILTERS = st.recursive(
    comparisons() | memberships() | others(),
    lambda inner: (
        inner.map(_negated)
        | st.builds(_joined, st.tuples(inner, inner), st.sampled_from(["AND", "OR"]))
    ),
    max_leaves=5,
)


def _stats(rows: list[Row], column: str, cut: int | None) -> KnownValues:
    present = [value for row in rows if (value := row[column]) is not None]
    ordered = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
    low: Value | None = min(ordered, default=None)
    high: Value | None = max(ordered, default=None)
    if cut is not None and isinstance(low, str) and isinstance(high, str):
        low, high = low[:cut], high[:cut]
    return KnownValues(
        minimum=low,
        maximum=high,
        null_count=len(rows) - len(present),
        value_count=len(rows),
    )


@settings(max_examples=800, deadline=None)
@given(rows=ROWS, condition=FILTERS, cut=st.none() | st.integers(1, 2))
def test_pruning_never_drops_a_file_that_holds_a_matching_row(
    rows: list[Row], condition: Filter, cut: int | None
) -> None:
    where, truth = condition
    predicate = parse_where(where, TYPES)
    stats = {name: _stats(rows, name, cut) for name in VALUES}
    if any(truth(row) is True for row in rows):
        assert may_match(predicate, stats)
        halves = [
            {name: _stats(part, name, cut) for name in VALUES}
            for part in (rows[:1], rows[1:])
            if part
        ]
        assert may_match(predicate, merged(halves))


@settings(max_examples=300, deadline=None)
@given(row=st.fixed_dictionaries(dict(VALUES)), condition=FILTERS)
def test_pruning_by_partition_never_drops_a_matching_row(row: Row, condition: Filter) -> None:
    where, truth = condition
    values = {
        name: str(value).lower() if name == "b" else str(value) for name, value in row.items()
    }
    if truth(row) is True:
        assert may_match(parse_where(where, TYPES), partition_stats(values, TYPES))
