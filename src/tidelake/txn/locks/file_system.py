"""A lock file on a file system that all writers mount.

The lock is held as long as the file is there. Apache Hudi's `FileSystemBasedLockProvider` keeps the
same file and judges its age by the modification time, so both exclude each other; a holder of ours
extends the lock by writing the file anew. Changes of a file that exists are made under the file
system's own guard, so that an expired lock has one heir. A holder that has ended for sure, which
others on its machine can tell, has one at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidelake.env import CLOCK_PROBE, Env, stamped_now_ms
from tidelake.errors import Malformed, MissingFileError, StorageError
from tidelake.formats import jackson
from tidelake.storage import LocalStorage, Tagged
from tidelake.txn.locks.process import ThisProcess, is_gone, process_mark, shown_name
from tidelake.txn.locks.provider import Holder, log_takeover, look_and_release
from tidelake.txn.protocol.instant_times import LAST_MS

FILE_NAME = "lock"
#: Beside the lock, which by default lies in the table's meta folder.
_PROBE = CLOCK_PROBE.partition("/")[2]
_RENEW_BELOW = 2 / 3
_NAMELESS = "a writer that left no name (perhaps Apache Hudi's)"
_OTHER_FOLDER = (
    "nothing was written; let every writer of the table write to that folder, or let all of them "
    "name another one as hoodie.write.lock.filesystem.path"
)


class FileSystemLock:
    """The file `lock` in `folder`; `expire_ms` is how long a holder may be silent, 0 for ever."""

    def __init__(self, env: Env, folder: str, *, expire_ms: int) -> None:
        self._storage = LocalStorage(folder)
        self._clock = env.clock
        self._expire_ms = expire_ms
        self._ids = env.ids
        self._process = ThisProcess()
        self._owner = f"{process_mark()}:{env.ids.new()}"
        self._since_ms = 0
        self._renewed_ms = 0
        self._tag: str | None = None

    @property
    def place(self) -> str:
        """Return where the lock is, for messages."""
        return f"{self._storage.spec.uri}/{FILE_NAME}"

    def try_acquire(self) -> bool:
        """Take the lock if it is free or has expired."""
        self._forget_parent()
        self._since_ms = self._renewed_ms = self._clock.now_ms()
        with self._told():
            if self._storage.put_if_absent(FILE_NAME, self._content()):
                found = self._read()
                is_ours = found is not None and _owner_of(found) == self._owner
                self._tag = found.tag if found is not None and is_ours else None
                return is_ours
            found = self._read()
            if found is None:
                self._refuse_unusable()
                return False
            if not (self._is_left(_owner_of(found)) or self._has_expired()):
                return False
            self._tag = self._storage.put_if_tagged(FILE_NAME, self._content(), found.tag)
        former = _owner_of(found)
        if self._tag is not None and former != self._owner:
            log_takeover(self.place, former or _foreign_owner(found))
        return self._tag is not None

    def still_held(self, margin_ms: int) -> bool:
        """Return whether the lock is ours for `margin_ms` more; extend it when it runs short."""
        self._forget_parent()
        if self._tag is None:
            return False
        now_ms = self._clock.now_ms()
        left_ms = self._renewed_ms + self._expire_ms - now_ms
        if self._expire_ms and left_ms <= 0:
            return False
        if self._expire_ms and left_ms <= max(margin_ms, self._expire_ms * _RENEW_BELOW):
            made = self._storage.put_if_tagged(FILE_NAME, self._content(), self._tag)
            self._tag, self._renewed_ms = made, now_ms
            return made is not None
        found = self._read()
        return found is not None and found.tag == self._tag

    def lasts(self, margin_ms: int) -> bool:
        """Return whether the lock is ours; see `LockProvider.lasts`."""
        return self.still_held(margin_ms)

    def release(self) -> None:
        """Delete the file, unless somebody else has it by now."""
        self._forget_parent()
        if self._tag is not None:
            self._storage.delete_if_tagged(FILE_NAME, self._tag)
            self._tag = None

    def give_back(self) -> bool:
        """Give the lock back; return whether nobody else had it until then."""
        return look_and_release(self)

    def holder(self) -> Holder | None:
        """Return who holds the lock, or None when it is free."""
        found = self._read()
        info = self._storage.stat(FILE_NAME)
        if found is None or info is None:
            return None
        owner = _owner_of(found)
        return Holder(
            owner=shown_name(owner) if owner else _foreign_owner(found),
            since_ms=_since_of(found) or info.modified_ms,
            until_ms=info.modified_ms + self._expire_ms if self._expire_ms else None,
            is_gone=is_gone(owner),
        )

    def break_lock(self) -> Holder | None:
        """Take the lock away from whoever holds it."""
        held = self.holder()
        self._storage.delete(FILE_NAME)
        return held

    def _forget_parent(self) -> None:
        """Hold nothing, under a name of its own, in a child that was forked from the holder."""
        if self._process.is_inherited:
            self._process = ThisProcess()
            self._owner = f"{process_mark()}:{self._ids.new()}"
            self._tag = None

    def _is_left(self, owner: str) -> bool:
        """Return whether nobody can hold the lock who took it under this name.

        Our own name is there when the lock could not be given back.
        """
        return owner == self._owner or is_gone(owner)

    def _refuse_unusable(self) -> None:
        """Raise when the file neither appears nor is there; whoever just released it is neither."""
        if self._storage.exists(FILE_NAME) or not self._storage.exists(""):
            raise StorageError(self.place, "no file can be there", next_step=_OTHER_FOLDER)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except StorageError as cause:
            raise StorageError(
                self.place,
                f"the lock file cannot be written: {cause.cause}",
                next_step=_OTHER_FOLDER,
            ) from cause

    def _content(self) -> bytes:
        return json.dumps({"owner": self._owner, "since_ms": self._since_ms}).encode()

    def _read(self) -> Tagged | None:
        try:
            return self._storage.read_tagged(FILE_NAME)
        except MissingFileError:
            return None

    def _has_expired(self) -> bool:
        info = self._storage.stat(FILE_NAME)
        if info is None or not self._expire_ms:
            return False
        if self._clock.now_ms() - info.modified_ms <= self._expire_ms:
            return False
        # Ours may be ahead of the clock that stamps files.
        now_ms = stamped_now_ms(self._storage, _PROBE, self._clock)
        return now_ms - info.modified_ms > self._expire_ms


def _said(found: Tagged) -> dict[str, Any]:
    try:
        return jackson.decode(found.data)
    except Malformed:
        return {}


def _since_of(found: Tagged) -> int | None:
    since_ms = _said(found).get("since_ms")
    is_time = isinstance(since_ms, int) and 0 < since_ms < LAST_MS
    return since_ms if is_time else None


def _foreign_owner(found: Tagged) -> str:
    """Return what can be said of a holder that is none of ours; Apache Hudi's names a thread."""
    thread = _said(found).get("lockThreadName")
    return f"thread {thread} of Apache Hudi" if thread else _NAMELESS


def _owner_of(found: Tagged) -> str:
    return str(_said(found).get("owner", ""))
