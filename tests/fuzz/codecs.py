"""Every codec, asked to take apart any file of a table."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable

from tidelake.config import TableConfig
from tidelake.files.log_records import raw_records
from tidelake.formats import (
    archived_log,
    commit_metadata,
    delete_block,
    hashing_metadata,
    index_definitions,
    log_block,
    lsm_history,
    metadata_record,
    parquet_footer,
    partition_metadata,
    plans,
    properties,
    record_positions,
    schema_history,
)
from tidelake.formats.hfile import HFile
from tidelake.formats.log_block import BlockKind

_PLANS: dict[str, tuple[type, ...]] = {
    "compaction.requested": (plans.CompactionPlan,),
    "logcompaction.requested": (plans.CompactionPlan,),
    "replacecommit.requested": (plans.RequestedReplaceMetadata,),
    "clustering.requested": (plans.RequestedReplaceMetadata,),
    "clean.requested": (plans.CleanerPlan,),
    "clean.inflight": (plans.CleanerPlan,),
    "clean": (plans.CleanMetadata,),
    "rollback.requested": (plans.RollbackPlan,),
    "rollback": (plans.RollbackMetadata,),
    "restore.requested": (plans.RestorePlan,),
    "restore": (plans.RestoreMetadata,),
    "savepoint": (plans.SavepointMetadata,),
    "indexing.requested": (plans.IndexPlan,),
    "indexing": (plans.IndexCommitMetadata,),
}


def _instant(path: str, data: bytes) -> None:
    suffix = path.rpartition("/")[2].partition(".")[2]
    if suffix in _PLANS:
        for kind in _PLANS[suffix]:
            plans.decode(kind, data)
    else:
        commit_metadata.decode(data, is_replace=suffix == "replacecommit")


def _properties(_: str, data: bytes) -> None:
    TableConfig.from_properties(properties.decode(data))


def _log(_: str, data: bytes) -> None:
    blocks = log_block.decode_blocks(data)
    for block in log_block.valid_blocks(blocks):
        if block.kind is BlockKind.DELETE:
            delete_block.decode(block.content)
        elif block.kind is BlockKind.HFILE_DATA:
            _values(HFile.of_bytes(block.content))
        else:
            raw_records(block)
        if block.record_positions is not None:
            record_positions.decode(block.record_positions, at_most=len(block.content))


def _hfile(_: str, data: bytes) -> None:
    file = HFile.of_bytes(data)
    _values(file)
    file.lookup([b"", b"a", b"zz", b"__all_partitions__"])
    list(file.lookup_prefixes([b"", b"a"]))
    file.meta_block("bloomFilter")


def _values(file: HFile) -> None:
    for _, value in file.scan():
        if value:
            metadata_record.decode(value, file.schema)


def _footer(_: str, data: bytes) -> None:
    footer = parquet_footer.decode(data)
    assert footer.row_count >= 0
    filter_ = footer.bloom_filter
    if filter_ is not None:
        filter_.may_contain(["", "a", "é" * 100])


def _archive(_: str, data: bytes) -> None:
    archived_log.decode(data)


def _history(path: str, data: bytes) -> None:
    name = path.rpartition("/")[2]
    if name == lsm_history.VERSION_FILE:
        lsm_history.decode_version(data)
    elif name.endswith(".parquet"):
        lsm_history.decode_times(io.BytesIO(data))
        for instant in lsm_history.decode_instants(io.BytesIO(data), with_contents=True):
            if instant.metadata is not None and instant.action.value.endswith("commit"):
                commit_metadata.decode_archived(instant.metadata)
    else:
        lsm_history.decode_manifest(data)


def _schemas(_: str, data: bytes) -> None:
    schema_history.decode(data)


def _hashing(_: str, data: bytes) -> None:
    hashing_metadata.decode(data)


def _indexes(_: str, data: bytes) -> None:
    index_definitions.decode(data)


def _partition(_: str, data: bytes) -> None:
    partition_metadata.decode(data)


Codec = Callable[[str, bytes], None]

#: Kinds of files by their path, the first that fits counts.
CODECS: dict[str, tuple[str, Codec]] = {
    "properties": (r"\.hoodie/hoodie\.properties(\.backup)?", _properties),
    "schema history": (r"\.hoodie/\.schema/.*schemacommit", _schemas),
    "index definitions": (r"\.hoodie/\.index_defs/index\.json", _indexes),
    "hashing metadata": (r".*\.hashing_meta", _hashing),
    "history": (r"\.hoodie/(metadata/\.hoodie/)?timeline/history/.+", _history),
    "archive": (r".*/archived/\.commits_.*", _archive),
    "instant": (r"(.*/)?\.hoodie/(timeline/)?\d[\d_]+\.[a-z.]+", _instant),
    "partition metadata": (r".*\.hoodie_partition_metadata", _partition),
    "log": (r".*\.log\.\d+_[^/]*", _log),
    "hfile": (r".*\.hfile", _hfile),
    "footer": (r".*\.parquet", _footer),
}


def kind_of(path: str) -> str | None:
    """Return which kind of file `path` is, or None for one that no codec reads."""
    return next((k for k, (fits, _) in CODECS.items() if re.fullmatch(fits, path)), None)


def kinds(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the paths by kind."""
    found: dict[str, list[str]] = {}
    for path in paths:
        kind = kind_of(path)
        if kind is not None:
            found.setdefault(kind, []).append(path)
    return found
