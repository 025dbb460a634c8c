"""Commits that were made, and the idempotence keys under which callers asked for them."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.formats.commit_metadata import WRITE_ID, CommitMetadata, WriteStat
from tidelake.model import Commit, Instant
from tidelake.timeline import History, Timeline, TimelineContents


def find_commit(
    timeline: Timeline, contents: TimelineContents, history: History, write_id: str
) -> Commit | None:
    """Return the commit that an earlier call made under `write_id`, archived or not."""
    active = made_under(write_id, timeline.writes(), contents)
    if active is not None:
        return commit_of(active, contents.commit_metadata(active))
    for instant in history.writes_under(write_id):
        metadata = history.commit_metadata(instant)
        if metadata.extra_metadata.get(WRITE_ID) == write_id:
            return commit_of(instant, metadata)
    return None


def made_under(
    write_id: str, writes: Sequence[Instant], contents: TimelineContents
) -> Instant | None:
    """Return that of some writes on the active timeline which was made under `write_id`."""
    contents.load_commit_metadata(writes)
    for instant in writes:
        if contents.commit_metadata(instant).extra_metadata.get(WRITE_ID) == write_id:
            return instant
    return None


def completed_commit(
    timeline: Timeline, contents: TimelineContents, requested_time: str
) -> Commit | None:
    """Return the commit that was requested at that time, None: it is pending, archived or gone."""
    for instant in timeline.writes():
        if instant.requested_time == requested_time:
            return commit_of(instant, contents.commit_metadata(instant))
    return None


def commit_of(instant: Instant, metadata: CommitMetadata) -> Commit:
    """Return what callers are told of a write."""
    stats = metadata.write_stats
    return Commit(
        requested_time=instant.requested_time,
        completion_time=instant.completion_time or "",
        action=instant.action,
        operation=metadata.operation_type or "",
        inserts=sum(stat.num_inserts or 0 for stat in stats),
        updates=sum(stat.num_update_writes or 0 for stat in stats),
        deletes=sum(stat.num_deletes or 0 for stat in stats),
        files_written=len(paths_of(stats)),
        bytes_written=sum(stat.total_write_bytes or 0 for stat in stats),
    )


def paths_of(stats: Sequence[WriteStat]) -> set[str]:
    """Return every file that the stats name."""
    found = {stat.path for stat in stats if stat.path is not None}
    return found.union(*(stat.cdc_stats or () for stat in stats))
