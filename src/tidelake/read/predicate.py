"""Filters as far as they help to leave out files: what a file's statistics can rule out.

Everything here errs to one side: a file is left out only when no row of it can make the filter
true.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from tidelake.model import Word

Value = bool | int | float | Decimal | str | date | datetime

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class ColumnType(Word):
    """A column's type, as coarse as comparing needs it."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DECIMAL = "decimal"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp without time zone"
    OTHER = "other"


class Op(Word):
    """A comparison with a value."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownValues:
    """What is known of a column in one file; None is not known.

    Bounds are bounds: no value is below `minimum`, and none above `maximum` except longer strings
    that begin with it, because writers cut long ones. With `exact` every value equals both bounds.
    `value_count` includes nulls.
    """

    minimum: Value | None = None
    maximum: Value | None = None
    null_count: int | None = None
    value_count: int | None = None
    exact: bool = False

    @property
    def all_null(self) -> bool:
        """Return whether the file is known to hold no value at all."""
        return self.null_count is not None and self.null_count == self.value_count


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that nothing can be concluded from."""


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison with a value that lies between `low` and `high`.

    The two differ where the value depends on what is not known here, such as the time zone of the
    session.
    """

    column: str
    op: Op
    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A test for strings that begin with `prefix`."""

    column: str
    prefix: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """A test for null, or with `negated` for a value."""

    column: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AllOf:
    """True when every part is."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True when one part is."""

    parts: tuple[Predicate, ...]


Predicate = Unknown | Compare | StartsWith | IsNull | AllOf | AnyOf


def parse_where(text: str, types: Mapping[str, ColumnType]) -> Predicate:
    """Return what the SQL condition `text` allows to conclude about columns of `types`.

    A condition that does not parse is `Unknown`: Spark, which evaluates it, explains the mistake.
    """
    # The SQL parser takes a third of a second to load, and most commands never filter.
    from tidelake.read._where import predicate_of

    return predicate_of(text, types)


