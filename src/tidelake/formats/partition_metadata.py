"""`.hoodie_partition_metadata`, the file that makes a folder a partition."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.errors import Malformed
from tidelake.formats import properties

#: The file's name; a table may be set to use the base file format, and then an extension follows.
FILE_NAME = ".hoodie_partition_metadata"

_DEPTH = re.compile("[0-9]{1,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """Which instant made the partition, and how many folders lie between it and the table."""

    commit_time: str
    partition_depth: int


def decode(data: bytes) -> PartitionMetadata:
    """Return the content of a partition metadata file in its plain form."""
    entries = properties.decode(data)
    depth = entries.get("partitionDepth", "")
    if not _DEPTH.fullmatch(depth) or "commitTime" not in entries:
        raise Malformed("partition metadata needs commitTime and a number partitionDepth")
    return PartitionMetadata(commit_time=entries["commitTime"], partition_depth=int(depth))


def encode(metadata: PartitionMetadata, saved_at: str) -> bytes:
    """Return the file; `saved_at` is a date in Java's text form and only informs people."""
    entries = {
        "commitTime": metadata.commit_time,
        "partitionDepth": str(metadata.partition_depth),
    }
    return properties.encode(entries, ("partition metadata", saved_at))
