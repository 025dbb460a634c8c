"""How far a reader that follows a table may go: the next end of a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelake.config import UndoneCommits
from tidelake.config.keys import read_keys as keys
from tidelake.errors import IncrementalRangeError
from tidelake.model import Action, Instant
from tidelake.read.incremental import window
from tidelake.state.table_state import TableState

START_ANEW = (
    "start the stream anew, with another checkpoint; keep more commits on the timeline than the "
    "stream may fall behind (hoodie.keep.min.commits, hoodie.clean.commits.retained)"
)
_SERVICES = (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a reader wants at a time; it gets at least one commit. None is without limit."""

    files: int | None = None
    size_bytes: int | None = None


def latest_time(state: TableState) -> str | None:
    """Return the time at which a window that takes in everything so far ends."""
    return max((time for time, _ in _ends(state, None)), default=None)


def next_end(state: TableState, start: str | None, limits: Limits) -> str | None:
    """Return where the window from `start` is to end; None when nothing has happened since then.

    It reaches up to the first commit as of which cleans have left the table readable, however much
    that is.

    Raises `IncrementalRangeError` when commits after `start` have left the active timeline: which
    files they wrote, and whether these are still there, is not certain any more.
    """
    seen = window(state, start, None)
    if start is not None and seen.archived:
        raise IncrementalRangeError(
            f"{len(seen.archived)} commits after {start} were archived before they were read",
            next_step=START_ANEW,
        )
    files = size_bytes = 0
    end = None
    for time, instant in sorted(_ends(state, start), key=lambda found: found[0]):
        stats = state.contents.commit_metadata(instant).write_stats
        files += len(stats)
        size_bytes += sum(stat.file_size_in_bytes or 0 for stat in stats)
        is_full = _exceeds(files, limits.files) or _exceeds(size_bytes, limits.size_bytes)
        if end is not None and is_full and end >= (state.earliest_retained or ""):
            break
        end = time
    return end


def last_commit(state: TableState, time: str) -> str | None:
    """Return the requested time of the last write that a reader has seen who got to `time`.

    Services move rows about, so what they commit may be undone without a loss. None when all such
    writes are archived.
    """
    for instant in reversed(state.writes_by_time()):
        at = instant.completion_time if state.by_completion_time else instant.requested_time
        if (at or "~") <= time and instant.planned_as not in _SERVICES:
            return instant.requested_time
    return None


def refuse_undone(state: TableState, commit: str | None) -> None:
    """Raise `IncrementalRangeError` when a write was taken off the table."""
    if commit is not None and not state.view.times.is_committed(commit):
        raise IncrementalRangeError(
            f"commit {commit}, whose rows were brought, was taken off the table by a restore or a "
            "rollback, and perhaps others before it",
            next_step="start anew, with another checkpoint and another target; or take these rows "
            f"out of the target and set {keys.STREAM_UNDONE.name}={UndoneCommits.GO_ON} to go on",
        )


def _ends(state: TableState, start: str | None) -> Iterator[tuple[str, Instant]]:
    for instant in window(state, start, None).instants:
        time = instant.completion_time if state.by_completion_time else instant.requested_time
        if time is not None:
            yield time, instant


def _exceeds(amount: int, limit: int | None) -> bool:
    return limit is not None and amount > limit
