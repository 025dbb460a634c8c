"""Log files of the record index, written by the tasks that write the rows.

An entry says in which file group a key is. Every key that a task brings into a file group gets one,
also where it was there before: that says the same again. What no task deletes by its key keeps its
entry, which does no harm as long as the file group lives; whoever replaces a file group takes all
entries out that name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.errors import InstantLostError
from tidelake.files.wanted import is_wanted
from tidelake.files.write_task import WriteToken
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import format_log
from tidelake.formats.metadata_encoding import encode_location
from tidelake.formats.metadata_log import encode_log
from tidelake.formats.metadata_record import RecordLocation
from tidelake.formats.metadata_schema import record_schema_text
from tidelake.model.index_target import IndexTarget
from tidelake.records.java_hashes import string_hashes
from tidelake.storage import Storage


@dataclass(frozen=True, slots=True)
class KeysOfGroup:
    """Keys that came into a file group, or were deleted from wherever they were."""

    partition: str
    file_id: str | None
    keys: pa.Array | pa.ChunkedArray


def write_index_logs(
    storage: Storage,
    target: IndexTarget,
    token: WriteToken,
    found: Sequence[KeysOfGroup],
    *,
    version: int = 1,
) -> list[WriteStat]:
    """Write the entries of one task, a log file for each file group of the index that is touched.

    The paths of the stats are relative to the metadata table. `version` tells log files of one
    token apart.
    """
    by_group: dict[int, dict[bytes, bytes | None]] = {}
    for one in found:
        value = None
        if one.file_id is not None:
            location = RecordLocation(partition=one.partition, file_id=one.file_id)
            value = encode_location(location, target.instant_ms, target.table_version)
        groups = group_numbers(one.keys, len(target.file_ids))
        for group, key in zip(groups.tolist(), one.keys.to_pylist(), strict=True):
            by_group.setdefault(group, {})[key.encode()] = value
    schema = record_schema_text(target.table_version)
    stats: list[WriteStat] = []
    for group in sorted(by_group):
        name = format_log(
            file_id=target.file_ids[group],
            instant_time=target.instant_time,
            version=version,
            write_token=token.format(),
        )
        values = by_group[group]
        data = encode_log(values, schema, target.instant_time, target.partition)
        path = f"{target.partition}/{name}"
        storage.put(f"{target.folder}/{path}", data)
        stats.append(
            WriteStat(
                file_id=target.file_ids[group],
                path=path,
                prev_commit=target.instant_time,
                num_writes=len(values),
                num_update_writes=len(values),
                partition_path=target.partition,
                total_write_bytes=len(data),
                file_size_in_bytes=len(data),
                log_version=version,
                log_offset=0,
                base_file="",
                log_files=(name,),
                is_index=True,
            )
        )
    if not is_wanted(storage, target.instant_time):
        for stat in stats:
            storage.delete(f"{target.folder}/{stat.path}")
        raise InstantLostError(
            f"instant {target.instant_time} was ended while its index was being written",
            next_step="run the write again",
        )
    return stats


def group_numbers(
    keys: pa.Array | pa.ChunkedArray, count: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the number of the index's file group that has each key."""
    signed = string_hashes(keys).astype(np.int32).astype(np.int64)
    found: np.ndarray[Any, np.dtype[np.int64]] = np.abs(signed) % count
    return found
