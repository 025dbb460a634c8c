"""Whether a metadata table lies beside a table, and with which settings."""

from __future__ import annotations

import logging

from tidelake.config import TableConfig
from tidelake.errors import NotATableError, TableNotFoundError
from tidelake.metadata.file_group import reading_metadata
from tidelake.metadata.names import METADATA_FOLDER
from tidelake.storage import Storage, SubStorage
from tidelake.timeline import load_table_config

_log = logging.getLogger(__name__)


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
