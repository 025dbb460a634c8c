"""Write the rows of one file group, in the way that its target says."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tidelake.files.append_log import append_log
from tidelake.files.new_file import make_partition
from tidelake.files.write_base import concat_base, create_base, merge_base
from tidelake.files.write_task import GroupTarget, WriteKind, WriteSpec, WriteToken
from tidelake.formats.commit_metadata import WriteStat
from tidelake.storage import open_storage

_WRITERS = {
    WriteKind.CREATE: create_base,
    WriteKind.MERGE: merge_base,
    WriteKind.CONCAT: concat_base,
    WriteKind.APPEND: append_log,
}


def write_group(
    batches: Iterable[pa.RecordBatch], target: GroupTarget, token: WriteToken, spec: WriteSpec
) -> list[WriteStat]:
    """Write the rows of one file group and return one stat a file.

    `batches` hold `_hoodie_record_key`, the columns `CHANGE` and, if known, `POSITION`, and the
    table's columns by name; of these one that is missing is null. Every file gets its marker first.
    Raises `SchemaError` for rows that do not fit the table, `StorageError` when the storage fails
    and `InstantLostError` when the write was ended meanwhile; what is left then has its markers.
    """
    storage = open_storage(spec.storage)
    make_partition(storage, target, spec)
    return _WRITERS[target.kind](storage, batches, target, token, spec)
