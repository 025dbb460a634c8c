"""Every error tidelake raises on purpose, as one tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from typing_extensions import override

#: How many of the things that two writes share a message names.
_SHOWN_OVERLAP = 3


_IN_URL = re.compile(r"(?<=://)[^/\s:@]*:[^/\s]*@")
_IN_QUERY = re.compile(
    r"(?i)(?:\b|(?<=%3f)|(?<=%26))"
    r"((?:x-amz-)?(?:signature|credential|security-token)|sig|token|password|secret)(=|%3d)[^&\s]+"
)


def redacted(text: str) -> str:
    """Return `text` without the credentials that addresses in it carry."""
    return _IN_QUERY.sub(r"\1\2***", _IN_URL.sub("***@", text))


class TidelakeError(Exception):
    """Base of the tree: what happened, and what to do next."""

    def __init__(self, problem: str, *, next_step: str) -> None:
        super().__init__(problem)
        self._tell(problem, next_step)

    def _tell(self, problem: str, next_step: str) -> None:
        problem, next_step = redacted(problem), redacted(next_step)
        self.args = (f"{problem}\n  next: {next_step}",)
        self.problem = problem
        self.next_step = next_step

    @override
    def __reduce__(self) -> tuple[object, ...]:
        # Errors come back from Spark's workers, and the default loses keyword arguments.
        return (_rebuild, (type(self), self.__dict__.copy(), self.args))


def _rebuild(
    cls: type[TidelakeError], state: dict[str, object], args: tuple[object, ...]
) -> TidelakeError:
    error = cls.__new__(cls)
    Exception.__init__(error, *args)
    error.__dict__.update(state)
    return error


class TableNotFoundError(TidelakeError):
    """Nothing lies at the path."""


class NotATableError(TidelakeError):
    """The path exists, but no Hudi table lies there."""


class TableExistsError(TidelakeError):
    """A table lies already where one was to be created."""


class UnsupportedTableError(TidelakeError):
    """The table uses a version, layout, class or codec that tidelake does not know."""


class ConfigError(TidelakeError):
    """An option or table property is unknown, malformed, or contradicts another."""


class SchemaError(TidelakeError):
    """A column or type is unknown or does not fit the table's schema."""


class CorruptFileError(TidelakeError):
    """A file of the table does not hold what its format promises."""

    def __init__(self, path: str, cause: str, *, next_step: str | None = None) -> None:
        super().__init__(
            f"{path} is damaged: {cause}",
            next_step=next_step
            or "restore the file from a backup or the storage's versions; "
            "`tidelake check TABLE` lists everything else that is damaged",
        )
        self.path = path
        self.cause = cause


class MissingFileError(TidelakeError):
    """A file that the timeline says is part of the table is gone from storage."""

    def __init__(self, path: str, *, next_step: str | None = None) -> None:
        super().__init__(
            f"{path} is missing from storage",
            next_step=next_step
            or "if a clean ran while this query was reading, run the query again; otherwise "
            "restore the file, or restore the table to a savepoint",
        )
        self.path = path


