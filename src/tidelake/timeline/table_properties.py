"""Finding a table and reading its properties."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.config import TableConfig
from tidelake.errors import (
    CorruptFileError,
    Malformed,
    MissingFileError,
    NotATableError,
    TableNotFoundError,
)
from tidelake.formats import properties
from tidelake.storage import Storage

PROPERTIES_PATH = ".hoodie/hoodie.properties"
BACKUP_PATH = ".hoodie/hoodie.properties.backup"

_META_FOLDER = ".hoodie"
_NAME = "hoodie.table.name"
_DATABASE = "hoodie.database.name"
_CHECKSUM = "hoodie.table.checksum"
#: An update deletes the file and writes it anew, with a backup in between: a reader who finds
#: neither looked at the wrong moments and looks again.
_ATTEMPTS = 3


def load_table_config(storage: Storage) -> TableConfig:
    """Return the table's settings, from the backup when an update of them has not finished.

    Raise `TableNotFoundError` when nothing is there, `NotATableError` when something else is,
    `CorruptFileError` when neither file is sound, and `UnsupportedTableError` or `ConfigError` for
    a table that tidelake does not know how to read.
    """
    damage: Malformed | None = None
    for _ in range(_ATTEMPTS):
        for path in (PROPERTIES_PATH, BACKUP_PATH):
            try:
                return TableConfig.from_properties(_checked(storage.read(path)))
            except MissingFileError:
                continue
            except Malformed as cause:
                damage = damage or cause
        if damage is not None:
            raise CorruptFileError(
                PROPERTIES_PATH,
                str(damage),
                next_step=f"there is no sound {BACKUP_PATH} either: restore the file from the "
                "storage's versions, or write it again from what you know of the table",
            ) from damage
    raise _no_table(storage)


def _checked(data: bytes) -> Mapping[str, str]:
    """Return the properties, or raise `Malformed` when they were not written to their end."""
    entries = properties.decode(data)
    if not entries.get(_NAME):
        raise Malformed(f"{_NAME} is missing")
    stored = entries.get(_CHECKSUM)
    expected = properties.table_checksum(entries[_NAME], entries.get(_DATABASE))
    if stored is not None and stored.strip() != str(expected):
        raise Malformed(f"{_CHECKSUM} is {stored.strip()!r:.40}, but the names give {expected}")
    return entries


def _no_table(storage: Storage) -> Exception:
    uri = storage.spec.uri
    if storage.exists(_META_FOLDER):
        return NotATableError(
            f"{uri} has a {_META_FOLDER} folder, but no {PROPERTIES_PATH}",
            next_step="creating the table may have failed half-way; restore the file, or create "
            "the table again",
        )
    if storage.exists(""):
        return NotATableError(
            f"{uri} is no Hudi table: it has no {_META_FOLDER} folder",
            next_step="give the table's root folder, the one that contains .hoodie",
        )
    return TableNotFoundError(
        f"nothing lies at {uri}",
        next_step="check the path and the permissions, or create the table first",
    )
