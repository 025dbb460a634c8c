"""The words Hudi writes on disk, as enumerations."""

from __future__ import annotations

from enum import Enum

from typing_extensions import override


class Word(str, Enum):
    """A string with a closed set of values; prints and formats as the value itself."""

    @override
    def __str__(self) -> str:
        return str.__str__(self)

    @override
    def __format__(self, format_spec: str) -> str:
        return str.__format__(self, format_spec)


class Action(Word):
    """What an instant does."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"

    @property
    def completed_as(self) -> Action:
        """Return the action under which this one completes: a compaction completes as a commit."""
        return _COMPLETED_AS.get(self, self)


_COMPLETED_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}

#: Actions whose completion makes data files visible.
WRITE_ACTIONS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})


class State(Word):
    """How far an instant has come."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"

    @property
    def rank(self) -> int:
        """Return the state's place in the life of an instant, later is greater."""
        return _RANK[self]


_RANK = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}


class TableType(Word):
    """Whether updates rewrite base files or append to log files."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(Word):
    """Which of two records with the same key wins."""

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"
