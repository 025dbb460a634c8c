"""A process of ours and one of Apache Hudi write the same table at the same time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.interop.mixed_writer import (
    APACHE,
    COMMITS,
    READY,
    SCHEMA,
    TIDELAKE,
    TRIES,
    WRITERS,
    Written,
    rows_of,
)
from tidelake import Table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
OCC = "OPTIMISTIC_CONCURRENCY_CONTROL"
NBCC = "NON_BLOCKING_CONCURRENCY_CONTROL"
#: Both keep this file; Apache's storage-based lock knows object stores only.
LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"


def shared(mode: str, metadata: str) -> dict[str, str]:
    return {
        **BUCKETS,
        "hoodie.write.concurrency.mode": mode,
        "hoodie.write.lock.provider": LOCK,
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.metadata.enable": metadata,
    }


def of_apache(table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "mixed",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        ),
        "hoodie.table.ordering.fields": "ts",
    }


@contextmanager
def process(engine: str, root: Path, options: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    arguments = [engine, str(root), json.dumps(dict(options))]
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.interop.mixed_writer", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(root.parent / f"{engine}.log").open("w"),
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def write_both(root: Path, options: Mapping[str, str], table_type: str) -> dict[str, int]:
    """Let both go at once; return how often each had to try."""
    with (
        process(TIDELAKE, root, options) as ours,
        process(APACHE, root, {**of_apache(table_type), **options}) as theirs,
    ):
        both = {TIDELAKE: ours, APACHE: theirs}
        for name, writer in both.items():
            heard(writer, READY, root.parent / f"{name}.log")
        for writer in both.values():
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        return {
            name: int(heard(writer, TRIES, root.parent / f"{name}.log"))
            for name, writer in both.items()
        }


def heard(writer: subprocess.Popen[str], word: str, log: Path) -> str:
    """Wait for a word of a writer, and return what comes with it."""
    assert writer.stdout is not None
    # Java says things, too.
    for line in writer.stdout:
        if line.startswith(word):
            return line.removeprefix(word)
    raise AssertionError(log.read_text()[-3000:])


def owed() -> list[Written]:
    newest: dict[str, Written] = {}
    every = (row for name in WRITERS for at in range(COMMITS) for row in rows_of(name, at))
    for row in sorted(every, key=lambda row: row[1]):
        newest[row[0]] = row
    return sorted(newest.values())


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.select("id", "ts", "v", "writer").collect())


CASES = [
    (OCC, COW, "true"),
    (OCC, MOR, "true"),
    (OCC, MOR, "false"),
    (NBCC, MOR, "true"),
    (NBCC, MOR, "false"),
]


@pytest.mark.parametrize(
    ("mode", "table_type", "metadata"),
    CASES,
    ids=[f"{mode[:3]}-{kind[:4]}-metadata {kept}".lower() for mode, kind, kept in CASES],
)
def test_no_row_of_either_is_lost(
    hudi_spark: SparkSession, tmp_path: Path, mode: str, table_type: str, metadata: str
) -> None:
    root = tmp_path / "t"
    options = shared(mode, metadata)
    table = Table.create(
        hudi_spark,
        str(root),
        SCHEMA,
        name="mixed",
        key="id",
        ordering="ts",
        table_type=table_type,
        options=options,
    )
    tries = write_both(root, options, table_type)
    assert rows(table.read()) == owed()
    assert rows(hudi_spark.read.format("hudi").load(str(root))) == owed()
    if table_type == MOR:
        hudi_spark.sql(f"call run_compaction(op => 'scheduleAndExecute', path => '{root}')")
        assert rows(hudi_spark.read.format("hudi").load(str(root))) == owed()
        assert rows(Table.open(hudi_spark, str(root)).read()) == owed()
    if mode == NBCC:
        assert tries == {TIDELAKE: COMMITS, APACHE: COMMITS}
    print(f"{COMMITS} commits each, tries {tries}")  # noqa: T201
