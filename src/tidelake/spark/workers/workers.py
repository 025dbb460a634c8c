"""What runs inside Spark's Python workers: values in, Arrow batches out."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.errors import TidelakeError
from tidelake.files import (
    ChangeTask,
    ReadSpec,
    SliceTask,
    change_schema,
    decide_slice,
    read_changes,
    read_slice,
)
from tidelake.operations.bins import in_order, pack
from tidelake.spark.types.from_arrow import spark_schema
from tidelake.spark.workers.worker_process import Batches, mapped

FILE_NAME = "__tidelake_file"
MASK = "__tidelake_mask"

#: Spark 4 makes a DataFrame of an Arrow table without the help of a worker.
_TAKES_ARROW = int(pyspark.__version__.partition(".")[0]) >= 4
#: Writes to single file groups that one Spark task reads, when there are many.
_CHANGES_PER_BIN = 16
#: Which rows of a base file are overruled.
MASKS = T.StructType(
    [T.StructField(FILE_NAME, T.StringType()), T.StructField(MASK, T.ArrayType(T.LongType()))]
)
#: What a worker says of one slice whose logs it has looked through.
VERDICT = T.StructType(
    [
        T.StructField("slice", T.LongType()),
        T.StructField("mask", T.BinaryType()),
        T.StructField("rows", T.BinaryType()),
        T.StructField("error", T.BinaryType()),
    ]
)
_VERDICT_ARROW = pa.schema(
    [
        ("slice", pa.int64()),
        ("mask", pa.binary()),
        ("rows", pa.binary()),
        ("error", pa.binary()),
    ]
)


def run_on_workers(
    spark: SparkSession,
    work: Callable[[int], Batches],
    count: int,
    schema: T.StructType,
) -> DataFrame:
    """Return a DataFrame whose partition i holds the batches of `work(i)`."""

    def run(batches: Batches) -> Batches:
        try:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    yield from work(index)
        except TidelakeError as error:
            # It names the file, the cause and the next step; our frames in front would hide that.
            raise error.with_traceback(None) from None

    return mapped(spark.range(0, count, 1, count), run, schema)


def merged_rows(
    spark: SparkSession,
    tasks: Sequence[SliceTask],
    spec: ReadSpec,
    schema: T.StructType,
    parallelism: int,
) -> DataFrame:
    """Return every row of the slices, base files and logs merged in the workers."""
    bins = pack(tasks, parallelism)

    def work(index: int) -> Batches:
        for task in bins[index]:
            yield from read_slice(task, spec)

    return run_on_workers(spark, work, len(bins), schema)


def decided_rows(
    spark: SparkSession,
    tasks: Sequence[SliceTask],
    spec: ReadSpec,
    schema: T.StructType,
    parallelism: int,
) -> DataFrame:
    """Return the rows that the slices' logs decide, without the base rows they leave alone."""
    bins = pack(tasks, parallelism)

    def work(index: int) -> Batches:
        for task in bins[index]:
            yield from decide_slice(task, spec).rows.to_batches()

    return run_on_workers(spark, work, len(bins), schema)


def masks(
    spark: SparkSession, tasks: Sequence[SliceTask], spec: ReadSpec, parallelism: int
) -> DataFrame:
    """Return by base file name which of its rows the slice's logs overrule, in words of 64 bits."""
    bins = pack([task for task in tasks if task.base_path is not None], parallelism)

    def work(index: int) -> Batches:
        for task in bins[index]:
            mask = pa.array(decide_slice(task, spec).mask.view("int64"))
            words = pa.ListArray.from_arrays(pa.array([0, len(mask)], pa.int32()), mask)
            yield pa.RecordBatch.from_arrays([pa.array([task.base_name]), words], MASKS.names)

    return run_on_workers(spark, work, len(bins), MASKS)


