"""What writers did, told by themselves: the truth that a table is held to."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelake.model import Commit
from tidelake.testing.simulation.toy_rows import Row, Snapshot, merged


@dataclass
class Journal:
    """What writers did, told by themselves: the truth that the table is held to."""

    written: dict[str, dict[str, Row]] = field(default_factory=dict)
    """The rows of every write by its instant, whatever became of it."""
    landed: list[Commit] = field(default_factory=list)
    """Commits that a writer was told of."""
    refused: list[str] = field(default_factory=list)
    """Instants of which a writer was told that they did not land."""
    wrong: list[str] = field(default_factory=list)
    """What a reader saw that it should not."""

    def rows(self, snapshot: Snapshot) -> dict[str, Row]:
        """Return what a reader is owed: all completed writes, by completion time."""
        times = [i.requested_time for i in snapshot.completed()]
        return merged(self.written[time] for time in times if time in self.written)