def hides_names(text: str) -> bool:
    """Return whether a text of SQL may name columns in other letters than theirs.

    A session puts values in the place of variables, and makes names of texts.
    """
    return "${" in text or "identifier" in text.lower()


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Return the columns whose statistics can decide `predicate`."""
    if isinstance(predicate, AllOf | AnyOf):
        return frozenset().union(*(columns_of(part) for part in predicate.parts))
    return frozenset() if isinstance(predicate, Unknown) else frozenset({predicate.column})


def may_match(predicate: Predicate, stats: Mapping[str, KnownValues]) -> bool:
    """Return False only when no row of a file with these statistics makes `predicate` true."""
    if isinstance(predicate, Unknown):
        return True
    if isinstance(predicate, AllOf):
        return all(may_match(part, stats) for part in predicate.parts)
    if isinstance(predicate, AnyOf):
        return any(may_match(part, stats) for part in predicate.parts)
    found = stats.get(predicate.column)
    if found is None:
        return True
    if isinstance(predicate, IsNull):
        return not found.all_null if predicate.negated else found.null_count != 0
    if found.all_null:
        return False
    if isinstance(predicate, StartsWith):
        return _may_start(predicate.prefix, found)
    return _may_compare(predicate, found)


def merged(files: Sequence[Mapping[str, KnownValues]]) -> dict[str, KnownValues]:
    """Return statistics that hold for rows made of values from any of `files`.

    A row of a file slice may take one column from the base file and another from a log, so the
    files of a slice are judged together. A column that one of them knows nothing about is left out.
    """
    shared = set(files[0]).intersection(*files[1:]) if files else set()
    return {name: _merge([file[name] for file in files]) for name in shared}


def partition_stats(
    values: Mapping[str, str | None], types: Mapping[str, ColumnType]
) -> dict[str, KnownValues]:
    """Return what the partition values of a path say; values that do not parse say nothing."""
    found = {}
    for name, text in values.items():
        stats = _of_partition_value(text, types.get(name, ColumnType.OTHER))
        if stats is not None:
            found[name] = stats
    return found


def _of_partition_value(text: str | None, kind: ColumnType) -> KnownValues | None:
    if text is None or text == _HIVE_NULL:
        # The folder of nulls also takes empty strings.
        if kind is ColumnType.STRING:
            return None
        return KnownValues(null_count=1, value_count=1)
    value: Value
    try:
        if kind is ColumnType.STRING:
            value = text
        elif kind is ColumnType.INTEGER:
            value = int(text)
        elif kind is ColumnType.DATE:
            value = date.fromisoformat(text)
        elif kind is ColumnType.BOOLEAN and text in ("true", "false"):
            value = text == "true"
        else:
            return None
    except ValueError:
        return None
    return KnownValues(minimum=value, maximum=value, null_count=0, value_count=1, exact=True)


def _merge(stats: Iterable[KnownValues]) -> KnownValues:
    lows: list[Value] = []
    highs: list[Value] = []
    nulls: int | None = 0
    values: int | None = 0
    known = True
    for one in stats:
        nulls = None if nulls is None or one.null_count is None else nulls + one.null_count
        values = None if values is None or one.value_count is None else values + one.value_count
        if one.all_null:
            continue
        if one.minimum is None or one.maximum is None:
            known = False
        else:
            lows.append(one.minimum)
            highs.append(one.maximum)
    known = known and all(_comparable(lows[0], other) for other in (*lows, *highs))
    return KnownValues(
        minimum=min(lows, default=None) if known else None,
        maximum=_greatest(highs) if known else None,
        null_count=nulls,
        value_count=values,
    )


def _greatest(bounds: Sequence[Value]) -> Value | None:
    """Return the greatest bound; one that was cut also covers those that begin with it."""
    found = max(bounds, default=None)
    if not isinstance(found, str):
        return found
    texts = (bound for bound in bounds if isinstance(bound, str))
    return min((text for text in texts if found.startswith(text)), key=len)


def _may_start(prefix: str, stats: KnownValues) -> bool:
    low, high = stats.minimum, stats.maximum
    if isinstance(low, str) and low > prefix and not low.startswith(prefix):
        return False
    return not _is_above(prefix, high, stats)


def _may_compare(term: Compare, stats: KnownValues) -> bool:
    op = term.op
    if op is Op.EQ:
        return not (
            _is_below(term.high, stats.minimum) or _is_above(term.low, stats.maximum, stats)
        )
    if op is Op.NE:
        return not (
            stats.exact
            and _comparable(term.low, stats.minimum)
            and term.low == term.high == stats.minimum
        )
    if op is Op.LT:
        return not (_is_below(term.high, stats.minimum) or _is_same(term.high, stats.minimum))
    if op is Op.LE:
        return not _is_below(term.high, stats.minimum)
    if op is Op.GE:
        return not _is_above(term.low, stats.maximum, stats)
    cut = isinstance(stats.maximum, str) and not stats.exact
    return not (
        _is_above(term.low, stats.maximum, stats) or (_is_same(term.low, stats.maximum) and not cut)
    )


def _is_below(value: Value, minimum: Value | None) -> bool:
    return _comparable(value, minimum) and value < minimum  # type: ignore[operator] # one kind


def _is_same(value: Value, bound: Value | None) -> bool:
    return _comparable(value, bound) and value == bound


def _is_above(value: Value, maximum: Value | None, stats: KnownValues) -> bool:
    if not _comparable(value, maximum) or not value > maximum:  # type: ignore[operator] # one kind
        return False
    if isinstance(value, str) and isinstance(maximum, str) and not stats.exact:
        return not value.startswith(maximum)
    return True


def _comparable(left: Value, right: Value | None) -> bool:
    if right is None:
        return False
    kind = _kind(left)
    return kind is not None and kind == _kind(right)


def _kind(value: Value) -> str | None:
    """Return the family a value compares within, or None for one that orders with nothing."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float | Decimal):
        return None if math.isnan(value) else "number"
    if isinstance(value, int):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, datetime):
        return "zoned" if value.tzinfo is not None else None
    return "date"
