"""Ordering values as Spark expressions, compared as `records.merge` compares them.

A row without a value has zero in a column of numbers, as Hudi has it, and in any other column it is
older than all that have one.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.records import MergeSpec
from tidelake.records.merge import BINLOG


def comparable(frame: DataFrame, values: Sequence[Column], merge: MergeSpec) -> list[Column]:
    """Return columns by which rows of `frame` are in the order of their ordering values."""
    kinds = frame.select(*(v.alias(str(at)) for at, v in enumerate(values))).schema.fields
    return [
        part
        for value, field in zip(values, kinds, strict=True)
        for part in _parts(value, field.dataType, merge)
    ]


def _parts(value: Column, kind: T.DataType, merge: MergeSpec) -> list[Column]:
    if merge.binlog_ordering and isinstance(kind, T.StringType):
        texts = [F.regexp_extract(value, BINLOG, group) for group in (1, 2)]
        numbers = [F.when(text != "", text.cast("bigint")) for text in texts]
        return [part for number in numbers for part in (number.isNotNull(), number)]
    if not isinstance(kind, T.NumericType):
        return [value.isNotNull(), value]
    number = F.coalesce(value, F.lit(0).cast(kind))
    if not isinstance(kind, T.FractionalType) or isinstance(kind, T.DecimalType):
        return [number]
    # Java puts minus zero below zero; to Spark they are one.
    return [number, number.cast("string") != "-0.0"]


def is_lower(ours: Sequence[Column], theirs: Sequence[Column]) -> Column:
    """Return whether the first of two lists that `comparable` has made is older."""
    lower = F.lit(False)
    for one, other in reversed(list(zip(ours, theirs, strict=True))):
        lower = F.coalesce(one < other, F.lit(False)) | (one.eqNullSafe(other) & lower)
    return lower


def is_older_than(frame: DataFrame, fields: Sequence[str], before: str, merge: MergeSpec) -> Column:
    """Return whether rows are older than the ones whose columns have the prefix `before`."""
    ours, theirs = ([_field(f"{prefix}{name}") for name in fields] for prefix in ("", before))
    return is_lower(comparable(frame, ours, merge), comparable(frame, theirs, merge))


def _field(path: str) -> Column:
    return F.col(".".join(f"`{name}`" for name in path.split(".")))
