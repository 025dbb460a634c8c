"""An S3 server in this process, with one empty bucket."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import boto3
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
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


@dataclass(frozen=True, slots=True)
class S3Object:
    """One object, as the server keeps it."""

    data: bytes
    modified: datetime


def objects_below(prefix: str) -> Mapping[str, S3Object]:
    """Return what the server has below a prefix, without a request."""
    keys = _backend().get_bucket(BUCKET).keys
    return {
        name.removeprefix(f"{prefix}/"): S3Object(keys[name].value, keys[name].last_modified)
        for name in list(keys)
        if name.startswith(f"{prefix}/")
    }


def put_object(path: str, found: S3Object) -> None:
    """Put an object with its modification time, without a request."""
    made = _backend().put_object(BUCKET, path, found.data)
    made.last_modified = found.modified


def make_older(prefix: str, by: timedelta) -> None:
    """Move the modification times below a prefix into the past, as if so much time had passed."""
    keys = _backend().get_bucket(BUCKET).keys
    for name in list(keys):
        if name.startswith(f"{prefix}/"):
            keys[name].last_modified -= by


def forget(prefix: str) -> None:
    """Delete what lies below a prefix, without a request."""
    keys = _backend().get_bucket(BUCKET).keys
    for name in [name for name in keys if name.startswith(f"{prefix}/")]:
        keys.pop(name)


def _backend() -> Any:
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
