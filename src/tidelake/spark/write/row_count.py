"""Counting the rows of a write, and finding those that may not be written, before any is."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.files.new_file import nested_partition
from tidelake.files.write_task import CHECK, GROUP
from tidelake.formats.partition_path import nested
from tidelake.records.schema import PARTITION_PATH
from tidelake.spark.workers.worker_process import mapped
from tidelake.spark.write.incoming_rows import ODD, Incoming
from tidelake.write.plan import Workload
from tidelake.write.refused_rows import bad_rows

_TALLY = T.StructType([T.StructField("tally", T.BinaryType())])
_PROBLEM = "_tidelake_problem_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one task counted; `wrong` has a number for each condition that no row may meet."""

    workload: Workload
    wrong: tuple[int, ...]


def count_rows(rows: Incoming) -> Workload:
    """Run the rows once and count them; raise `SchemaError` for rows that may not be written.

    Each task counts its own rows, so that there is nothing to shuffle and one job is enough.
    """
    conditions = [each.alias(f"{_PROBLEM}{at}") for at, each in enumerate(rows.bad.values())]
    narrow = rows.frame.select(PARTITION_PATH, GROUP, CHECK, ODD, *conditions)
    problems = len(conditions)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = pickle.dumps(tally(batches, problems))
        yield pa.RecordBatch.from_pydict({"tally": pa.array([made], pa.binary())})

    found = mapped(narrow, run, _TALLY).collect()
    return _checked(list(rows.bad), [pickle.loads(row["tally"]) for row in found])


def tally(batches: Iterable[pa.RecordBatch], problems: int) -> Tally:
    """Count the rows of one task."""
    counts = Counter[tuple[str, "str | None"]]()
    wrong = [0] * problems
    checksum = odd = 0
    for batch in batches:
        if not len(batch):
            continue
        rows = pa.Table.from_batches([batch])
        by_group = rows.select([PARTITION_PATH, GROUP, CHECK]).group_by(
            [PARTITION_PATH, GROUP], use_threads=False
        )
        for entry in by_group.aggregate([(CHECK, "count")]).to_pylist():
            counts[entry[PARTITION_PATH], entry[GROUP]] += entry[f"{CHECK}_count"]
        checksum ^= int(np.bitwise_xor.reduce(rows.column(CHECK).to_numpy()))
        odd += pc.sum(rows.column(ODD)).as_py() or 0
        for at in range(problems):
            wrong[at] += pc.sum(rows.column(f"{_PROBLEM}{at}")).as_py() or 0
    workload = Workload(counts=dict(counts), checksum=checksum, oddly_hashed=odd)
    return Tally(workload=workload, wrong=tuple(wrong))


def count_by_spark(rows: Incoming) -> Workload:
    """Return what `count_rows` does, for rows that Spark has not kept, and that may be many.

    They stay in the JVM, and columns that have no part in keys are not even read.
    """
    problems = list(rows.bad)
    found = (
        rows.frame.groupBy(PARTITION_PATH, GROUP)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.bit_xor(CHECK).alias("check"),
            F.count_if(F.col(ODD)).alias("odd"),
            *(F.count_if(rows.bad[p]).alias(f"bad{at}") for at, p in enumerate(problems)),
        )
        .collect()
    )
    tallies = [
        Tally(
            workload=Workload(
                counts={(row[PARTITION_PATH], row[GROUP]): row["rows"]},
                checksum=row["check"],
                oddly_hashed=row["odd"],
            ),
            wrong=tuple(row[f"bad{at}"] for at in range(len(problems))),
        )
        for row in found
    ]
    return _checked(problems, tallies)


def _checked(problems: Sequence[str], tallies: Sequence[Tally]) -> Workload:
    for at, problem in enumerate(problems):
        wrong = sum(each.wrong[at] for each in tallies)
        if wrong:
            raise bad_rows(problem, wrong)
    counts = Counter[tuple[str, "str | None"]]()
    checksum = 0
    for each in tallies:
        counts.update(each.workload.counts)
        checksum ^= each.workload.checksum
    inside = nested(partition for partition, _ in counts)
    if inside is not None:
        raise nested_partition(*inside)
    odd = sum(each.workload.oddly_hashed for each in tallies)
    return Workload(counts=dict(counts), checksum=checksum, oddly_hashed=odd)


def refuse_bad_rows(rows: Incoming) -> None:
    """Look for rows that may not be written, in one run; raise `SchemaError` for such rows."""
    problems = list(rows.bad)
    if not problems:
        return
    # A source that knows where its nulls are spares itself the scan.
    bad = rows.frame.where(reduce(or_, rows.bad.values()))
    counts = bad.agg(*(F.count_if(rows.bad[problem]) for problem in problems)).collect()[0]
    for problem, wrong in zip(problems, counts, strict=True):
        if wrong:
            raise bad_rows(problem, wrong)
