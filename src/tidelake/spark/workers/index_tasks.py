"""Tasks on the record index in Spark's Python workers."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidelake.formats.commit_metadata import WriteStat
from tidelake.operations.replaced_keys import ReplacedKeys
from tidelake.spark.workers.workers import run_on_workers
from tidelake.spark.workers.write_tasks import RESULT, results, run_tasks, token_of_task
from tidelake.write.write_work import Batches


def forget_keys(spark: SparkSession, replaced: ReplacedKeys) -> tuple[WriteStat, ...]:
    """Write into the index that the keys are gone, a task for each of its file groups."""
    if not replaced.groups:
        return ()

    def forget(number: int) -> Batches:
        return results(replaced.forgotten([number], token_of_task()))

    return run_tasks(run_on_workers(spark, forget, len(replaced.index.slices), RESULT)).stats
