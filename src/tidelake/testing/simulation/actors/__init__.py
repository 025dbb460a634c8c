"""Who acts in a simulated world; `ACTORS` names everything that they can do."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.testing.simulation.actors.readers import Reads
from tidelake.testing.simulation.actors.services import Cleans, Compacts, RollsBack
from tidelake.testing.simulation.actors.sharing import EXPIRES_MS, Part, Sharing
from tidelake.testing.simulation.actors.writers import Upserts

__all__ = [
    "ACTORS",
    "EXPIRES_MS",
    "Cleans",
    "Compacts",
    "Kind",
    "Part",
    "Reads",
    "RollsBack",
    "Sharing",
    "Upserts",
    "kind_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of actor: what makes one, and how often it acts with which pauses."""

    make: type[Part]
    times: int
    pause_ms: int
    writes: bool = False
    """Whether it brings or changes rows."""
    takes_away: bool = False
    """Whether it deletes files, retires file groups or undoes what was committed."""
    merge_on_read: bool = False
    """Whether it has nothing to do on a copy-on-write table."""


#: Everything that an actor can do, by name. The actor `clean 1` is of the kind `clean`.
ACTORS: dict[str, Kind] = {
    "upsert": Kind(make=Upserts, times=3, pause_ms=200, writes=True),
    "compact": Kind(make=Compacts, times=4, pause_ms=4_000, merge_on_read=True),
    "clean": Kind(make=Cleans, times=3, pause_ms=6_000, takes_away=True),
    "roll back failed": Kind(make=RollsBack, times=4, pause_ms=2 * EXPIRES_MS, takes_away=True),
    "read": Kind(make=Reads, times=5, pause_ms=3_000),
}


def kind_of(name: str) -> Kind:
    """Return the kind of an actor with this name."""
    return ACTORS[name.rstrip("0123456789 ")]