class SnapshotLostError(TidelakeError):
    """The table moved on: files of the snapshot were deleted before they were listed.

    Nothing was read or written. A new start sees the table as it is now.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the table moved on since its timeline was loaded: {problem}",
            next_step="run it again, which starts from the table as it is now; for input or "
            "queries that take long, keep more of the past with hoodie.clean.commits.retained",
        )


class StorageError(TidelakeError):
    """The storage refused or failed a request; nothing is known about the table itself.

    `is_refusal` says that it refused it. Otherwise the request may have been carried out, or may
    still be.
    """

    def __init__(
        self, path: str, cause: str, *, next_step: str | None = None, is_refusal: bool = False
    ) -> None:
        super().__init__(
            f"{path}: {cause}",
            next_step=next_step
            or "check that the storage is reachable and that your credentials allow this",
        )
        self.path = path
        self.cause = cause
        self.is_refusal = is_refusal


class TimeTravelError(TidelakeError):
    """The table cannot be shown as of the requested time."""


class IncrementalRangeError(TidelakeError):
    """The requested window of changes is no longer, or not yet, answerable."""


class RestorePendingError(TidelakeError):
    """A restore began and did not finish; until it has, nothing else may change the table."""

    def __init__(self, requested_time: str) -> None:
        super().__init__(
            f"restore {requested_time} of this table has not finished",
            next_step="call restore with the same savepoint again, with tidelake or with the tool "
            "that began it: it goes on where it ended",
        )
        self.requested_time = requested_time


class InputChangedError(TidelakeError):
    """The rows of a write were others when they were evaluated again; nothing became visible."""


class InstantLostError(TidelakeError):
    """Somebody took the instant off the timeline before it completed; nothing became visible."""


class HorizonError(TidelakeError):
    """Files of the past that was asked for were cleaned; nothing was changed."""


class PlanRemovedError(TidelakeError):
    """The plan of a service is not, or no longer, on the timeline; nothing was written."""


class PlanCompletedError(TidelakeError):
    """The plan of a service was carried out already; nothing was written."""


class PlanRunningError(TidelakeError):
    """Somebody else is carrying out the plan of a service right now; nothing was written."""


class ClockAheadError(TidelakeError):
    """The timeline is so far ahead of this machine's clock that one of them must be wrong."""


class WriteConflictError(TidelakeError):
    """Another writer came first, and nothing of ours became visible.

    `ours` and `theirs` are requested times, `overlap` names what both touched, `rule` says why that
    does not go together.
    """

    def __init__(
        self,
        *,
        ours: str,
        theirs: str,
        overlap: frozenset[str],
        rule: str,
        facts: Mapping[str, str] | None = None,
        next_step: str,
    ) -> None:
        shown = ", ".join(sorted(overlap)[:_SHOWN_OVERLAP])
        more = len(overlap) - _SHOWN_OVERLAP
        shown = f"{shown} and {more} more" if more > 0 else shown
        super().__init__(
            f"instant {ours} gives way to {theirs}: {rule} ({shown})", next_step=next_step
        )
        self.ours = ours
        self.theirs = theirs
        self.overlap = overlap
        self.rule = rule
        self.facts = dict(facts or {})

    def tried(self, attempts: int) -> None:
        """Remember that so many attempts ended like this."""
        self.facts["attempts"] = str(attempts)
        self._tell(
            f"{self.problem}, at the last of {attempts} attempts",
            f"{self.next_step}; {attempts - 1} retries were not enough",
        )

    def explain(self) -> str:
        """Return everything that is known about the conflict, a fact a line."""
        facts = {
            "loser": self.ours,
            "winner": self.theirs,
            "rule": self.rule,
            "shared": ", ".join(sorted(self.overlap)),
            **self.facts,
            "next": self.next_step,
        }
        width = max(map(len, facts))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())


class SameWriteError(WriteConflictError):
    """Another process committed the very same write meanwhile, so that ours is not needed."""


class SchemaConflictError(WriteConflictError):
    """Another writer changed the table's schema meanwhile, in a way that ours does not go with."""


class LockTimeoutError(TidelakeError):
    """The table's lock did not come free in time; nothing was done under it."""


class LockLostError(TidelakeError):
    """Somebody else got the table's lock while it was needed; nothing became visible."""


class CommitOutcomeUnknownError(TidelakeError):
    """The storage failed while a commit was published, and could not say whether it landed."""

    def __init__(self, requested_time: str, cause: str) -> None:
        super().__init__(
            f"whether instant {requested_time} completed is unknown: {cause}",
            next_step="once the storage answers, look at the timeline: a completed "
            f"{requested_time} is done, a pending one is rolled back by the next write; with a "
            "write_id the same call may simply be made again",
        )
        self.requested_time = requested_time
        self.cause = cause


class Malformed(ValueError):  # noqa: N818 - not an error of the public tree
    """Bytes do not decode; `reading` turns this into `CorruptFileError` where the path is known."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn `Malformed` raised by a codec inside the block into `CorruptFileError` naming `path`."""
    try:
        yield
    except Malformed as cause:
        raise CorruptFileError(path, str(cause)) from cause
