"""An S3 server in this process, with one empty bucket."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "lake"
KEY, SECRET = "key", "secret"


@contextmanager
def s3_server() -> Iterator[str]:
    """Return the endpoint of a server that runs until the block ends."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client(endpoint).create_bucket(Bucket=BUCKET)
        yield endpoint
    finally:
        server.stop()


def client(endpoint: str) -> Any:
    """Return a client of the server that is not ours."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )


def s3_options(endpoint: str) -> dict[str, str]:
    """Return the options with which an endpoint is reached."""
    return {
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.path.style.access": "true",
    }
