"""Who acts in a simulated world; `ACTORS` names everything that they can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.testing.simulation.actors.alone import Alone
from tidelake.testing.simulation.actors.clustering import Clusters
from tidelake.testing.simulation.actors.readers import Checks, Reads
from tidelake.testing.simulation.actors.services import (
    Archives,
    Cleans,
    Compacts,
    Forgets,
    Restores,
    RollsBack,
    Saves,
    TakesAnyBack,
    TakesBack,
)
from tidelake.testing.simulation.actors.sharing import EXPIRES_MS, Part, Sharing
from tidelake.testing.simulation.actors.writers import (
    Deletes,
    DeletesPartitions,
    DeletesWhere,
    Inserts,
    Merges,
    Overwrites,
    OverwritesTable,
    PartialUpserts,
    UpdatesWhere,
    Upserts,
)

__all__ = ["ACTORS", "ALONE", "EXPIRES_MS", "Kind", "Part", "Sharing", "kind_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of actor: what makes one, and how often it acts with which pauses."""

    make: type[Part]
    times: int = 2
    pause_ms: int = 4_000
    writes: bool = False
    """Whether it brings or changes rows."""
    takes_away: bool = False
    """Whether it deletes files, retires file groups or undoes what was committed."""
    merge_on_read: bool = False
    """Whether it has nothing to do on a copy-on-write table."""
    looks_up: bool = False
    """Whether it has nothing to do on a table of buckets."""


#: Everything that an actor can do, by name. The actor `clean 1` is of the kind `clean`.
ACTORS: dict[str, Kind] = {
    "upsert": Kind(make=Upserts, pause_ms=200, writes=True),
    "insert": Kind(make=Inserts, pause_ms=200, writes=True),
    "partial upsert": Kind(make=PartialUpserts, pause_ms=200, writes=True),
    "delete": Kind(make=Deletes, pause_ms=200, writes=True),
    "update where": Kind(make=UpdatesWhere, pause_ms=200, writes=True),
    "delete where": Kind(make=DeletesWhere, pause_ms=200, writes=True),
    "merge": Kind(make=Merges, pause_ms=200, writes=True),
    "overwrite": Kind(make=Overwrites, pause_ms=200, writes=True, takes_away=True),
    "overwrite table": Kind(make=OverwritesTable, pause_ms=200, writes=True, takes_away=True),
    "delete partition": Kind(make=DeletesPartitions, pause_ms=200, writes=True, takes_away=True),
    "compact": Kind(make=Compacts, times=3, merge_on_read=True),
    "cluster": Kind(make=Clusters, looks_up=True, takes_away=True),
    "clean": Kind(make=Cleans, times=3, pause_ms=6_000, takes_away=True),
    "archive": Kind(make=Archives, pause_ms=6_000, takes_away=True),
    "roll back failed": Kind(make=RollsBack, times=3, pause_ms=2 * EXPIRES_MS, takes_away=True),
    "roll back": Kind(make=TakesBack, takes_away=True),
    "roll back any": Kind(make=TakesAnyBack, takes_away=True),
    "savepoint": Kind(make=Saves),
    "delete savepoint": Kind(make=Forgets, pause_ms=8_000, takes_away=True),
    "restore": Kind(make=Restores, times=1, pause_ms=8_000, takes_away=True),
    "read": Kind(make=Reads, times=5, pause_ms=3_000),
    "check": Kind(make=Checks, times=3, pause_ms=3_000),
}


@dataclass(frozen=True, kw_only=True)
class _Everything(Alone):
    """Does everything that there is."""

    kinds: Sequence[type[Part]] = tuple(k.make for k in ACTORS.values() if not k.looks_up)
    without_buckets: Sequence[type[Part]] = tuple(k.make for k in ACTORS.values() if k.looks_up)


#: The actor of a table that one process has for itself.
ALONE = Kind(make=_Everything, times=12, pause_ms=200)


def kind_of(name: str) -> Kind:
    """Return the kind of an actor with this name."""
    return ALONE if name == "alone" else ACTORS[name.rstrip("0123456789 ")]
