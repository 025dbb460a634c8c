"""Noticing files of a snapshot that a clean or a rollback deleted before they were listed.

A timeline is loaded first and files are listed later, perhaps much later. A slice that was the
newest on that timeline may be superseded and cleaned meanwhile; what superseded it is not on the
timeline, so its file group would seem to be empty. Such a group always leaves files in the listing
that the timeline does not know, or it gave way to one that does. Only then the timeline is loaded a
second time, and says which cleans came between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tidelake.config import TimeBasis
from tidelake.errors import MissingFileError, SnapshotLostError
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.model import Action, BaseFile, FileGroupId, FileSlice, Instant, LogFile
from tidelake.timeline import Timeline, TimelineContents


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The newest slices in `partitions` by `timeline`, as of `until` if that is given.

    `times` says when an instant completed, and `is_replaced` whether a file group had given way to
    others. Where logs are `named_by_slice` their names have the instant of their slice.
    """

    timeline: Timeline
    times: Callable[[str], str | None]
    slices: Mapping[FileGroupId, FileSlice]
    partitions: Collection[str]
    is_replaced: Callable[[FileGroupId], bool]
    named_by_slice: bool
    until: str | None = None
    basis: TimeBasis = TimeBasis.COMPLETION


def refuse_lost_snapshot(found: Snapshot, now: Timeline, contents: TimelineContents) -> None:
    """Raise `SnapshotLostError` when files of the snapshot were deleted since its timeline.

    `now` is the timeline as loaded after the files were listed.
    """
    gone = undone_or_archived(found.timeline, now)
    if gone is not None:
        raise SnapshotLostError(
            f"{gone.action} {gone.requested_time} left the timeline before the files were listed"
        )
    for clean in cleans_since(found.timeline, now):
        for path in _deleted(clean, contents, found):
            raise SnapshotLostError(
                f"clean {clean.requested_time} deleted {path} before the files were listed"
            )


def undone_or_archived(then: Timeline, now: Timeline) -> Instant | None:
    """Return a write of `then` that was undone since, or the newest if even that is archived.

    Cleans are archived together with writes that are newer than they are. So nobody can tell what
    was cleaned once all writes of `then` are archived.
    """
    writes = then.writes()
    if not writes:
        return None
    still = {i.requested_time for i in now.writes()}
    first = now.first_active_time
    for write in writes:
        if write.requested_time not in still and (first is None or write.requested_time >= first):
            return write
    return writes[-1] if writes[-1].requested_time not in still else None


def cleans_since(then: Timeline, now: Timeline) -> Iterator[Instant]:
    """Return the cleans of `now`, pending ones included, that `then` does not have."""
    known = {i.requested_time for i in then.instants if i.action is Action.CLEAN}
    for instant in now.instants:
        if instant.action is Action.CLEAN and instant.requested_time not in known:
            yield instant


def _deleted(clean: Instant, contents: TimelineContents, found: Snapshot) -> Iterator[str]:
    try:
        plan = contents.clean_plan(clean)
    except MissingFileError:
        yield "files of which no plan is left"
        return
    named: dict[str, list[str]] = {}
    for partition, names in (plan.files_to_be_deleted_per_partition or {}).items():
        named.setdefault(partition, []).extend(names)
    for partition, infos in (plan.file_paths_to_be_deleted_per_partition or {}).items():
        named.setdefault(partition, []).extend(info.file_path or "" for info in infos)
    for partition, deleted in named.items():
        if partition in found.partitions:
            yield from _missed(found, partition, deleted)


def _missed(found: Snapshot, partition: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        short = name.rpartition("/")[2]
        file = parse_base(partition, short, 0) or parse_log(partition, short, 0)
        if file is not None and _is_missed(found, file):
            yield file.path


def _is_missed(found: Snapshot, file: BaseFile | LogFile) -> bool:
    """Return whether a deleted file belongs to the newest slice of its group, which lacks it."""
    group = FileGroupId(file.partition, file.file_id)
    done = found.times(file.instant_time)
    if done is None or found.is_replaced(group):
        return False
    if found.until is not None:
        by = done if found.basis is TimeBasis.COMPLETION else file.instant_time
        if by > found.until:
            return False
    piece = found.slices.get(group)
    if isinstance(file, BaseFile):
        base = None if piece is None else piece.base_file
        return base is None or base.instant_time < file.instant_time
    if file.is_cdc:
        return False
    if piece is None:
        return True
    if found.named_by_slice:
        return piece.base_instant_time < file.instant_time
    if any(log.name == file.name for log in piece.log_files):
        return False
    return piece.base_file is None or piece.base_file.instant_time <= done
