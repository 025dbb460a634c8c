"""Opening and creating tables; nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelake.config import ReadOptions, TableConfig, WriteOptions
from tidelake.config.options.write_options import without_write_options
from tidelake.env import Env
from tidelake.errors import NotATableError, TableNotFoundError
from tidelake.metadata import MetadataTable
from tidelake.model import TableType
from tidelake.operations.write_schemas import RowColumns
from tidelake.state.table_state import TableState
from tidelake.storage import Storage, open_storage
from tidelake.timeline import Timeline, load_table_config
from tidelake.txn import create_table
from tidelake.write.table_spec import table_spec


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


def table_exists(storage: Storage) -> bool:
    """Return whether a Hudi table lies at the root of a storage."""
    try:
        load_table_config(storage)
    except (TableNotFoundError, NotATableError):
        return False
    return True


def create_table_of(
    env: Env,
    columns: RowColumns,
    options: WriteOptions,
    *,
    name: str | None = None,
    key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    ordering: Sequence[str] = (),
    table_type: TableType | None = None,
    table_version: int | None = None,
) -> None:
    """Create an empty table with `columns`; what is not given may stand in `options`.

    Its name is the last part of the path, unless given. Raises `TableExistsError` and
    `NotATableError` when something lies there.
    """
    called = name or env.storage.spec.uri.rstrip("/").rpartition("/")[2]
    spec = table_spec(
        columns.avro_schema(called),
        options,
        name=called,
        key=key,
        partition_by=partition_by,
        ordering=ordering,
        table_type=table_type,
        table_version=table_version,
    )
    create_table(env, spec)


def _from_metadata_table(
    storage: Storage, config: TableConfig, timeline: Timeline
) -> tuple[MetadataTable, MetadataTable] | None:
    found = MetadataTable.open(storage, config, timeline)
    return None if found is None else (found, found)
