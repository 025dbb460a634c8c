"""Arrow types as Spark types."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.errors import SchemaError

_PLAIN: dict[pa.DataType, T.DataType] = {
    pa.bool_(): T.BooleanType(),
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float32(): T.FloatType(),
    pa.float64(): T.DoubleType(),
    pa.string(): T.StringType(),
    pa.large_string(): T.StringType(),
    pa.binary(): T.BinaryType(),
    pa.large_binary(): T.BinaryType(),
    pa.date32(): T.DateType(),
}


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the Spark schema whose values Spark stores as the given Arrow types."""
    return T.StructType([_field(field) for field in schema])


def _field(field: pa.Field) -> T.StructField:
    return T.StructField(field.name, spark_type(field.type), field.nullable)


def spark_type(arrow: pa.DataType) -> T.DataType:
    """Return the Spark type of one Arrow type, or raise `SchemaError` where Spark has none."""
    if arrow in _PLAIN:
        return _PLAIN[arrow]
    if pa.types.is_decimal(arrow):
        return T.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return T.TimestampType() if arrow.tz else T.TimestampNTZType()
    if pa.types.is_fixed_size_binary(arrow):
        return T.BinaryType()
    if pa.types.is_struct(arrow):
        return T.StructType([_field(field) for field in arrow])
    if pa.types.is_map(arrow):
        value = arrow.item_field
        return T.MapType(spark_type(arrow.key_type), spark_type(value.type), value.nullable)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element = arrow.value_field
        return T.ArrayType(spark_type(element.type), element.nullable)
    raise SchemaError(
        f"Spark has no type for values stored as {arrow}",
        next_step="leave the column out with columns=[...]",
    )
