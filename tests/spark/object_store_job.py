"""Ask golden tables on an S3 server their questions, on a cluster of two executors.

Run as a program, because a process has one Spark:
`python -m tests.spark.object_store_job TABLE...` prints one JSON object for each table.
TIDELAKE_HADOOP_AWS names a Maven package with Hadoop's own S3 connector for the session; without it
only tidelake's workers reach the files.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from tests.golden import harness
from tests.golden.harness import Verdict
from tests.sessions import local_session
from tidelake import Table

BUCKET = "lake"
FOLDER = "a folder/with %2F and ü"


def main(names: list[str]) -> None:
    """Upload the tables, ask, and print what differs from the answers owed."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    storage = {
        "fs.s3a.access.key": "key",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.path.style.access": "true",
    }
    package = os.environ.get("TIDELAKE_HADOOP_AWS")
    config = {"spark.jars.packages": package} if package else {}
    spark = local_session("local-cluster[2,1,1024]", config)
    for name in names:
        _upload(client, name)
        golden = harness.load(name)
        wrong = []
        open_table = partial(
            Table.open,
            spark,
            f"s3a://{BUCKET}/{FOLDER}/{name}",
            options={**golden.options, **storage},
        )
        for question in golden.questions:
            outcome = harness.judge(question, open_table)
            if outcome.verdict is Verdict.DIFFERS:
                wrong.append(f"{question.label}: {outcome.story}")
        answer = {"table": name, "asked": len(golden.questions), "wrong": wrong}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    spark.stop()
    server.stop()


def _upload(client: Any, name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = harness.unpack(harness.load(name), Path(scratch))
        for path in sorted(root.rglob("*")):
            if path.is_file():
                key = f"{FOLDER}/{name}/{path.relative_to(root).as_posix()}"
                client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())


if __name__ == "__main__":
    main(sys.argv[1:])
