"""Leaving out what cannot hold a wanted row, before any file is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from tidelake.formats.partition_path import is_old_default
from tidelake.model import ColumnStats, FileSlice
from tidelake.read import predicate as bounds
from tidelake.read.predicate import (
    ColumnType,
    Predicate,
    columns_of,
    may_match,
    merged,
    parse_where,
    partition_stats,
)
from tidelake.records import arrow_schema, partition_values
from tidelake.state.table_state import TableSchema, TableState
from tidelake.view import AsOf


class Pruner:
    """Decides by partition paths and statistics which files a condition may need."""

    def __init__(
        self,
        state: TableState,
        schema: TableSchema,
        where: str | None,
        *,
        as_of: AsOf | None = None,
    ) -> None:
        self._state = state
        self._is_now = as_of is None
        self._types = {f.name: _column_type(f.type) for f in arrow_schema(schema.avro)}
        self._predicate: Predicate | None = (
            None if where is None else parse_where(where, self._types)
        )
        self._columns = frozenset() if self._predicate is None else columns_of(self._predicate)
        # In files older than a rename or a change of type the statistics are of another column.
        self._has_statistics = schema.history is None and state.statistics is not None

    def partitions(self) -> Sequence[str] | None:
        """Return the partitions that may hold a wanted row; None for all of them."""
        if not self._columns or not self._state.config.partition_fields:
            return None
        return [p for p in self._state.view.partitions() if self._may_match_in(p)]

    def slices(self, slices: Iterable[FileSlice], *, base_only: bool) -> list[FileSlice]:
        """Return the slices that may hold a wanted row."""
        found = list(slices)
        statistics = self._state.statistics
        if not self._columns or not self._has_statistics or statistics is None or not found:
            return found
        partitions = sorted({s.group.partition for s in found})
        stats = statistics.column_stats(sorted(self._columns), partitions)
        return [s for s in found if self._slice_may_match(s, stats, base_only=base_only)]

    def _slice_may_match(
        self,
        piece: FileSlice,
        stats: Mapping[str, Mapping[str, ColumnStats]],
        *,
        base_only: bool,
    ) -> bool:
        logs = () if base_only else piece.log_files
        files = [f.path for f in (piece.base_file, *logs) if f is not None]
        if any(path not in stats for path in files):
            return True
        return self._matches(merged([_bounds(stats[path]) for path in files]))

    def _may_match_in(self, partition: str) -> bool:
        values = partition_values(self._state.config, partition)
        if is_old_default(partition):
            # A null of old tables or a value that reads like one: nobody can tell.
            values = {name: value for name, value in values.items() if value is not None}
        by_path = partition_stats(values, self._types)
        if self._obeys_paths and by_path and not self._matches(by_path):
            return False
        known = self._partition_statistics.get(partition, {})
        return self._matches(_bounds({n: s for n, s in known.items() if not _is_float(s)}))

    @cached_property
    def _obeys_paths(self) -> bool:
        """Return whether the values of partition columns are those that the paths say."""
        from_path = self._state.config.drop_partition_columns
        from_path |= self._state.options.partition_values_from_path
        return from_path or not self._state.config.has_record_index

    def _matches(self, stats: Mapping[str, bounds.KnownValues]) -> bool:
        return self._predicate is None or may_match(self._predicate, stats)

    @cached_property
    def _partition_statistics(self) -> Mapping[str, Mapping[str, ColumnStats]]:
        statistics = self._state.statistics
        # What a partition holds now says nothing of what it held once.
        if not self._has_statistics or not self._is_now or statistics is None:
            return {}
        return statistics.partition_stats(sorted(self._columns))


def _is_float(stats: ColumnStats) -> bool:
    return isinstance(stats.min, float) or isinstance(stats.max, float)


def _bounds(stats: Mapping[str, ColumnStats]) -> dict[str, bounds.KnownValues]:
    """Return what can be relied on.

    Of a file with a number that is none in a column Apache Hudi says that all numbers are 0. In the
    bounds of a partition nobody can tell that any more.
    """
    return {
        name: bounds.KnownValues(
            minimum=known.min,
            maximum=known.max,
            null_count=known.null_count,
            value_count=known.value_count,
        )
        for name, known in stats.items()
        if not (_is_float(known) and known.min == known.max == 0)
    }


def _column_type(stored: pa.DataType) -> ColumnType:
    kinds = {
        ColumnType.BOOLEAN: pa.types.is_boolean,
        ColumnType.INTEGER: pa.types.is_integer,
        ColumnType.FLOAT: pa.types.is_floating,
        ColumnType.DECIMAL: pa.types.is_decimal,
        ColumnType.STRING: pa.types.is_string,
        ColumnType.DATE: pa.types.is_date,
        ColumnType.TIMESTAMP: lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
        ColumnType.TIMESTAMP_NTZ: pa.types.is_timestamp,
    }
    return next((kind for kind, fits in kinds.items() if fits(stored)), ColumnType.OTHER)
