"""Arrow types as Spark types."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.records.spark_json import struct_json


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the Spark schema whose values Spark stores as the given Arrow types."""
    return T.StructType.fromJson(struct_json(schema))


def spark_type(arrow: pa.DataType) -> T.DataType:
    """Return the Spark type of one Arrow type, or raise `SchemaError` where Spark has none."""
    return spark_schema(pa.schema([pa.field("value", arrow)])).fields[0].dataType
