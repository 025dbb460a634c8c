"""Rows that come as something other than a DataFrame of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tidelake.errors import SchemaError
from tidelake.records._polars import polars as pl
from tidelake.spark.types.from_arrow import spark_schema
from tidelake.spark.workers.workers import given_rows, to_ipc

if TYPE_CHECKING:
    import pandas as pd

#: What is taken wherever rows are.
Rows: TypeAlias = (
    "DataFrame | pd.DataFrame | pl.DataFrame | pa.Table | pa.RecordBatch "
    "| Sequence[Mapping[str, Any]]"
)

_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
_PLAIN_TEXT = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def is_dataframe(given: object) -> bool:
    """Return whether something is a DataFrame of Spark, classic or of Spark Connect."""
    return isinstance(given, DataFrame) or (
        type(given).__module__.startswith("pyspark.sql.") and type(given).__name__ == "DataFrame"
    )


def to_spark(spark: SparkSession, given: Rows, stored: pa.Schema | None) -> DataFrame:
    """Return rows as a DataFrame; see `to_arrow` for those that are none yet."""
    if is_dataframe(given):
        return cast("DataFrame", given)
    rows = to_arrow(given, stored, zone=spark.conf.get("spark.sql.session.timeZone") or "UTC")
    return given_rows(spark, [to_ipc(rows)], spark_schema(rows.schema))


def to_arrow(given: Rows, stored: pa.Schema | None, *, zone: str) -> pa.Table:
    """Return rows of pandas, polars, Arrow or Python as an Arrow table of types that Spark has.

    Dicts and pandas do not say enough about types, so their columns take the types of the table's
    columns in `stored`; Arrow and polars do. Times without a zone are of the session's, as Spark
    takes them, unless the table stores them without. Raises `SchemaError` for what does not fit.
    """
    kinds = {} if stored is None else {field.name: field.type for field in stored}
    library = type(given).__module__.partition(".")[0]
    if isinstance(given, pa.Table | pa.RecordBatch):
        table, are_typed = _table_of(given), True
    elif library == "polars":
        frame: Any = given
        frame = frame.collect() if hasattr(frame, "collect") else frame
        table, are_typed = frame.to_arrow(compat_level=pl.CompatLevel.oldest()), True
    elif library == "pandas":
        table, are_typed = pa.Table.from_pandas(given, preserve_index=False), False
    elif _is_list_of_dicts(given):
        dicts = cast("Sequence[Mapping[str, Any]]", given)
        table, are_typed = _of_dicts(dicts, kinds, stored, zone), True
    else:
        raise SchemaError(
            f"rows are given as {type(given).__module__}.{type(given).__qualname__}",
            next_step="give a DataFrame of Spark, pandas or polars, an Arrow table, or a list of "
            "dicts",
        )
    columns = [
        _column(name, table.column(at), kinds.get(name), zone, is_typed=are_typed)
        for at, name in enumerate(table.column_names)
    ]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _table_of(given: pa.Table | pa.RecordBatch) -> pa.Table:
    return given if isinstance(given, pa.Table) else pa.Table.from_batches([given])


def _is_list_of_dicts(given: object) -> bool:
    return isinstance(given, Sequence) and all(isinstance(row, Mapping) for row in given)


def _of_dicts(
    rows: Sequence[Mapping[str, Any]],
    kinds: Mapping[str, pa.DataType],
    stored: pa.Schema | None,
    zone: str,
) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not rows:
        if stored is None:
            raise SchemaError(
                "an empty list of rows does not say which columns there are",
                next_step="give a StructType or a DDL string, such as 'id long, city string'",
            )
        return stored.empty_table()
    columns = []
    for name in names:
        values = [_in_zone(row.get(name), kinds.get(name), zone) for row in rows]
        try:
            columns.append(pa.array(values, kinds.get(name)))
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as cause:
            raise _misfit(name, kinds.get(name), cause) from cause
    return pa.Table.from_arrays(columns, names=names)


def _in_zone(value: Any, kind: pa.DataType | None, zone: str) -> Any:
    """Return a value whose times say of which zone they are, but for those stored without one."""
    if isinstance(value, datetime):
        is_wall = kind is not None and pa.types.is_timestamp(kind) and kind.tz is None
        return value if is_wall or value.tzinfo else value.replace(tzinfo=ZoneInfo(zone))
    if isinstance(value, Mapping):
        return {key: _in_zone(of, _kind_inside(kind, key), zone) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_in_zone(of, _kind_inside(kind, None), zone) for of in value]
    return value


def _kind_inside(kind: pa.DataType | None, name: str | None) -> pa.DataType | None:
    """Return the type of a struct's field, of a map's values or of a list's elements."""
    if kind is None:
        return None
    if pa.types.is_struct(kind):
        at = kind.get_field_index(name) if name is not None else -1
        return None if at < 0 else kind.field(at).type
    if pa.types.is_map(kind):
        return kind.item_type
    return kind.value_type if pa.types.is_list(kind) else None


def _column(
    name: str,
    values: pa.ChunkedArray,
    stored: pa.DataType | None,
    zone: str,
    *,
    is_typed: bool,
) -> pa.ChunkedArray:
    if pa.types.is_null(values.type) and stored is None:
        raise SchemaError(
            f"column {name} is null in every row, so that its type cannot be told",
            next_step="leave it out, or give rows that say types, such as an Arrow table",
        )
    target = _storable(values.type)
    if stored is not None and (not is_typed or pa.types.is_null(values.type)):
        target = stored
    try:
        is_naive = pa.types.is_timestamp(values.type) and values.type.tz is None
        if is_naive and (stored is None or pa.types.is_timestamp(stored)):
            target = pa.timestamp("us", None if stored is None else stored.tz)
            if stored is None or stored.tz is not None:
                target = pa.timestamp("us", "UTC")
                values = pc.assume_timezone(values, zone)
        if values.type == target:
            return values
        return pc.cast(values, options=pc.CastOptions(target, allow_time_truncate=True))
    except pa.ArrowException as cause:
        raise _misfit(name, target, cause) from cause


def _storable(kind: pa.DataType) -> pa.DataType:
    """Return the type nearest to one that Spark may not have."""
    if kind in _UNSIGNED:
        return _UNSIGNED[kind]
    if kind in _PLAIN_TEXT:
        return _PLAIN_TEXT[kind]
    if pa.types.is_dictionary(kind):
        return _storable(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_storable(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            _storable(kind.key_type), kind.item_field.with_type(_storable(kind.item_type))
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_storable(kind.value_type)))
    return kind


def _misfit(name: str, kind: pa.DataType | None, cause: Exception) -> SchemaError:
    wanted = "one type" if kind is None else f"the type {kind}"
    return SchemaError(
        f"column {name} has values that do not fit {wanted}: {str(cause).partition(chr(10))[0]}",
        next_step="convert the values, or give rows that say their types, such as an Arrow table",
    )
