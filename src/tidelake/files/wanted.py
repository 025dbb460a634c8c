"""What a task looks at once it has written a file: whether its instant still takes files."""

from __future__ import annotations

from tidelake.errors import MissingFileError
from tidelake.formats.heartbeat_content import owner_of
from tidelake.formats.marker_name import heartbeat_path, seal_path
from tidelake.storage import Storage


def is_wanted(storage: Storage, instant_time: str, owner: str | None = None) -> bool:
    """Return whether the writer of an instant still waits for files; see `formats.marker_name`.

    The seal is looked for first: it goes after the heartbeat.
    """
    if storage.stat(seal_path(instant_time, owner)) is not None:
        return False
    path = heartbeat_path(instant_time)
    if owner is None:
        return storage.stat(path) is not None
    try:
        return owner_of(storage.read(path)) == owner
    except MissingFileError:
        return False
