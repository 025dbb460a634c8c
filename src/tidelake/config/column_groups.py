"""Columns that go by an ordering column of their own: one group for each stream of a wide table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tidelake.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnGroup:
    """Columns whose newest values are those with the greatest value of `ordering`.

    `columns` has the ordering column too.
    """

    ordering: str
    columns: tuple[str, ...]


def parse_groups(key: str, text: str) -> tuple[ColumnGroup, ...]:
    """Read `ts1:a,b;ts2:c`; raise `ConfigError` for anything that does not look like it."""
    found = []
    for part in text.split(";"):
        ordering, colon, names = (piece.strip() for piece in part.partition(":"))
        columns = tuple(name.strip() for name in names.split(","))
        if not (ordering and colon and all(columns)):
            raise _refuse(key, f"{part.strip() or 'an empty part'} names no group of columns")
        found.append(ColumnGroup(ordering=ordering, columns=(ordering, *columns)))
    counts = Counter(name for group in found for name in group.columns)
    twice = [name for name, times in counts.items() if times > 1]
    if twice:
        raise _refuse(key, f"column {', '.join(twice)} stands in it more than once")
    return tuple(found)


def _refuse(key: str, problem: str) -> ConfigError:
    return ConfigError(
        f"{key}: {problem}",
        next_step="write each ordering column, a colon and the columns that go by it, with a "
        "semicolon between groups, such as ts1:a,b;ts2:c",
    )
