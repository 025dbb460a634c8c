from tidelake.txn.locks.choose import choose_kind, open_lock, open_provider
from tidelake.txn.locks.file_system import FileSystemLock
from tidelake.txn.locks.in_process import InProcessLock
from tidelake.txn.locks.provider import Holder, LockProvider
from tidelake.txn.locks.storage_lock import StorageLock
from tidelake.txn.locks.table_lock import LockWait, TableLock

__all__ = [
    "FileSystemLock",
    "Holder",
    "InProcessLock",
    "LockProvider",
    "LockWait",
    "StorageLock",
    "TableLock",
    "choose_kind",
    "open_lock",
    "open_provider",
]
