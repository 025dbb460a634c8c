"""Names of base files and log files inside a partition."""

from __future__ import annotations

import re

from tidelake.model import BaseFile, LogFile

#: The formats of base files that Hudi knows, as spelled at the end of a name.
BASE_EXTENSIONS = ("parquet", "orc", "hfile", "lance")

#: Write token of a log file whose writer is unknown; rollback command blocks of table version 6.
UNKNOWN_WRITE_TOKEN = "1-0-1"

#: Part of the ids that every writer gives to a bucket by itself, so that none must ask the others.
FIXED_ID_MARK = "-0000-0000-0000-000000000000-"

#: Random ids begin with eight digits, too, once in forty times; bucket numbers are small.
MOST_BUCKETS = 1 << 16

#: End of the name of a log file that holds change data.
CDC_SUFFIX = ".cdc"

_BUCKET_ID = re.compile(r"([0-9]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-[0-9]+)?")
_BASE = re.compile(
    r"(?P<file_id>[A-Za-z0-9-]+)_(?P<token>[A-Za-z0-9-]+)_(?P<instant>[0-9]+)"
    rf"\.(?P<extension>{'|'.join(BASE_EXTENSIONS)})"
)
_LOG = re.compile(
    r"\.(?P<file_id>[^._/\0\ud800-\udfff]+)_(?P<instant>[0-9]+)\.log\.(?P<version>[0-9]{1,9})"
    r"(?:_(?P<token>[0-9]+-[0-9]+-[0-9]+)(?P<suffix>\.cdc)?)?"
)


def bucket_number(file_id: str) -> int | None:
    """Return the bucket that a file id names, or None for an id of some other kind."""
    found = _BUCKET_ID.fullmatch(file_id)
    number = int(found[1]) if found else MOST_BUCKETS
    return number if number < MOST_BUCKETS else None


def format_base(*, file_id: str, write_token: str, instant_time: str, extension: str) -> str:
    """Return the name of a base file; `extension` goes without its dot."""
    return f"{file_id}_{write_token}_{instant_time}.{extension}"


def parse_base(partition: str, name: str, size_bytes: int) -> BaseFile | None:
    """Take a base file's name apart; return None for a file of some other kind."""
    found = _BASE.fullmatch(name)
    if found is None:
        return None
    return BaseFile(
        partition=partition,
        name=name,
        file_id=found["file_id"],
        write_token=found["token"],
        instant_time=found["instant"],
        extension=found["extension"],
        size_bytes=size_bytes,
    )


def format_log(
    *, file_id: str, instant_time: str, version: int, write_token: str, suffix: str = ""
) -> str:
    """Return the name of a log file."""
    token = f"_{write_token}" if write_token else ""
    return f".{file_id}_{instant_time}.log.{version}{token}{suffix}"


def parse_log(partition: str, name: str, size_bytes: int) -> LogFile | None:
    """Take a log file's name apart; return None for a file of some other kind."""
    found = _LOG.fullmatch(name)
    if found is None:
        return None
    return LogFile(
        partition=partition,
        name=name,
        file_id=found["file_id"],
        instant_time=found["instant"],
        version=int(found["version"]),
        write_token=found["token"] or "",
        suffix=found["suffix"] or "",
        size_bytes=size_bytes,
    )


def is_data_file(path: str) -> bool:
    """Return whether the last part of `path` is the name of a base file or a log file."""
    name = path.rpartition("/")[2]
    return _BASE.fullmatch(name) is not None or _LOG.fullmatch(name) is not None


def log_order(log: LogFile) -> tuple[str, int, str, str]:
    """Return the key that sorts log files by the instant in their name, as Hudi does."""
    return (log.instant_time, log.version, log.write_token, log.suffix)
