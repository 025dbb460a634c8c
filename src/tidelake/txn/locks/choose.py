"""Which lock a writer takes, by its options and by what the table lies on."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tidelake.config import ConcurrencyOptions, LockKind
from tidelake.env import Env
from tidelake.errors import ConfigError
from tidelake.txn.locks.file_system import FileSystemLock
from tidelake.txn.locks.in_process import InProcessLock
from tidelake.txn.locks.provider import LockProvider
from tidelake.txn.locks.storage_lock import StorageLock
from tidelake.txn.locks.table_lock import LockWait, TableLock

_META_FOLDER = ".hoodie"


def choose_kind(env: Env, options: ConcurrencyOptions) -> LockKind:
    """Return what writers of the table exclude each other by."""
    if options.lock is not None:
        return options.lock
    on_files = env.storage.local_path(_META_FOLDER) is not None
    return LockKind.FILE_SYSTEM if on_files else LockKind.STORAGE


def open_provider(env: Env, options: ConcurrencyOptions, table_name: str) -> LockProvider:
    """Return the table's lock, not yet taken; raise `ConfigError` when it cannot be one."""
    if options.zookeeper is not None:
        module = _with_library("zookeeper")
        key = options.zookeeper.key or table_name
        zookeeper: LockProvider = module.ZooKeeperLock(env, options.zookeeper, key)
        return zookeeper
    if options.dynamodb is not None:
        module = _with_library("dynamodb")
        dynamodb: LockProvider = module.DynamoDbLock(
            env, options.dynamodb, options.dynamodb.key or table_name
        )
        return dynamodb
    kind = choose_kind(env, options)
    if kind is LockKind.IN_PROCESS:
        return InProcessLock(env.storage.spec.uri, env.clock)
    if kind is LockKind.STORAGE:
        return StorageLock(env, validity_ms=options.lock_validity_ms, skew_ms=options.max_skew_ms)
    folder = options.lock_path or env.storage.local_path(_META_FOLDER)
    if folder is not None and folder.startswith("file:"):
        folder = folder.removeprefix("file://").removeprefix("file:")
    if folder is None or "://" in folder:
        raise ConfigError(
            f"a lock file takes a file system, and {folder or env.storage.spec.uri} is none",
            next_step="leave hoodie.write.lock.provider out: on object stores the lock is kept by "
            "conditional writes",
        )
    return FileSystemLock(env, folder, expire_ms=options.lock_expire_ms)


def open_lock(env: Env, options: ConcurrencyOptions, table_name: str) -> TableLock:
    """Return the table's lock as a transaction uses it."""
    wait = LockWait(wait_ms=options.lock_wait_ms, longest_delay_ms=options.lock_retry_ms)
    return TableLock(open_provider(env, options, table_name), env.clock, wait)


def _with_library(name: str) -> ModuleType:
    """Return the module of a lock whose library is an extra."""
    try:
        return import_module(f"tidelake.txn.locks.{name}")
    except ImportError as cause:
        raise ConfigError(
            f"the {name} lock takes a package that is not installed: {cause.name}",
            next_step=f"pip install 'tidelake[{name}]'",
        ) from cause
