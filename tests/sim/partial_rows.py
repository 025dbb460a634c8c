"""Random whole rows, partial rows and deletes of one key: a compaction changes no answer."""

from __future__ import annotations

import random  # noqa: TID251 - seeded

from tests import partial_model as model
from tests.partial_model import Event
from tests.unit.records import test_merge as columns
from tests.unit.records.test_merge import EVENT, Record

COLUMNS = columns.COLUMNS


def wrong(seed: int) -> list[str]:
    """Return what is wrong with the rows of one random file group.

    The records are merged as they lie in one log, and with a compaction after each of them; see
    `partial_model.may_differ` for the only records that may tell the difference.
    """
    log = drawn(random.Random(seed))
    problems = []
    plain = read(None, log)
    if plain != shown(model.merged(None, log)):
        problems.append(f"{log} gives {plain}")
    for at in range(1, len(log)):
        base = model.compacted(model.merged(None, log[:at]))
        found = read(base, log[at:])
        if found != shown(model.merged(base, log[at:])):
            problems.append(f"{log[at:]} over {base} gives {found}")
        if found != plain and not model.may_differ(None, log, at):
            problems.append(f"a compaction after {at} of {log} gives {found}, not {plain}")
    return problems


def drawn(chance: random.Random) -> list[Event]:
    """Return the records of one key in the order in which they come."""
    return [_event(chance) for _ in range(chance.randint(2, 6))]


def _event(chance: random.Random) -> Event:
    kind, ts = chance.random(), chance.randint(1, 6)
    if kind < 0.15:
        return Event(chance.choice([ts, None]), is_delete=True)
    if kind < 0.45:
        return Event(ts, {n: chance.choice(["1", "2", None]) for n in COLUMNS}, is_whole=True)
    names = chance.sample(COLUMNS, chance.randint(1, len(COLUMNS) - 1))
    return Event(ts, {name: chance.choice("3456") for name in names})


def read(base: model.State | None, log: list[Event]) -> list[object]:
    rows = [] if base is None else [Record("a", base.order, dict(base.values))]
    records = [Record("a", e.ts, dict(e.values), is_delete=e.is_delete) for e in log]
    return columns.merged(rows, records, EVENT)


def shown(state: model.State | None) -> list[object]:
    if state is None or state.deleted_by is not None:
        return []
    return [("a", *(state.values.get(name) for name in COLUMNS))]
