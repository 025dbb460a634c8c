"""From the text of a SQL condition to a `Predicate`; what is not understood becomes `Unknown`."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidelake.read.predicate import (
    AllOf,
    AnyOf,
    ColumnType,
    Compare,
    IsNull,
    Op,
    Predicate,
    StartsWith,
    Unknown,
    Value,
)

_UNKNOWN = Unknown()

_OPS: dict[type[exp.Expression], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_NEGATED = {
    Op.EQ: Op.NE,
    Op.NE: Op.EQ,
    Op.LT: Op.GE,
    Op.GE: Op.LT,
    Op.GT: Op.LE,
    Op.LE: Op.GT,
}
_FLIPPED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}

#: Beyond these bits a cast wraps around, or fails: the session says which.
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"})
#: What these say is a moment in any session; a plain TIMESTAMP has no zone in some.
_ZONED = frozenset({"TIMESTAMPLTZ"})

_WHOLE = re.compile(r"[+-]?\d{1,18}")
_MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:\d{2})?"
)
#: No time zone is further from UTC than this.
_ANY_ZONE = timedelta(hours=18)
#: Statistics may be kept in coarser units than the values.
_COARSE = timedelta(seconds=1)

#: A literal as written: its value, or for a time the two ends of what it may mean.
_Literal = bool | int | float | Decimal | str | date | tuple[datetime, datetime]
_NUMBERS = (ColumnType.INTEGER, ColumnType.FLOAT, ColumnType.DECIMAL)


def predicate_of(text: str, types: Mapping[str, ColumnType]) -> Predicate:
    """Return what the condition allows to conclude about the columns of `types`."""
    if "\\" in text or "${" in text:
        return _UNKNOWN  # what a backslash means, and what stands for a variable, is the session's
    try:
        # In brackets, since a text that begins with a word such as COMMENT would be a command.
        parsed = sqlglot.parse(f"({text}\n)", dialect="spark")
        if len(parsed) != 1 or not isinstance(parsed[0], exp.Expression):
            return _UNKNOWN
        return _Reader(types).read(parsed[0], negated=False)
    except (SqlglotError, RecursionError):
        return _UNKNOWN


class _Reader:
    def __init__(self, types: Mapping[str, ColumnType]) -> None:
        self._types = types
        self._names: dict[str, list[str]] = {}
        for name in types:
            self._names.setdefault(name.lower(), []).append(name)

    def read(self, node: exp.Expression, *, negated: bool) -> Predicate:
        if isinstance(node, exp.Paren) and _only(node, "this"):
            return self.read(node.this, negated=negated)
        if isinstance(node, exp.Not) and _only(node, "this"):
            return self.read(node.this, negated=not negated)
        if isinstance(node, exp.And | exp.Or) and _only(node, "this", "expression"):
            parts = tuple(self.read(side, negated=negated) for side in (node.this, node.expression))
            return AllOf(parts) if isinstance(node, exp.And) != negated else AnyOf(parts)
        if type(node) in _OPS and _only(node, "this", "expression"):
            op = _OPS[type(node)]
            return self._comparison(node.this, _NEGATED[op] if negated else op, node.expression)
        if isinstance(node, exp.Column):
            column = self._column(node)
            if column is None or self._types[column] is not ColumnType.BOOLEAN:
                return _UNKNOWN
            return Compare(column, Op.EQ, not negated, not negated)
        return self._test(node, negated=negated)

    def _test(self, node: exp.Expression, *, negated: bool) -> Predicate:
        column = self._column(node.args.get("this"))
        if column is None:
            return _UNKNOWN
        if isinstance(node, exp.Is) and _only(node, "this", "expression"):
            return IsNull(column, negated) if isinstance(node.expression, exp.Null) else _UNKNOWN
        if isinstance(node, exp.NullSafeEQ) and _only(node, "this", "expression"):
            if isinstance(node.expression, exp.Null):
                return IsNull(column, negated)
            # Negated it is also true of nulls, which no comparison is.
            return _UNKNOWN if negated else self._comparison(node.this, Op.EQ, node.expression)
        if isinstance(node, exp.In) and _only(node, "this", "expressions"):
            return self._membership(node, negated=negated)
        if isinstance(node, exp.Between) and _only(node, "this", "low", "high"):
            low = self._comparison(node.this, Op.LT if negated else Op.GE, node.args["low"])
            high = self._comparison(node.this, Op.GT if negated else Op.LE, node.args["high"])
            return AnyOf((low, high)) if negated else AllOf((low, high))
        if isinstance(node, exp.Like) and _only(node, "this", "expression") and not negated:
            return self._like(column, node.expression)
        return _UNKNOWN

    def _membership(self, node: exp.In, *, negated: bool) -> Predicate:
        op = Op.NE if negated else Op.EQ
        # A null among the members is never equal, and makes NOT IN true of nothing.
        members = [member for member in node.expressions if not isinstance(member, exp.Null)]
        column = self._column(node.this)
        literals = [_literal(member) for member in members]
        if column is not None and not _are_compared_alone(
            literals, self._types[column], negated=negated
        ):
            return _UNKNOWN
        parts = tuple(self._comparison(node.this, op, member) for member in members)
        return AllOf(parts) if negated else AnyOf(parts)

    def _like(self, column: str, pattern: exp.Expression) -> Predicate:
        text = _literal(pattern)
        if self._types[column] is not ColumnType.STRING or not isinstance(text, str):
            return _UNKNOWN
        prefix = re.split(r"[%_]", text, maxsplit=1)[0]
        if prefix == text:
            return Compare(column, Op.EQ, text, text)
        return StartsWith(column, prefix) if prefix else IsNull(column, negated=True)

    def _comparison(self, left: exp.Expression, op: Op, right: exp.Expression) -> Predicate:
        column = self._column(left)
        literal = _literal(right)
        if column is None:
            column, literal, op = self._column(right), _literal(left), _FLIPPED.get(op, op)
        if column is None or literal is None:
            return _UNKNOWN
        kind = self._types[column]
        # Not-a-number is above every bound, and statistics do not tell of it.
        if kind is ColumnType.FLOAT and op in (Op.NE, Op.GT, Op.GE):
            return _UNKNOWN
        bounds = _bounds(literal, kind)
        return _UNKNOWN if bounds is None else Compare(column, op, *bounds)

    def _column(self, node: object) -> str | None:
        if not isinstance(node, exp.Column) or not _only(node, "this"):
            return None
        if not isinstance(node.this, exp.Identifier):
            return None
        named = self._names.get(node.name.lower(), [])
        return named[0] if len(named) == 1 else None


def _are_compared_alone(
    members: Sequence[_Literal | None], kind: ColumnType, *, negated: bool
) -> bool:
    """Return whether members of a list are compared with a column as each would be alone.

    Spark brings all of them and the column to one type: text, in which 07 is not 7, or a number
    that rounds others.
    """
    if kind not in (ColumnType.INTEGER, ColumnType.DECIMAL):
        return True
    if negated and any(isinstance(member, str) for member in members):
        return False
    return len({isinstance(member, float) for member in members}) == 1


def _only(node: exp.Expression, *known: str) -> bool:
    """Return whether the node has no other argument, which might change what it means."""
    return not any(value for name, value in node.args.items() if name not in known)


def _literal(node: exp.Expression) -> _Literal | None:
    if isinstance(node, exp.Neg) and _only(node, "this"):
        inner = _literal(node.this)
        is_number = isinstance(inner, int | float | Decimal) and not isinstance(inner, bool)
        return -inner if is_number else None  # type: ignore[operator] # a number
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return _cast(str(node.this.this), node.to.this.name, is_string=node.this.is_string)
    return None


def _number(text: str) -> _Literal | None:
    if _WHOLE.fullmatch(text):
        return int(text)
    if re.fullmatch(r"\d{0,18}\.\d{0,18}", text) and text != ".":
        return Decimal(text)
    if re.fullmatch(r"\d+(\.\d*)?[eE][+-]?\d{1,2}", text):
        return float(text)
    return None


def _cast(text: str, target: str, *, is_string: bool) -> _Literal | None:
    if is_string:
        if target == "DATE":
            return _date(text)
        return _moment(text, is_zoned=target in _ZONED) if target in _TIMESTAMPS else None
    number = _number(text)
    if target in _INTEGER_BITS:
        is_held = isinstance(number, int) and number < 1 << (_INTEGER_BITS[target] - 1)
        return number if is_held else None
    if target in ("DOUBLE", "FLOAT") and isinstance(number, int | float | Decimal):
        return float(number) if target == "DOUBLE" else _single(float(number))
    return None


def _single(number: float) -> float | None:
    """Return the number that a cast to single precision makes; too large ones become infinite."""
    try:
        made: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return None
    return made


def _date(text: str) -> date | None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _moment(text: str, *, is_zoned: bool) -> tuple[datetime, datetime] | None:
    """Return the two ends between which a time lies; unless `is_zoned`, its zone may not count."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    micros = (fraction or "0")[:6].ljust(6, "0")
    is_known = is_zoned and zone is not None
    offset = "+00:00" if not is_known or zone == "Z" else zone
    try:
        at = datetime.fromisoformat(f"{day} {clock or '00:00:00'}.{micros}{offset}")
        at = at.astimezone(timezone.utc)
        slack = _COARSE if is_known else _ANY_ZONE + _COARSE
        return at - slack, at + slack
    except (ValueError, OverflowError):
        return None


