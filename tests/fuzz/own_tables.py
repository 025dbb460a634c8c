"""Tables that we wrote ourselves, with all that a table can have, made the same each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.lake import BUCKETS, COW, MOR, NBCC, OCC, Lake, row
from tidelake.config import WriteOperation
from tidelake.model import TableType
from tidelake.testing import ManualClock, SeededIds

_SMALL = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.commits.archival.batch": "1",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
_KEPT = {**_SMALL, "hoodie.metadata.enable": "true"}
_TOLD = {**_KEPT, "hoodie.metadata.index.column.stats.enable": "true"}
#: What retires file groups is optimistic.
_RETIRING = {"hoodie.write.concurrency.mode": OCC["hoodie.write.concurrency.mode"]}
_SIMPLE = {"hoodie.index.type": "SIMPLE"}


@dataclass(frozen=True, slots=True)
class Own:
    """How one of the tables is made."""

    version: int
    kind: TableType
    options: Mapping[str, str]


OWN = {
    "own_v6_cow": Own(6, COW, {**_SMALL, **_SIMPLE}),
    "own_v6_mor_metadata": Own(6, MOR, {**_KEPT, **BUCKETS}),
    "own_v8_cow_stats": Own(8, COW, {**_TOLD, **_SIMPLE}),
    "own_v8_mor": Own(8, MOR, {**_SMALL, **BUCKETS, **NBCC}),
    "own_v9_cow_metadata": Own(9, COW, {**_KEPT, **BUCKETS}),
    "own_v9_mor_stats": Own(9, MOR, {**_TOLD, **BUCKETS, **NBCC, **_TOLD}),
}


def make(name: str, folder: Path) -> tuple[Path, Mapping[str, str]]:
    """Make the table in `folder`; return where it is, and the options to read it with."""
    own = OWN[name]
    options = {**OCC, **own.options}
    lake = Lake(folder, own.kind, own.version, options, clock=ManualClock(), ids=SeededIds())
    for ts in range(1, 6):
        lake.write([row(key, ts, p=p) for key in "abc" for p in "xy"])
        if own.kind is MOR and ts % 2 == 0:
            lake.compactor().both()
    lake.write([row("a", 9, p="y")], _RETIRING, operation=WriteOperation.INSERT_OVERWRITE)
    lake.table_services().savepoint(None, "")
    lake.write([row("b", 10), row("d", 10)])
    lake.table_services().clean()
    lake.table_services().archive()
    lake.write([row("b", 11)])
    return lake.root, {"hoodie.metadata.enable": options.get("hoodie.metadata.enable", "false")}
