"""Noticing that the metadata table itself has lost files, or loses them right now.

A list of files of which a part is gone would read as a smaller table, or as an empty one. Whoever
builds it anew deletes the older one, and a reader may have begun with that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidelake.errors import CorruptFileError, MissingFileError, SnapshotLostError
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.model import FileSlice, Instant, State
from tidelake.timeline import Timeline, TimelineContents
from tidelake.view import TableView


def refuse_lost_files(
    view: TableView,
    contents: TimelineContents,
    partition: str,
    slices: Sequence[FileSlice],
    *,
    is_visible: Callable[[str], bool],
    now: Callable[[], Timeline],
) -> None:
    """Raise when a completed instant wrote a file of the newest slices that these do not have.

    Instants before the newest base files need not be looked at. Raises `CorruptFileError`, or
    `SnapshotLostError` when the instant is off the timeline by `now`.
    """
    try:
        lost = list(_lost(view, contents, partition, slices))
    except MissingFileError as gone:
        if set(view.timeline.writes()) <= set(now().instants):
            raise
        raise _taken_away(gone.path) from gone
    for instant, path in lost:
        if not is_visible(instant.requested_time):
            continue  # it may be being taken off
        newest = now()
        if instant not in newest.instants:
            raise _taken_away(path)
        if _came_late(newest, instant):
            continue
        raise CorruptFileError(
            path,
            f"{instant.action} {instant.requested_time} of the metadata table wrote it, and it is "
            "not on storage",
        )


def _came_late(timeline: Timeline, instant: Instant) -> bool:
    """Return whether an instant completed, by a request that came late, after it was taken off.

    Its logs and its pending files were deleted then, so that the completed file stands alone.
    """
    return all(name.state is State.COMPLETED for _, name in timeline.files_of(instant))


def _taken_away(path: str) -> SnapshotLostError:
    return SnapshotLostError(
        f"the metadata table was built anew, or taken out of use, before {path} was read"
    )


def _lost(
    view: TableView, contents: TimelineContents, partition: str, slices: Sequence[FileSlice]
) -> Iterator[tuple[Instant, str]]:
    there = {file.path for s in slices for file in (s.base_file, *s.log_files) if file is not None}
    bases = {s.group.file_id: s.base_file.instant_time for s in slices if s.base_file is not None}
    since = min(bases.values()) if len(bases) == len(slices) and slices else ""
    writes = [i for i in view.timeline.writes() if _is_from(view, i, since)]
    contents.load_commit_metadata(writes)
    for write in writes:
        for stat in contents.commit_metadata(write).partition_to_write_stats.get(partition, ()):
            if stat.path and stat.path not in there and not _is_past(view, write, stat.path, bases):
                yield write, stat.path


def _is_from(view: TableView, write: Instant, since: str) -> bool:
    """Return whether a write may have added to slices that began at a time, or began them."""
    if write.requested_time >= since:
        return True
    return view.by_completion_time and (write.completion_time or "") > since


def _is_past(view: TableView, write: Instant, path: str, bases: dict[str, str]) -> bool:
    """Return whether a newer base file has taken over what the file says."""
    folder, _, name = path.rpartition("/")
    base, log = parse_base(folder, name, 0), parse_log(folder, name, 0)
    if base is not None:
        return base.instant_time < bases.get(base.file_id, "")
    if log is None:
        return True
    newest = bases.get(log.file_id, "")
    if view.by_completion_time:
        return (write.completion_time or "") <= newest
    return log.instant_time < newest
