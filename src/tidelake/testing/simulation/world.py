"""Which world a seed plays in: the table, who shares it how, and who acts."""

from __future__ import annotations

import random  # noqa: TID251 - seeded below
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tidelake.config import ConcurrencyMode
from tidelake.model import TableType
from tidelake.model.table_format import TableFormat
from tidelake.testing.simulation.actors import ACTORS
from tidelake.testing.simulation.history import ALL_FAULTS, History
from tidelake.testing.simulation.scheduler import Faults

_OPTIMISTIC, _NON_BLOCKING = ConcurrencyMode.OPTIMISTIC, ConcurrencyMode.NON_BLOCKING
_WRITERS = tuple(name for name, kind in ACTORS.items() if kind.writes)
#: Comes to a few worlds besides.
_BESIDES = "roll back any"
_OTHERS = tuple(n for n, kind in ACTORS.items() if not kind.writes and n not in ("read", _BESIDES))
_FIRST_INDEXED = 8
#: Brings partial rows, looks its keys up in one partition, or not at all.
_STAYS = ("partial upsert", "merge", "overwrite", "alone")
_OTHER_OPTIONS = (
    ("hoodie.metadata.enable", "false"),
    ("tidelake.metadata.rebuild", "true"),
    ("hoodie.metadata.index.column.stats.enable", "true"),
    ("hoodie.clean.failed.writes.policy", "NEVER"),
    ("hoodie.clean.policy", "KEEP_LATEST_FILE_VERSIONS"),
)
#: One process that has the table for itself, and others that only look at it.
_ALONE = ("alone", "read 0", "check 0")


def history_of(seed: int) -> History:
    """Return the history of a seed: its world is drawn from the seed, and small."""
    chance = random.Random(f"world {seed}")
    version = chance.choice([6, 8, 9, 9])
    table_type = chance.choice([TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ])
    may_be_non_blocking = (
        table_type is TableType.MERGE_ON_READ and TableFormat(version).takes_non_blocking
    )
    mode = chance.choice([_OPTIMISTIC, _NON_BLOCKING]) if may_be_non_blocking else _OPTIMISTIC
    # Whatever brings rows comes more often than what takes them away.
    writers = ["upsert", *chance.choices([*_WRITERS, "upsert", "merge"], k=chance.randint(1, 2))]
    others = chance.sample(_OTHERS, chance.randint(2, 4))
    if chance.random() < 0.5 and "savepoint" not in others:
        others.append("savepoint")
    if random.Random(f"besides {seed}").random() < 1 / 4:
        others.append(_BESIDES)
    actors = _numbered([*writers, *others, "read"])
    is_alone = chance.random() < 0.1
    if is_alone:
        mode, may_be_non_blocking, actors = ConcurrencyMode.SINGLE_WRITER, False, _ALONE
    made = History(
        seed=seed,
        mode=mode,
        modes=_modes(chance, actors, mode) if may_be_non_blocking else (),
        table_type=table_type,
        table_version=version,
        buckets=may_be_non_blocking or chance.random() < 0.5,
        metadata=(metadata := chance.random() < 0.5),
        with_stats=metadata and chance.random() < 0.5,
        partitions=chance.randint(1, 2),
        slow_ms=chance.choice([0, 0, 500, 200_000]),
        offset_ms=chance.choice([10, 10, 180_000]),
        inline=chance.random() < 0.3,
        archives_beyond_savepoints=chance.random() < 0.5,
        actors=actors,
        writes=2,
        faults=chance.choice([Faults(), ALL_FAULTS, ALL_FAULTS]),
        fills_small_files=chance.random() < 0.5,
        # Those who wait are overtaken by those who do not.
        slow=tuple(name for name in actors if chance.random() < 0.3),
        with_index=metadata and version >= _FIRST_INDEXED and chance.random() < 0.5,
        options=_options(random.Random(f"options {seed}"), actors) if metadata else (),
    )
    may_move = made.partitions > 1 and not made.buckets and not set(_kinds(actors)) & {*_STAYS}
    return replace(made, moves=may_move and random.Random(f"moves {seed}").random() < 2 / 3)


def _options(
    chance: random.Random, actors: tuple[str, ...]
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return what some actors set otherwise than the rest, in one of four worlds.

    One keeps no metadata table and another builds it anew, whoever is in the middle of a write.
    """
    if chance.random() >= 1 / 4:
        return ()
    drawn = {name: chance.choice(_OTHER_OPTIONS) for name in actors if chance.random() < 0.4}
    return tuple((name, (option,)) for name, option in drawn.items())


def _kinds(actors: Iterable[str]) -> Iterator[str]:
    return (name.rstrip("0123456789 ") for name in actors)


def _numbered(kinds: list[str]) -> tuple[str, ...]:
    return tuple(f"{kind} {kinds[:at].count(kind)}" for at, kind in enumerate(kinds))


def _modes(
    chance: random.Random, actors: tuple[str, ...], mode: ConcurrencyMode
) -> tuple[tuple[str, ConcurrencyMode], ...]:
    """Return who shares the table in another mode; what replaces file groups has to be optimistic.

    In every other world all are of one mode, save those.
    """
    found: dict[str, ConcurrencyMode] = {}
    is_mixed = chance.random() < 0.5
    for name in actors:
        other = _OPTIMISTIC if mode is _NON_BLOCKING else _NON_BLOCKING
        kind = ACTORS[name.rstrip("0123456789 ")]
        if kind.writes and kind.takes_away:
            found[name] = _OPTIMISTIC
        elif is_mixed and chance.random() < 0.5:
            found[name] = other
    return tuple((name, other) for name, other in found.items() if other is not mode)
