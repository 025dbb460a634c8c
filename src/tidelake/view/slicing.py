"""The one slicer: which files of a file group belong together, and in which order they merge.

From table version 8 on a log file is named by its own deltacommit, and it belongs to the newest
base file that was requested before the log *completed*; so a deltacommit that ran while a
compaction was planned lands behind that compaction, and nobody has to wait. Up to version 7 the
name itself says the slice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tidelake.config import TimeBasis
from tidelake.formats.file_name import log_order, parse_base, parse_log
from tidelake.model import BaseFile, FileGroupId, FileSlice, LogFile
from tidelake.storage import FileInfo

#: Requested time of an instant to its completion time; None while it is not committed.
CompletionTimes = Callable[[str], "str | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Every file of one file group that lies on storage, committed or not."""

    id: FileGroupId
    base_files: tuple[BaseFile, ...] = ()
    log_files: tuple[LogFile, ...] = ()
    change_logs: tuple[LogFile, ...] = ()
    """The `.cdc` files, which are in no slice."""


def group_files(partition: str, files: Iterable[FileInfo]) -> list[FileGroup]:
    """Return the file groups of one partition; foreign files belong to none."""
    bases: dict[str, list[BaseFile]] = {}
    logs: dict[str, list[LogFile]] = {}
    change_logs: dict[str, list[LogFile]] = {}
    for info in files:
        base = parse_base(partition, info.name, info.size_bytes)
        if base is not None:
            bases.setdefault(base.file_id, []).append(base)
            continue
        log = parse_log(partition, info.name, info.size_bytes)
        if log is not None:
            (change_logs if log.is_cdc else logs).setdefault(log.file_id, []).append(log)
    return [
        FileGroup(
            id=FileGroupId(partition, file_id),
            base_files=tuple(bases.get(file_id, ())),
            log_files=tuple(logs.get(file_id, ())),
            change_logs=tuple(change_logs.get(file_id, ())),
        )
        for file_id in sorted(bases.keys() | logs.keys())
    ]


def slice_by_completion_time(
    group: FileGroup,
    completion_time: CompletionTimes,
    *,
    order: TimeBasis = TimeBasis.COMPLETION,
    compacted_at: Mapping[str, str] | None = None,
    extra_cuts: Set[str] = frozenset(),
) -> list[FileSlice]:
    """Return the committed slices of a group of table version 8 or later, oldest first.

    Only committed base files cut; a base file that a running compaction has already put on storage
    neither cuts nor is read. `compacted_at` gives, for the instant of a completed log compaction,
    the completion time at which its output stands: that of its newest input. `extra_cuts` are
    requested times that cut without a base file.
    """
    bases = {b.instant_time: b for b in group.base_files if completion_time(b.instant_time)}
    stands = compacted_at or {}
    placed = [
        (stands.get(log.instant_time, done), log)
        for log in group.log_files
        if (done := completion_time(log.instant_time)) is not None
    ]
    if order is TimeBasis.COMPLETION:
        placed.sort(key=lambda at: (at[0], *log_order(at[1])))
    else:
        placed.sort(key=lambda at: log_order(at[1]))
    cuts = sorted(bases.keys() | extra_cuts) if bases else []
    if not cuts and placed:
        cuts = sorted({placed[0][1].instant_time, *extra_cuts})
    logs: dict[str, list[LogFile]] = {cut: [] for cut in cuts}
    orphans: list[LogFile] = []
    for at, log in placed:
        index = bisect_right(cuts, at) - 1
        (logs[cuts[index]] if index >= 0 else orphans).append(log)
    slices = [
        FileSlice(
            group=group.id,
            base_instant_time=cut,
            base_file=bases.get(cut),
            log_files=tuple(logs[cut]),
        )
        for cut in cuts
    ]
    if orphans:
        orphan = FileSlice(
            group=group.id,
            base_instant_time=orphans[0].instant_time,
            base_file=None,
            log_files=tuple(orphans),
        )
        slices.insert(0, orphan)
    return slices


def slice_by_name(
    group: FileGroup, completion_time: CompletionTimes, *, opened_by: Set[str] = frozenset()
) -> list[FileSlice]:
    """Return the visible slices of a group of table version 7 or earlier, oldest first.

    `opened_by` are the pending compactions of this group: each has opened a slice for the logs that
    were written since, and its base file, if it lies there already, is not read.
    """
    bases = {b.instant_time: b for b in group.base_files if completion_time(b.instant_time)}
    logs: dict[str, list[LogFile]] = {}
    for log in sorted(group.log_files, key=log_order):
        logs.setdefault(log.instant_time, []).append(log)
    return [
        FileSlice(
            group=group.id,
            base_instant_time=key,
            base_file=bases.get(key),
            log_files=tuple(logs.get(key, ())),
        )
        for key in sorted(bases.keys() | logs.keys())
        if key in opened_by or completion_time(key)
    ]


def join_onto_base(slices: Sequence[FileSlice], opened_by: Set[str]) -> FileSlice | None:
    """Return the newest slice, joined with older ones while only a pending compaction opened it."""
    logs: tuple[LogFile, ...] = ()
    for newest in reversed(slices):
        logs = newest.log_files + logs
        if newest.base_instant_time not in opened_by or newest.base_file is not None:
            return replace(newest, log_files=logs)
    return replace(slices[0], log_files=logs) if logs else None
