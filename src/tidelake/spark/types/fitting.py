"""Values of one Spark type as a column of another type holds them; fields go by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

#: How much a number holds; what holds less fits into what holds more.
_WIDTH: Mapping[type[T.DataType], int] = {
    T.ByteType: 1,
    T.ShortType: 2,
    T.IntegerType: 3,
    T.LongType: 4,
    T.FloatType: 5,
    T.DoubleType: 6,
}


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression and its type."""

    column: Column
    kind: T.DataType

    def fitted(self, wanted: T.DataType) -> Column:
        """Return the value as a column of another type holds it; null when it does not."""
        if self.kind == wanted:
            return self.column
        column = by_name(self.column, self.kind, wanted)
        if hasattr(column, "try_cast") and not self.surely_fits(wanted):
            found: Column = column.try_cast(wanted)
            return found
        return column.cast(wanted)

    def surely_fits(self, wanted: T.DataType) -> bool:
        """Return whether every value of the type has a place in the other."""
        return always_fits(self.kind, wanted)

    def is_lost(self, wanted: T.DataType) -> Column:
        """Return whether the value, or one inside of it, does not survive."""
        if self.surely_fits(wanted):
            return F.lit(False)
        inside = self._is_lost_inside(wanted)
        if inside is not None:
            return F.coalesce(inside, F.lit(False))
        found = self.fitted(wanted)
        lost = found.isNull()
        if isinstance(self.kind, T.IntegralType) and isinstance(wanted, T.IntegralType):
            lost |= found.cast(self.kind) != self.column
        return self.column.isNotNull() & lost

    def _is_lost_inside(self, wanted: T.DataType) -> Column | None:
        column, kind = self.column, self.kind
        if isinstance(kind, T.StructType) and isinstance(wanted, T.StructType):
            pairs = _pairs(kind, wanted)
            if pairs is None:
                return None
            lost = [
                Typed(column.getField(own.name), own.dataType).is_lost(field.dataType)
                for field, own in pairs
                if own is not None
            ]
            return reduce(or_, lost, F.lit(False))
        if isinstance(kind, T.ArrayType) and isinstance(wanted, T.ArrayType):
            item, other = kind.elementType, wanted.elementType
            return F.exists(column, lambda each: Typed(each, item).is_lost(other))
        if isinstance(kind, T.MapType) and isinstance(wanted, T.MapType):
            value, other = kind.valueType, wanted.valueType
            return F.exists(F.map_values(column), lambda each: Typed(each, value).is_lost(other))
        return None


def always_fits(kind: T.DataType, wanted: T.DataType) -> bool:
    """Return whether every value of one type has a place in the other."""
    if kind == wanted or isinstance(kind, T.NullType) or isinstance(wanted, T.StringType):
        return True
    own, other = _WIDTH.get(type(kind)), _WIDTH.get(type(wanted))
    return own is not None and other is not None and own <= other


def by_name(column: Column, kind: T.DataType, wanted: T.DataType) -> Column:
    """Return the value with the fields of its structs where `wanted` has those of their names.

    Spark's own cast goes by their places, and would exchange values without a word.
    """
    if not _is_displaced(kind, wanted):
        return column
    if isinstance(kind, T.StructType) and isinstance(wanted, T.StructType):
        made = [
            F.lit(None).cast(field.dataType).alias(field.name)
            if own is None
            else by_name(column.getField(own.name), own.dataType, field.dataType).alias(field.name)
            for field, own in _pairs(kind, wanted) or ()
        ]
        return F.when(column.isNotNull(), F.struct(*made))
    if isinstance(kind, T.ArrayType) and isinstance(wanted, T.ArrayType):
        item, other = kind.elementType, wanted.elementType
        return F.transform(column, lambda each: by_name(each, item, other))
    if isinstance(kind, T.MapType) and isinstance(wanted, T.MapType):
        value, other = kind.valueType, wanted.valueType
        return F.transform_values(column, lambda _, each: by_name(each, value, other))
    return column


def _is_displaced(kind: T.DataType, wanted: T.DataType) -> bool:
    """Return whether a struct in `kind` has its fields elsewhere than `wanted` has them."""
    if isinstance(kind, T.StructType) and isinstance(wanted, T.StructType):
        pairs = _pairs(kind, wanted)
        if pairs is None:
            return False
        if [own for _, own in pairs] != list(kind.fields):
            return True
        return any(own and _is_displaced(own.dataType, field.dataType) for field, own in pairs)
    if isinstance(kind, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return _is_displaced(kind.elementType, wanted.elementType)
    if isinstance(kind, T.MapType) and isinstance(wanted, T.MapType):
        return _is_displaced(kind.valueType, wanted.valueType)
    return False


def _pairs(
    kind: T.StructType, wanted: T.StructType
) -> list[tuple[T.StructField, T.StructField | None]] | None:
    """Return each wanted field with the one of its name; None when names do not tell.

    That is where one of them has no place in `wanted`, such as those of a struct without names.
    """
    given = {field.name.lower(): field for field in kind.fields}
    known = {field.name.lower() for field in wanted.fields}
    if len(given) < len(kind.fields) or not known.issuperset(given):
        return None
    return [(field, given.get(field.name.lower())) for field in wanted.fields]
