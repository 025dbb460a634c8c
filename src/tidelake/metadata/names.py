"""The partitions of a metadata table, and how their file groups are called."""

from __future__ import annotations

from tidelake.config.table_config import RECORD_INDEX_PARTITION

FILES = "files"
COLUMN_STATS = "column_stats"
PARTITION_STATS = "partition_stats"
BLOOM_FILTERS = "bloom_filters"
RECORD_INDEX = RECORD_INDEX_PARTITION

METADATA_FOLDER = ".hoodie/metadata"
#: Requested times of the instants that build partitions begin so, from table version 8 on.
BUILD_PREFIX = "0" * 14
#: Up to version 7 they have the newest time of the table, and behind it three digits from here on.
FIRST_BUILD = 10
_TIME_DIGITS = 17

_ID_PREFIX = {
    FILES: "files",
    COLUMN_STATS: "col-stats",
    PARTITION_STATS: "partition-stats",
    RECORD_INDEX: "record-index",
}


def is_build(requested_time: str) -> bool:
    """Return whether an instant of the metadata table builds a partition."""
    suffix = requested_time[_TIME_DIGITS:]
    return requested_time.startswith(BUILD_PREFIX) or (
        len(suffix) == 3 and suffix.isdigit() and int(suffix) >= FIRST_BUILD
    )


def group_file_id(partition: str, index: int) -> str:
    """Return the file id of a file group of a partition that we write."""
    return f"{_ID_PREFIX[partition]}-{index:04d}-0"
