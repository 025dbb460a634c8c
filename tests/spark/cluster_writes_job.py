"""Write tables to an S3 server and to a local disk, on a cluster of two executors.

Run as a program, because a process has one Spark: `python -m tests.spark.cluster_writes_job` prints
one JSON object for each trial, with what was wrong. Words after it choose trials by their names.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import boto3
import pyarrow as pa
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

import tidelake
from tests.sessions import local_session
from tests.writes.cases import Case, RandomWrites
from tests.writes.hudi_rs import HudiRs
from tests.writes.model import SCHEMA, Do, Model, values
from tests.writes.readers import OurReader
from tidelake import Table

BUCKET = "lake"
SCRIPT = (Do.BULK_INSERT, Do.UPSERT, Do.DELETE, Do.INSERT_OVERWRITE, Do.UPSERT)
#: Rows of a task that dies half-way: enough of them that the first are written by then.
_ROWS, _BATCH = 40_000, 10_000


def main(wanted: list[str]) -> None:
    """Try everything, or what is wanted, and print what went wrong."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    s3 = {
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.endpoint": f"http://{host}:{port}",
        "fs.s3a.path.style.access": "true",
    }
    boto3.client(
        "s3",
        endpoint_url=s3["fs.s3a.endpoint"],
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    ).create_bucket(Bucket=BUCKET)
    spark = local_session("local-cluster[2,1,1024]", {})
    tidelake.register(spark)
    with tempfile.TemporaryDirectory() as scratch:
        trials: Mapping[str, Callable[[], None]] = {
            "copy on write on S3": partial(
                _written, spark, f"s3a://{BUCKET}/cow", s3, Case(version=9)
            ),
            "merge on read on S3": partial(
                _written, spark, f"s3a://{BUCKET}/mor", s3, Case(version=9, mor=True)
            ),
            "merge on read on a disk": partial(
                _written, spark, f"{scratch}/mor", {}, Case(version=6, mor=True, index="BUCKET")
            ),
            "an executor that dies once": partial(_dies_once, spark, Path(scratch)),
            "a task that always dies": partial(_always_dies, spark, Path(scratch)),
        }
        for name, trial in trials.items():
            if wanted and not any(word in name for word in wanted):
                continue
            wrong = ""
            try:
                trial()
            except Exception:  # noqa: BLE001 - every trial is to be told of
                wrong = traceback.format_exc()
            sys.stdout.write(json.dumps({"trial": name, "wrong": wrong}) + "\n")
            sys.stdout.flush()
    spark.stop()
    server.stop()


def _written(spark: SparkSession, root: str, storage: Mapping[str, str], case: Case) -> None:
    """Write by every way, and hold two readers to the model."""
    options = {**storage, **case.options}
    Table.create(
        spark,
        root,
        SCHEMA,
        name="trips",
        key="id",
        partition_by="city",
        ordering="ts",
        table_type="MERGE_ON_READ" if case.mor else "COPY_ON_WRITE",
        table_version=case.version,
        options=options,
    )
    model = Model(case.identity)
    writes = RandomWrites(case, Random(11))
    for do in SCRIPT:
        step = writes.step(model, do)
        frame = spark.createDataFrame([tuple(row.values()) for row in step.rows], SCHEMA)
        getattr(Table.open(spark, root, options=options), do.value)(frame.repartition(2))
        model.apply(step)
        _equal(model, OurReader(root, storage).snapshot())
        _equal(model, HudiRs(root, storage).snapshot())
    step = writes.step(model, Do.UPSERT)
    frame = spark.createDataFrame([tuple(row.values()) for row in step.rows], SCHEMA)
    frame.repartition(2).write.format("tidelake").options(**options).mode("append").save(root)
    model.apply(step)
    _equal(model, HudiRs(root, storage).snapshot())
    shown = Table.open(spark, root, options=storage).read().collect()
    _equal(model, values(row.asDict() for row in shown))


def _equal(model: Model, found: object) -> None:
    wanted = values(model.rows)
    if found != wanted:
        raise AssertionError(f"{found} for {wanted}")


