"""Who reads."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from tidelake.env import Env
from tidelake.errors import MissingFileError, SnapshotLostError, StorageError
from tidelake.model import Action
from tidelake.testing.simulation.actors.sharing import Part
from tidelake.testing.simulation.toy_rows import Snapshot, read_toy


@dataclass(frozen=True, kw_only=True)
class Reads(Part):
    """Reads the table `times` times, and holds each answer to the journal."""

    @override
    def __call__(self, env: Env) -> None:
        """Read."""
        for _ in range(self.times):
            self.pause(env)
            try:
                snapshot = Snapshot.load(env.storage)
                found = read_toy(env.storage, snapshot)
                owed = self.journal.rows(snapshot)
                later = Snapshot.load(env.storage)
            except (StorageError, MissingFileError, SnapshotLostError):
                continue  # a clean went by, or the storage failed: the reader asks again
            if _cleans(later) != _cleans(snapshot):
                continue  # what it asked for may have been too old while it asked
            if found != owed:
                self.journal.wrong.append(f"a reader saw {found} and is owed {owed}")


def _cleans(snapshot: Snapshot) -> set[str]:
    """Return the cleans that were begun."""
    found = snapshot.timeline.instants
    return {i.requested_time for i in found if i.action is Action.CLEAN}
