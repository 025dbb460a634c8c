"""What has to hold when the storage loses a request of an operation, or carries it out late."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from tests.writes.operations import (
    ACTS,
    DONE,
    SAVED,
    WRITES,
    Made,
    merged,
    owed,
    problems,
    seen,
    table_services,
    write_on,
)
from tidelake.errors import CommitOutcomeUnknownError, StorageError
from tidelake.model import Action, Word
from tidelake.operations.open_table import load_state
from tidelake.storage import MemoryStorage, Storage


class Arrives(Word):
    """When a request that was lost on its way reaches the storage after all."""

    NEVER = "never"
    BEFORE_NEXT = "before the next write"
    AFTER_NEXT = "after the next write"


class Place(Protocol):
    """Where a table lies while an operation on it is disturbed."""

    @property
    def faulty(self) -> Storage:
        """Return the storage of which a request is lost."""

    @property
    def storage(self) -> Storage:
        """Return the same storage without faults."""

    def look(self) -> MemoryStorage:
        """Return what lies there."""

    def wait(self) -> None:
        """Let so much time pass that whoever was silent counts as dead."""

    def deliver(self) -> None:
        """Let the late requests arrive."""

    def settled(self) -> Place:
        """Return a place with the same files at which nothing is disturbed any more."""


class Ended(Word):
    """What an operation said of itself."""

    DONE = "done"
    UNKNOWN = "unknown"
    FAILED = "failed"


def play(place: Place, made: Made, name: str, arrives: Arrives, where: str) -> Ended:
    """Do an operation on a storage that loses a request, and write on; return how it ended."""
    before, after = made.states[-1], owed(name, made)
    partly = made.states[SAVED:] if name == "restore" else []
    ended = _end(place, made, name)
    allowed = [after]
    if ended is Ended.UNKNOWN:
        allowed = [before, after]
    if ended is Ended.FAILED:
        allowed = [before] if name in WRITES else [before, after]
        # A restore takes one write off after the other, and is asked for again until it is done.
        allowed += partly
    found = seen(place.look())
    assert found in allowed, where
    place.wait()
    if arrives is Arrives.BEFORE_NEXT:
        place.deliver()
        place.wait()  # a heartbeat may have come
        allowed += [] if name in WRITES else [before, after]
        found = seen(place.look())
        assert found in allowed, where
    if ended is Ended.FAILED and name not in WRITES and (name != "rollback" or found == before):
        # What began is brought to its end by whoever asks for it again.
        with suppress(*DONE):
            ACTS[name](place.storage, made)
        found = seen(place.look())
        assert found == after, where
    if arrives is not Arrives.AFTER_NEXT:
        place = place.settled()
    write_on(place.storage, made.case, where)
    if arrives is Arrives.AFTER_NEXT:
        place.deliver()
        place = place.settled()
    expected = merged(found)
    assert seen(place.look()) == expected, where
    if any(i.action is Action.RESTORE for i in load_state(place.storage, {}).timeline.pending):
        # Its plan names what is off the table already; nobody writes until it has ended.
        ACTS[name](place.storage, made)
        assert seen(place.look()) == expected, where
    write_on(place.storage, made.case, where)
    assert seen(place.look()) == expected, where
    # What died stays pending where writers share the table, with files that no list has.
    table_services(place.storage, made.case).roll_back_failed()
    left = place.look()
    assert seen(left) == expected, where
    violations = problems(left)
    if name == "compact" and arrives is not Arrives.NEVER:
        # The file of an attempt that was rolled back holds the rows of the one that completed.
        violations = [problem for problem in violations if "does not list it" not in problem]
    assert violations == [], where
    return ended


def _end(place: Place, made: Made, name: str) -> Ended:
    """Do the operation; errors of other classes than these are no answer to a lost request."""
    try:
        ACTS[name](place.faulty, made)
    except CommitOutcomeUnknownError:
        return Ended.UNKNOWN
    except StorageError:
        return Ended.FAILED
    return Ended.DONE
