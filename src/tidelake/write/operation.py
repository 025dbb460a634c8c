"""What each operation means for the timeline and for the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelake.config import DuplicatePolicy, TableConfig, WriteOperation, WriteOptions
from tidelake.errors import ConfigError, UnsupportedTableError
from tidelake.files.write_task import GroupTarget, WriteKind
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from tidelake.model import Action, TableType
from tidelake.write.index import Index
from tidelake.write.plan import Workload, WritePlan

REPLACING = frozenset(
    {
        WriteOperation.INSERT_OVERWRITE,
        WriteOperation.INSERT_OVERWRITE_TABLE,
        WriteOperation.DELETE_PARTITION,
    }
)
#: Operations that change rows which are in the table.
CHANGING = frozenset({WriteOperation.UPSERT, WriteOperation.DELETE})
#: Operations that add rows, and may be asked to leave out or refuse keys that the table has.
ADDING = frozenset({WriteOperation.INSERT, WriteOperation.BULK_INSERT})


def action_of(operation: WriteOperation, table_type: TableType) -> Action:
    """Return the action under which the operation stands on the timeline."""
    if operation in REPLACING:
        return Action.REPLACECOMMIT
    return Action.DELTACOMMIT if table_type is TableType.MERGE_ON_READ else Action.COMMIT


def combines(operation: WriteOperation, index: Index, options: WriteOptions) -> bool:
    """Return whether rows of one key are merged among themselves before they are written."""
    if operation in CHANGING:
        return options.combine_before_upsert
    if options.insert_duplicates is DuplicatePolicy.DROP:
        return True
    # A bucket holds one row a key, so there an insert of a known key is an update.
    return options.combine_before_insert or index.is_bucket


def refuse_unwritable(config: TableConfig) -> None:
    """Raise `UnsupportedTableError` for tables that are not written yet."""
    if config.is_metadata_table:
        raise UnsupportedTableError(
            "this is the metadata table of another table",
            next_step="write to the table that it belongs to",
        )
    if config.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            f"tidelake does not write base files of format {config.base_file_format}",
            next_step="write the table with the engine that created it",
        )


def refuse_keyless(config: TableConfig, operation: WriteOperation) -> None:
    """Raise `ConfigError` for an operation by key on a table whose keys are made up."""
    if not config.record_key_fields and operation in CHANGING:
        raise ConfigError(
            f"the table has no record key, by which the operation {operation.value.lower()} finds "
            "rows",
            next_step="use insert, delete_where or update_where",
        )


def planned_stats(workload: Workload, plan: WritePlan) -> dict[str, list[WriteStat]]:
    """Return what a write sets out to do, as its inflight file says it to other writers.

    It names every file group, of those that exist, that the write changes. Of new ones it says the
    partition alone: nobody else can have plans with them.
    """
    found: dict[str, list[WriteStat]] = {}
    for (partition, group), rows in workload.counts.items():
        stats = found.setdefault(partition, [])
        filled = (
            {s.file_id: s.rows for s in plan.shares.get(partition, ())} if group is None else {}
        )
        for name in filled if group is None else (group,):
            target = plan.targets.get((partition, name))
            if target is not None and target.kind is not WriteKind.CREATE:
                stats.append(
                    _planned(
                        target.file_id,
                        _previous(target),
                        inserts=filled.get(name, 0),
                        updates=0 if group is None else rows,
                    )
                )
    return found


def planned_partitions(
    workload: Workload, replaced: Mapping[str, Sequence[str]]
) -> dict[str, list[WriteStat]]:
    """Return what a write sets out to do that replaces partitions whole."""
    return {partition: [] for partition in sorted({*workload.partitions, *replaced})}


def _previous(target: GroupTarget) -> str:
    return target.base_instant or target.slice_instant or NO_PREVIOUS_COMMIT


def _planned(file_id: str, previous: str, *, inserts: int = 0, updates: int = 0) -> WriteStat:
    return WriteStat(
        file_id=file_id,
        path=None,
        prev_commit=previous,
        num_inserts=inserts,
        num_update_writes=updates,
    )


def replaced_ids(groups: Sequence[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Return file ids by partition, from pairs of partition and file id."""
    found: dict[str, list[str]] = {}
    for partition, file_id in groups:
        found.setdefault(partition, []).append(file_id)
    return found
