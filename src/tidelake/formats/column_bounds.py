"""The least and the greatest value of a column, as the metadata table and tasks pass them on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any


class ValueKind(IntEnum):
    """What the values of a column are; the numbers are those on disk."""

    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


#: A bool, an int, a float, a str or bytes. Dates are days and times are counted in their own unit
#: since the epoch; a decimal is its unscaled number.
Physical = Any


#: What every decimal has in tables before version 9, whatever its column has.
UNTYPED_DECIMAL = "30,15"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBounds:
    """What is known of one column in one file or partition.

    Both bounds are None when there is nothing but nulls. A number that is none counts as the
    greatest, as in Spark. `info` are precision and scale of a decimal, `p,s`. The sizes are those
    in a base file, packed and unpacked.
    """

    kind: ValueKind
    minimum: Physical | None
    maximum: Physical | None
    value_count: int
    null_count: int
    packed_bytes: int = 0
    plain_bytes: int = 0
    info: str | None = None


def decimal_digits(info: str | None) -> tuple[int, int]:
    """Return precision and scale."""
    precision, _, scale = (info or "38,0").partition(",")
    return int(precision), int(scale)


def joined(bounds: Iterable[ColumnBounds]) -> ColumnBounds | None:
    """Return what holds for the values of all of `bounds`; None where their kinds do not fit."""
    found: ColumnBounds | None = None
    for one in bounds:
        if found is None:
            found = one
            continue
        if one.minimum is None and found.kind is not ValueKind.NULL:
            typed = found
        elif found.minimum is None:
            typed = replace(one, minimum=None, maximum=None)
        elif (one.kind, one.info) != (found.kind, found.info):
            return None
        else:
            typed = found
        found = replace(
            typed,
            minimum=_least(found.minimum, one.minimum),
            maximum=_greatest(found.maximum, one.maximum),
            value_count=found.value_count + one.value_count,
            null_count=found.null_count + one.null_count,
            packed_bytes=found.packed_bytes + one.packed_bytes,
            plain_bytes=found.plain_bytes + one.plain_bytes,
        )
    return found


def _least(left: Physical | None, right: Physical | None) -> Physical | None:
    if left is None or right is None:
        return right if left is None else left
    return left if _place(left) <= _place(right) else right


def _greatest(left: Physical | None, right: Physical | None) -> Physical | None:
    if left is None or right is None:
        return right if left is None else left
    return left if _place(left) >= _place(right) else right


def _place(value: Physical) -> Any:
    if not isinstance(value, float):
        return value
    return (1, 0.0) if math.isnan(value) else (0, value)
