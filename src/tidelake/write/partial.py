"""Which columns a write brings, and where it may leave the others out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelake.config import TableConfig
from tidelake.errors import ConfigError, SchemaError, UnsupportedTableError
from tidelake.model import MergeMode, TableType
from tidelake.records import Fill, MergeSpec
from tidelake.records.schema import top_level
from tidelake.write.index import Index


def takes_partial_rows(config: TableConfig, merge: MergeSpec) -> bool:
    """Return whether rows without all columns can be written to the table.

    Base files keep the values of the others. Logs of version 8 and up have blocks for it, which
    Apache Hudi merges by its two plain modes alone.
    """
    if not config.populate_meta_fields:
        return False
    if config.table_type is TableType.COPY_ON_WRITE:
        return True
    return (
        config.format.has_partial_blocks
        and config.record_merge_mode in (MergeMode.EVENT_TIME, MergeMode.COMMIT_TIME)
        and merge.fill is Fill.NONE
    )


def logs_changed_columns(config: TableConfig, merge: MergeSpec) -> bool:
    """Return whether a change of rows that were read may leave out the columns it does not set.

    Columns with an ordering of their own come together, set or not.
    """
    return takes_partial_rows(config, merge) and not merge.groups


def refuse_partial(config: TableConfig, merge: MergeSpec, index: Index) -> None:
    """Raise an error when an upsert of some columns cannot be written to the table."""
    if not takes_partial_rows(config, merge):
        raise UnsupportedTableError(
            "logs of this table have no room for rows without all columns: that takes table "
            "version 8, meta columns and one of the two plain merge modes",
            next_step="bring whole rows, or use Table.merge, which completes them",
        )
    if index.type.is_global and index.moves_partition:
        raise ConfigError(
            "a row that brings some columns cannot move to another partition, as the global index "
            "would have it",
            next_step="set hoodie.simple.index.update.partition.path=false, or bring whole rows",
        )


def brought_columns(
    config: TableConfig, merge: MergeSpec, wanted: Sequence[str], given: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns that an upsert of rows with columns `given` brings.

    That is `wanted`, or all of `given`, and always what keys, paths and the ordering are made of.
    Raises `SchemaError` when the rows lack one of them.
    """
    fields = (*config.record_key_fields, *config.partition_fields, *merge.ordering_fields)
    names = dict.fromkeys((*top_level(fields), *(wanted or given)))
    missing = [name for name in names if name not in given]
    if missing:
        raise SchemaError(
            f"the rows have no column {', '.join(missing)}, which the upsert is to bring",
            next_step="add it to the rows",
        )
    return tuple(names)


def refuse_torn_groups(merge: MergeSpec, brought: Collection[str], known: Collection[str]) -> None:
    """Raise `SchemaError` when rows bring some columns of a group and not the others.

    One ordering value stands for the whole group, so a column that did not come with it would seem
    as new as the others. `known` are the columns that the table has or gets.
    """
    for group in merge.groups:
        missing = [n for n in group.columns if n in known and n not in brought]
        if missing and any(name in brought for name in group.columns):
            raise SchemaError(
                f"the rows have no column {', '.join(missing)}, which goes by {group.ordering} "
                f"together with {', '.join(n for n in group.columns if n in brought)}",
                next_step="bring all columns of the group, or none",
            )
