"""What writers did, told by themselves: the truth that a table is held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidelake.model import Commit, Instant
from tidelake.state.table_state import TableState
from tidelake.testing.simulation.toy_rows import Changes, Row, Rows, changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a write does to the rows of a table once it has completed; keys are `partition/key`."""

    changes: Changes
    cleared: frozenset[str] = frozenset()
    """Partitions whose rows give way."""
    read: Mapping[str, Row | None] = field(default_factory=dict)
    """Rows that it was made from, as it found them: of these nobody else may have made others."""

    def apply(self, rows: Rows) -> None:
        """Do it to the rows of a table."""
        for key in [key for key in rows if key.partition("/")[0] in self.cleared]:
            del rows[key]
        changed(rows, self.changes)


@dataclass
class Journal:
    """What writers set out to do, and what they were told of it."""

    written: dict[str, Effect] = field(default_factory=dict)
    """What every write did by its instant, whatever became of it."""
    landed: list[Commit] = field(default_factory=list)
    """Commits that a writer was told of."""
    refused: list[str] = field(default_factory=list)
    """Instants of which somebody was told that they do not count."""
    taken_back: set[str] = field(default_factory=set)
    """Completed writes that somebody set out to roll back."""
    restored_to: set[str] = field(default_factory=set)
    """Savepoints to which somebody set out to restore the table."""
    wrong: list[str] = field(default_factory=list)
    """What somebody saw that nobody should."""

    def copied(self) -> Journal:
        """Return another journal with the same entries, which never change."""
        return Journal(
            written=dict(self.written),
            landed=list(self.landed),
            refused=list(self.refused),
            taken_back=set(self.taken_back),
            restored_to=set(self.restored_to),
            wrong=list(self.wrong),
        )

    def rows(self, writes: Iterable[Instant]) -> Rows:
        """Return what completed writes together make of an empty table, in the order given."""
        rows: Rows = {}
        for instant in writes:
            effect = self.written.get(instant.requested_time)
            if effect is not None:
                effect.apply(rows)
        return rows

    def lost_updates(self, writes: Iterable[Instant]) -> list[str]:
        """Return the writes that were made from rows which others had changed by then."""
        rows: Rows = {}
        wrong = []
        for instant in writes:
            effect = self.written.get(instant.requested_time)
            if effect is None:
                continue
            wrong += [
                f"{instant.requested_time} was made from {key} = {found}, which was "
                f"{rows.get(key)} by then"
                for key, found in effect.read.items()
                if rows.get(key) != found
            ]
            effect.apply(rows)
        return wrong


def completed_writes(state: TableState) -> list[Instant]:
    """Return every write that had completed, archived or not, in the order of their effects."""
    by_completion = state.by_completion_time

    def time(instant: Instant) -> str:
        return (by_completion and instant.completion_time) or instant.requested_time

    seen = state.timeline.instants  # also what began, such as the rollback of the newest write
    latest = max(map(time, seen), default="")
    known = {i.requested_time: i for i in state.timeline.writes()}
    # What was archived after the look at the timeline may have completed after it, too: by its
    # time, or because it was pending then.
    active = {*known, *state.timeline.pending_times}
    archived = {
        i.requested_time: i
        for i in state.history.instants()
        if time(i) <= latest and i.requested_time not in active
    }
    return sorted((*archived.values(), *known.values()), key=time)
