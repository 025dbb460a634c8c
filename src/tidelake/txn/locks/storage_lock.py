"""A lock that needs nothing but conditional writes of the table's own storage (RFC-91).

The lock is a small file that is never deleted: whoever releases it marks it as expired, because
stores offer conditional writes and few offer conditional deletes. Apache Hudi's
`StorageBasedLockProvider` keeps the same file in the same form, so both exclude each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tidelake.env import Env
from tidelake.errors import CorruptFileError, Malformed, MissingFileError, StorageError
from tidelake.formats import jackson
from tidelake.model.numbers import whole_number
from tidelake.storage import Tagged
from tidelake.txn.locks.process import ThisProcess, is_gone, process_mark, shown_name
from tidelake.txn.locks.provider import Holder, log_takeover
from tidelake.txn.protocol.instant_times import LAST_MS

LOCK_FILE = ".hoodie/.locks/table_lock.json"
#: A lease that has less than this part of its life left is extended when it is looked at.
_RENEW_BELOW = 2 / 3
_WHOLE_SECOND_MS = 999
#: What stands, in the name of an owner of ours, before the time at which it got the lock.
_SINCE = " since "


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lease:
    owner: str
    valid_until_ms: int
    is_expired: bool

    def encode(self) -> bytes:
        return json.dumps(
            {
                "expired": self.is_expired,
                "validUntil": self.valid_until_ms,
                "owner": self.owner,
            }
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> _Lease:
        raw = _loaded(data)
        owner, until_ms, is_expired = (raw.get(k) for k in ("owner", "validUntil", "expired"))
        if owner and isinstance(until_ms, int) and isinstance(is_expired, bool):
            return cls(owner=str(owner), valid_until_ms=until_ms, is_expired=is_expired)
        raise CorruptFileError(
            LOCK_FILE,
            "it does not say who holds the table's lock",
            next_step="make sure that nobody writes to the table, then `tidelake lock release "
            "TABLE`",
        )


def _loaded(data: bytes) -> Mapping[str, Any]:
    try:
        return jackson.decode(data)
    except Malformed:
        return {}


class StorageLock:
    """The lock file of one table; `validity_ms` is how long a holder may be silent."""

    def __init__(self, env: Env, *, validity_ms: int, skew_ms: int) -> None:
        self._env = env
        self._storage = env.storage
        self._clock = env.clock
        self._validity_ms = validity_ms
        self._skew_ms = skew_ms
        self._process = ThisProcess()
        self._owner = f"{process_mark()}:{env.ids.new()}"
        self._since_ms = 0
        self._lease: _Lease | None = None
        self._tag = ""
        self._left: str | None = None
        """The tag of the lock as we gave it back."""

    @property
    def place(self) -> str:
        """Return where the lock is, for messages."""
        return f"{self._storage.spec.uri}/{LOCK_FILE}"

    def try_acquire(self) -> bool:
        """Take the lock if it is free or has expired.

        Who has given it back tries what nobody may have touched since, and reads it only if that
        fails.
        """
        self._forget_parent()
        self._since_ms = self._clock.now_ms()
        left, self._left = self._left, None
        if left is not None:
            with self._burning(left):
                if self._swap(self._new_lease(), left):
                    return True
        found = self._read()
        self._since_ms = self._clock.now_ms()
        lease = self._new_lease()
        if found is None:
            with self._burning(None):
                return self._put_first(lease)
        held = _Lease.decode(found.data)
        if not (held.is_expired or self._is_left(held.owner) or self._is_due(held)):
            return False
        with self._burning(found.tag):
            is_taken = self._swap(lease, found.tag)
        if is_taken and not held.is_expired and not held.owner.startswith(self._owner):
            log_takeover(self.place, held.owner)
        return is_taken

    def still_held(self, margin_ms: int) -> bool:
        """Return whether the lock is ours for `margin_ms` more; extend it when it runs short."""
        self._forget_parent()
        if self._lease is None:
            return False
        left_ms = self._lease.valid_until_ms - self._clock.now_ms()
        if left_ms <= 0:
            # Others may have counted it as expired, and come and gone.
            return False
        if left_ms > max(margin_ms, self._renew_below_ms):
            found = self._read()
            return found is not None and found.tag == self._tag
        return self._swap(self._new_lease(), self._tag)

    def lasts(self, margin_ms: int) -> bool:
        """Return whether, by our own clock, the lease has `margin_ms` more; extend a short one."""
        self._forget_parent()
        if self._lease is None:
            return False
        left_ms = self._lease.valid_until_ms - self._clock.now_ms()
        return left_ms > max(margin_ms, self._renew_below_ms) or self.still_held(margin_ms)

    def release(self) -> None:
        """Mark the lock as free, unless somebody else has it by now."""
        self._forget_parent()
        if self._lease is not None:
            self._left = self._storage.put_if_tagged(LOCK_FILE, self._freed(self._lease), self._tag)
            self._lease = None

    def give_back(self) -> bool:
        """Mark the lock as free; return whether nobody else had it until then."""
        self._forget_parent()
        if self._lease is None or self._lease.valid_until_ms <= self._clock.now_ms():
            # Others may have counted it as expired, as in `still_held`.
            return False
        self.release()
        return self._left is not None

    @property
    def _renew_below_ms(self) -> float:
        return self._validity_ms * _RENEW_BELOW

    def holder(self) -> Holder | None:
        """Return who holds the lock, or None when it is free."""
        found = self._read()
        lease = None if found is None else _Lease.decode(found.data)
        if lease is None or lease.is_expired or lease.valid_until_ms < self._clock.now_ms():
            return None
        name, _, since = lease.owner.rpartition(_SINCE)
        return Holder(
            owner=shown_name(name or lease.owner),
            since_ms=whole_number(since) if name else None,
            until_ms=min(lease.valid_until_ms, LAST_MS),
            is_gone=is_gone(lease.owner),
        )

    def break_lock(self) -> Holder | None:
        """Take the lock away from whoever holds it."""
        try:
            held = self.holder()
        except CorruptFileError:
            held = Holder(owner="nobody knows who")
        self._storage.delete(LOCK_FILE)
        return held

    def _forget_parent(self) -> None:
        """Hold nothing, under a name of its own, in a child that was forked from the holder."""
        if self._process.is_inherited:
            self._process = ThisProcess()
            self._owner = f"{process_mark()}:{self._env.ids.new()}"
            self._lease = None
            self._left = None

    def _is_due(self, held: _Lease) -> bool:
        """Return whether the holder was silent for so long that it knows its lease is over.

        The lease is by the holder's clock, which may be ahead of ours by the skew. One that is far
        behind ours renews leases that seem to be over: so the file must be old as well, by the
        clock that stamps files, some of which stamp whole seconds.
        """
        if self._clock.now_ms() <= held.valid_until_ms + self._skew_ms:
            return False
        found = self._storage.stat(LOCK_FILE)
        if found is None:
            return True
        silent_ms = self._env.storage_now_ms() - found.modified_ms
        return silent_ms > self._validity_ms + _WHOLE_SECOND_MS

    def _new_lease(self) -> _Lease:
        until_ms = self._clock.now_ms() + self._validity_ms
        owner = f"{self._owner}{_SINCE}{self._since_ms}"
        return _Lease(owner=owner, valid_until_ms=until_ms, is_expired=False)

    def _is_left(self, owner: str) -> bool:
        """Return whether nobody can hold the lock who took it under this name.

        Our own name is there when the lock could not be given back.
        """
        return owner.startswith(self._owner) or is_gone(owner)

    def _read(self) -> Tagged | None:
        try:
            return self._storage.read_tagged(LOCK_FILE)
        except MissingFileError:
            return None

    def _freed(self, lease: _Lease) -> bytes:
        return _Lease(
            owner=lease.owner, valid_until_ms=lease.valid_until_ms, is_expired=True
        ).encode()

    @contextmanager
    def _burning(self, tag: str | None) -> Iterator[None]:
        """Make sure that a request of the block which got lost takes the lock for nobody later.

        It counts only as long as the file is as it was.
        """
        try:
            yield
        except StorageError:
            freed = self._freed(self._new_lease())
            with suppress(StorageError):
                if tag is None:
                    self._storage.put_if_absent(LOCK_FILE, freed)
                else:
                    self._storage.put_if_tagged(LOCK_FILE, freed, tag)
            raise

    def _put_first(self, lease: _Lease) -> bool:
        try:
            if not self._storage.put_if_absent(LOCK_FILE, lease.encode()):
                return self._is_mine(lease)
        except StorageError:
            if not self._is_mine(lease):
                raise
            return True
        return self._is_mine(lease)

    def _swap(self, lease: _Lease, tag: str) -> bool:
        try:
            made = self._storage.put_if_tagged(LOCK_FILE, lease.encode(), tag)
        except StorageError:
            if not self._is_mine(lease):
                raise
            return True
        if made is None:
            # A client that retries by itself is told so of its own first attempt, too.
            return self._is_mine(lease)
        self._lease, self._tag = lease, made
        return True

    def _is_mine(self, lease: _Lease) -> bool:
        """Return whether the file is what we were about to write: then the write arrived."""
        found = self._read()
        if found is None or found.data != lease.encode():
            return False
        self._lease, self._tag = lease, found.tag
        return True
