"""Signs of life of running writes: files whose modification time is the last of them.

Apache Hudi keeps the same files. Whoever finds one too old, or none, may take the write for dead
and roll it back; that and a commit exclude each other by the table's lock. A writer that shares the
table says in its file who it is and how long it may be silent, so that one with other settings, or
one that thinks it is alone, does not take it for dead.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from typing_extensions import Self

from tidelake.env import Env
from tidelake.errors import ConfigError, MissingFileError, StorageError
from tidelake.formats.marker_name import heartbeat_path
from tidelake.model import Instant
from tidelake.storage import Storage
from tidelake.txn.locks.process import is_gone, process_mark, shown_name

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharer:
    """A writer that shares the table with others, as its heartbeat names it."""

    mark: str
    expires_ms: int

    @classmethod
    def of_this_process(cls, expires_ms: int) -> Self:
        """Return what a write of ours says of itself."""
        return cls(mark=process_mark(), expires_ms=expires_ms)

    def encode(self) -> str:
        """Return the content of the file."""
        return json.dumps({"writer": self.mark, "expires_ms": self.expires_ms})

    @classmethod
    def decode(cls, data: bytes) -> Self | None:
        """Return who wrote the file, or None when it does not say."""
        try:
            said = json.loads(data)
            return cls(mark=str(said["writer"]), expires_ms=int(said["expires_ms"]))
        except (ValueError, KeyError, TypeError):
            return None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """The last sign of life of each write that has a heartbeat file."""

    storage: Storage
    last_ms: Mapping[str, int]

    def sharer(self, instant_time: str) -> Sharer | None:
        """Return who the write is of, if it shares the table and says so."""
        if instant_time not in self.last_ms:
            return None
        try:
            return Sharer.decode(self.storage.read(heartbeat_path(instant_time)))
        except MissingFileError:
            return None


def last_beats(storage: Storage) -> Beats:
    """Return when each write that has a heartbeat file last gave a sign of life."""
    folder = heartbeat_path("").rstrip("/")
    files = storage.list(folder).files
    return Beats(storage=storage, last_ms={file.name: file.modified_ms for file in files})


def is_alive(beats: Beats, instant_time: str, *, now_ms: int, expires_ms: int) -> bool:
    """Return whether a write may still be running; one without a file is not.

    A writer that said that it may be silent for longer is taken at its word while it may live.
    """
    silent_ms = now_ms - beats.last_ms.get(instant_time, 0)
    if silent_ms <= expires_ms:
        return True
    sharer = beats.sharer(instant_time)
    if sharer is None or silent_ms > sharer.expires_ms or is_gone(sharer.mark):
        return False
    _log.warning(
        "%s, by %s, may be silent for %d ms, and this process takes writes for dead after %d ms: "
        "let all writers of the table have the same hoodie.client.heartbeat.interval_in_ms and "
        "hoodie.client.heartbeat.tolerable.misses",
        instant_time,
        shown_name(sharer.mark),
        sharer.expires_ms,
        expires_ms,
    )
    return True


def delete_stale_beats(env: Env, pending: Iterable[Instant], *, expires_ms: int) -> None:
    """Delete the heartbeats of instants that have ended, which a crash at their end left."""
    running = {instant.requested_time for instant in pending}
    now_ms = env.clock.now_ms()
    for name, last_ms in last_beats(env.storage).last_ms.items():
        # A storage may keep a file of its own beside the one that it changes.
        instant_time = name.strip(".").partition(".")[0]
        if instant_time not in running and now_ms - last_ms > expires_ms:
            env.storage.delete(heartbeat_path(name))


def live_sharers(env: Env, instants: Iterable[Instant]) -> Iterator[tuple[str, Sharer]]:
    """Return those of the pending instants that writers are at who share the table."""
    times = [instant.requested_time for instant in instants]
    if not times:
        return
    beats, now_ms = last_beats(env.storage), env.clock.now_ms()
    for time in times:
        sharer = beats.sharer(time)
        if (
            sharer is not None
            and now_ms - beats.last_ms[time] <= sharer.expires_ms
            and not is_gone(sharer.mark)
        ):
            yield time, sharer


def refuse_company(env: Env, instants: Iterable[Instant], *, why: str, next_step: str) -> None:
    """Raise `ConfigError` when writers are at one of the instants who share the table."""
    for time, sharer in live_sharers(env, instants):
        raise ConfigError(
            f"{shown_name(sharer.mark)} is writing to this table, as instant {time}: {why}",
            next_step=f"{next_step}; if that process is dead, it counts as such once it has been "
            f"silent for {sharer.expires_ms // 1000} s",
        )
