from __future__ import annotations

import pytest

from tests.unit.txn.toy_table import environment
from tidelake.errors import TidelakeError
from tidelake.storage import MemoryStorage
from tidelake.txn.locks.storage_lock import LOCK_FILE, StorageLock

ODD = (
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"owner": "x", "validUntil": Infinity, "expired": false}',
    b'{"owner": "x", "validUntil": 1e999, "expired": false}',
    b"\xff\xfe",
    b"",
)


@pytest.mark.parametrize("data", ODD)
def test_an_odd_lock_file_is_refused_with_an_error_of_ours(data: bytes) -> None:
    storage = MemoryStorage({LOCK_FILE: data})
    lock = StorageLock(environment(storage), validity_ms=1000, skew_ms=0)
    with pytest.raises(TidelakeError):
        lock.try_acquire()
