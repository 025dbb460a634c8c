from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812

from tidelake.errors import SchemaError
from tidelake.records.spark_json import sql_name, struct_json

SCHEMA = pa.schema(
    [
        pa.field("flag", pa.bool_(), nullable=False),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("long", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("fixed", pa.binary(4)),
        ("day", pa.date32()),
        ("price", pa.decimal128(12, 3)),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("wall", pa.timestamp("us")),
        (
            "nested",
            pa.struct(
                [
                    pa.field("list", pa.list_(pa.field("element", pa.int64(), nullable=False))),
                    ("map", pa.map_(pa.string(), pa.decimal128(5, 1))),
                ]
            ),
        ),
    ]
)


def test_spark_writes_the_same_json_and_the_same_names() -> None:
    found = struct_json(SCHEMA)
    struct = T.StructType.fromJson(found)
    assert struct.jsonValue() == found
    names = {field["name"]: sql_name(field["type"]) for field in found["fields"]}
    assert names == {field.name: field.dataType.simpleString() for field in struct.fields}
    assert sql_name(found) == struct.simpleString()


def test_a_type_that_spark_lacks_is_refused_with_a_next_step() -> None:
    with pytest.raises(SchemaError, match="Spark has no type for values stored as time64") as told:
        struct_json(pa.schema([("at", pa.time64("us"))]))
    assert "columns=[" in told.value.next_step
