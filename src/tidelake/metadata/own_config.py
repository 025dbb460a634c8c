"""Whether a metadata table lies beside a table, and with which settings."""

from __future__ import annotations

import logging

from tidelake.config import TableConfig
from tidelake.errors import NotATableError, TableNotFoundError
from tidelake.metadata.file_group import reading_metadata
from tidelake.metadata.names import METADATA_FOLDER
from tidelake.storage import Storage, SubStorage
from tidelake.timeline import Timeline, load_table_config, reload_timeline

_log = logging.getLogger(__name__)


def load_own_timeline(
    table: Storage, layout: TableConfig | None = None
) -> tuple[SubStorage, TableConfig, Timeline] | None:
    """Return what `load_own_config` does, and the timeline; for `layout` see `OwnTable.load`."""
    if layout is None:
        found, listed = load_own_config(table), None
    else:
        guess = f"{METADATA_FOLDER}/{layout.timeline_folder}"
        found, listed = table.both(lambda: load_own_config(table), lambda: table.list(guess))
    if found is None:
        return None
    folder, config = found
    is_there = layout is not None and layout.timeline_folder == config.timeline_folder
    return folder, config, reload_timeline(folder, config, listed if is_there else None)


def load_own_config(table: Storage) -> tuple[SubStorage, TableConfig] | None:
    """Return the folder and the settings of the metadata table of a table, None when it has none.

    As with Hudi's readers, a folder without settings means the same as none: somebody has begun to
    delete it, and its list of files may be short.
    """
    folder = SubStorage(table, METADATA_FOLDER)
    with reading_metadata(""):
        try:
            return folder, load_table_config(folder)
        except TableNotFoundError:
            return None
        except NotATableError as cause:
            _log.warning(
                "%s: files are listed from storage. The next write builds it anew", cause.problem
            )
            return None