def _dies_once(spark: SparkSession, scratch: Path) -> None:
    """Lose an executor in the middle of its task: another attempt writes it all anew."""
    table = Table.create(spark, str(scratch / "once"), "id bigint, note string", key="id")
    died = scratch / "died"
    rows = spark.range(0, 1, 1, 1).mapInArrow(
        _Dying(table.path, died, once=True), "id bigint, note string"
    )
    done = table.bulk_insert(rows)
    begun = died.read_text()
    if (table.read().count(), done.inserts) != (_ROWS, _ROWS):
        raise AssertionError(f"{table.read().count()} rows in the table, {done}")
    found = [p for p in Path(table.path).rglob("*.parquet") if ".hoodie" not in p.parts]
    if len(found) != done.files_written or begun in [p.name for p in found]:
        raise AssertionError(f"{found} after {begun}")
    _no_leftovers(table)


def _always_dies(spark: SparkSession, scratch: Path) -> None:
    """Let every attempt fail: the write ends with Spark's error, and the table is as it was."""
    table = Table.create(spark, str(scratch / "always"), "id bigint, note string", key="id")
    table.bulk_insert(spark.createDataFrame([(1, "kept")], "id bigint, note string"))
    rows = spark.range(0, 1, 1, 1).mapInArrow(
        _Dying(table.path, scratch / "dies", once=False), "id bigint, note string"
    )
    try:
        table.bulk_insert(rows)
    except Exception as error:
        if "dies in the middle" not in str(error):
            raise
    else:
        raise AssertionError("the write ended well")
    if [tuple(row) for row in table.read().collect()] != [(1, "kept")]:
        raise AssertionError(table.read().collect())
    _no_leftovers(table)
    found = [p for p in Path(table.path).rglob("*.parquet") if ".hoodie" not in p.parts]
    if len(found) != 1 or any(i.completion_time is None for i in table.timeline()):
        raise AssertionError(f"{found}, {table.timeline()}")


def _no_leftovers(table: Table) -> None:
    hoodie = Path(table.path, ".hoodie")
    left = [p for name in (".temp", ".heartbeat") for p in (hoodie / name).rglob("*")]
    if [p for p in left if p.is_file()]:
        raise AssertionError(f"{left}")


class _Dying:
    """Rows whose task dies once a file of the write has been begun."""

    def __init__(self, table: str, died: Path, *, once: bool) -> None:
        self._table = table
        self._died = died
        self._once = once

    def __call__(self, _: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for start in range(0, _ROWS, _BATCH):
            if start and self._is_to_die():
                self._die()
            ids = pa.array(range(start, start + _BATCH), pa.int64())
            notes = pa.array([f"note {start + at} {'x' * 80}" for at in range(_BATCH)])
            yield pa.RecordBatch.from_pydict({"id": ids, "note": notes})

    def _is_to_die(self) -> bool:
        pending = list(Path(self._table, ".hoodie", "timeline").glob("*.inflight"))
        running = [p for p in pending if not self._is_complete(p)]
        return bool(running) and not (self._once and self._died.exists())

    def _is_complete(self, inflight: Path) -> bool:
        instant = inflight.name.partition(".")[0]
        return any(inflight.parent.glob(f"{instant}_*"))

    def _die(self) -> None:
        self._died.write_text(self._begun())
        if not self._once:
            raise ValueError("the task dies in the middle")
        daemon = os.getppid()
        status = Path(f"/proc/{daemon}/status").read_text()
        executor = next(line for line in status.splitlines() if line.startswith("PPid:"))
        os.kill(int(executor.split()[1]), signal.SIGKILL)
        time.sleep(60)  # noqa: TID251 - the end comes from outside

    def _begun(self) -> str:
        """Give the first batches time to reach the writer; return the file it began, if any."""
        for _ in range(20):
            found = list(Path(self._table, ".hoodie", ".temp").rglob("*.marker.CREATE"))
            if found:
                return found[0].name.removesuffix(".marker.CREATE")
            time.sleep(0.1)  # noqa: TID251 - a worker of Spark has no other clock
        return "nothing"


if __name__ == "__main__":
    main(sys.argv[1:])
