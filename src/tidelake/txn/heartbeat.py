"""Signs of life of running writes: files whose modification time is the last of them.

Apache Hudi keeps the same files. Whoever finds one too old, or none, may take the write for dead
and roll it back; that and a commit exclude each other by the table's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from tidelake.env import Env
from tidelake.errors import MissingFileError, StorageError
from tidelake.formats.marker_name import heartbeat_path
from tidelake.storage import Storage

_log = logging.getLogger(__name__)


class Heartbeat:
    """The signs of life of one write; `interval_ms` apart while `keep_beating` runs.

    `owner` is what the file says, for instants that others may take over.
    """

    def __init__(
        self,
        env: Env,
        instant_time: str,
        *,
        interval_ms: int,
        expires_ms: int,
        owner: str = "",
    ) -> None:
        self._env = env
        self._path = heartbeat_path(instant_time)
        self._interval_ms = interval_ms
        self._expires_ms = expires_ms
        self._owner = owner
        self._last_ms: int | None = None
        self._is_lost = False
        self._stop: Callable[[], None] | None = None

    def beat(self) -> None:
        """Give the first sign of life."""
        now_ms = self._env.clock.now_ms()
        self._env.storage.put(self._path, self._owner.encode())
        self._last_ms = now_ms

    def _beat_again(self) -> None:
        """Give a sign of life, unless somebody has taken the write for dead.

        Whoever does so deletes the file, or puts another owner into it. To write it anew would tell
        tasks that their files count, when nobody will look for them any more.
        """
        now_ms = self._env.clock.now_ms()
        content = self._owner.encode()
        try:
            found = self._env.storage.read_tagged(self._path)
            if found.data == content:
                self._env.storage.put_if_tagged(self._path, content, found.tag)
                # Had an earlier sign of life, which was held up, come in between, it is there.
                found = self._env.storage.read_tagged(self._path)
        except MissingFileError:
            self._is_lost = True
            return
        if found.data != content:
            self._is_lost = True
            return
        self._last_ms = now_ms

    @property
    def is_doomed(self) -> bool:
        """Return whether others may have taken this write for dead by now."""
        if self._last_ms is None:
            return False
        silent_ms = self._env.clock.now_ms() - self._last_ms
        return self._is_lost or silent_ms > self._expires_ms

    def keep_beating(self) -> None:
        """Give signs of life from another thread until `end`.

        A call that fails or hangs does not end it: the next one may go through.
        """

        def beat() -> None:
            try:
                self._beat_again()
            except StorageError as cause:
                _log.warning("no sign of life could be given: %s", cause.problem)

        self._stop = self._env.ticker.every(self._interval_ms, beat)

    def is_ours(self) -> bool:
        """Return whether nobody else gives signs of life for the same instant by now."""
        try:
            return self._env.storage.read(self._path) == self._owner.encode()
        except MissingFileError:
            return False

    def stop(self) -> None:
        """Give no more signs of life, and leave the file to whoever it belongs to now."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def end(self) -> None:
        """Stop, and leave no file."""
        self.stop()
        self._env.storage.delete(self._path)


def last_beats(storage: Storage) -> Mapping[str, int]:
    """Return when each write that has a heartbeat file last gave a sign of life."""
    folder = heartbeat_path("").rstrip("/")
    return {file.name: file.modified_ms for file in storage.list(folder).files}


def is_alive(beats: Mapping[str, int], instant_time: str, *, now_ms: int, expires_ms: int) -> bool:
    """Return whether a write may still be running; one without a file is not."""
    return now_ms - beats.get(instant_time, 0) <= expires_ms
