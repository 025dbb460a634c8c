"""Random full rows, partial rows and deletes: a compaction of them changes no answer."""

from __future__ import annotations

import random  # noqa: TID251 - seeded

from tests.unit.records.test_merge import COLUMNS, EVENT, Record, expected_by_column, merged


def wrong(seed: int) -> list[str]:
    """Return what is wrong with the rows of one random file group.

    Compactions that come before a late record are those of the first row alone: a row in a base
    file is as new as the newest record in it. All others may come anywhere.
    """
    chance = random.Random(seed)
    first = _full(chance)
    log = [_record(chance) for _ in range(chance.randint(1, 6))]
    whole = merged([], [first, *log], EVENT)
    problems = []
    if whole != expected_by_column([], [first, *log], EVENT):
        problems.append(f"{[first, *log]} gives {whole}")
    if merged([first], log, EVENT) != whole:
        problems.append(f"a compaction of {first} before {log} changes {whole}")
    at = chance.randrange(len(log) + 1)
    before, after = [first, *log[:at]], log[at:]
    newest = max(r.ordering or 0 for r in before)
    base = [
        Record("a", newest, dict(zip(COLUMNS, row[1:], strict=True)))  # type: ignore[index] # a tuple of texts
        for row in merged([], before, EVENT)
    ]
    if base and all((r.ordering or 0) >= newest for r in after):
        found = merged(base, after, EVENT)
        if found != whole:
            problems.append(f"a compaction of {before} before {after} gives {found}, not {whole}")
    return problems


def _full(chance: random.Random) -> Record:
    values = {name: chance.choice(["1", "2", None]) for name in COLUMNS}
    return Record("a", chance.randint(1, 6), values)


def _record(chance: random.Random) -> Record:
    kind = chance.random()
    if kind < 0.15:
        return Record("a", chance.randint(1, 6), {}, is_delete=True)
    if kind < 0.3:
        return _full(chance)
    return Record("a", chance.randint(1, 6), {chance.choice(COLUMNS): chance.choice("3456")})
