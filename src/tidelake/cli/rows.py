"""The verb `read`: rows, through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tidelake.cli import text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_LIMIT = 20
WIDEST_CELL = 60


def json_lines(frame: DataFrame) -> Iterator[str]:
    """Return every row as JSON text, as Spark's `toJSON` prints it."""
    names = (name.replace("`", "``") for name in frame.columns)
    texts = frame.select(F.to_json(F.struct(*(F.col(f"`{name}`") for name in names))))
    return (row[0] for row in texts.toLocalIterator(prefetchPartitions=True))


def render(frame: DataFrame, limit: int) -> list[str]:
    """Return up to `limit` rows as a table, and whether there are more; 0 means all."""
    found = frame.collect() if limit == 0 else frame.limit(limit + 1).collect()
    shown = found if limit == 0 else found[:limit]
    lines = text.columns(frame.columns, [[_cell(value) for value in row] for row in shown])
    if len(found) > len(shown):
        end = f"{text.count(len(shown), 'row')} shown, there are more: --limit N shows N, 0 all."
    else:
        end = f"{text.count(len(shown), 'row')}."
    return [*lines, "", end]


def _cell(value: object) -> str:
    shown = "null" if value is None else " ".join(str(value).splitlines())
    return shown if len(shown) <= WIDEST_CELL else f"{shown[: WIDEST_CELL - 1]}…"
