"""Finding a table, and reading and changing its properties."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import lru_cache

from tidelake.config import TableConfig
from tidelake.config.keys import read_keys as keys
from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    CorruptFileError,
    Malformed,
    MissingFileError,
    NotATableError,
    TableNotFoundError,
    reading,
)
from tidelake.formats import properties
from tidelake.model.numbers import whole_number
from tidelake.storage import Storage, Tagged

_log = logging.getLogger(__name__)

PROPERTIES_PATH = ".hoodie/hoodie.properties"
BACKUP_PATH = ".hoodie/hoodie.properties.backup"

_META_FOLDER = ".hoodie"
#: Versions from this one on have a checksum in every file that Hudi stores.
_FIRST_WITH_CHECKSUM = 4
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
                data = storage.read(path)
            except MissingFileError:
                continue
            if path == PROPERTIES_PATH and _may_lack_its_end(data):
                data = _whole_backup(storage) or data
            try:
                return _config_of(data)
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


def _whole_backup(storage: Storage) -> bytes | None:
    """Return the backup if it was written to its end."""
    try:
        data = storage.read(BACKUP_PATH)
        _checked(data)
    except (MissingFileError, Malformed):
        return None
    return None if is_cut_short(data) else data


@lru_cache(maxsize=64)  # every call on a table looks at its properties, which hardly ever change
def _config_of(data: bytes) -> TableConfig:
    entries = _checked(data)
    missing = [keys.CHECKSUM.name] if _lacks_checksum(entries) else []
    missing += ["newline behind its last line"] if is_cut_short(data) else []
    if missing:
        _log.warning(
            "%s has no %s: it was cut short, or edited by hand; compare it with what you know of "
            "the table",
            PROPERTIES_PATH,
            " and no ".join(missing),
        )
    return replace(TableConfig.from_properties(entries), may_be_cut=bool(missing))


def update_table_config(
    env: Env, changes: Mapping[str, str | None], fence: Callable[[], None] = lambda: None
) -> TableConfig:
    """Set properties, and remove those whose value is None; return what the table then has.

    `fence` is called before each step, and raises when others may have come in. Readers see the
    old properties or the new. A crash leaves a backup, which the next update removes after it has
    used it where it has to. Raises `ConfigError` when another update is under way.
    """
    storage = env.storage
    repair_table_config(env)
    before = storage.read_tagged(PROPERTIES_PATH)
    entries = dict(_read_checked(before.data))
    refuse_cut(_config_of(before.data))
    for key, value in changes.items():
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
    fence()
    if not storage.put_if_absent(BACKUP_PATH, before.data):
        raise _changed_by_another()
    # What the properties name others may have built anew, and be in the middle of it.
    fence()
    _replace(env, entries, before)
    storage.delete(BACKUP_PATH)
    return TableConfig.from_properties(entries)


def _replace(env: Env, entries: Mapping[str, str], before: Tagged) -> None:
    """Write properties in the place of those that were read, and of no others.

    A process that stood still in between must not undo what came meanwhile.
    """
    data = encode_properties(entries, env.clock.now_ms(), "Updated at")
    made = env.storage.put_if_tagged(PROPERTIES_PATH, data, before.tag)
    # A client that retries by itself is told of its own first attempt, too.
    if made is None and env.storage.read(PROPERTIES_PATH) != data:
        raise _changed_by_another()


def refuse_cut(config: TableConfig) -> None:
    """Raise `CorruptFileError` for properties that may lack their end.

    They are read, and readers are told. But whoever changes the table would take settings that got
    lost for settings that there never were, such as its metadata table.
    """
    if config.may_be_cut:
        raise CorruptFileError(
            PROPERTIES_PATH,
            "it has no checksum, or no newline behind its last line: it was cut short, or edited "
            "by hand",
            next_step="nothing was changed; compare the file with what you know of the table, and "
            "write it whole: every line ends with a newline, and hoodie.table.checksum is among "
            "them",
        )


def _changed_by_another() -> ConfigError:
    return ConfigError(
        "another writer is changing the table's properties",
        next_step=f"run the write again; if nobody is at work, {BACKUP_PATH} will go then",
    )


def encode_properties(entries: Mapping[str, str], now_ms: int, saved: str) -> bytes:
    """Return the file with the checksum that fits its names; `saved` starts the comment.

    The checksum goes last, so that a file that was cut anywhere lacks it.
    """
    entries = {key: value for key, value in entries.items() if key != keys.CHECKSUM.name}
    checksum = properties.table_checksum(
        entries[keys.TABLE_NAME.name], entries.get(keys.DATABASE_NAME.name)
    )
    moment = datetime.fromtimestamp(now_ms // 1000, timezone.utc)
    comments = (f"{saved} {moment:%Y-%m-%dT%H:%M:%S}Z", properties.java_date(now_ms))
    return properties.encode({**entries, keys.CHECKSUM.name: str(checksum)}, comments)


def repair_table_config(env: Env) -> bool:
    """Finish an update of the properties that somebody did not get to its end.

    Torn or missing ones come back from the backup that tells of it. Sound ones are written anew, so
    that whoever stands still in the middle of an update does not find what it has read. Call it
    under the table's lock. Return whether there was such an update.
    """
    storage = env.storage
    if storage.stat(BACKUP_PATH) is None:
        return False
    try:
        found = storage.read_tagged(PROPERTIES_PATH)
        entries = _checked(found.data)
        if _may_lack_its_end(found.data):
            raise Malformed("it was cut short")  # noqa: TRY301 - the backup stands in, as below
        _replace(env, entries, found)
    except (MissingFileError, Malformed):
        saved = storage.read(BACKUP_PATH)
        _read_checked(saved, BACKUP_PATH)
        storage.put(PROPERTIES_PATH, saved)
    storage.delete(BACKUP_PATH)
    return True


def _read_checked(data: bytes, path: str = PROPERTIES_PATH) -> Mapping[str, str]:
    with reading(path):
        return _checked(data)


def _checked(data: bytes) -> Mapping[str, str]:
    """Return the properties, or raise `Malformed` when they were not written to their end."""
    entries = properties.decode(data)
    if not entries.get(keys.TABLE_NAME.name):
        raise Malformed(f"{keys.TABLE_NAME.name} is missing")
    stored = entries.get(keys.CHECKSUM.name)
    expected = properties.table_checksum(
        entries[keys.TABLE_NAME.name], entries.get(keys.DATABASE_NAME.name)
    )
    if stored is not None and stored.strip() != str(expected):
        raise Malformed(
            f"{keys.CHECKSUM.name} is {stored.strip()!r:.40}, but the names give {expected}"
        )
    return entries


def is_cut_short(data: bytes) -> bool:
    """Return whether a file may lack its end: `java.util.Properties` ends the last line, too.

    Hudi reads such a file, and so do we; but who edits it by hand leaves the same.
    """
    return not data.endswith((b"\n", b"\r"))


@lru_cache(maxsize=64)
def _may_lack_its_end(data: bytes) -> bool:
    """Return whether there may be more in a backup; a file may be cut between two lines, too."""
    try:
        return is_cut_short(data) or keys.CHECKSUM.name not in properties.decode(data)
    except Malformed:
        return True


def _lacks_checksum(entries: Mapping[str, str]) -> bool:
    """Return whether the checksum is missing that Hudi stores since table version 4.

    Hudi reads such a file, and so do we; but a file that was cut between two lines looks the same.
    """
    version = whole_number(entries.get(keys.TABLE_VERSION.name, "").strip())
    since = version is not None and version >= _FIRST_WITH_CHECKSUM
    return since and keys.CHECKSUM.name not in entries


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
    if storage.local_path("") is not None and storage.stat("") is not None:
        return NotATableError(
            f"{uri} is a file, and a Hudi table is a folder",
            next_step="give the table's root folder, the one that contains .hoodie",
        )
    return TableNotFoundError(
        f"nothing lies at {uri}",
        next_step="check the path and the permissions, or create the table first",
    )
