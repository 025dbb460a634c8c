"""How two records of the metadata table with the same key become one."""

from __future__ import annotations

from dataclasses import replace

from tidelake.errors import Malformed
from tidelake.formats.metadata_record import (
    ColumnRange,
    FileEntry,
    FileList,
    MetadataRecord,
    SecondaryEntry,
)


def merge(older: MetadataRecord | None, newer: MetadataRecord | None) -> MetadataRecord | None:
    """Return what holds after `newer` was written over `older`; None stands for a deleted key."""
    if older is None or newer is None:
        return newer
    if type(older) is not type(newer):
        raise Malformed(
            f"a key holds a {type(older).__name__} and, later, a {type(newer).__name__}"
        )
    if isinstance(older, FileList) and isinstance(newer, FileList):
        return _merge_files(older, newer)
    if isinstance(older, ColumnRange) and isinstance(newer, ColumnRange):
        return _merge_ranges(older, newer)
    return newer


def _merge_files(older: FileList, newer: FileList) -> FileList:
    entries = dict(older.entries)
    for name, entry in newer.entries.items():
        known = entries.get(name)
        if not entry.is_deleted:
            size = entry.size_bytes if known is None else max(known.size_bytes, entry.size_bytes)
            entries[name] = FileEntry(size, is_deleted=False)
        elif known is None or known.is_deleted:
            # The tombstone has to outlive this merge: the entry it cancels may be in the base file.
            entries[name] = entry
        else:
            del entries[name]
    return FileList(entries=entries)


def _merge_ranges(older: ColumnRange, newer: ColumnRange) -> ColumnRange:
    if older.is_deleted or newer.is_deleted or newer.is_tight:
        return newer
    minimums = [r.minimum for r in (older, newer) if r.minimum is not None]
    maximums = [r.maximum for r in (older, newer) if r.maximum is not None]
    is_known = older.is_known and newer.is_known
    try:
        minimum = min(minimums, default=None)
        maximum = max(maximums, default=None)
    except TypeError:
        is_known, minimum, maximum = False, None, None
    return replace(
        newer,
        minimum=minimum,
        maximum=maximum,
        is_known=is_known,
        value_count=_sum(older.value_count, newer.value_count),
        null_count=_sum(older.null_count, newer.null_count),
    )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def is_live(record: MetadataRecord | None) -> bool:
    """Return whether the key still stands for something after the last merge."""
    if record is None:
        return False
    if isinstance(record, (ColumnRange, SecondaryEntry)):
        return not record.is_deleted
    return True
