"""Where the data source lays rows aside until they are brought in, and what becomes of leftovers.

A write has a folder of its own, and gives a sign of life there from time to time. One that was
killed leaves its folder behind. No reader looks there, and the next write removes it once its last
sign of life is old enough. Should that ever happen to a write that still lives, it finds its rows
gone and fails: the table stays as it was.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tidelake.env import Env
from tidelake.errors import StorageError
from tidelake.storage import Storage

_log = logging.getLogger(__name__)

STAGING_ROOT = ".hoodie/.temp/.tidelake"
_SIGN = "alive"
#: A write that takes rows gives a sign of life at least this often.
_SIGN_EVERY_MS = 10 * 60_000


@dataclass(slots=True)
class StagingArea:
    """The folder of one write; a plain value that travels to tasks."""

    folder: str
    signed_ms: int = 0
    """When the last sign of life was given, or the folder was chosen."""

    @classmethod
    def of_new_write(cls, env: Env) -> StagingArea:
        """Return a folder that nobody else takes; what is put there is a sign of life as well."""
        return cls(folder=f"{STAGING_ROOT}/{env.ids.new()}", signed_ms=env.clock.now_ms())

    def keep_alive(self, env: Env) -> None:
        """Give a sign of life, unless there was one a short while ago."""
        now_ms = env.clock.now_ms()
        if now_ms - self.signed_ms >= _SIGN_EVERY_MS:
            env.storage.put(f"{self.folder}/{_SIGN}", b"")
            self.signed_ms = now_ms

    def delete(self, storage: Storage) -> None:
        """Remove the rows; a write that has none left is done with its folder.

        What the write did counts, whether or not that succeeds: a later one removes what stays.
        """
        try:
            storage.delete_folder(self.folder)
        except StorageError as cause:
            _log.warning("rows that were laid aside stay until they are old: %s", cause.problem)


def delete_leftovers(env: Env, *, older_than_ms: int) -> None:
    """Remove what dead writes laid aside: folders without a sign of life for `older_than_ms`."""
    folders = env.storage.list(STAGING_ROOT).folders
    if not folders:
        return
    deadline_ms = env.storage_now_ms() - older_than_ms
    for name in folders:
        folder = f"{STAGING_ROOT}/{name}"
        signs_ms = [file.modified_ms for file in env.storage.list(folder).files]
        # A folder without a file is about to get its first one.
        if signs_ms and max(signs_ms) < deadline_ms:
            env.storage.delete_folder(folder)
