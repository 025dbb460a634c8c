"""The partition columns of rows that stay in their partition, although they bring another value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.config import TableConfig
from tidelake.errors import SchemaError
from tidelake.formats.partition_path import is_old_default
from tidelake.records import arrow_schema, partition_values
from tidelake.records.schema import constant_column
from tidelake.spark.types.from_arrow import spark_schema

_PATH = "_tidelake_path"
_SAID = "_tidelake_said_"
#: So many partitions stand in an expression; more are joined, which takes a job.
_EXPRESSED = 256
#: Types whose text in a path is the value, as whoever prunes by paths has it.
_SPELLED = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)


@dataclass(frozen=True, slots=True)
class PathValues:
    """What partition paths say of one partition column; what they do not tell is not there."""

    field: T.StructField
    of_path: Mapping[str, object]

    def said(self, path: Column) -> Column:
        """Return what a path says, as a struct of one value."""
        name, kind = self.field.name, self.field.dataType
        entries = [
            entry
            for text, value in self.of_path.items()
            for entry in (F.lit(text), F.struct(F.lit(value).cast(kind).alias(name)))
        ]
        return F.try_element_at(F.create_map(*entries), path)


def following_paths(
    frame: DataFrame, path: Column, stays: Column, values: Sequence[PathValues]
) -> DataFrame:
    """Return the rows, those that `stays` marks with the partition values of `path`.

    Every reader that prunes by paths would miss them otherwise.
    """
    made: dict[str, Column] = {}
    for at, known in enumerate(values):
        name = known.field.name
        said = known.said(path)
        if len(known.of_path) > _EXPRESSED:
            frame, said = _joined(frame, path, known, f"{_SAID}{at}")
        own = F.col(f"`{name}`")
        made[name] = F.when(stays & said.isNotNull(), said.getField(name)).otherwise(own)
    joined = [name for name in frame.columns if name.startswith(_SAID)]
    return frame.withColumns(made).drop(*joined)


def _joined(
    frame: DataFrame, path: Column, known: PathValues, name: str
) -> tuple[DataFrame, Column]:
    kind = T.StructType([T.StructField(_PATH, T.StringType())])
    kind.add(name, T.StructType([known.field]))
    rows = [(text, (value,)) for text, value in known.of_path.items()]
    table = F.broadcast(frame.sparkSession.createDataFrame(rows, kind))
    return frame.join(table, path == table[_PATH], "left").drop(_PATH), F.col(name)


def values_of_paths(
    config: TableConfig, avro: str, partitions: Sequence[str], columns: Sequence[str]
) -> list[PathValues]:
    """Return what partition paths say of those partition columns that are among `columns`."""
    stored = arrow_schema(avro)
    names = [n for n in config.partition_fields if n in columns and n in stored.names]
    told = {path: partition_values(config, path) for path in partitions if not is_old_default(path)}
    found = []
    for field in spark_schema(pa.schema([stored.field(name) for name in names])).fields:
        kind = stored.field(field.name).type
        of_path = {
            path: value[0]
            for path, values in told.items()
            if (value := _value(values, field.name, kind)) is not None
        }
        if of_path:
            found.append(PathValues(T.StructField(field.name, field.dataType), of_path))
    return found


def _value(values: Mapping[str, str | None], name: str, kind: pa.DataType) -> tuple[object] | None:
    """Return the value that a path spells, alone in a tuple; None where it does not tell."""
    text = values.get(name)
    if name not in values or (text is not None and not any(is_one(kind) for is_one in _SPELLED)):
        return None
    try:
        return (constant_column(text, kind, 1)[0].as_py(),)
    except SchemaError:
        return None
