"""The sizes that log files had when their writes completed.

They tell a write that was cut off from damage done to a finished log: only a log of exactly the
size that was committed must hold whole blocks. One that is shorter or longer was cut off, or
appended to by a write that was; as in Hudi, its torn blocks are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelake.model import Instant, LogFile
from tidelake.model.table_format import TableFormat
from tidelake.timeline import Timeline, TimelineContents


class CommittedLogs:
    """What the completed writes of the active timeline say of log files."""

    def __init__(
        self,
        *,
        table_version: int,
        timeline: Timeline,
        contents: TimelineContents,
        is_listed_by_metadata: bool,
    ) -> None:
        self._once = TableFormat(table_version).has_own_logs
        self._timeline = timeline
        self._contents = contents
        # The metadata table takes sizes from commits, while a storage shows what is there.
        self._is_listed = is_listed_by_metadata and self._once
        self._asked: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._begun: set[str] = set()

    def sizes(self, logs: Sequence[LogFile]) -> Mapping[str, int]:
        """Return the size at which a log was committed, by path, where an active write tells."""
        if self._is_listed:
            return {log.path: log.size_bytes for log in logs}
        self._ask(self._writers(logs))
        return self._sizes

    def may_hold_archived(self, logs: Sequence[LogFile]) -> bool:
        """Return whether one of the logs may hold blocks of writes that are archived.

        From table version 8 on the name of a log says whose it is, and choosing files settles it.
        """
        if self._once or not logs:
            return False
        self._ask(self._writers(logs))
        return any(log.path not in self._begun for log in logs)

    def _writers(self, logs: Sequence[LogFile]) -> list[Instant]:
        writes = [i for i in self._timeline.writes() if i.requested_time not in self._asked]
        named = {log.instant_time for log in logs}
        if self._once:
            return [i for i in writes if i.requested_time in named]
        earliest = min(named, default=None)
        return [] if earliest is None else [i for i in writes if i.requested_time >= earliest]

    def _ask(self, writers: Iterable[Instant]) -> None:
        # Of several writes to one log the first counts: what a later one appended to may have been
        # left torn by one between the two.
        latest_first = sorted(writers, key=lambda i: i.requested_time, reverse=True)
        self._contents.load_commit_metadata(latest_first)
        for instant in latest_first:
            self._asked.add(instant.requested_time)
            for stat in self._contents.commit_metadata(instant).write_stats:
                if stat.path and stat.file_size_in_bytes:
                    self._sizes[stat.path] = stat.file_size_in_bytes
                if stat.path and not stat.log_offset:
                    self._begun.add(stat.path)
