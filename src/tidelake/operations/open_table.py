"""A table as it is now, opened by its path; nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.config import ReadOptions, TableConfig
from tidelake.config.options.write_options import without_write_options
from tidelake.metadata import MetadataTable
from tidelake.state.table_state import TableState
from tidelake.storage import Storage, open_storage
from tidelake.timeline import Timeline


def open_state(path: str, options: Mapping[str, str] | None = None) -> TableState:
    """Return all that can be known of a table without Spark.

    Raises `TableNotFoundError`, `NotATableError`, `UnsupportedTableError` or `CorruptFileError`.
    """
    return load_table(open_storage(path, options), ReadOptions.from_options(options or {}))


def load_state(storage: Storage, options: Mapping[str, str]) -> TableState:
    """Return the table at the root of a storage, for a write with `options`."""
    return load_table(storage, ReadOptions.from_options(without_write_options(options)))


def load_table(storage: Storage, options: ReadOptions) -> TableState:
    """Return the table at the root of a storage, listed by its metadata table where it has one."""
    return TableState.load(storage, options, _from_metadata_table)


def _from_metadata_table(
    storage: Storage, config: TableConfig, timeline: Timeline
) -> tuple[MetadataTable, MetadataTable] | None:
    found = MetadataTable.open(storage, config, timeline)
    return None if found is None else (found, found)
