"""Base files read by Spark's own Parquet reader, column pruning and filter push-down included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.files import ReadSpec, SliceTask, check_tails, read_footers
from tidelake.records import COMMIT_TIME
from tidelake.spark.read.file_discovery import quick_discovery
from tidelake.spark.types.from_arrow import spark_schema, spark_type
from tidelake.spark.workers.workers import FILE_NAME, MASK, given_masks, packed_masks
from tidelake.storage import open_storage, spark_options, spark_path

ROW_INDEX = "__tidelake_row"

#: Up to this many base files are looked at before the query runs, so that one that is cut short or
#: missing is named at once.
_CHECKED_FILES = 256
#: Masks of up to this many files and bytes are part of a condition; others take a join.
_COMPARED_FILES = 32
_COMPARED_BYTES = 256 << 10
#: Masks of up to this many bytes are spelled out in the plan.
_SPELLED_BYTES = 256
_LONGS = T.ArrayType(T.LongType())


@dataclass(frozen=True, slots=True)
class Layout:
    """How the columns of a query lie in a base file.

    `casts` holds the file's own type of each column that must be cast. None instead of a layout
    means that only our own reader can read the file.
    """

    casts: tuple[tuple[str, pa.DataType], ...] = ()


def layouts(
    tasks: Sequence[SliceTask], spec: ReadSpec, target: pa.Schema
) -> dict[str, Layout | None]:
    """Return the layout of every base file by path, or None for files left to our own reader."""
    found: dict[str, Layout | None] = {}
    parquet: dict[str, SliceTask] = {}
    for task in tasks:
        if task.base_path is None:
            continue
        if task.base_path.endswith(".parquet"):
            parquet[task.base_path] = task
        else:
            found[task.base_path] = None
    sizes = {path: task.base_size_bytes for path, task in parquet.items()}
    storage = open_storage(spec.storage)
    if len(sizes) <= _CHECKED_FILES:
        check_tails(storage, sizes)
    # All files of a commit are written with one schema, so one of them tells for all.
    samples = {task.base_instant: path for path, task in parquet.items()}
    footers = read_footers(storage, {path: sizes[path] for path in samples.values()})
    by_path = {path: _layout(footer.schema, target) for path, footer in footers.items()}
    for path, task in parquet.items():
        found[path] = by_path[samples[task.base_instant]]
    return found


def _layout(file: pa.Schema, target: pa.Schema) -> Layout | None:
    casts = []
    for wanted in target:
        index = file.get_field_index(wanted.name)
        if index < 0:
            if wanted.name in file.names:
                return None
            continue
        stored = file.field(index).type
        if _reads_as(stored, wanted.type):
            continue
        if not _casts_to(stored, wanted.type):
            return None
        casts.append((wanted.name, stored))
    return Layout(tuple(casts))


def _reads_as(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Spark's Parquet reader gives `wanted` from a column stored as `stored`."""
    if stored == wanted:
        return True
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(wanted):
        # INT96 carries no zone of its own; Arrow shows it as nanoseconds.
        return bool(stored.tz) == bool(wanted.tz) or stored.unit == "ns"
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        return (stored.precision, stored.scale) == (wanted.precision, wanted.scale)
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        return all(
            stored.get_field_index(f.name) < 0 or _reads_as(stored.field(f.name).type, f.type)
            for f in wanted
        )
    if pa.types.is_map(stored) and pa.types.is_map(wanted):
        return _reads_as(stored.key_type, wanted.key_type) and _reads_as(
            stored.item_type, wanted.item_type
        )
    if pa.types.is_list(stored) and pa.types.is_list(wanted):
        return _reads_as(stored.value_type, wanted.value_type)
    return False


