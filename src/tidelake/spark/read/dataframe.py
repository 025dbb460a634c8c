"""A scan plan as a Spark DataFrame.

Slices without logs go to Spark's own Parquet reader. Of a slice with logs, the base rows that no
log touches go there too: the workers look through the logs and return one bit for each base row
that is overruled, and the rows that take their place. What Spark's reader cannot read (other file
formats, columns that changed their type or name) the workers merge themselves.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.config import MergePath
from tidelake.files import ChangeTask, ReadSpec, SliceTask, answers_from_logs
from tidelake.records import arrow_schema
from tidelake.spark.read import native
from tidelake.spark.read.file_discovery import PATHS_WITHOUT_JOB
from tidelake.spark.read.native import BaseFiles, Layout
from tidelake.spark.session.cores import cpu_cores
from tidelake.spark.session.reach import spark_reaches
from tidelake.spark.types.from_arrow import spark_schema
from tidelake.spark.workers import workers
from tidelake.storage import open_storage

#: The columns of a change query.
CHANGES_SCHEMA = T.StructType(
    [T.StructField(name, T.StringType()) for name in ("op", "ts_ms", "before", "after")]
)
#: Slices that hold no more than this together are looked through in the driver's own process: a
#: Spark job would take longer to start.
_HERE_BYTES = 4 << 20
_HERE_BYTES_OF_DISK = 64 << 20
#: Up to this many bytes of base files for each core are merged in the workers: below that the
#: second job of a mask costs more than carrying the rows.
_MERGED_BYTES = 32 << 20
#: Up to this many bytes of logs are looked through when the DataFrame is made, so that a damaged
#: log is named at once and later actions need not look again; beyond that, when an action runs.
_AT_ONCE_BYTES = 256 << 20
#: Up to this many bytes of decided rows are carried through the driver.
_CARRIED_BYTES = 64 << 20
#: Base files beyond this hold more rows than one mask for all of them should be broadcast for.
_MASKED_BYTES = 64 << 30
_MOST_SHARES = 8


def to_dataframe(
    spark: SparkSession,
    spec: ReadSpec,
    tasks: Sequence[SliceTask],
    merge_path: MergePath = MergePath.AUTO,
) -> DataFrame:
    """Return the rows of the slices as a DataFrame with `spec.columns` in that order."""
    target = arrow_schema(spec.schema, spec.columns)
    merged = _merged_in_workers(spark, spec, tasks, merge_path)
    native_tasks = [task for task in tasks if task not in merged]
    layouts = _native_layouts(spark, spec, native_tasks, target)
    parts: list[DataFrame] = []
    plain: dict[Layout, list[SliceTask]] = {}
    logged: dict[Layout, list[SliceTask]] = {}
    ours: list[SliceTask] = []
    for task in tasks:
        layout = layouts.get(task.base_path) if task.base_path is not None else Layout()
        if layout is None or task in merged:
            ours.append(task)
        elif not task.log_paths:
            plain.setdefault(layout, []).append(task)
        else:
            logged.setdefault(layout, []).append(task)
    for layout, of in plain.items():
        parts += [
            BaseFiles.open(spark, share, spec, target, layout).rows()
            for group in _named_apart(of)
            for share in _listed_by_driver(group, spec)
        ]
    for layout, of in logged.items():
        parts += _Masked(spark, spec, target, merge_path).parts(of, layout)
    if ours:
        parts.append(workers.merged_rows(spark, ours, spec, spark_schema(target), cpu_cores(spark)))
    if not parts:
        return native.empty_frame(spark, target)
    return reduce(DataFrame.unionByName, parts)


def _merged_in_workers(
    spark: SparkSession, spec: ReadSpec, tasks: Sequence[SliceTask], merge_path: MergePath
) -> frozenset[SliceTask]:
    """Return the slices with logs of which our workers read the base rows too."""
    logged = frozenset(task for task in tasks if task.log_paths)
    if merge_path is MergePath.ROWS:
        return logged
    base_bytes = sum(task.base_size_bytes for task in logged)
    total = base_bytes + sum(task.log_size_bytes for task in logged)
    is_small = total > _here_bytes(spec) and base_bytes <= _MERGED_BYTES * cpu_cores(spark)
    if merge_path is MergePath.AUTO and is_small:
        return logged
    return frozenset(
        task
        for task in logged
        if task.log_size_bytes > spec.log_budget_bytes or answers_from_logs(task, spec)
    )


def changes_dataframe(
    spark: SparkSession, spec: ReadSpec, tasks: Sequence[ChangeTask]
) -> DataFrame:
    """Return changes as Hudi's `cdc` format shows them: images are rows as JSON."""
    if not tasks:
        return spark.createDataFrame([], CHANGES_SCHEMA)
    found = workers.changes(spark, tasks, spec, cpu_cores(spark))
    images = (F.to_json(side).alias(side) for side in ("before", "after"))
    return found.select("op", "ts_ms", *images)


