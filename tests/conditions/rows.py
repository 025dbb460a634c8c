"""The rows on which conditions are checked: a column of every type, with values at the edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow as pa

Made = TypeVar("Made")
ROWS = 20


def _split(texts: str, make: Callable[[str], Made]) -> list[Made | None]:
    """Return what words stand for, nulls where there is a dot."""
    return [None if text == "." else make(text) for text in texts.split()]


_MOMENTS = _split(
    # Around changes of clocks in New York and Berlin, the epoch, and where calendars begin.
    "2026-03-08T06:59:59.999999 2026-03-08T07:00 2026-03-08T07:30 2026-10-24T15:59:59"
    " 2026-10-25T00:30 2026-10-25T01:30 1969-12-31T23:59:59.999999 1970-01-01T00:00"
    " 1970-01-01T00:00:00.000001 2026-01-01T00:00 2025-12-31T11:00 2026-01-01T12:00"
    " 1582-10-04T00:00 1883-11-18T17:00 0001-01-03T00:00 9999-12-30T00:00 . ."
    " 2026-06-15T12:34:56.789000 2026-06-15T12:34:56.789001",
    datetime.fromisoformat,
)

#: Each column: its type in Spark and in Arrow, and its values, one for each row.
COLUMNS: dict[str, tuple[str, pa.DataType, Sequence[Any]]] = {
    "b": (
        "boolean",
        pa.bool_(),
        [True, False, None, True, False, True, None, False, True, True] * 2,
    ),
    "i": (
        "int",
        pa.int32(),
        _split(
            "0 1 -1 7 8 10 44 100 127 128 -128 255 300 2147483647 -2147483648 . . 20260101 5 3", int
        ),
    ),
    "l": (
        "bigint",
        pa.int64(),
        _split(
            "0 1 -1 7 8 9007199254740992 9007199254740993 9223372036854775807 -9223372036854775808"
            " 4294967303 3000000000 . 44 16777217 -7 1000000000000000000 999999999999999999 ."
            " 1767225600 300",
            int,
        ),
    ),
    "f": (
        "float",
        pa.float32(),
        _split(
            "0 -0.0 1 -1 0.1 1.5 nan inf -inf 3.4e38 1e-45 16777216 . . 7 8 -7.25 0.3 1e10 nan",
            float,
        ),
    ),
    "g": (
        "double",
        pa.float64(),
        _split(
            "-0.0 0 0.1 1 nan -inf inf 1e39 1e308 5e-324 9007199254740992 7 7.000000001 . -1.5 3e9"
            " . 0.30000000000000004 300 nan",
            float,
        ),
    ),
    "n": (
        "decimal(9,2)",
        pa.decimal128(9, 2),
        _split(
            "0 0.01 -0.01 1.10 7 7.01 9999999.99 -9999999.99 . 8 0.5 44 300 . 99.99 100 2.5 -7 1"
            " 0.1",
            Decimal,
        ),
    ),
    "m": (
        "decimal(38,10)",
        pa.decimal128(38, 10),
        _split(
            "0 0.0000000001 100000000000000000000 9999999999999999999999999999"
            " -9999999999999999999999999999 7 7.5 . 0.1 16777217 9007199254740993 1.1 -1 . 8 44 2 3"
            " 4 5",
            Decimal,
        ),
    ),
    "s": (
        "string",
        pa.string(),
        [
            *("", "a", "ab", "abc", "x' and i > 5 --", "or", "7", "07", "7.0", " 7", "true"),
            *("2026-01-01", "2026-01-01 00:00:00", "\u00e4", "\U0001f600", "\ufffd", "a%b"),
            *("a_b\\c", None, "NULL"),
        ],
    ),
    "u": (
        "string",
        pa.string(),
        [
            *("golf", "golfer", "Golf", "go", "b" * 40, "b" * 40 + "c", None, "delta", "A", "a"),
            *("zulu", "a and b", "it's", 'say "hi"', "null", "x\ty", "1e3", "/* c */", "${v}", "i"),
        ],
    ),
    "d": (
        "date",
        pa.date32(),
        _split(
            "2026-01-01 2026-01-02 2025-12-31 2026-03-08 2026-10-25 1970-01-01 1969-12-31"
            " 1582-10-04 1582-10-15 0001-01-03 9999-12-30 . . 2026-06-15 2026-06-16 2026-03-01"
            " 2024-02-29 2026-12-31 1900-01-01 2026-11-01",
            date.fromisoformat,
        ),
    ),
    "t": (
        "timestamp",
        pa.timestamp("us", "UTC"),
        [None if moment is None else moment.replace(tzinfo=timezone.utc) for moment in _MOMENTS],
    ),
    "z": ("timestamp_ntz", pa.timestamp("us"), _MOMENTS[7:] + _MOMENTS[:7]),
    "y": (
        "binary",
        pa.binary(),
        [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"a", b"ab", None, b"7", b"07"] * 2,
    ),
    "a": (
        "struct<i:int,u:string>",
        pa.struct([("i", pa.int32()), ("u", pa.string())]),
        [{"i": n - 5, "u": f"t{n}"} if n % 4 else None for n in range(ROWS)],
    ),
    "r": ("array<int>", pa.list_(pa.int32()), [[n, None] if n % 5 else None for n in range(ROWS)]),
    "p": (
        "map<string,int>",
        pa.map_(pa.string(), pa.int32()),
        [[("k", n)] if n % 3 else None for n in range(ROWS)],
    ),
    # Words of SQL, which are good names of columns.
    "order": ("int", pa.int32(), [n % 6 if n % 7 else None for n in range(ROWS)]),
    "date": ("date", pa.date32(), [date(2026, 1, 1) + timedelta(days=n % 5) for n in range(ROWS)]),
    "comment": ("string", pa.string(), [f"c{n % 4}" if n % 9 else None for n in range(ROWS)]),
    "current_date": ("int", pa.int32(), [n % 3 for n in range(ROWS)]),
    "end": ("boolean", pa.bool_(), [n % 2 == 0 for n in range(ROWS)]),
    "Target": ("int", pa.int32(), [n % 4 for n in range(ROWS)]),
}
NAMES = tuple(COLUMNS)


def table() -> pa.Table:
    """Return all rows."""
    return pa.table(
        {name: pa.array(list(values), kind) for name, (_, kind, values) in COLUMNS.items()}
    )
