"""Noticing files that a completed write left and that are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidelake.config import TimeBasis
from tidelake.errors import MissingFileError
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.model import Action, FileGroupId, FileSlice, Instant
from tidelake.view.table_view import AsOf, TableView, is_by

#: How many written files are looked at, newest first: enough for all that most tables keep active,
#: and a bound for the others.
_LOOKED_AT = 4096
#: So many commits are read at a time.
_AT_ONCE = 32


def refuse_missing_files(
    view: TableView,
    slices: Iterable[FileSlice],
    partitions: Collection[str] | None,
    as_of: AsOf | None = None,
    *,
    only: Collection[FileGroupId] | None = None,
) -> None:
    """Raise `MissingFileError` when the newest slices lack a file that a write put there.

    A listing of storage shows what is there and not what should be, so a lost file would only mean
    fewer rows. `slices` are the newest ones of `partitions`, or of all partitions, now or at a
    point in the past; `only` leaves other file groups aside.
    """
    if view.by_completion_time and as_of is not None and as_of.basis is TimeBasis.REQUESTED:
        return  # what completed later may have been requested before
    wanted = None if partitions is None else frozenset(partitions)
    present = {piece.group: piece for piece in slices}
    # What took effect before a base file was asked for is inside it.
    since = min((_opened(present.get(group)) for group in only), default="~") if only else ""
    found: dict[FileGroupId, MissingFiles] = {}
    looked_at = 0
    writes = [
        i
        for i in reversed(view.writes_in_order())
        if (as_of is None or is_by(i, as_of)) and _took_effect(view, i) >= since
    ]
    for number, instant in enumerate(writes):
        if looked_at >= _LOOKED_AT:
            return
        if number % _AT_ONCE == 0:
            view.contents.load_commit_metadata(writes[number : number + _AT_ONCE])
        stats = view.contents.commit_metadata(instant).partition_to_write_stats
        for partition, of in stats.items():
            looked_at += len(of)
            if wanted is not None and partition not in wanted:
                continue
            for stat in of:
                group = FileGroupId(partition, stat.file_id or "")
                if only is not None and group not in only:
                    continue
                if not stat.path or view.is_replaced(group, as_of):
                    continue
                if group not in found:
                    found[group] = MissingFiles(view, present.get(group))
                if found[group].has(instant, stat):
                    raise MissingFileError(stat.path)


def _took_effect(view: TableView, instant: Instant) -> str:
    by_completion = view.by_completion_time
    return (instant.completion_time if by_completion else instant.requested_time) or ""


class MissingFiles:
    """Tells which written files a slice of a file group lacks; it is asked of the newest first."""

    def __init__(self, view: TableView, piece: FileSlice | None) -> None:
        self._view = view
        self._piece = piece
        self._settled = ""

    def has(self, instant: Instant, stat: WriteStat) -> bool:
        """Return whether the file that `instant` wrote belongs to the slice and is not there."""
        if _belongs_by(stat, instant, self._view) < self._settled:
            return False
        if _is_missing(self._piece, stat, instant, self._view):
            return True
        if parse_base("", _name(stat), 0) is not None:
            # Whatever the group had when this base file was asked for is inside it.
            self._settled = instant.requested_time
        return False


def _opened(piece: FileSlice | None) -> str:
    """Return the time of the base file of a slice, before which nothing of it was written."""
    return "" if piece is None or piece.base_file is None else piece.base_file.instant_time


def _is_missing(
    piece: FileSlice | None, stat: WriteStat, instant: Instant, view: TableView
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
    return piece.base_file.instant_time <= _belongs_by(stat, instant, view)


def _belongs_by(stat: WriteStat, instant: Instant, view: TableView) -> str:
    """Return the time that says to which slice a file belongs: to the newest from before it."""
    log = parse_log("", _name(stat), 0)
    if log is None or instant.planned_as is Action.LOGCOMPACTION:
        return instant.requested_time
    return instant.completion_time or "" if view.by_completion_time else log.instant_time


def _name(stat: WriteStat) -> str:
    return (stat.path or "").rpartition("/")[2]
