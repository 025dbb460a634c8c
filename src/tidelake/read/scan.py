"""What a query comes down to: slices to read, and how to understand their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelake.config import TableConfig
from tidelake.errors import SchemaError, UnsupportedTableError
from tidelake.files import BlockFilter, ReadSpec, SliceTask
from tidelake.formats.table_schema import column_names
from tidelake.model import FileSlice
from tidelake.read.predicate import hides_names
from tidelake.records import META_COLUMNS, KeyRule, MergeSpec, partition_values
from tidelake.state.table_state import TableSchema, TableState
from tidelake.view import AsOf


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """Everything an engine needs to answer a query; plain values all through."""

    spec: ReadSpec
    tasks: tuple[SliceTask, ...]
    output: tuple[str, ...]
    """The columns of the answer; the scan may read more, for a condition to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which columns and rows a query asks for.

    `where` is a condition in SQL by which whole files may be left out. `is_filtered` says that rows
    will be filtered afterwards, so the scan reads the columns that the filter may look at.
    `partitions` are the only ones that are looked into.
    """

    columns: Sequence[str] | None = None
    where: str | None = None
    meta: bool = False
    is_filtered: bool = False
    partitions: frozenset[str] | None = None


#: Every row with the user's columns.
EVERYTHING = Selection()


def read_spec(
    state: TableState,
    schema: TableSchema,
    columns: tuple[str, ...],
    *,
    as_of: AsOf | None = None,
    keep_instants: frozenset[str] | None = None,
) -> ReadSpec:
    """Return how to read any slice of the table for one query."""
    return ReadSpec(
        storage=state.storage.spec,
        schema=schema.avro,
        columns=columns,
        merge=MergeSpec.from_config(state.config, state.options),
        keys=KeyRule.from_config(state.config),
        blocks=block_filter(state, as_of),
        populate_meta_fields=state.config.populate_meta_fields,
        history=schema.history,
        keep_instants=keep_instants,
        names_places=state.config.logs_name_their_write,
    )


def output_columns(schema: TableSchema, selection: Selection) -> tuple[str, ...]:
    """Return the columns of the answer in order; raise `SchemaError` for one the table lacks."""
    columns, meta = selection.columns, selection.meta
    known = column_names(schema.avro)
    if columns is None:
        return (*META_COLUMNS, *known) if meta else tuple(known)
    exact = {name: name for name in (*known, *META_COLUMNS)}
    folded = {name.lower(): name for name in reversed((*known, *META_COLUMNS))}
    chosen = []
    for wanted in columns:
        name = exact.get(wanted) or folded.get(wanted.lower())
        if name is None:
            raise SchemaError(
                f"the table has no column {wanted!r}",
                next_step=f"choose from: {', '.join(known)}",
            )
        chosen.append(name)
    extra = [name for name in META_COLUMNS if meta and name not in chosen]
    return tuple(dict.fromkeys((*extra, *chosen)))


def scan_columns(schema: TableSchema, selection: Selection) -> tuple[str, ...]:
    """Return the columns to read: those of the answer, then those a filter may look at."""
    output = output_columns(schema, selection)
    if not selection.is_filtered:
        return output
    known = (*META_COLUMNS, *column_names(schema.avro))
    return tuple(dict.fromkeys((*output, *_looked_at(selection.where, known))))


def _looked_at(where: str | None, known: Iterable[str]) -> Iterable[str]:
    """Return the columns whose names stand in a condition, and more when in doubt."""
    if where is None or not where.isascii() or any(sign in where for sign in "*`"):
        return known
    if hides_names(where):
        return known
    folded = where.lower()
    return [name for name in known if name.lower() in folded]


def block_filter(state: TableState, as_of: AsOf | None) -> BlockFilter:
    """Return which log blocks a query sees.

    From version 8 on a log file holds blocks of one instant, so choosing files has settled it.
    """
    if state.config.format.has_own_logs:
        return BlockFilter()
    return BlockFilter(
        latest_instant=None if as_of is None else as_of.time,
        committed=frozenset(i.requested_time for i in state.timeline.writes()),
        archived_before=state.timeline.first_active_time,
    )


def slice_tasks(
    state: TableState, slices: Iterable[FileSlice], *, base_only: bool = False
) -> tuple[SliceTask, ...]:
    """Return one task for each slice; with `base_only` slices without base file have none."""
    from_path = _values_from_path(state)
    pieces = list(slices)
    all_logs = () if base_only else tuple(log for piece in pieces for log in piece.log_files)
    # Where there are none, the metadata table need not be opened for their sake.
    committed = state.committed_logs.sizes(all_logs) if all_logs else {}
    archived: frozenset[str] = frozenset()
    if all_logs and state.committed_logs.may_hold_archived(all_logs):
        archived = state.view.times.archived_within()
    tasks = []
    for piece in pieces:
        base = piece.base_file
        if base is None and base_only:
            continue
        logs = () if base_only else piece.log_files
        values = _path_values(state.config, piece.group.partition) if from_path else {}
        tasks.append(
            SliceTask(
                partition=piece.group.partition,
                file_id=piece.group.file_id,
                base_path=None if base is None else base.path,
                base_instant=None if base is None else base.instant_time,
                log_paths=tuple(log.path for log in logs),
                base_size_bytes=0 if base is None else base.size_bytes,
                log_size_bytes=sum(log.size_bytes for log in logs),
                committed_log_bytes=tuple(committed.get(log.path) for log in logs),
                partition_values=tuple(values.items()),
                archived_instants=archived,
            )
        )
    return tuple(tasks)


def _values_from_path(state: TableState) -> bool:
    return state.config.drop_partition_columns or state.options.partition_values_from_path


def _path_values(config: TableConfig, partition: str) -> Mapping[str, str | None]:
    values = partition_values(config, partition)
    lost = [name for name in config.partition_fields if name not in values]
    if lost and config.drop_partition_columns:
        raise UnsupportedTableError(
            f"files of {partition} leave out the partition column {', '.join(lost)}, and its value "
            "cannot be told from a formatted time in the path",
            next_step="rewrite the table with hoodie.datasource.write.drop.partition.columns=false",
        )
    return values