def _bounds(literal: _Literal, kind: ColumnType) -> tuple[Value, Value] | None:
    """Return the two ends between which the literal lies once Spark has cast it to compare."""
    if isinstance(literal, bool):
        return (literal, literal) if kind is ColumnType.BOOLEAN else None
    if kind in _NUMBERS:
        return _number_bounds(literal, kind)
    if kind is ColumnType.STRING:
        return (literal, literal) if isinstance(literal, str) else None
    if kind is ColumnType.DATE:
        day = _date(literal) if isinstance(literal, str) else literal
        return (day, day) if isinstance(day, date) else None
    if kind in (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP_NTZ):
        return _moment_bounds(literal, kind)
    return None


def _moment_bounds(literal: _Literal, kind: ColumnType) -> tuple[datetime, datetime] | None:
    is_zoned = kind is ColumnType.TIMESTAMP
    if isinstance(literal, tuple):
        # A column without a zone takes that of the session to be compared with a moment.
        slack = timedelta() if is_zoned else _ANY_ZONE
        try:
            return literal[0] - slack, literal[1] + slack
        except OverflowError:
            return None
    text = literal.isoformat() if isinstance(literal, date) else literal
    return _moment(text, is_zoned=is_zoned) if isinstance(text, str) else None


def _number_bounds(literal: _Literal, kind: ColumnType) -> tuple[Value, Value] | None:
    if isinstance(literal, str) and kind is ColumnType.INTEGER and _WHOLE.fullmatch(literal):
        literal = int(literal)
    if not isinstance(literal, int | float | Decimal):
        return None
    if kind is ColumnType.INTEGER and not isinstance(literal, float):
        return literal, literal
    if kind is ColumnType.DECIMAL and not isinstance(literal, float):
        # Bringing both to one precision may round either by less than one.
        return literal - 1, literal + 1
    value = float(literal)
    slack = abs(value) * 1e-6 + (1 if kind is ColumnType.DECIMAL else 0)  # single precision rounds
    return value - slack, value + slack