def verdicts(
    spark: SparkSession, tasks: Sequence[SliceTask], spec: ReadSpec, parallelism: int
) -> DataFrame:
    """Return for each slice which base rows its logs overrule, and the rows they put instead.

    A damaged file does not fail the Spark job: its error comes back as a value, to be raised where
    the person is.
    """
    numbered = {id(task): index for index, task in enumerate(tasks)}
    bins = [tuple((numbered[id(t)], t) for t in of) for of in pack(tasks, parallelism)]

    def work(index: int) -> Batches:
        for number, task in bins[index]:
            yield pa.RecordBatch.from_pylist([verdict(number, task, spec)], _VERDICT_ARROW)

    return run_on_workers(spark, work, len(bins), VERDICT)


def verdict(number: int, task: SliceTask, spec: ReadSpec) -> dict[str, Any]:
    """Return one slice's verdict as plain bytes."""
    try:
        decided = decide_slice(task, spec)
    except TidelakeError as error:
        return {"slice": number, "error": pickle.dumps(error)}
    return {
        "slice": number,
        "mask": decided.mask.tobytes(),
        "rows": to_ipc(decided.rows),
        "error": None,
    }


def to_ipc(rows: pa.Table) -> bytes:
    """Return rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def from_ipc(data: bytes) -> pa.Table:
    """Return the rows of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


def given_rows(spark: SparkSession, streams: Sequence[bytes], schema: T.StructType) -> DataFrame:
    """Return rows that the driver holds as Arrow streams."""
    if _TAKES_ARROW:
        # Spark loses rows of a table some of whose chunks are empty.
        table = pa.concat_tables([from_ipc(stream) for stream in streams]).combine_chunks()
        return spark.createDataFrame(table, schema)

    def work(_: int) -> Batches:
        for stream in streams:
            yield from from_ipc(stream).to_batches()

    return run_on_workers(spark, work, 1, schema)


def given_masks(spark: SparkSession, masks: Mapping[str, bytes]) -> DataFrame:
    """Return masks that the driver holds, as `masks` shows them.

    Before Spark 4 they travel as text inside the plan: rows given to `createDataFrame` would take a
    worker.
    """
    if _TAKES_ARROW:
        lists = [np.frombuffer(mask, "<i8") for mask in masks.values()]
        return spark.createDataFrame(
            pa.table({FILE_NAME: list(masks), MASK: pa.array(lists, pa.list_(pa.int64()))}), MASKS
        )
    words = [",".join(map(str, np.frombuffer(mask, "<i8"))) for mask in masks.values()]
    at = F.col("id").cast("int") + 1
    split = F.split(F.element_at(F.lit(words), at), ",")
    return spark.range(0, len(masks), 1, 1).select(
        F.element_at(F.lit(list(masks)), at).alias(FILE_NAME),
        split.cast(T.ArrayType(T.LongType())).alias(MASK),
    )


def packed_masks(spark: SparkSession, masks: Mapping[str, bytes]) -> Column | None:
    """Return all masks as one value that a plan does not spell out, None before Spark 4.

    It is a struct of the files' names, where the words of each begin, and the words of all.
    """
    if not (_TAKES_ARROW and hasattr(DataFrame, "scalar")):
        return None
    lists = [np.frombuffer(mask, "<i8") for mask in masks.values()]
    row = {
        "names": pa.array([list(masks)], pa.list_(pa.string())),
        "starts": pa.array([np.cumsum([0, *map(len, lists)])[:-1]], pa.list_(pa.int64())),
        "words": pa.array([np.concatenate(lists)], pa.list_(pa.int64())),
    }
    schema = "names array<string>, starts array<long>, words array<long>"
    packed: Column = spark.createDataFrame(pa.table(row), schema).select(F.struct("*")).scalar()
    return packed


def changes(
    spark: SparkSession, tasks: Sequence[ChangeTask], spec: ReadSpec, parallelism: int
) -> DataFrame:
    """Return the changes of the tasks in their order, images as structs."""
    count = min(len(tasks), max(parallelism, len(tasks) // _CHANGES_PER_BIN))
    bins = in_order(tuple(tasks), count)

    def work(index: int) -> Batches:
        for task in bins[index]:
            yield from read_changes(task, spec)

    return run_on_workers(spark, work, count, spark_schema(change_schema(spec)))
