"""Whether a completed file holds the content of its own instant, or of another one.

A copy, a restored backup or a sync tool may put the file of one instant in the place of another's.
Each names its instant a second time: in the names of the files that it wrote, or in a field.
"""

from __future__ import annotations

from tidelake.errors import Malformed
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.plans import CleanMetadata, RestoreMetadata, RollbackMetadata
from tidelake.model import Instant


def refuse_content_of_another(
    instant: Instant, content: object, *, logs_name_their_write: bool = False
) -> None:
    """Raise `Malformed` when `content` says that another instant than `instant` wrote it."""
    if not instant.is_completed:
        return
    if isinstance(content, CommitMetadata) and is_still_planned(content):
        raise Malformed(
            "it names no file that was written, as an inflight file does: one was put in its place"
        )
    other = other_instant(
        instant.requested_time, content, logs_name_their_write=logs_name_their_write
    )
    if other is not None:
        raise Malformed(
            f"it holds what instant {other} wrote: one file was put in the other's place"
        )


def is_still_planned(content: CommitMetadata) -> bool:
    """Return whether a commit says what is to be written, and not what was."""
    stats = content.write_stats
    return bool(stats) and not any(stat.path for stat in stats)


def other_instant(
    requested_time: str, content: object, *, logs_name_their_write: bool = False
) -> str | None:
    """Return the requested time of the instant that `content` is of, unless it is this one."""
    if isinstance(content, CommitMetadata):
        found = {_time_of(stat, logs_name_their_write) for stat in content.write_stats}
        return None if requested_time in found else min(filter(None, found), default=None)
    if isinstance(content, CleanMetadata):
        named = content.start_clean_time
    elif isinstance(content, RollbackMetadata):
        named = content.start_rollback_time
    elif isinstance(content, RestoreMetadata):
        named = content.start_restore_time
    else:
        return None
    return named if named and named != requested_time else None


def _time_of(stat: WriteStat, logs_name_their_write: bool) -> str | None:
    """Return the instant in the name of the file, or None where it may be that of a slice.

    Up to version 7 a log has the instant of its slice in its name, be it that of a compaction which
    is still pending, and keeps it in an upgrade.
    """
    name = (stat.path or "").rpartition("/")[2]
    file = parse_base("", name, 0) or (parse_log("", name, 0) if logs_name_their_write else None)
    return None if file is None else file.instant_time
