"""Tables on an S3 server, read by a cluster, give the rows they give from a local disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TABLES = ["v9_mor_keygen_url_encoded_hive", "v9_cow_clustering_executed", "v8_mor_partial_update"]


def ask(tables: list[str], environment: dict[str, str]) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.object_store_job", *tables],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.deep
@pytest.mark.slow
def test_workers_read_a_table_that_sparks_readers_do_not_reach() -> None:
    found = ask(TABLES, {"TIDELAKE_HADOOP_AWS": ""})
    assert [answer["table"] for answer in found] == TABLES
    assert [answer["wrong"] for answer in found] == [[]] * len(TABLES)
    assert all(answer["asked"] for answer in found)


@pytest.mark.interop
def test_sparks_readers_read_a_table_with_hadoops_connector() -> None:
    package = os.environ.get("TIDELAKE_HADOOP_AWS", "org.apache.hadoop:hadoop-aws:3.5.0")
    found = ask(TABLES, {"TIDELAKE_HADOOP_AWS": package})
    assert [answer["wrong"] for answer in found] == [[]] * len(TABLES)
