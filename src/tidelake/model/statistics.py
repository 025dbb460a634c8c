"""What is known about the values of a column without reading them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """Bounds of one column over some rows; nulls are counted in `value_count`.

    `min` and `max` are None exactly when no row has a value. They are Python values: bool, int,
    float, Decimal, str, bytes, date, datetime (with the zone UTC for instants, without one for
    local timestamps). Older tables give a timestamp as its bare number, so whoever compares must
    take another type than expected for "not known".
    """

    min: Any
    max: Any
    null_count: int | None
    value_count: int | None