def _native_layouts(
    spark: SparkSession, spec: ReadSpec, tasks: Sequence[SliceTask], target: pa.Schema
) -> dict[str, Layout | None]:
    """Return how Spark's reader finds the columns, for each base file that it can read."""
    based = next((task.base_path for task in tasks if task.base_path is not None), None)
    if based is None or spec.history is not None or not spark_reaches(spark, spec.storage, based):
        return {}
    return native.layouts(tasks, spec, target)


def _named_apart(tasks: Sequence[SliceTask]) -> list[list[SliceTask]]:
    """Return the tasks in groups in which no two base files have the same name."""
    groups: list[dict[str, SliceTask]] = []
    for task in tasks:
        name = (task.base_path or "").rpartition("/")[2]
        home = next((g for g in groups if name not in g), None)
        if home is None:
            home = {}
            groups.append(home)
        home[name] = task
    return [list(g.values()) for g in groups]


def _listed_by_driver(tasks: Sequence[SliceTask], spec: ReadSpec) -> list[Sequence[SliceTask]]:
    """Return the tasks in shares for whose paths Spark starts no job of its own.

    Looking at local files is quick, so several small relations are cheaper than one job; on an
    object store the job is worth its while.
    """
    if (
        not _is_local(spec)
        or not PATHS_WITHOUT_JOB < len(tasks) <= _MOST_SHARES * PATHS_WITHOUT_JOB
    ):
        return [tasks]
    starts = range(0, len(tasks), PATHS_WITHOUT_JOB)
    return [tasks[start : start + PATHS_WITHOUT_JOB] for start in starts]


def _is_local(spec: ReadSpec) -> bool:
    return open_storage(spec.storage).local_path("") is not None


def _here_bytes(spec: ReadSpec) -> int:
    """Return up to what size this process looks through the files of slices by itself."""
    return _HERE_BYTES_OF_DISK if _is_local(spec) else _HERE_BYTES


@dataclass(frozen=True, slots=True)
class _Masked:
    """Slices with logs whose base rows Spark reads, less those that the logs overrule."""

    spark: SparkSession
    spec: ReadSpec
    target: pa.Schema
    merge_path: MergePath

    def parts(self, tasks: Sequence[SliceTask], layout: Layout) -> list[DataFrame]:
        return [p for group in _named_apart(tasks) for p in self._parts(group, layout)]

    def _parts(self, tasks: Sequence[SliceTask], layout: Layout) -> list[DataFrame]:
        log_bytes = sum(t.log_size_bytes for t in tasks)
        here = log_bytes + sum(t.base_size_bytes for t in tasks) <= _here_bytes(self.spec)
        if here and self.merge_path is MergePath.AUTO:
            with ThreadPoolExecutor(4) as pool:
                # Meanwhile Spark looks up the base files.
                running = pool.map(
                    partial(workers.verdict, spec=self.spec), range(len(tasks)), tasks
                )
                return self._at_once(tasks, layout, running)
        if log_bytes <= _AT_ONCE_BYTES:
            frame = workers.verdicts(self.spark, tasks, self.spec, cpu_cores(self.spark))
            return self._at_once(tasks, layout, (row.asDict() for row in frame.collect()))
        return self._lazily(tasks, layout)

    def _at_once(
        self, tasks: Sequence[SliceTask], layout: Layout, verdicts: Iterable[dict[str, Any]]
    ) -> list[DataFrame]:
        based = [t for t in tasks if t.base_path is not None]
        files = BaseFiles.open(self.spark, based, self.spec, self.target, layout) if based else None
        found = list(verdicts)
        for verdict in found:
            if verdict["error"] is not None:
                raise pickle.loads(verdict["error"])
        masks = {tasks[v["slice"]].base_name: v["mask"] for v in found if any(v["mask"])}
        parts = [] if files is None else [files.rows(masks)]
        streams = [v["rows"] for v in found if v["rows"] is not None]
        if sum(map(len, streams)) > _CARRIED_BYTES:
            schema = spark_schema(self.target)
            cores = cpu_cores(self.spark)
            parts.append(workers.decided_rows(self.spark, tasks, self.spec, schema, cores))
        elif any(workers.from_ipc(s).num_rows for s in streams):
            parts.append(workers.given_rows(self.spark, streams, spark_schema(self.target)))
        return parts

    def _lazily(self, tasks: Sequence[SliceTask], layout: Layout) -> list[DataFrame]:
        schema, cores = spark_schema(self.target), cpu_cores(self.spark)
        based = [t for t in tasks if t.base_path is not None]
        if sum(t.base_size_bytes for t in based) > _MASKED_BYTES:
            return [workers.merged_rows(self.spark, tasks, self.spec, schema, cores)]
        parts = [workers.decided_rows(self.spark, tasks, self.spec, schema, cores)]
        if based:
            masks = workers.masks(self.spark, based, self.spec, cores)
            files = BaseFiles.open(self.spark, based, self.spec, self.target, layout)
            parts.append(files.rows(masks))
        return parts
