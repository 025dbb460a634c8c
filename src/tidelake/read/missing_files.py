"""Noticing files that a completed write left and that are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidelake.errors import MissingFileError
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.model import FileGroupId, FileSlice, Instant
from tidelake.read.state import TableState

#: How many written files are looked at, newest first: enough for all that most tables keep active,
#: and a bound for the others.
_LOOKED_AT = 4096


def refuse_missing_files(
    state: TableState, slices: Iterable[FileSlice], partitions: Collection[str] | None
) -> None:
    """Raise `MissingFileError` when the newest slices lack a file that a write put there.

    A listing of storage shows what is there and not what should be, so a lost file would only mean
    fewer rows. `slices` are the newest ones of `partitions`, or of all partitions.
    """
    present = {piece.group: piece for piece in slices}
    settled: set[FileGroupId] = set()
    looked_at = 0
    for instant in reversed(state.writes_by_time()):
        if looked_at >= _LOOKED_AT:
            return
        stats = state.contents.commit_metadata(instant).partition_to_write_stats
        for partition, of in stats.items():
            looked_at += len(of)
            if partitions is not None and partition not in partitions:
                continue
            for stat in of:
                group = FileGroupId(partition, stat.file_id or "")
                if group in settled or not stat.path or state.view.is_replaced(group):
                    continue
                if _is_missing(present.get(group), stat, instant, state):
                    raise MissingFileError(stat.path)
                if parse_base(partition, _name(stat), 0) is not None:
                    # Whatever was written to the group before is inside this base file.
                    settled.add(group)


def _is_missing(
    piece: FileSlice | None, stat: WriteStat, instant: Instant, state: TableState
) -> bool:
    log = parse_log("", _name(stat), 0)
    if log is None:
        base = None if piece is None else piece.base_file
        return base is None or base.instant_time < instant.requested_time
    if piece is None:
        return True
    if any(file.path == stat.path for file in piece.log_files):
        return False
    if piece.base_file is None:
        return True
    by_name = not state.by_completion_time
    belongs_by = log.instant_time if by_name else instant.completion_time or ""
    return piece.base_file.instant_time <= belongs_by


def _name(stat: WriteStat) -> str:
    return (stat.path or "").rpartition("/")[2]
