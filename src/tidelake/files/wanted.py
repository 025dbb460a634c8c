"""What a task looks at once it has written a file: whether its instant still takes files.

The file of an instant that takes none is deleted by its task. Up to table version 7 there is an
exception: a rollback leaves logs where they are, puts a log behind them that takes their blocks
back, and tells the metadata table and savepoints of both.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelake.errors import Malformed, MissingFileError
from tidelake.formats.file_name import parse_log
from tidelake.formats.heartbeat_content import owner_of
from tidelake.formats.log_block import HeaderKey, decode_blocks
from tidelake.formats.marker_name import MarkerKind, heartbeat_path, seal_path
from tidelake.storage import Storage


def is_wanted(
    storage: Storage, instant_time: str, owner: str | None = None, *, waits: bool = False
) -> bool:
    """Return whether the writer of an instant still waits for files; see `formats.marker_name`.

    The seal is looked for first: it goes after the heartbeat. There is none yet where the writer
    `waits` for its tasks.
    """
    if not waits and storage.stat(seal_path(instant_time, owner)) is not None:
        return False
    path = heartbeat_path(instant_time)
    if owner is None:
        return storage.stat(path) is not None
    try:
        return owner_of(storage.read(path)) == owner
    except MissingFileError:
        return False


def delete_unwanted(storage: Storage, path: str, kind: MarkerKind, instant_time: str) -> None:
    """Delete a file that an instant does not take any more, unless a rollback has kept it."""
    if kind is not MarkerKind.APPEND or not _is_taken_back(storage, path, instant_time):
        storage.delete(path)


def _is_taken_back(storage: Storage, path: str, instant_time: str) -> bool:
    """Return whether a log behind the one at `path` takes back the blocks of the instant."""
    partition, _, name = path.rpartition("/")
    own = parse_log(partition, name, 0)
    if own is None:
        return False
    found = (parse_log(partition, f.name, f.size_bytes) for f in storage.list(partition).files)
    return any(
        (log.file_id, log.instant_time) == (own.file_id, own.instant_time)
        and log.version > own.version
        and instant_time in _rolled_back(storage, log.path)
        for log in found
        if log is not None
    )


def _rolled_back(storage: Storage, path: str) -> Iterator[str | None]:
    """Yield the instants whose blocks a log takes back."""
    try:
        for block in decode_blocks(storage.read(path)):
            if block.is_rollback:
                yield block.headers.get(HeaderKey.TARGET_INSTANT_TIME)
    except (Malformed, MissingFileError):
        return  # it takes nothing back that could be told
