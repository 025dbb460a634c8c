"""Signs of life of running writes: files whose modification time is the last of them.

Apache Hudi keeps the same files, without content, for writers that share a table. Whoever finds one
too old, or none, may take the write for dead and roll it back; that and a commit exclude each other
by the table's lock. A writer of ours says in its file which process it is, how long it may be
silent, and whether it shares the table, so that a process with other settings, or one that thinks
it is alone, does not take it for dead.

How long a write was silent is told by the storage's clock: see `Env.storage_now_ms`. The file is
the last that goes, after the instant completed or its rollback is on the timeline; tasks learn by
the seal, before that, that no more files are wanted: see `formats.marker_name`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tidelake.config import ConcurrencyMode
from tidelake.env import Env
from tidelake.errors import ConfigError, MissingFileError, StorageError, TidelakeError
from tidelake.formats.heartbeat_content import HeartbeatContent
from tidelake.formats.marker_name import heartbeat_path, is_seal_of, seal_path
from tidelake.model import Instant
from tidelake.storage import Storage
from tidelake.txn.locks.process import is_gone, process_mark, runs_beside, shown_name

_log = logging.getLogger(__name__)

_FOLDER = heartbeat_path("").rstrip("/")
_NAMELESS = "a writer that left no name, perhaps Apache Hudi,"


class Heartbeat:
    """The signs of life of one write; `interval_ms` apart while `keep_beating` runs.

    `owner` is of one attempt at an instant that others may take over.
    """

    def __init__(
        self,
        env: Env,
        instant_time: str,
        *,
        interval_ms: int,
        expires_ms: int,
        owner: str | None = None,
        shares: bool = True,
        mode: str = "",
    ) -> None:
        self._env = env
        self._path = heartbeat_path(instant_time)
        self._seal = seal_path(instant_time, owner)
        self._interval_ms = interval_ms
        self._expires_ms = expires_ms
        self._content = HeartbeatContent(
            writer=process_mark(),
            expires_ms=expires_ms,
            shares=shares,
            owner=owner or "",
            mode=mode,
        ).encode()
        self._last_ms: int | None = None
        self._is_lost = False
        self._is_sealed = False
        self._has_ended = False
        self._stop: Callable[[], None] | None = None

    def beat(self) -> None:
        """Give the first sign of life."""
        now_ms = self._env.clock.now_ms()
        self._env.storage.put(self._path, self._content)
        self._last_ms = now_ms

    def _beat_again(self) -> None:
        """Give a sign of life, unless somebody has taken the write for dead.

        Whoever does so deletes the file, or puts another owner into it. To write it anew would tell
        tasks that their files count, when nobody will look for them any more.
        """
        now_ms = self._env.clock.now_ms()
        try:
            found = self._env.storage.read_tagged(self._path)
            if found.data == self._content:
                self._env.storage.put_if_tagged(self._path, self._content, found.tag)
                if self._has_ended:
                    # The end came in between, and the file may be there again.
                    self._env.storage.delete(self._path)
                    return
                # Had an earlier sign of life, which was held up, come in between, it is there.
                found = self._env.storage.read_tagged(self._path)
        except MissingFileError:
            self._is_lost = True
            return
        if found.data != self._content:
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
        """Give signs of life from another thread until `end`, or until somebody else has the write.

        A call that fails or hangs does not end it: the next one may go through. One that fails
        when nobody waits for it any more is not worth a word.
        """

        def beat() -> None:
            try:
                self._beat_again()
            except StorageError as cause:
                if self._stop is not None:
                    _log.warning("no sign of life could be given: %s", cause.problem)
            if self._is_lost:
                self.stop()

        self._stop = self._env.ticker.every(self._interval_ms, beat)

    def is_ours(self) -> bool:
        """Return whether nobody else gives signs of life for the same instant by now."""
        try:
            return self._env.storage.read(self._path) == self._content
        except MissingFileError:
            return False

    def seal(self) -> None:
        """Tell tasks that no more files are wanted, and go on giving signs of life.

        A task that has not found the seal put its marker before this call returned.
        """
        self._is_sealed = True
        self._env.storage.put(self._seal, b"")

    def stop(self) -> None:
        """Give no more signs of life, and leave the file to whoever it belongs to now."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def give_up(self) -> None:
        """Stop, and leave no file unless it belongs to another attempt by now.

        Where the storage fails too, the file expires by itself.
        """
        self.stop()
        with suppress(TidelakeError):
            if self.is_ours():
                self.end()

    def end(self, also: Sequence[str] = ()) -> None:
        """Stop, and leave no file, nor those of `also`.

        What the write did counts, whether or not that succeeds: a file that stays expires.
        """
        self._has_ended = True
        self.stop()
        try:
            self._env.storage.delete(self._path)
            # After the file: tasks that find neither would take themselves for wanted.
            seal = [self._seal] if self._is_sealed else []
            self._env.storage.delete_all([*seal, *also])
        except StorageError as cause:
            _log.warning("a heartbeat could not be deleted, and expires: %s", cause.problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """The last sign of life of each write that has a heartbeat file, and the time by then.

    All of it is by the storage's clock.
    """

    storage: Storage
    now_ms: int
    last_ms: Mapping[str, int]

    def silent_ms(self, instant_time: str) -> int | None:
        """Return how long a write has been silent, or None when it has no file."""
        last_ms = self.last_ms.get(instant_time)
        return None if last_ms is None else self.now_ms - last_ms

    def content(self, instant_time: str) -> HeartbeatContent | None:
        """Return what the writer says of itself; None: nothing, as Apache Hudi, or it is gone."""
        if instant_time not in self.last_ms:
            return None
        try:
            return HeartbeatContent.decode(self.storage.read(heartbeat_path(instant_time)))
        except MissingFileError:
            return None


def last_beats(env: Env) -> Beats:
    """Return when each write that has a heartbeat file last gave a sign of life."""
    files = env.storage.list(_FOLDER).files
    return Beats(
        storage=env.storage,
        # Asked after the list was made, so that no sign of life is of the future.
        now_ms=env.storage_now_ms() if files else 0,
        last_ms={file.name: file.modified_ms for file in files},
    )


def is_alive(beats: Beats, instant_time: str, *, expires_ms: int) -> bool:
    """Return whether a write may still be running; one without a file is not.

    A writer that said that it may be silent for longer is taken at its word while it may live.
    """
    silent_ms = beats.silent_ms(instant_time)
    if silent_ms is None:
        return False
    if silent_ms <= expires_ms:
        return True
    said = beats.content(instant_time)
    if said is None or silent_ms > said.expires_ms or is_gone(said.writer):
        return False
    _log.warning(
        "%s, by %s, may be silent for %d ms, and this process takes writes for dead after %d ms: "
        "let all writers of the table have the same hoodie.client.heartbeat.interval_in_ms and "
        "hoodie.client.heartbeat.tolerable.misses",
        instant_time,
        shown_name(said.writer),
        said.expires_ms,
        expires_ms,
    )
    return True


def never_gives_way(said: HeartbeatContent | None, *, or_unknown: bool) -> bool:
    """Return whether a pending write commits without a look at what others did meanwhile.

    What a writer says of itself decides. Apache Hudi's and older releases of ours say nothing:
    then the answer is `or_unknown`, that is whether the table takes such writers at all.
    """
    if said is None or not said.mode:
        return or_unknown
    return said.mode == ConcurrencyMode.NON_BLOCKING.value


def delete_stale_beats(env: Env, pending: Iterable[Instant], *, expires_ms: int) -> None:
    """Delete the heartbeats of instants that have ended, which a crash at their end left."""
    running = {instant.requested_time for instant in pending}
    beats = last_beats(env)
    # What lies beside a heartbeat begins with a dot, and goes after it.
    for name in sorted(beats.last_ms, key=lambda name: name.startswith(".")):
        silent_ms = beats.silent_ms(name)
        is_stale = silent_ms is not None and silent_ms > expires_ms
        if is_stale and _instant_of(name) not in running:
            env.storage.delete(heartbeat_path(name))


def delete_seals(storage: Storage, instant_time: str) -> None:
    """Delete the seals of an instant that is off the table, of whatever attempt at it."""
    for file in storage.list(_FOLDER).files:
        if is_seal_of(file.name, instant_time):
            storage.delete(heartbeat_path(file.name))


def _instant_of(name: str) -> str:
    """Return the instant of a file in the folder; a storage keeps some of its own there too."""
    return name.strip(".").partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWriter:
    """A writer that is at a pending instant; `said` is None for Apache Hudi's."""

    instant_time: str
    said: HeartbeatContent | None
    expires_ms: int

    @property
    def shown_name(self) -> str:
        """Return what tells a person which process it is."""
        return _NAMELESS if self.said is None else shown_name(self.said.writer)

    @property
    def is_known_to_run(self) -> bool:
        """Return whether it shares the table, or is another process that runs beside this one.

        A process that has a table for itself may have died on another machine a moment ago.
        """
        return self.said is None or self.said.shares or runs_beside(self.said.writer)


def live_writers(env: Env, instants: Iterable[Instant], *, expires_ms: int) -> Iterator[LiveWriter]:
    """Return those of the pending instants that somebody is at, whether or not it shares the table.

    A process of this machine that has ended for sure is at nothing. `expires_ms` is how long a
    writer may be silent that does not say so itself.
    """
    times = [instant.requested_time for instant in instants]
    if not times:
        return
    beats = last_beats(env)
    for time in times:
        silent_ms = beats.silent_ms(time)
        if silent_ms is None:
            continue
        said = beats.content(time)
        longest_ms = expires_ms if said is None else said.expires_ms
        if silent_ms <= longest_ms and not (said is not None and is_gone(said.writer)):
            yield LiveWriter(instant_time=time, said=said, expires_ms=longest_ms)


def refuse_live(writers: Iterable[LiveWriter], *, why: str, next_step: str) -> None:
    """Raise `ConfigError` when there is a live writer."""
    for writer in writers:
        raise ConfigError(
            f"{writer.shown_name} is writing to this table, as instant {writer.instant_time}: "
            f"{why}",
            next_step=f"{next_step}; if that process is dead, it counts as such once it has been "
            f"silent for {writer.expires_ms // 1000} s",
        )