def _casts_to(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether the columns differ by a widening that a Spark cast expresses."""
    if pa.types.is_string(wanted):
        return bool(pa.types.is_integer(stored) or pa.types.is_binary(stored))
    if pa.types.is_binary(wanted):
        return bool(pa.types.is_string(stored))
    numbers = (pa.types.is_integer, pa.types.is_floating)
    return any(is_a(stored) for is_a in numbers) and any(is_a(wanted) for is_a in numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFiles:
    """Base files of one layout, which Spark has looked up."""

    tasks: Sequence[SliceTask]
    spec: ReadSpec
    target: pa.Schema
    layout: Layout
    frame: DataFrame
    """What the files hold of the columns."""
    names: Sequence[str]
    """The columns of `frame`."""

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        tasks: Sequence[SliceTask],
        spec: ReadSpec,
        target: pa.Schema,
        layout: Layout,
    ) -> BaseFiles:
        """Have Spark look up the base files of the tasks."""
        stored = dict(layout.casts)
        fields = {
            f.name: T.StructField(f.name, spark_type(stored.get(f.name, f.type))) for f in target
        }
        for name, _ in tasks[0].partition_values:
            fields.pop(name, None)
        if spec.keep_instants is not None:
            fields.setdefault(COMMIT_TIME, T.StructField(COMMIT_TIME, T.StringType()))
        is_local = open_storage(spec.storage).local_path("") is not None
        with quick_discovery(spark, len(tasks), is_local=is_local):
            frame = (
                spark.read.options(**spark_options(spec.storage))
                .schema(T.StructType(list(fields.values())))
                .option("recursiveFileLookup", "true")
                .parquet(*(spark_path(spec.storage, t.base_path or "") for t in tasks))
            )
        return cls(
            tasks=tasks, spec=spec, target=target, layout=layout, frame=frame, names=list(fields)
        )

    def rows(self, masks: DataFrame | Mapping[str, bytes] | None = None) -> DataFrame:
        """Return the rows of the files, less those that `masks` overrules.

        `masks` holds, by file name, one bit for each row of the file, in words of 64.
        """
        frame, spark = self.frame, self.frame.sparkSession
        joined = masks if isinstance(masks, DataFrame) else None
        compared = {} if masks is None or isinstance(masks, DataFrame) else masks
        if len(compared) > _COMPARED_FILES or sum(map(len, compared.values())) > _COMPARED_BYTES:
            joined, compared = given_masks(spark, compared), {}
        stored = dict(self.layout.casts)
        from_path = dict(self.tasks[0].partition_values)
        if compared:
            frame = frame.where(_is_unmasked_by(spark, compared))
        if joined is not None or from_path:
            frame = frame.select(
                "*",
                F.col("_metadata.file_name").alias(FILE_NAME),
                *([F.col("_metadata.row_index").alias(ROW_INDEX)] if joined is not None else []),
            )
        if joined is not None:
            frame = frame.join(F.broadcast(joined), FILE_NAME, "left").where(_is_unmasked())
        if from_path:
            frame = frame.join(F.broadcast(_path_values(spark, self.tasks)), FILE_NAME, "left")
        if self.spec.keep_instants is not None:
            frame = frame.where(F.col(COMMIT_TIME).isin(sorted(self.spec.keep_instants)))
        if joined is None and not (from_path or stored) and self.names == self.target.names:
            return frame  # Naming each column again would take longer than planning the scan.
        return frame.select(*(_output(f, stored.get(f.name), from_path) for f in self.target))


def _is_unmasked() -> Column:
    word = F.element_at(F.col(MASK), (F.col(ROW_INDEX) / 64).cast("int") + 1)
    bit = F.getbit(word, F.pmod(F.col(ROW_INDEX), F.lit(64)).cast("int"))
    return F.col(MASK).isNull() | (bit == 0)


def _is_unmasked_by(spark: SparkSession, masks: Mapping[str, bytes]) -> Column:
    """Return the condition that no mask overrules a row, which spares Spark a join."""
    names, starts, words = _mask_arrays(spark, masks)
    row = F.col("_metadata.row_index")
    # What is not in an array is null here: the place of a file without a mask, and so its bits.
    at = F.call_function("array_position", names, F.col("_metadata.file_name")) - 1
    start = F.get(starts, at.cast("int"))
    word = F.get(words, (start + F.shiftright(row, 6)).cast("int"))
    bit = F.getbit(word, row.bitwiseAND(F.lit(63)).cast("int"))
    return F.coalesce(bit, F.lit(0)) == 0


def _mask_arrays(spark: SparkSession, masks: Mapping[str, bytes]) -> tuple[Column, Column, Column]:
    """Return the names of the files, where the words of each begin, and the words of all.

    More words than a person would look at in `explain` are the value of a subquery, where Spark has
    such a thing for DataFrames.
    """
    size_bytes = sum(map(len, masks.values()))
    packed = packed_masks(spark, masks) if size_bytes > _SPELLED_BYTES else None
    if packed is not None:
        return packed["names"], packed["starts"], packed["words"]
    words = [np.frombuffer(mask, "<i8") for mask in masks.values()]
    starts = np.cumsum([0, *map(len, words)])[:-1]
    constants = (_constant(starts).cast(_LONGS), _constant(np.concatenate(words)).cast(_LONGS))
    return _constant(masks), *constants


def _constant(values: Iterable[object]) -> Column:
    """Return an array of texts that have no slash; a single text takes no call for each of them."""
    return F.split(F.lit("/".join(map(str, values))), "/")


def _output(field: pa.Field, stored: pa.DataType | None, from_path: Mapping[str, object]) -> Column:
    column = F.col(f"`{field.name}`")
    if field.name in from_path:
        return column.cast(spark_type(field.type)).alias(field.name)
    if stored is None:
        return column
    if pa.types.is_float32(stored) and pa.types.is_float64(field.type):
        # Hudi widens through the text, so that 0.1 stays 0.1.
        column = column.cast("string")
    return column.cast(spark_type(field.type)).alias(field.name)


def _path_values(spark: SparkSession, tasks: Sequence[SliceTask]) -> DataFrame:
    names = [name for name, _ in tasks[0].partition_values]
    schema = T.StructType([T.StructField(n, T.StringType()) for n in (FILE_NAME, *names)])
    rows = [(t.base_name, *(value for _, value in t.partition_values)) for t in tasks]
    return spark.createDataFrame(rows, schema)


def empty_frame(spark: SparkSession, target: pa.Schema) -> DataFrame:
    """Return a DataFrame of the given columns without rows."""
    return spark.createDataFrame([], spark_schema(target))
